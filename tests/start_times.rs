//! A start after a kill looks at the end of each log, however much lies before it.
//!
//! Segments are made from nothing: sparse files that only a scan would find to be empty.
//! `MAINSTEM_FULL=1 cargo test --release --test start_times -- --nocapture` makes 100,000 of them, and 50 GB in two
//! partitions, and says how long the starts take.

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use support::commands::run_with;
use support::{Server, mainstem};

const TOPIC: &str = "many";
/// The distance of two segments.
const OFFSETS: u64 = 1_000_000;
/// `version: 1`, the checksum, no producers.
const NO_PRODUCERS: [u8; 10] = [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0];

/// What a broker finds.
struct Shape {
    partitions: u64,
    segments: u64,
    segment_bytes: u64,
}

impl Shape {
    fn last_base(&self) -> u64 {
        (self.segments - 1) * OFFSETS
    }

    /// Writes some records to each partition, kills the broker, and puts segments before what it wrote.
    fn make(&self, data: &Path) {
        let server = Server::start(data, &[]);
        let address = server.address();
        let partitions = self.partitions.to_string();
        let create = mainstem(&["topic", "create", TOPIC, "--partitions", &partitions])
            .args(["--bootstrap-server", &address])
            .output()
            .unwrap();
        assert!(create.status.success(), "{create:?}");
        let records: String = (0..self.partitions * 30).map(|n| format!("key-{n}:value {n}\n")).collect();
        let produced = run_with(&address, records, &["produce", TOPIC, "--key-separator", ":"]);
        assert!(produced.status.success(), "{produced:?}");
        server.kill();
        (0..self.partitions).for_each(|partition| self.lengthen(&data.join(format!("{TOPIC}-{partition}"))));
        let entries: String = (0..self.partitions).map(|one| format!("{TOPIC} {one} {}\n", self.last_base())).collect();
        for file in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
            fs::write(data.join(file), format!("0\n{partitions}\n{entries}")).unwrap();
        }
    }

    /// Moves the one segment of a partition to the last place, and makes those before it.
    fn lengthen(&self, folder: &Path) {
        let file = |base: u64, suffix: &str| folder.join(format!("{base:020}.{suffix}"));
        let last = self.last_base();
        let mut batches = fs::read(file(0, "log")).unwrap();
        let mut place = 0;
        while place < batches.len() {
            let base = u64::from_be_bytes(batches[place..place + 8].try_into().unwrap());
            let len = u32::from_be_bytes(batches[place + 8..place + 12].try_into().unwrap()) as usize;
            // The checksum does not cover the base offset.
            batches[place..place + 8].copy_from_slice(&(base + last).to_be_bytes());
            place += 12 + len;
        }
        let sparse =
            |base: u64, suffix: &str, len: u64| File::create(file(base, suffix)).unwrap().set_len(len).unwrap();
        for base in (0..self.segments - 1).map(|number| number * OFFSETS) {
            // An entry each 4 KiB, of 8 and 12 bytes.
            sparse(base, "log", self.segment_bytes);
            sparse(base, "index", self.segment_bytes / 4096 * 8);
            sparse(base, "timeindex", self.segment_bytes / 4096 * 12);
        }
        fs::write(file(last, "log"), batches).unwrap();
        sparse(last, "index", 0);
        sparse(last, "timeindex", 0);
        fs::write(file(last, "snapshot"), NO_PRODUCERS).unwrap();
        fs::write(folder.join("leader-epoch-checkpoint"), "0\n1\n0 0\n").unwrap();
    }

    /// Starts a broker on it twice: after the kill, and after an orderly stop.
    fn check(&self, data: &Path) {
        let (server, took) = started(data);
        let report = server.lines.iter().find(|line| line.contains("unclean stop")).unwrap().clone();
        println!("{} partitions of {} segments: ready after {took:?}: {report}", self.partitions, self.segments);
        let number = |before: &str| -> u64 {
            let words = report.split_once(before).unwrap().0;
            words.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(number(" bytes scanned") <= (self.partitions + 1) * (64 << 10), "no more than the last segments");
        assert_eq!(number(" bytes cut"), 0, "{report}");
        assert!(!server.says("set aside") && !server.says("failed"), "{:?}", server.lines);
        self.check_records(&server);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        let (server, took) = started(data);
        println!("after an orderly stop: {took:?}");
        assert!(server.says("after an orderly stop"), "{:?}", server.lines);
        self.check_records(&server);
    }

    /// What was written is there, behind what was put before it.
    fn check_records(&self, server: &Server) {
        let from = self.last_base().to_string();
        let mut count = 0;
        for partition in [0, self.partitions - 1] {
            let arguments =
                ["consume", TOPIC, "--partition", &partition.to_string(), "--from", &from, "--format", "%o\n"];
            let output = run_with(&server.address(), "", &arguments);
            assert!(output.status.success(), "{output:?}");
            let offsets: Vec<u64> =
                String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(offsets, (0..offsets.len() as u64).map(|n| self.last_base() + n).collect::<Vec<_>>());
            count += offsets.len();
        }
        assert!(count > 0);
    }
}

fn started(data: &Path) -> (Server, Duration) {
    let begun = Instant::now();
    let server = Server::start(data, &["--set", "log.retention.ms=-1"]);
    (server, begun.elapsed())
}

fn run(shape: &Shape) {
    let data = tempfile::tempdir().unwrap();
    shape.make(data.path());
    shape.check(data.path());
}

#[test]
fn sealed_segments_are_not_looked_at() {
    run(&Shape { partitions: 8, segments: 40, segment_bytes: 1 << 30 });
    if std::env::var_os("MAINSTEM_FULL").is_some() {
        run(&Shape { partitions: 1000, segments: 100, segment_bytes: 1 << 30 });
        run(&Shape { partitions: 2, segments: 26, segment_bytes: 1 << 30 });
    }
}
