//! `dump`, `verify` and `doctor`, as processes, on folders that a real broker made.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use support::{Server, last_line, mainstem};

/// A folder that a broker left in order: `plain` in files of its own with several segments, `common` in a commit log.
struct Folder {
    folder: tempfile::TempDir,
}

const LINES: usize = 3000;
const LINE_SIZE: usize = 1000;

impl Folder {
    fn make(more: &[&str]) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let settings = ["--set", "log.segment.bytes=1048576", "--set", "offsets.topic.num.partitions=1"];
        let server = Server::start(folder.path(), &[&settings[..], &["--set", "mainstem.shared.groups=1"]].concat());
        let run = |arguments: &[&str], input: String| {
            let mut command = assert_cmd::Command::from_std(mainstem(arguments));
            let output = command.env("MAINSTEM_BOOTSTRAP", server.address()).write_stdin(input).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        run(&["topic", "create", "plain", "--partitions", "1"], String::new());
        run(&["topic", "create", "common", "--partitions", "1", "--config", "mainstem.layout=shared"], String::new());
        // Never written to: without a folder, and nothing is missing.
        run(&["topic", "create", "empty", "--partitions", "3"], String::new());
        let lines = |from: usize, count: usize| -> String {
            (from..from + count).map(|number| format!("{number:0width$}\n", width = LINE_SIZE)).collect()
        };
        for part in 0..3 {
            for topic in ["plain", "common"] {
                let arguments = [&["produce", topic, "--idempotent"], more].concat();
                run(&arguments, lines(part * LINES / 3, LINES / 3));
            }
        }
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        Folder { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The files whose path ends so, in order.
    fn files(&self, part: &str, suffix: &str) -> Vec<PathBuf> {
        let mut files: Vec<_> = all_files(self.path())
            .into_iter()
            .filter(|path| {
                let text = path.to_str().unwrap();
                text.contains(part) && text.ends_with(suffix)
            })
            .collect();
        files.sort();
        assert!(!files.is_empty(), "no file of {part} ends in {suffix}");
        files
    }

    fn file(&self, part: &str, suffix: &str) -> PathBuf {
        self.files(part, suffix).remove(0)
    }

    fn verify(&self) -> (Option<i32>, Vec<Value>) {
        verify(self.path())
    }

    /// What `verify` finds after a change of a file, which is taken back then.
    fn findings_after(&self, path: &Path, change: impl FnOnce(&Path)) -> Vec<Value> {
        let before = fs::read(path).unwrap();
        change(path);
        let (code, lines) = self.verify();
        fs::write(path, before).unwrap();
        let findings: Vec<_> = lines.into_iter().filter(|line| line["kind"] == "finding").collect();
        assert_eq!(code, Some(i32::from(!findings.is_empty())), "{findings:?}");
        findings
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(all_files(&path)) } else { files.push(path) }
    }
    files
}

fn json_lines(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn verify(folder: &Path) -> (Option<i32>, Vec<Value>) {
    let mut command = mainstem(&["verify", "--output", "json", "--data-dir"]);
    let output = command.arg(folder).output().unwrap();
    (output.status.code(), json_lines(&output))
}

fn dump(path: &Path, more: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = mainstem(&["dump", "--output", "json"]);
    let output = command.args(more).arg(path).output().unwrap();
    (output.status.code(), json_lines(&output))
}

/// The batches, or entries, of a log.
fn batches(path: &Path) -> Vec<Value> {
    let (_, lines) = dump(path, &[]);
    lines.into_iter().filter(|line| line["kind"] == "batch" || line["kind"] == "entry").collect()
}

fn number(line: &Value, field: &str) -> i64 {
    line[field].as_i64().unwrap_or_else(|| panic!("{field} of {line}"))
}

fn flip(path: &Path, at: u64) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 0x41]).unwrap();
}

fn cut(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn flip_middle(path: &Path) {
    flip(path, fs::metadata(path).unwrap().len() / 2);
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// One finding with these offsets, among others perhaps.
fn assert_offsets(findings: &[Value], problem: &str, topic: &str, first: i64, last: i64) {
    let of_offsets: Vec<_> = findings.iter().filter(|one| one["first_offset"].is_i64()).collect();
    assert_eq!(of_offsets.len(), 1, "{findings:#?}");
    let found = of_offsets[0];
    let told = (found["problem"].as_str(), found["topic"].as_str(), &found["first_offset"], &found["last_offset"]);
    assert_eq!(told, (Some(problem), Some(topic), &Value::from(first), &Value::from(last)), "{findings:#?}");
}

/// Every finding is about this file, and there is one.
fn assert_path(findings: &[Value], path: &Path, problems: &[&str]) {
    assert!(!findings.is_empty(), "nothing was found wrong with {}", path.display());
    for finding in findings {
        assert_eq!(finding["path"], path.to_str().unwrap(), "{findings:#?}");
        assert!(problems.contains(&finding["problem"].as_str().unwrap()), "{findings:#?}");
    }
}

#[test]
fn what_a_broker_leaves_is_sound_and_every_damage_of_a_log_is_told_with_its_offsets() {
    let folder = Folder::make(&[]);
    let (code, lines) = folder.verify();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert_eq!(lines.last().unwrap()["sound"], true);

    let segments = folder.files("/plain-0/", ".log");
    assert!(segments.len() >= 3, "{segments:?}");
    let middle = batches(&segments[1]);
    let batch = &middle[1];
    let (first, last) = (number(batch, "base_offset"), number(batch, "last_offset"));
    let at = number(batch, "position") as u64;

    let found = folder.findings_after(&segments[1], |path| flip(path, at + 100));
    assert_offsets(&found, "offsets-damaged", "plain", first, last);
    // Its length, of all things.
    let found = folder.findings_after(&segments[1], |path| flip(path, at + 9));
    assert_offsets(&found, "offsets-damaged", "plain", first, last);

    let end_of_segment = number(middle.last().unwrap(), "last_offset");
    let found = folder.findings_after(&segments[1], |path| cut(path, at + 100));
    assert_offsets(&found, "offsets-damaged", "plain", first, end_of_segment);
    let found = folder.findings_after(&segments[1], |path| cut(path, at));
    assert_eq!(found.iter().filter(|one| one["problem"] == "offsets-missing").count(), 1, "{found:#?}");
    let found = folder.findings_after(&segments[1], remove);
    assert_offsets(&found, "offsets-missing", "plain", number(&middle[0], "base_offset"), end_of_segment);

    let newest = segments.last().unwrap();
    let end = batches(newest);
    let tail = end.last().unwrap();
    let found = folder.findings_after(newest, |path| cut(path, number(tail, "position") as u64));
    let missing: Vec<_> = found.iter().filter(|one| one["problem"] == "offsets-missing").collect();
    assert_eq!(missing.len(), 1, "{found:#?}");
    assert_eq!(number(missing[0], "first_offset"), number(tail, "base_offset"));
    assert_eq!(number(missing[0], "last_offset"), LINES as i64 - 1);

    let log = folder.file("/commitlog/", "00000000000000000000");
    let entries = batches(&log);
    let entry = &entries[entries.len() / 2];
    let (first, last) = (number(entry, "base_offset"), number(entry, "last_offset"));
    let at = number(entry, "position") as u64;
    for byte in [5, 40, 200] {
        let found = folder.findings_after(&log, |path| flip(path, at + byte));
        let of_log: Vec<_> = found.into_iter().filter(|one| one["problem"] != "queue-wrong").collect();
        assert_offsets(&of_log, "offsets-damaged", "common", first, last);
    }
    let found = folder.findings_after(&log, |path| cut(path, at + 100));
    let damaged: Vec<_> = found.into_iter().filter(|one| one["problem"] == "offsets-damaged").collect();
    assert_offsets(&damaged, "offsets-damaged", "common", first, LINES as i64 - 1);
    assert_eq!(folder.verify().0, Some(0), "the changes were taken back");
}

#[test]
fn every_file_that_is_made_from_a_log_is_compared_with_it() {
    let folder = Folder::make(&[]);
    let sealed = folder.files("/plain-0/", ".log")[1].clone();
    for suffix in ["index", "timeindex"] {
        let path = sealed.with_extension(suffix);
        assert_path(&folder.findings_after(&path, |path| flip(path, 5)), &path, &["index-wrong"]);
        assert_path(&folder.findings_after(&path, |path| cut(path, 0)), &path, &["index-short"]);
        assert_path(&folder.findings_after(&path, |path| cut(path, 9)), &path, &["index-wrong", "index-short"]);
        assert_path(&folder.findings_after(&path, remove), &path, &["index-missing"]);
    }
    let newest_snapshot = folder.files("/plain-0/", ".snapshot").pop().unwrap();
    let small = [
        newest_snapshot.clone(),
        folder.file("/plain-0/", "leader-epoch-checkpoint"),
        folder.file("/plain-0/", "partition.metadata"),
        folder.file("", "/recovery-point-offset-checkpoint"),
        folder.file("", "/replication-offset-checkpoint"),
        folder.file("", "/meta.properties"),
        folder.file("", "/quorum-state"),
        folder.file("/mainstem/", "/checkpoint"),
        folder.file("/consumequeue/", "partition.metadata"),
    ];
    for path in small {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let found = folder.findings_after(&path, |path| cut(path, 3));
        assert_path(&found, &path, &["file-unreadable"]);
        let found = folder.findings_after(&path, remove);
        assert!(found.iter().any(|one| one["problem"] == "file-missing"), "{name}: {found:#?}");
    }
    let found = folder.findings_after(&newest_snapshot, flip_middle);
    assert_path(&found, &newest_snapshot, &["file-unreadable"]);

    let queue = folder.file("/consumequeue/", "00000000000000000000");
    let found = folder.findings_after(&queue, |path| flip(path, 1000 * 20 + 3));
    assert_offsets(&found, "queue-wrong", "common", 1000, 1000);
    let found = folder.findings_after(&queue, |path| cut(path, 2000 * 20));
    assert_offsets(&found, "queue-short", "common", 2000, LINES as i64 - 1);
    let found = folder.findings_after(&queue, remove);
    assert_offsets(&found, "queue-short", "common", 0, LINES as i64 - 1);
    let found = folder.findings_after(&queue, |path| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(&[1; 20]).unwrap();
    });
    assert_offsets(&found, "queue-wrong", "common", LINES as i64, LINES as i64);

    let away = folder.path().join("plain-0.away");
    fs::rename(folder.path().join("plain-0"), &away).unwrap();
    let (code, lines) = folder.verify();
    fs::rename(&away, folder.path().join("plain-0")).unwrap();
    let missing: Vec<_> = lines.iter().filter(|line| line["problem"] == "partition-missing").collect();
    assert_eq!((code, missing.len(), &missing[0]["topic"]), (Some(1), 1, &"plain".into()), "{lines:#?}");

    let metadata = folder.file("__cluster_metadata-0/", ".log");
    let found = folder.findings_after(&metadata, flip_middle);
    assert!(found.iter().any(|one| one["problem"] == "metadata-damaged"), "{found:#?}");
    fs::write(folder.path().join("plain-0/00000000000000009999.log.parked"), "what it was").unwrap();
    let (code, lines) = folder.verify();
    assert_eq!((code, lines[0]["problem"].as_str()), (Some(1), Some("parked")), "{lines:#?}");
}

#[test]
fn a_key_index_is_compared_with_records_and_slots() {
    let folder = Folder::make(&["--header", "KEYS=red blue"]);
    assert_eq!(folder.verify().0, Some(0));
    let index = folder.file("/index/", "");
    let len = fs::metadata(&index).unwrap().len();
    let wrong_after = |change: &dyn Fn(&Path)| {
        change(&index);
        let (code, lines) = folder.verify();
        assert_eq!(code, Some(1), "{lines:#?}");
        let findings: Vec<_> = lines.into_iter().filter(|line| line["kind"] == "finding").collect();
        assert_path(&findings, &index, &["index-wrong"]);
    };
    let entries_at = 40 + 5_000_000 * 4;
    for at in [36, entries_at + 20 + 1, entries_at + 20 + 9, entries_at + 2 * 20 + 19, 39] {
        wrong_after(&|path| flip(path, at));
        flip(&index, at);
    }
    wrong_after(&|path| cut(path, len - 1));
    remove(&index);
    let (code, lines) = folder.verify();
    assert_eq!((code, lines[0]["problem"].as_str()), (Some(1), Some("index-missing")), "{lines:#?}");
}

#[test]
fn a_key_index_of_a_partition_is_compared_with_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let run = |input: &str, arguments: &[&str]| {
        let output = support::commands::run_with(&server.address(), input, arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    run("", &["topic", "create", "keyed", "--config", "mainstem.key.index=all"]);
    let lines: String = (0..100).map(|n| format!("key-{n}:value\n")).collect();
    run(&lines, &["produce", "keyed", "--key-separator", ":"]);
    run("", &["topic", "find", "keyed", "key-7"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let folder = Folder { folder };
    assert_eq!(folder.verify().0, Some(0));
    let state = folder.file("/key-index/", "applied");
    let index = folder.files("/key-index/", "").into_iter().find(|path| *path != state).unwrap();
    let (state_bytes, index_bytes) = (fs::read(&state).unwrap(), fs::read(&index).unwrap());
    let found_after = |change: &dyn Fn(), problem: &str| {
        change();
        let (code, lines) = folder.verify();
        assert_eq!((code, lines[0]["problem"].as_str()), (Some(1), Some(problem)), "{lines:#?}");
        fs::write(&state, &state_bytes).unwrap();
        fs::write(&index, &index_bytes).unwrap();
    };
    let first_entry = 40 + (1 << 17) * 4 + 20;
    found_after(&|| flip(&index, 39), "index-wrong");
    found_after(&|| flip(&index, first_entry + 19), "index-wrong");
    found_after(&|| flip(&index, first_entry + 11), "index-short");
    found_after(&|| cut(&index, 1000), "index-wrong");
    found_after(&|| remove(&index), "index-missing");
    found_after(&|| flip(&state, 9), "file-unreadable");
    remove(&state);
    assert_eq!(folder.verify().0, Some(0), "it is made again");
}

/// Name, length, time of change and bytes of every file, the times of folders too.
fn state(folder: &Path) -> BTreeMap<PathBuf, (i64, i64, Vec<u8>)> {
    let mut state = BTreeMap::new();
    for path in all_files(folder) {
        for one in path.ancestors().take_while(|one| one.starts_with(folder)) {
            let metadata = fs::metadata(one).unwrap();
            let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(one).unwrap() };
            state.insert(one.to_owned(), (metadata.mtime(), metadata.mtime_nsec(), bytes));
        }
    }
    state
}

#[test]
fn nothing_is_changed_whatever_is_found() {
    let folder = Folder::make(&[]);
    let before = state(folder.path());
    assert_eq!(folder.verify().0, Some(0));
    assert_eq!(dump(folder.path(), &["--records", "--offsets"]).0, Some(0));
    assert!(state(folder.path()) == before, "a sound folder was changed");
    flip_middle(&folder.files("/plain-0/", ".log")[0]);
    cut(&folder.file("/commitlog/", "00000000000000000000"), 5000);
    remove(&folder.file("", "/recovery-point-offset-checkpoint"));
    fs::write(folder.path().join("replication-offset-checkpoint.tmp"), "half").unwrap();
    let before = state(folder.path());
    assert_eq!(folder.verify().0, Some(1));
    assert_eq!(dump(folder.path(), &[]).0, Some(1));
    assert!(state(folder.path()) == before, "a damaged folder was changed");
}

#[test]
fn a_folder_in_use_is_refused_and_one_of_a_killed_broker_is_only_unclean() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let output = mainstem(&["verify", "--data-dir", folder.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = last_line(&output);
    assert!(said.contains(&format!("in use by process {}", server.id())), "{said}");
    let mut command = assert_cmd::Command::from_std(mainstem(&["topic", "create", "t", "--bootstrap-server"]));
    assert!(command.arg(server.address()).output().unwrap().status.success());
    server.kill();
    let (code, lines) = verify(folder.path());
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines.iter().any(|line| line["problem"] == "unclean"), "{lines:#?}");

    let empty = tempfile::tempdir().unwrap();
    for path in [empty.path(), Path::new("/nonexistent/of/mainstem")] {
        let output = mainstem(&["verify", "--data-dir", path.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!last_line(&output).is_empty());
    }
}

/// Lives of a broker, each of which begins an epoch and writes snapshots of the metadata, and ends so.
fn live_with_snapshots(folder: &Path, lives: usize, end: impl Fn(Server)) {
    for _ in 0..lives {
        let server = Server::start(folder, &["--set", "metadata.log.max.record.bytes.between.snapshots=1"]);
        let name = format!("t{}", server.id());
        let create = ["topic", "create", &name, "--bootstrap-server", &server.address()];
        assert!(mainstem(&create).output().unwrap().status.success());
        end(server);
    }
}

fn stop(server: Server) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_metadata_log_that_begins_with_a_snapshot_of_a_later_epoch_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    live_with_snapshots(folder.path(), 4, stop);
    let (code, lines) = verify(folder.path());
    assert_eq!(code, Some(0), "{lines:?}");
}

#[test]
fn epochs_of_killed_lives_are_noted_although_a_snapshot_spares_the_recovery_their_records() {
    let folder = tempfile::tempdir().unwrap();
    live_with_snapshots(folder.path(), 1, stop);
    live_with_snapshots(folder.path(), 3, Server::kill);
    stop(Server::start(folder.path(), &[]));
    let epochs = fs::read_to_string(folder.path().join("__cluster_metadata-0/leader-epoch-checkpoint")).unwrap();
    let batches = batches(&folder.path().join("__cluster_metadata-0/00000000000000000000.log"));
    for epoch in 2..=5 {
        let first = number(batches.iter().find(|batch| batch["leader_epoch"] == epoch).unwrap(), "base_offset");
        assert!(epochs.lines().any(|line| line == format!("{epoch} {first}")), "{epoch} begins at {first}: {epochs}");
    }
    let (code, lines) = verify(folder.path());
    assert_eq!(code, Some(0), "{lines:?}");
}

#[test]
fn a_commit_log_of_which_retention_has_hidden_records_or_taken_the_last_file_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "mainstem.shared.groups=1",
        "log.initial.task.delay.ms=10",
        "log.retention.check.interval.ms=50",
        "log.segment.delete.delay.ms=0",
    ];
    let more: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut server = Server::start(folder.path(), &more);
    let run = |server: &Server, arguments: &[&str]| {
        let mut command = assert_cmd::Command::from_std(mainstem(arguments));
        let output = command.env("MAINSTEM_BOOTSTRAP", server.address()).write_stdin("some\nlines\n").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for topic in ["short", "long"] {
        run(&server, &["topic", "create", topic, "--partitions", "1", "--config", "mainstem.layout=shared"]);
        run(&server, &["produce", topic]);
    }
    let hide = |server: &Server| {
        run(server, &["config", "alter", "--topic", "short", "--set", "retention.ms=1"]);
        let deadline = std::time::Instant::now() + support::PATIENCE;
        loop {
            let mut command = assert_cmd::Command::from_std(mainstem(&["consume", "short"]));
            let output = command.env("MAINSTEM_BOOTSTRAP", server.address()).output().unwrap();
            // Retention may come between the look-up of the start and the fetch.
            let late = String::from_utf8_lossy(&output.stderr).contains("no longer has offset");
            assert!(output.status.success() || late, "{output:?}");
            if output.status.success() && output.stdout.is_empty() {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "nothing expires");
        }
        run(server, &["config", "alter", "--topic", "short", "--set", "retention.ms=-1"]);
    };
    hide(&server);
    run(&server, &["produce", "short"]);
    stop(server);
    let (code, lines) = verify(folder.path());
    assert_eq!(code, Some(0), "records are hidden in the file of those that are seen: {lines:?}");
    server = Server::start(folder.path(), &more);
    hide(&server);
    run(&server, &["topic", "delete", "long"]);
    let first = folder.path().join("mainstem/shared-0/commitlog/00000000000000000000");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while first.exists() {
        assert!(std::time::Instant::now() < deadline, "nobody needs the file, and it stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    stop(server);
    let (code, lines) = verify(folder.path());
    assert_eq!(code, Some(0), "the last entry is gone with its file: {lines:?}");
}

#[test]
fn dump_shows_every_file_and_goes_on_behind_damage() {
    let folder = Folder::make(&[]);
    let (code, lines) = dump(folder.path(), &["--records", "--offsets"]);
    assert_eq!(code, Some(0));
    let of = |part: &str, kind: &str| {
        let found = lines.iter().filter(|line| line["kind"] == kind && line["file"].as_str().unwrap().contains(part));
        found.collect::<Vec<_>>()
    };
    assert_eq!(of("", "damage"), [] as [&Value; 0]);
    assert_eq!(of("/plain-0/", "record").len(), LINES);
    assert_eq!(of("/commitlog/", "record").len(), LINES);
    assert_eq!(of("/plain-0/", "record")[41]["value"].as_str().unwrap().trim_start_matches('0'), "41");
    assert!(of("__cluster_metadata-0", "record").iter().any(|line| line["type"] == "TopicRecord"));
    assert_eq!(of("/consumequeue/", "entry").last().unwrap()["last_offset"], LINES as i64 - 1);
    let is: Vec<&str> = of("", "file").iter().map(|line| line["is"].as_str().unwrap()).collect();
    for kind in [
        "log segment",
        "offset index",
        "time index",
        "producer snapshot",
        "leader epochs",
        "partition metadata",
        "quorum state",
        "meta properties",
        "clean shutdown mark",
        "process id",
        "offset checkpoint",
        "checkpoint",
        "commit log",
        "consume queue",
    ] {
        assert!(is.contains(&kind), "no {kind} in {is:?}");
    }

    let segment = folder.file("/plain-0/", ".log");
    let before = batches(&segment);
    let at = number(&before[1], "position") as u64;
    flip(&segment, at + 80);
    let (code, lines) = dump(&segment, &[]);
    assert_eq!(code, Some(1));
    let damage: Vec<_> = lines.iter().filter(|line| line["kind"] == "damage").collect();
    assert_eq!(damage.len(), 1, "{damage:?}");
    let place = (number(damage[0], "position") as u64, number(damage[0], "end"));
    assert_eq!(place, (at, number(&before[2], "position")));
    assert_eq!(lines.iter().filter(|line| line["kind"] == "batch").count(), before.len() - 1);

    let strange = folder.path().join("notes.txt");
    fs::write(&strange, "x").unwrap();
    let output = mainstem(&["dump", strange.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).contains("no file of a data folder"), "{output:?}");
}

#[test]
fn the_doctor_looks_at_machine_folder_and_broker() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let other = tempfile::tempdir().unwrap();
    let doctor = |address: &str| {
        let mut command = mainstem(&["doctor", "--output", "json", "--bootstrap", address, "--data-dir"]);
        let output = command.arg(other.path()).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), found)
    };
    let (_, found) = doctor(&server.address());
    let checks = found["checks"].as_array().unwrap();
    for name in ["open-files", "clock", "permissions", "disk-space", "disk-speed", "kernel", "port", "broker", "topics"]
    {
        let check = checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{name}: {found:#}"));
        assert!(check["status"] == "ok" || check["advice"].is_string(), "{check}");
    }
    let status = |name: &str| checks.iter().find(|check| check["check"] == name).unwrap()["status"].clone();
    assert_eq!((status("broker"), status("topics")), ("ok".into(), "ok".into()), "{found:#}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0, "the folder is as it was");
    let address = server.address();
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let (code, found) = doctor(&address);
    assert_eq!((code, &found["healthy"]), (Some(1), &Value::Bool(false)), "{found:#}");
}
