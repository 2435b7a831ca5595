//! The commands beside `serve`, as processes against a real broker, and what a broker says of how it was stopped.

mod support;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::commands::{Broker, read_line, run_with, stderr, stdout};
use support::{Server, exit_code, failure, last_line, mainstem, signal};

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let broker = Broker::start();
    let output = broker.run_with("", &["topic", "list"]);
    assert_eq!(stdout(&output), "");
    assert!(last_line(&output).contains("mainstem topic create"), "{output:?}");

    let created = broker.run(&["topic", "create", "orders", "bills", "--partitions", "3", "--replication-factor", "1"]);
    let lines: Vec<_> = created.lines().collect();
    assert!(lines[0].starts_with("created orders: partitions 3, replication factor 1, id "), "{created}");
    assert!(lines[1].starts_with("created bills: "), "{created}");
    let id = lines[0].rsplit(' ').next().unwrap();

    let listed = broker.run(&["topic", "list"]);
    let words: Vec<Vec<_>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((words.len(), words[0][0], words[1][0]), (3, "TOPIC", "bills"), "{listed}");
    assert_eq!(words[2], ["orders", "3", "1", id]);

    let described = broker.run(&["topic", "describe", "orders"]);
    let words: Vec<Vec<_>> = described.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[..3], [vec!["orders"], vec!["id", id], vec!["partitions", "3"]], "{described}");
    for partition in ["0", "1", "2"] {
        assert!(words.contains(&vec![partition, "1", "0", "1", "1", "-"]), "{described}");
    }

    assert_eq!(broker.run(&["topic", "delete", "orders", "bills"]), "deleted orders\ndeleted bills\n");
    assert_eq!(broker.json(&["topic", "list"]), json!([]));
}

#[test]
fn topics_are_told_as_json_with_the_settings_that_differ() {
    let broker = Broker::start();
    let settings = ["--config", "retention.ms=86400000", "--config", "mainstem.durability=disk"];
    let created = broker.json(&[&["topic", "create", "orders", "--partitions", "2"], &settings[..]].concat());
    let id = created[0]["id"].as_str().unwrap().to_owned();
    let told = json!([{ "topic": "orders", "result": "created", "id": id, "partitions": 2, "replication_factor": 1 }]);
    assert_eq!(created, told);

    let listed = broker.json(&["topic", "list"]);
    let one = json!({ "topic": "orders", "id": id, "internal": false, "partitions": 2, "replication_factor": 1 });
    assert_eq!(listed, json!([one]));

    let described = broker.json(&["topic", "describe"]);
    assert_eq!((&described[0]["topic"], &described[0]["id"]), (&json!("orders"), &json!(id)));
    let partition = |index: i32| json!({ "partition": index, "leader": 1, "leader_epoch": 0, "replicas": [1], "in_sync": [1], "offline": [] });
    assert_eq!(described[0]["partitions"], json!([partition(0), partition(1)]));
    let settings = described[0]["settings"].as_array().unwrap();
    for (name, value) in [("retention.ms", "86400000"), ("mainstem.durability", "disk")] {
        assert!(settings.contains(&json!({ "name": name, "value": value, "source": "topic" })), "{settings:?}");
    }
    assert!(!settings.iter().any(|setting| setting["name"] == "max.message.bytes"), "{settings:?}");
    let text = broker.run(&["topic", "describe", "orders"]);
    assert!(text.contains("retention.ms=86400000 (topic)"), "{text}");
}

#[test]
fn a_topic_that_fails_fails_the_command_and_not_the_others() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let output = broker.run_with("", &["topic", "create", "orders", "bills", "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).starts_with("mainstem: topic orders exists already"), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told[0]["result"], &told[1]["result"]), (&json!("failed"), &json!("created")));

    let again = broker.run(&["topic", "create", "orders", "new", "--if-not-exists"]);
    assert!(again.starts_with("orders exists already\ncreated new: "), "{again}");
    let line = broker.failure(&["topic", "delete", "absent", "new"]);
    assert!(line.contains("there is no topic absent"), "{line}");
    let gone = broker.run(&["topic", "delete", "absent", "bills", "--if-exists"]);
    assert_eq!(gone, "absent does not exist\ndeleted bills\n");
    assert_eq!(broker.json(&["topic", "list"]).as_array().unwrap().len(), 1);

    for (arguments, parts) in [
        (&["a b"][..], &["topic a b", "INVALID_TOPIC"][..]),
        (&["t", "--config", "retention.ms=soon"], &["topic t", "retention.ms", "soon"]),
        (&["t", "--config", "no.such=1"], &["topic t", "no.such"]),
        (&["t", "--replication-factor", "3"], &["topic t", "replication factor"]),
    ] {
        let line = broker.failure(&[&["topic", "create"], arguments].concat());
        assert!(parts.iter().all(|part| line.contains(part)), "{arguments:?}: {line}");
    }
}

#[test]
fn lines_keys_and_headers_come_back_as_they_were_sent() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let summary = broker.produce("42:two of them\n\u{fc}::x\r\n:\n", &["orders", "--key-separator", ":"]);
    assert!(summary.starts_with("3 records written to orders (partition 0, offsets 0 to 2) in "), "{summary}");
    let file = broker.data().join("lines.txt");
    std::fs::write(&file, b"\xff\x00 binary\n\nlast without end").unwrap();
    let headers = ["--header", "a=1", "--header", "b=", "--header", "a=2=2", "--key", "k"];
    broker.produce("", &[&["orders", "--file", file.to_str().unwrap()], &headers[..]].concat());

    let record = |offset: i32, key: Value, value: Value, headers: Value| json!({ "topic": "orders", "partition": 0, "offset": offset, "key": key, "value": value, "headers": headers });
    let headers = json!([{ "key": "a", "value": "1" }, { "key": "b", "value": "" }, { "key": "a", "value": "2=2" }]);
    let expected = [
        record(0, json!("42"), json!("two of them"), json!([])),
        record(1, json!("ü"), json!(":x"), json!([])),
        record(2, json!(""), json!(""), json!([])),
        record(3, json!("k"), json!({ "base64": "/wAgYmluYXJ5" }), headers.clone()),
        record(4, json!("k"), json!(""), headers.clone()),
        record(5, json!("k"), json!("last without end"), headers),
    ];
    assert_eq!(broker.records(&["orders"]), expected);

    let output = broker.run_with("", &["consume", "orders"]);
    assert_eq!(output.stdout, b"two of them\n:x\n\n\xff\x00 binary\n\nlast without end\n");
    assert_eq!(last_line(&output), "6 records of orders");
    assert_eq!(broker.run(&["consume", "orders", "--key-separator", "=", "--count", "2"]), "42=two of them\nü=:x\n");
}

#[test]
fn every_codec_and_kind_of_confirmation_writes_the_same() {
    let broker = Broker::start();
    let lines: String = (0..1000).map(|i| format!("line {i}\n")).collect();
    let kinds = [&["--acks", "1"][..], &["--acks", "all"], &["--idempotent"], &["--acks", "-1", "--idempotent"], &[]];
    for (codec, kind) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().zip(kinds) {
        broker.run(&["topic", "create", codec]);
        let summary = broker.produce(lines.clone(), &[&[codec, "--codec", codec], kind].concat());
        assert!(summary.starts_with(&format!("1000 records written to {codec} (")), "{summary}");
        assert_eq!(broker.run(&["consume", codec]), lines, "{codec}");
    }
    let summary = broker.produce("more\n", &["none", "--acks", "0"]);
    assert!(summary.starts_with("1 record sent, unconfirmed, to none in "), "{summary}");
    assert_eq!(broker.run(&["consume", "none", "--from", "1000"]), "more\n");
}

#[test]
fn reading_begins_where_it_is_told_to_and_ends_at_the_end() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders", "--partitions", "3"]);
    broker.produce("a\nb\nc\n", &["orders", "--partition", "1"]);
    broker.produce("d\n", &["orders", "--partition", "2"]);
    let consume = |arguments: &[&str]| broker.run(&[&["consume", "orders"], arguments].concat());

    let mut all: Vec<_> = consume(&[]).lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["a", "b", "c", "d"]);
    assert_eq!(consume(&["--from", "end"]), "");
    assert_eq!(consume(&["--partition", "1", "--from", "1"]), "b\nc\n");
    assert_eq!(consume(&["--partition", "1", "--from", "3"]), "");
    assert_eq!(consume(&["--partition", "2", "--partition", "0", "--from", "beginning"]), "d\n");
    assert_eq!(consume(&["--partition", "1", "--count", "2"]), "a\nb\n");
    assert_eq!(consume(&["--from", "-1h", "--partition", "1"]), "a\nb\nc\n");
    assert_eq!(consume(&["--from", "2001-01-01T00:00:00+01:00", "--partition", "1"]), "a\nb\nc\n");
    assert_eq!(consume(&["--from", "2100-01-01T00:00:00Z"]), "");

    let line = broker.failure(&["consume", "orders", "--partition", "1", "--from", "7"]);
    assert!(line.contains("orders-1 has no offset 7: it holds 0 to 2"), "{line}");
    for command in ["consume", "produce"] {
        let line = broker.failure(&[command, "orders", "--partition", "3"]);
        assert_eq!(line, "mainstem: orders has no partition 3, only 0 to 2");
    }
}

#[test]
fn a_record_that_fails_is_named_by_its_line_and_the_ones_before_it_are_written() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let output = broker.run_with("a=1\nb=2\nc\nd=4\n", &["produce", "orders", "--key-separator", "="]);
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).starts_with("mainstem: line 3 has no key"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("2 records written"), "{output:?}");
    assert_eq!(broker.run(&["consume", "orders"]), "1\n2\n");

    broker.run(&["topic", "create", "small", "--config", "max.message.bytes=1000"]);
    let output = broker.run_with("x".repeat(2000), &["produce", "small"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).starts_with("mainstem: line 1: topic small: "), "{output:?}");
    assert!(last_line(&output).contains("MESSAGE_TOO_LARGE"), "{output:?}");
    let line = broker.failure(&["produce", "orders", "--file", "no-such-file"]);
    assert!(line.starts_with("mainstem: cannot read no-such-file: No such file"), "{line}");
}

#[test]
fn a_topic_that_does_not_exist_is_said_and_not_created() {
    let broker = Broker::start();
    for command in [&["produce", "absent"][..], &["consume", "absent"], &["topic", "describe", "absent"]] {
        let line = broker.failure(command);
        assert!(line.starts_with("mainstem: there is no topic absent: "), "{command:?}: {line}");
        assert!(line.contains("`mainstem topic create absent`"), "{command:?}: {line}");
    }
    assert_eq!(broker.json(&["topic", "list", "--internal"]), json!([]));
}

#[test]
fn without_a_broker_it_is_said_what_to_do() {
    // A port that no ordinary process can have.
    let address = "127.0.0.1:1";
    for command in [&["topic", "list"][..], &["consume", "t"], &["produce", "t"]] {
        let line = failure(mainstem(command).args(["--bootstrap-server", address]).stdin(Stdio::null()));
        let start = format!(
            "mainstem: no broker at {address}: start one with `mainstem serve`, or name another with --bootstrap-server"
        );
        assert!(line.starts_with(&start), "{line}");
    }
}

#[test]
fn an_address_that_clients_are_told_wrongly_is_named_as_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--set", "advertised.listeners=PLAINTEXT://127.0.0.1:1"]);
    let output = run_with(&server.address(), "", &["topic", "create", "orders", "--timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(1));
    let line = last_line(&output);
    assert!(
        ["127.0.0.1:1,", &server.address(), "advertised.listeners"].iter().all(|part| line.contains(part)),
        "{line}"
    );
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for (arguments, part) in [
        (&["topic", "create"][..], "<TOPIC>"),
        (&["topic", "create", "t", "--partitions", "0"], "--partitions"),
        (&["topic", "create", "t", "--config", "novalue"], "novalue is not KEY=VALUE"),
        (&["topic", "list", "--output", "xml"], "xml"),
        (&["topic", "list", "--bootstrap-server", "nowhere"], "nowhere is not HOST:PORT"),
        (&["topic", "list", "--timeout", "soon"], "soon"),
        (&["produce", "t", "--codec", "brotli"], "brotli"),
        (&["produce", "t", "--acks", "2"], "--acks"),
        (&["produce", "t", "--idempotent", "--acks", "1"], "--acks all"),
        (&["produce", "t", "--key", "k", "--key-separator", ":"], "--key-separator"),
        (&["produce", "t", "--header", "=v"], "=v is not KEY=VALUE"),
        (&["consume", "t", "--from", "yesterday"], "yesterday"),
        (&["consume", "t", "--from", "-5"], "-5m"),
        (&["consume", "t", "--count", "0"], "--count"),
        (&["consume", "t", "--format", "json", "--key-separator", ":"], "--key-separator"),
        (&["consume", "t", "--format", "%q"], "%q is unknown"),
        (&["consume", "--pattern", "("], "--pattern"),
        (&["consume", "t", "--follow", "--until-end"], "--until-end"),
        (&["consume"], "<TOPIC>"),
        (&["produce", "t", "--rate", "0"], "--rate"),
        (&["produce", "t", "--whole"], "--file"),
        (&["topic", "add-partitions", "t"], "--to <N>|--by <N>"),
        (&["topic", "add-partitions", "t", "--to", "2", "--by", "1"], "--by"),
        (&["topic", "config", "set", "t", "novalue"], "novalue is not KEY=VALUE"),
        (&["topic", "offsets", "--at", "end"], "give a time"),
        (&["topic", "delete-records", "t"], "--before"),
        (&["group", "describe"], "<GROUP>"),
        (&["group", "reset-offsets", "g", "--topic", "t"], "--to-earliest"),
        (&["group", "reset-offsets", "g", "--to-earliest"], "--all-topics"),
        (&["group", "reset-offsets", "g", "--topic", "t:x", "--to-latest"], "t:x"),
        (&["group", "reset-offsets", "g", "--topic", "t", "--by-duration", "1h"], "ISO 8601"),
        (&["group", "reset-offsets", "g", "--topic", "t", "--to-datetime", "soon"], "soon"),
        (&["group", "reset-offsets", "g", "--topic", "t", "--from-file", "f"], "leave out --topic"),
        (&["group", "reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"], "--to-earliest"),
        (&["config", "describe"], "--topic <NAME>"),
        (&["config", "alter", "--topic", "t"], "nothing to change"),
        (&["cp", "t"], "--from"),
        (&["cp", "t", "--from", "nowhere"], "nowhere is not HOST:PORT"),
        (&["completions", "tcsh"], "tcsh"),
        (&["topic", "list", "--color", "pink"], "pink"),
        (&["nonsense"], "nonsense"),
    ] {
        let output = mainstem(arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(part), "{arguments:?}: {output:?}");
    }
}

#[test]
fn every_command_has_help_with_examples_and_the_exit_codes_are_told() {
    let commands = [
        "",
        "serve",
        "topic",
        "topic create",
        "topic list",
        "topic describe",
        "topic delete",
        "topic config",
        "topic config set",
        "topic config unset",
        "topic config show",
        "topic add-partitions",
        "topic delete-records",
        "topic offsets",
        "group",
        "group list",
        "group describe",
        "group reset-offsets",
        "group delete",
        "group delete-offsets",
        "config",
        "config describe",
        "config alter",
        "produce",
        "consume",
        "cp",
        "completions",
        "man",
    ];
    let local = ["", "serve", "topic", "topic config", "group", "config", "cp", "completions", "man"];
    for command in commands {
        let arguments: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let text = stdout(&mainstem(&arguments).output().unwrap());
        assert!(text.contains("Examples:\n  ") && text.contains(&format!("mainstem {command}")), "{text}");
        if ["", "serve", "produce", "consume", "cp"].contains(&command) {
            assert!(text.contains("Exit codes:"), "{text}");
        }
        if !local.contains(&command) {
            let common = ["--bootstrap-server", "127.0.0.1:9092", "MAINSTEM_BOOTSTRAP", "--profile", "--timeout"];
            assert!(common.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}

#[test]
fn following_shows_records_as_they_come_through_a_restart_until_it_is_interrupted() {
    let broker = Broker::start();
    let address = broker.server.address();
    broker.run(&["topic", "create", "orders"]);
    broker.produce("old\n", &["orders"]);
    let (mut child, mut output) = broker.spawn(&["consume", "orders", "--follow"]);
    assert_eq!(read_line(&mut output), "old\n");
    broker.produce("new\n", &["orders"]);
    assert_eq!(read_line(&mut output), "new\n");

    let Broker { server, folder } = broker;
    server.kill();
    let server = Server::start_at(&address, folder.path(), &[]);
    let summary = run_with(&address, "after\n", &["produce", "orders"]);
    assert_eq!(summary.status.code(), Some(0), "{summary:?}");
    assert_eq!(read_line(&mut output), "after\n");
    signal(&child, "INT");
    assert_eq!(exit_code(&mut child), Some(0));
    assert!(stderr(&mut child).ends_with("3 records of orders\n"));
    drop(server);
}

#[test]
fn an_interrupted_produce_writes_what_it_has_read() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let (mut child, _output) = broker.spawn(&["produce", "orders"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").unwrap();
    // It is there before the interruption.
    assert_eq!(broker.run(&["consume", "orders", "-f", "--count", "2"]), "one\ntwo\n");
    signal(&child, "INT");
    assert_eq!(exit_code(&mut child), Some(1));
    let text = stderr(&mut child);
    assert!(text.contains("2 records written to orders"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("mainstem: interrupted"), "{text}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_without_a_word() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    // More than pipes and buffers hold, so that the command must notice.
    let lines: String = (0..40_000).map(|i| format!("a line of the topic, number {i}\n")).collect();
    broker.produce(lines, &["orders", "--codec", "lz4"]);
    for more in [&[][..], &["--follow"], &["--follow", "--from", "end"]] {
        let (mut child, mut output) = broker.spawn(&[&["consume", "orders"], more].concat());
        if !more.contains(&"end") {
            assert_eq!(read_line(&mut output), "a line of the topic, number 0\n");
        }
        drop(output);
        assert_eq!(exit_code(&mut child), Some(0), "{more:?}");
        assert_eq!(stderr(&mut child), "", "{more:?}");
    }
}

#[test]
fn a_start_that_fails_says_key_value_and_reason() {
    for (setting, line) in [
        (
            "log.segment.byte=1",
            "Unknown server property: log.segment.byte (did you mean log.segment.bytes?) (command line, --set)",
        ),
        ("num.partitions=many", "Invalid value many for configuration num.partitions: Not a number of type INT"),
        ("log.segment.bytes=3", "Invalid value 3 for configuration log.segment.bytes: Value must be at least 1048576"),
    ] {
        let last = failure(&mut mainstem(&["serve", "--set", setting]));
        assert!(last.starts_with(&format!("mainstem: {line}")), "{last}");
    }
}

#[test]
fn a_second_broker_on_a_folder_is_refused_and_the_first_goes_on() {
    let broker = Broker::start();
    let line = failure(mainstem(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(broker.data()));
    let start = format!("mainstem: {} is used by another process", broker.data().display());
    assert!(line.starts_with(&start) && line.contains("--data-dir"), "{line}");
    broker.run(&["topic", "create", "orders"]);
}

#[test]
fn a_restart_says_how_the_broker_was_stopped_and_every_confirmed_record_is_there() {
    let broker = Broker::start();
    assert!(broker.server.says("new data folder"), "{:?}", broker.server.lines);
    broker.run(&["topic", "create", "orders", "--partitions", "2"]);
    let lines: String = (0..500).map(|i| format!("{i}\n")).collect();
    broker.produce(lines.clone(), &["orders", "--partition", "0", "--idempotent"]);

    let Broker { server, folder } = broker;
    server.kill();
    let server = Server::start(folder.path(), &[]);
    let report = server.lines.iter().find(|line| line.starts_with("recovered from an unclean stop: "));
    let report = report.unwrap_or_else(|| panic!("{:?}", server.lines));
    for part in ["bytes scanned", "0 bytes cut", " ms"] {
        assert!(report.contains(part), "{report}");
    }
    assert_eq!(stdout(&run_with(&server.address(), "", &["consume", "orders"])), lines);

    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let server = Server::start(folder.path(), &[]);
    assert!(server.says("after an orderly stop") && !server.says("unclean"), "{:?}", server.lines);
    assert_eq!(stdout(&run_with(&server.address(), "", &["consume", "orders"])), lines);
}

#[test]
fn a_broker_passes_over_the_variable_of_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    // The listener is wrong, so that it ends: for that reason and no other.
    let mut command = mainstem(&["serve", "--listen", "nowhere", "--data-dir"]);
    let line = failure(command.arg(folder.path()).env("MAINSTEM_BOOTSTRAP", "127.0.0.1:1"));
    assert!(line.contains("nowhere") && !line.contains("MAINSTEM_BOOTSTRAP"), "{line}");
}
