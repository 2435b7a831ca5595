//! `bench`, as processes: against a broker, and with brokers of its own.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Until the topic of a bench has records.
fn wait_for_records(address: &str) {
    let found = |arguments: &[&str]| -> Value {
        let ending = ["--output", "json", "--bootstrap-server", address];
        let output = mainstem(&[arguments, &ending[..]].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    let has_records = |partitions: &Value| {
        partitions.as_array().is_some_and(|all| all.iter().any(|one| one["latest"].as_i64() > Some(0)))
    };
    let deadline = Instant::now() + support::PATIENCE;
    loop {
        let topic = found(&["topic", "list"])[0]["topic"].as_str().map(str::to_owned);
        if topic.is_some_and(|topic| has_records(&found(&["topic", "offsets", &topic]))) {
            return;
        }
        assert!(Instant::now() < deadline, "the bench writes nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_rate_is_kept_and_latencies_count_from_when_records_were_due() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let address = server.address();
    let found =
        bench(&address, &["produce", "--rate", "400", "--count", "200", "--producers", "3", "--partitions", "2"]);
    assert_eq!((&found["records"], &found["target_rate"]), (&200.into(), &400.0.into()));
    assert!(found["seconds"].as_f64().unwrap() >= 199.0 / 400.0, "{found}");
    let (acks, late) = (&found["ack_latency"], &found["send_delay"]);
    assert!(late["p50_us"].as_u64().unwrap() <= acks["p50_us"].as_u64().unwrap(), "{found}");

    // A broker that stands still for a while: all that was due meanwhile waited for the rest of it.
    let mut command = mainstem(&["bench", "produce", "--rate", "200", "--duration", "2s", "--output", "json"]);
    let bench = command.args(["--bootstrap-server", &address]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_records(&address);
    server.signal("STOP");
    std::thread::sleep(Duration::from_millis(600));
    server.signal("CONT");
    let output = bench.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        found["ack_latency"]["p90_us"].as_u64().unwrap() > 200_000,
        "a tenth of them waited at least 400 ms: {found}"
    );
}

#[test]
fn values_are_compared_and_topics_are_read_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let address = server.address();
    let found = bench(
        &address,
        &[
            "consume",
            "--topics",
            "5",
            "--topics-at-once",
            "1",
            "--batch-bytes",
            "1",
            "--count",
            "500",
            "--consumers",
            "2",
        ],
    );
    assert_eq!(found["records"], 500, "{found}");
    assert!(found["broker_reads_per_byte"].is_f64() || !cfg!(target_os = "linux"), "{found}");

    let alone = ["--one-at-a-time", "--duration", "300ms", "--compare", "producers=1,4"];
    let found = bench(&address, &[&["produce"], &alone[..]].concat());
    let variants: Vec<_> = found.as_array().unwrap().iter().map(|one| one["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["producers=1", "producers=4"]);
    assert!(found[0]["rate_ratio"] == 1.0 && found[1]["rate_ratio"].as_f64().unwrap() > 0.0, "{found}");

    let wrong = ["bench", "produce", "--compare", "mainstem.layout=partition,strange", "--bootstrap-server", &address];
    let said = support::failure(&mut mainstem(&wrong));
    assert!(said.contains("mainstem.layout=strange") && said.contains("partition, topic, shared"), "{said}");
}

fn matrix(folder: &Path, more: &[&str]) -> Command {
    let cells = ["bench", "matrix", "--durabilities", "os", "--partitions", "2", "--sizes", "100", "--producers", "1"];
    let limits = ["--cell-duration", "100ms", "--cell-megabytes", "1", "--output", "json", "--work-dir"];
    let mut command = mainstem(&[&cells[..], more, &limits[..]].concat());
    command.arg(folder);
    command
}

/// What of brokers is left in a folder.
fn brokers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("broker-")).collect()
}

#[test]
fn a_matrix_measures_each_cell_once_and_draws_a_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("broker-1")).unwrap();
    let layouts = ["--layouts", "partition,shared"];
    let run = || {
        let output = matrix(folder.path(), &layouts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let lines: Result<Vec<Value>, _> =
            output.stdout.lines().map(|line| serde_json::from_str(&line.unwrap())).collect();
        (lines.unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (lines, _) = run();
    let works: Vec<_> = lines.iter().map(|line| line["outcome"]["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["ack", "produce", "consume", "ack", "produce", "consume"]);
    let page = fs::read_to_string(folder.path().join("matrix.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("shared"));
    let (same, said) = run();
    assert_eq!(same, lines);
    assert!(said.contains("2 of them already measured"), "{said}");
    assert_eq!(brokers(folder.path()), [""; 0], "those of runs that were killed, too");
}

#[test]
fn a_matrix_says_what_is_wrong_before_it_measures() {
    let folder = tempfile::tempdir().unwrap();
    for (wrong, part) in [(["--layouts", "partition,strange"], "strange"), (["--layouts", ""], "mainstem.layout")] {
        let output = matrix(folder.path(), &wrong).output().unwrap();
        assert_eq!((output.status.code(), support::last_line(&output).contains(part)), (Some(2), true), "{output:?}");
    }
    let file = folder.path().join("a-file");
    fs::write(&file, "").unwrap();
    assert!(support::failure(&mut matrix(&file, &[])).contains("cannot create"));
    fs::write(folder.path().join("matrix.jsonl"), "{}\n").unwrap();
    assert!(support::failure(&mut matrix(folder.path(), &[])).contains("does not come from this version"));
}

#[test]
fn an_interrupted_matrix_leaves_no_broker_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let layouts = ["--layouts", "partition,topic,shared"];
    let mut run = matrix(folder.path(), &layouts).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("2/3 ")), "the second cell begins");
    support::signal(&run, "INT");
    assert!(said.any(|line| line.contains("interrupted")));
    assert_eq!(support::exit_code(&mut run), Some(0));
    assert_eq!(brokers(folder.path()), [""; 0]);
    let again = matrix(folder.path(), &layouts).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("1 of them already measured; 2 to do"), "{again:?}");
}
