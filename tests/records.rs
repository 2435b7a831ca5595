//! `produce` and `consume` with all their ways, and `cp`; as processes against real brokers.

mod support;

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::commands::{Broker, run_with, stdout};
use support::{exit_code, last_line, mainstem, signal};

#[test]
fn files_are_lines_or_whole_records() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let path = |name: &str| broker.data().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("first.txt"), path("second.txt"));
    std::fs::write(&first, "1:one\n2:gone\n").unwrap();
    std::fs::write(&second, "3:three\nbad\n").unwrap();
    let files = ["--file", &first, "--file", &second];
    let keys = ["orders", "--key-separator", ":", "--null", "gone"];
    let output = broker.run_with("", &[&["produce"], &keys[..], &files].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).starts_with(&format!("mainstem: line 2 of {second} has no key")), "{output:?}");
    let values: Vec<_> = broker.records(&["orders"]).into_iter().map(|record| record["value"].clone()).collect();
    assert_eq!(values, [json!("one"), json!(null), json!("three")]);

    broker.run(&["topic", "create", "whole"]);
    let summary = broker.json(&[&["produce", "whole", "--whole"], &files[..]].concat());
    assert_eq!((&summary["written"], &summary["failed"], &summary["confirmed"]), (&json!(2), &json!(0), &json!(true)));
    assert_eq!(summary["partitions"], json!([{ "partition": 0, "first_offset": 0, "last_offset": 1 }]));
    assert_eq!(broker.run(&["consume", "whole"]), "1:one\n2:gone\n\n3:three\nbad\n\n");
}

#[test]
fn a_rate_is_not_exceeded() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let begun = Instant::now();
    broker.produce("a\nb\nc\nd\ne\nf\n", &["orders", "--rate", "10"]);
    // The first goes at once; each other a tenth of a second later.
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    assert_eq!(broker.run(&["consume", "orders"]), "a\nb\nc\nd\ne\nf\n");
}

#[test]
fn format_strings_are_those_of_kcat() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    broker.produce("42:two\n", &["orders", "--key-separator", ":", "--header", "a=1"]);
    let format = "%t[%p]@%o %k(%K)=%s(%S) %h 100%%\\n";
    assert_eq!(broker.run(&["consume", "orders", "--format", format]), "orders[0]@0 42(2)=two(3) a=1 100%\n");
    assert_eq!(broker.run(&["consume", "orders", "--until-end", "--format", "%s"]), "two", "nothing is added");
    let json: Value = serde_json::from_str(&broker.run(&["consume", "orders", "--output", "json"])).unwrap();
    assert_eq!(json["key"], "42");
}

#[test]
fn several_topics_and_patterns_are_read_at_once() {
    let broker = Broker::start();
    for (topic, value) in [("orders-eu", "a\n"), ("orders-us", "b\n"), ("bills", "c\n")] {
        broker.run(&["topic", "create", topic]);
        broker.produce(value, &[topic]);
    }
    let sorted = |arguments: &[&str]| {
        let text = broker.run(&[&["consume"], arguments].concat());
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&["--pattern", "orders-.*"]), ["a", "b"]);
    let line = broker.failure(&["consume", "--pattern", "orders"]);
    assert!(line.contains("no topic matches the pattern"), "it is the whole name that matches: {line}");
    assert_eq!(sorted(&["bills", "orders-eu"]), ["a", "c"]);
}

#[test]
fn a_group_goes_on_where_it_left_off() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    broker.produce("a\nb\nc\n", &["orders"]);
    let read = |more: &[&str]| broker.run(&[&["consume", "orders", "--group", "nightly"], more].concat());
    assert_eq!(read(&["--count", "2"]), "a\nb\n");
    let group = broker.json(&["group", "describe", "nightly"]);
    assert_eq!(group[0]["offsets"][0]["committed"], 2);
    // Where it begins counts only for partitions without an offset.
    assert_eq!(read(&["--from", "end"]), "c\n");
    assert_eq!(read(&[]), "");
    broker.produce("d\n", &["orders"]);
    assert_eq!(read(&[]), "d\n");
}

/// Two clusters, and a copy from one to the other.
struct Clusters {
    source: Broker,
    target: Broker,
    state: tempfile::TempDir,
}

impl Clusters {
    fn start() -> Clusters {
        Clusters { source: Broker::start(), target: Broker::start(), state: tempfile::tempdir().unwrap() }
    }

    fn state_file(&self) -> std::path::PathBuf {
        self.state.path().join("copy.json")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (from, to) = (self.source.server.address(), self.target.server.address());
        let file = self.state_file();
        let fixed = ["cp", "orders", "copy", "--from", &from, "--to", &to, "--state", file.to_str().unwrap()];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn copy(&self, more: &[&str]) -> Output {
        let arguments = self.arguments(more);
        run_with("127.0.0.1:1", "", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn copy_json(&self) -> Value {
        serde_json::from_str(&stdout(&self.copy(&["--output", "json"]))).unwrap()
    }

    fn spawn(&self, more: &[&str]) -> Child {
        let arguments = self.arguments(more);
        let mut command = mainstem(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// All records of a topic with everything they have but offsets, by partition.
    fn content(broker: &Broker, topic: &str) -> Vec<String> {
        let format = "%p %k(%K) %s(%S) %T %h\\n";
        let mut lines: Vec<_> =
            broker.run(&["consume", topic, "--format", format]).lines().map(str::to_owned).collect();
        // Partitions come in turns; within one the order stays.
        lines.sort_by_key(|line| line.split(' ').next().unwrap().to_owned());
        lines
    }

    fn produce(&self, count: u32) {
        let lines: String = (0..count).map(|i| format!("{i}:value {i}\n")).collect();
        self.source.produce(lines, &["orders", "--key-separator", ":", "--header", "from=here", "--codec", "lz4"]);
    }

    fn assert_same(&self) {
        let (source, target) = (Self::content(&self.source, "orders"), Self::content(&self.target, "copy"));
        assert_eq!(source.len(), target.len());
        assert!(source == target, "the copy has other records, or in another order");
    }
}

#[test]
fn records_are_found_by_their_key_in_every_layout() {
    let broker = Broker::start();
    for layout in ["partition", "topic", "shared"] {
        let setting = format!("mainstem.layout={layout}");
        let settings = ["--config", &setting, "--config", "mainstem.key.index=all"];
        broker.run(&[&["topic", "create", layout, "--partitions", "2"], &settings[..]].concat());
        broker.produce("42:one\n43:other\n42:two\n", &[layout, "--key-separator", ":", "--header", "KEYS=red blue"]);
        let find = |more: &[&str]| broker.run(&[&["topic", "find", layout], more].concat());
        assert_eq!(find(&["42", "--format", "%k=%s;"]), "42=two;42=one;", "{layout}");
        assert_eq!(find(&["42", "--format", "%s", "--max", "1"]), "two");
        assert_eq!(find(&["blue", "--format", "%k ", "--read-committed"]).split(' ').count(), 4);
        assert_eq!(find(&["nobody"]), "");
        assert_eq!(find(&["42", "--from", "-1h", "--format", "%o;"]).matches(';').count(), 2);
        assert_eq!(find(&["42", "--to", "-1h"]), "");
        let by_partition = ["0", "1"].map(|partition| find(&["42", "--partition", partition, "--format", "%s "]));
        assert!(by_partition.contains(&"two one ".to_owned()) && by_partition.contains(&String::new()));
        let text = find(&["43"]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("PARTITION  OFFSET  TIME") && lines[1].ends_with("43   other  KEYS=red blue"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&find(&["43", "--output", "json"])).unwrap();
        assert_eq!((&json["topic"], &json["key"], &json["value"]), (&json!(layout), &json!("43"), &json!("other")));
    }
    broker.run(&["topic", "create", "plain"]);
    let error = broker.failure(&["topic", "find", "plain", "42"]);
    assert!(error.contains("topic plain has no key index") && error.contains("mainstem.key.index=all"), "{error}");
    assert!(broker.failure(&["topic", "find", "nowhere", "42"]).contains("there is no topic nowhere"));
    assert!(broker.failure(&["topic", "find", "plain", "42", "--partition", "9"]).contains("has no partition 9"));
    for wrong in
        [&["topic", "find", "plain", ""][..], &["topic", "find", "plain", "42", "--from", "-1h", "--to", "-2h"]]
    {
        assert_eq!(broker.run_with("", wrong).status.code(), Some(2), "{wrong:?}");
    }
    broker.run(&["topic", "create", "words", "--config", "mainstem.layout=shared"]);
    broker.produce("42:one\n", &["words", "--key-separator", ":"]);
    let output = broker.run_with("", &["topic", "find", "words", "42"]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
    assert!(last_line(&output).contains("KEYS and UNIQ_KEY alone"), "{output:?}");
}

#[test]
fn a_copy_has_everything_and_goes_on_with_what_came_since() {
    let clusters = Clusters::start();
    let settings = ["--config", "max.message.bytes=2000000"];
    clusters.source.run(&[&["topic", "create", "orders", "--partitions", "3"], &settings[..]].concat());
    clusters.produce(1000);
    clusters.source.produce("x:\n", &["orders", "--key-separator", ":", "--null", ""]);
    let told = clusters.copy_json();
    assert_eq!((&told["copied"], &told["found"], &told["finished"]), (&json!(1001), &json!(0), &json!(true)));
    clusters.assert_same();
    let shown = clusters.target.json(&["topic", "config", "show", "copy"]);
    let setting = |name: &str| shown["settings"].as_array().unwrap().iter().any(|setting| setting["name"] == name);
    assert!(setting("max.message.bytes"), "{shown}");

    assert_eq!(clusters.copy_json()["copied"], 0);
    clusters.produce(50);
    assert_eq!(clusters.copy_json()["copied"], 50);
    clusters.assert_same();

    for (broker, topic) in [(&clusters.source, "orders"), (&clusters.target, "copy")] {
        broker.run(&["topic", "add-partitions", topic, "--by", "1"]);
    }
    clusters.source.produce("a\nb\nc\n", &["orders", "--partition", "3"]);
    clusters.source.run(&["topic", "delete-records", "orders", "--before", "1", "--partition", "3"]);
    assert_eq!(clusters.copy_json()["copied"], 2, "a partition that is new begins at its beginning");
    clusters.assert_same();
}

#[test]
fn a_copy_that_is_killed_goes_on_and_writes_nothing_twice() {
    let clusters = Clusters::start();
    clusters.source.run(&["topic", "create", "orders", "--partitions", "2"]);
    clusters.produce(15_000);
    let end = |broker: &Broker| -> i64 {
        let output = broker.run_with("", &["topic", "offsets", "copy", "--output", "json"]);
        // Before the copy has made it there is no such topic.
        let ranges: Value = serde_json::from_slice(&output.stdout).unwrap_or(json!([]));
        ranges.as_array().unwrap().iter().map(|range| range["latest"].as_i64().unwrap()).sum()
    };
    let mut ends = vec![0];
    for _ in 0..3 {
        let mut child = clusters.spawn(&[]);
        // Somewhere in the middle, after it has written something; it may also have ended.
        while child.try_wait().unwrap().is_none() && end(&clusters.target) <= *ends.last().unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        ends.push(end(&clusters.target));
    }
    let told = clusters.copy_json();
    assert_eq!(told["finished"], true, "{told} after {ends:?}");
    clusters.assert_same();
}

#[test]
fn what_a_copy_wrote_and_could_not_note_is_found_and_not_written_again() {
    let clusters = Clusters::start();
    clusters.source.run(&["topic", "create", "orders", "--partitions", "2"]);
    clusters.produce(100);
    clusters.copy_json();
    // As after a crash before the file was written again.
    let file = clusters.state_file();
    let mut state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for partition in state["partitions"].as_array_mut().unwrap() {
        for name in ["source_next", "destination_next"] {
            partition[name] = json!(partition[name].as_i64().unwrap() - 10);
        }
    }
    std::fs::write(&file, state.to_string()).unwrap();
    clusters.produce(5);
    let told = clusters.copy_json();
    assert_eq!((&told["copied"], &told["found"]), (&json!(5), &json!(20)));
    clusters.assert_same();
}

#[test]
fn somebody_else_s_records_end_a_copy() {
    let clusters = Clusters::start();
    clusters.source.run(&["topic", "create", "orders"]);
    clusters.produce(10);
    clusters.copy_json();
    clusters.target.produce("mine\n", &["copy"]);
    clusters.produce(1);
    let output = clusters.copy(&[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(last_line(&output).contains("another program writes to the destination"), "{output:?}");

    std::fs::remove_file(clusters.state_file()).unwrap();
    let line = last_line(&clusters.copy(&[]));
    assert!(line.contains("is not empty, and there is no state file"), "{line}");
}

#[test]
fn a_copy_refuses_what_cannot_be_one() {
    let clusters = Clusters::start();
    clusters.source.run(&["topic", "create", "orders", "--partitions", "2"]);
    let line = |output: Output| {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        last_line(&output)
    };
    let address = clusters.source.server.address();
    let same = line(run_with(&address, "", &["cp", "orders", "--from", &address, "--to", &address]));
    assert!(same.contains("are the same topic orders"), "{same}");
    let absent = line(run_with(&address, "", &["cp", "absent", "--from", &address, "--to", &address]));
    assert!(absent.contains("source: there is no topic absent"), "{absent}");
    clusters.target.run(&["topic", "create", "copy", "--partitions", "1"]);
    let few = line(clusters.copy(&[]));
    assert!(few.contains("has 1 partitions and the source 2") && few.contains("--to 2"), "{few}");
    clusters.target.run(&["topic", "delete", "copy"]);

    clusters.copy_json();
    clusters.target.run(&["topic", "delete", "copy"]);
    clusters.target.run(&["topic", "create", "copy", "--partitions", "2"]);
    let other = line(clusters.copy(&[]));
    assert!(other.contains("is the state of another copy"), "{other}");
    assert!(Path::new(&clusters.state_file()).exists());
}

#[test]
fn a_copy_that_follows_ends_in_order_when_it_is_interrupted() {
    let clusters = Clusters::start();
    clusters.source.run(&["topic", "create", "orders"]);
    clusters.target.run(&["topic", "create", "copy"]);
    let mut child = clusters.spawn(&["--follow"]);
    clusters.produce(3);
    let read = ["consume", "copy", "--follow", "--count", "3"];
    assert_eq!(clusters.target.run(&read), "value 0\nvalue 1\nvalue 2\n");
    signal(&child, "INT");
    assert_eq!(exit_code(&mut child), Some(0));
    assert_eq!(clusters.copy_json()["copied"], 0);
}
