//! Data folders that earlier versions wrote are read. See `tests/data/README.md`.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use support::{Server, failure, mainstem};

const TOPICS: [&str; 5] = ["plain", "packed", "table", "shared", "grouped"];
/// The offsets of a group without members do not expire here, however old they are.
const SETTINGS: [&str; 4] =
    ["--set", "offsets.retention.minutes=2147483647", "--set", "mainstem.commitlog.file.bytes=1048576"];

/// A copy of a folder that is kept.
fn copy_of(name: &str) -> tempfile::TempDir {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let to = tempfile::tempdir().unwrap();
    copy(&from, to.path());
    to
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn run(server: &Server, arguments: &[&str]) -> String {
    let output = mainstem(arguments).args(["--bootstrap-server", &server.address()]).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn check(server: &Server, records: usize) {
    let listed: serde_json::Value = serde_json::from_str(&run(server, &["topic", "list", "--output", "json"])).unwrap();
    let names: BTreeSet<&str> =
        listed.as_array().unwrap().iter().map(|topic| topic["topic"].as_str().unwrap()).collect();
    assert!(TOPICS.iter().all(|topic| names.contains(topic)) && !names.contains("gone"), "{names:?}");
    for topic in TOPICS {
        let consumed = run(server, &["consume", topic]);
        let found: BTreeSet<&str> = consumed.lines().collect();
        let expected: Vec<String> = (0..records).map(|number| format!("{topic} {number}")).collect();
        assert_eq!(found, expected.iter().map(String::as_str).collect());
    }
    let group = run(server, &["group", "describe", "readers", "--output", "json"]);
    let group: serde_json::Value = serde_json::from_str(&group).unwrap();
    let offsets = group[0]["offsets"].as_array().unwrap();
    for (topic, partition, committed) in [("plain", 0, 3), ("shared", 1, 2)] {
        let found = offsets.iter().find(|one| one["topic"] == topic && one["partition"] == partition);
        assert_eq!(found.unwrap()["committed"], committed, "{group}");
    }
}

#[test]
fn folders_of_format_1_are_read_whether_they_were_left_in_order_or_not() {
    for (name, records, said) in
        [("folder-1/orderly", 20, "opened after an orderly stop"), ("folder-1/killed", 30, "recovered from an unclean")]
    {
        let folder = copy_of(name);
        let server = Server::start(folder.path(), &SETTINGS);
        assert!(server.says(said), "{:?}", server.lines);
        assert!(
            !server.says("unreadable") && !server.says("failed") && !server.says("set aside"),
            "{:?}",
            server.lines
        );
        check(&server, records);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        let server = Server::start(folder.path(), &SETTINGS);
        check(&server, records);
    }
}

#[test]
fn a_folder_of_a_newer_format_is_refused_in_words() {
    let folder = copy_of("folder-1/orderly");
    // A checksum over these lines, as each version writes it.
    std::fs::write(folder.path().join("checkpoint"), "version 2\ngeneration 1\ncrc32c 7b27b8da\n").unwrap();
    let line = failure(mainstem(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path()));
    assert!(line.contains("format 2") && line.contains("newer"), "{line}");
    assert!(folder.path().join(".kafka_cleanshutdown").exists(), "the folder is left as it was");
}
