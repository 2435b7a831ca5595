//! `bench`, as processes: against a broker, and with brokers of its own.

mod support;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{Server, mainstem};

fn bench(address: &str, arguments: &[&str]) -> Value {
    let mut command = mainstem(&[&["bench"], arguments, &["--output", "json", "--bootstrap-server", address]].concat());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn producing_consuming_and_latencies_are_measured_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let address = server.address();

    let found =
        bench(&address, &["produce", "--count", "2000", "--size", "100", "--producers", "2", "--partitions", "3"]);
    assert_eq!(
        (&found["work"], &found["records"], &found["bytes"], &found["errors"]),
        (&"produce".into(), &2000.into(), &200_000.into(), &0.into())
    );
    assert!(found["records_per_second"].as_f64().unwrap() > 0.0);
    let latency = &found["ack_latency"];
    assert!(latency["p50_us"].as_u64().unwrap() <= latency["p99_us"].as_u64().unwrap(), "{latency}");
    assert!(found["broker_cpu_s_per_gb"].is_f64() || !cfg!(target_os = "linux"), "a broker of this machine is found");

    let found = bench(&address, &["produce", "--duration", "300ms", "--rate", "1000", "--acks", "1", "--codec", "lz4"]);
    let records = found["records"].as_u64().unwrap();
    assert!((1..=400).contains(&records), "{found}");

    let found =
        bench(&address, &["consume", "--count", "3000", "--size", "50", "--partitions", "4", "--consumers", "2"]);
    assert_eq!((&found["work"], &found["records"]), (&"consume".into(), &3000.into()));

    let found = bench(&address, &["latency", "--rate", "200", "--count", "50"]);
    assert_eq!(found["records"], 50);
    assert!(found["end_to_end_latency"]["p50_us"].as_u64().unwrap() > 0, "{found}");

    let mut command = mainstem(&["topic", "list", "--output", "json", "--bootstrap-server", &address]);
    let topics: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(topics, serde_json::json!([]), "topics of benches go with them");
}

fn matrix(folder: &Path) -> (Output, Vec<Value>) {
    let cells =
        ["--layouts", "partition,shared", "--durabilities", "os,strange", "--partitions", "2", "--sizes", "100"];
    let limits =
        ["--producers", "1", "--cell-duration", "100ms", "--cell-megabytes", "1", "--output", "json", "--work-dir"];
    let output = mainstem(&[&["bench", "matrix"], &cells[..], &limits[..]].concat()).arg(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output, lines)
}

#[test]
fn a_matrix_measures_each_cell_once_and_draws_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (_, lines) = matrix(folder.path());
    let work = |line: &Value| line["outcome"]["work"].as_str().map(str::to_owned);
    let works: Vec<_> = lines.iter().filter_map(work).collect();
    assert_eq!(works, ["produce", "consume", "produce", "consume"]);
    assert_eq!(lines.iter().filter(|line| line["skipped"].is_string()).count(), 2, "a durability that nobody knows");
    let page = fs::read_to_string(folder.path().join("matrix.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("shared"));
    let (again, same) = matrix(folder.path());
    assert_eq!(same, lines);
    assert!(String::from_utf8_lossy(&again.stderr).contains("4 of them measured already"), "{again:?}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().starts_with("broker-")), "{names:?}");
}
