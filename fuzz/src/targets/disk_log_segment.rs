//! A `.log` file of a partition that was not closed: what recovery keeps is whole, and a second recovery keeps the
//! same. Once as it is, once with its checksums made right.

use std::path::Path;
use std::sync::Arc;

use mainstem_env::{CrashPolicy, Fs, ManualClock, MemFs, SeededRng};
use mainstem_store::{LogConfig, OpenFacts, PartitionLog, ReadRequest, StoreEnv};
use mainstem_types::{Offset, PartitionIndex, TimestampMs, TopicPartition};

use super::batches::repair;

const FOLDER: &str = "/data/fuzz-0";

pub fn run(data: &[u8]) {
    check(data);
    let mut repaired = data.to_vec();
    repair(&mut repaired);
    check(&repaired);
}

fn check(data: &[u8]) {
    let fs = MemFs::new();
    let written = fs
        .create_dir_all(Path::new(FOLDER))
        .and_then(|()| fs.atomic_write(&Path::new(FOLDER).join("00000000000000000000.log"), data));
    if written.is_err() {
        return;
    }
    let first = open(&fs);
    let second = open(&fs.crash(CrashPolicy::Everything));
    assert_eq!(first, second);
}

/// Opens the log and reads all of it; gives its positions and the bytes it has.
fn open(fs: &MemFs) -> Option<(Offset, Offset, u64)> {
    let clock = Arc::new(ManualClock::default());
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 0, 0).ok()?;
    let partition = TopicPartition::new("fuzz", PartitionIndex(0));
    let config = Arc::new(LogConfig { index_interval_bytes: 64, ..LogConfig::default() });
    let opened = PartitionLog::open(&env, Path::new(FOLDER), partition, &OpenFacts::default(), config);
    let (log, _) = opened.ok()?;
    let (start, end) = (log.log_start(), log.log_end());
    assert!(start <= end && log.durable_end() == end);
    let request = ReadRequest { from: start, max_bytes: u32::MAX, upper: end, min_one_batch: true };
    let bytes = log.read(&request).map(|reading| reading.bytes as u64);
    assert!(end == start || bytes.is_ok_and(|bytes| bytes == log.size_bytes()));
    for time in [0, 1, i64::MAX / 2] {
        let _ = log.find_by_time(TimestampMs(time), end);
    }
    Some((start, end, log.size_bytes()))
}
