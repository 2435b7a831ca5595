//! Tests of the log as a whole, over the in-memory file system.

mod append;
mod crash;
mod faults;
mod keys;
mod model;
mod producers;
mod read;
mod recovery;
mod retention;
mod time;
mod truncate;

use super::*;
pub(crate) use crate::log_types::*;
use bytes::Bytes;
use mainstem_env::{Clock, ManualClock, MemFs, SeededRng};
use mainstem_record::{BatchBuilder, Batches, Codec, Record};
use mainstem_types::{PartitionIndex, ProducerEpoch, ProducerId};

/// How many cases a property test looks at: `PROPTEST_CASES` asks for more.
pub(crate) fn cases(usual: u32) -> proptest::prelude::ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    proptest::prelude::ProptestConfig::with_cases(wanted.unwrap_or(usual))
}

pub(crate) const FOLDER: &str = "/data/orders-0";
pub(crate) const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

pub(crate) fn env_on(fs: &MemFs) -> Arc<StoreEnv> {
    let clock = Arc::new(ManualClock::at(NOW));
    StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(7)), 1 << 20, 0).unwrap()
}

pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new("orders", PartitionIndex(0))
}

/// Segments of 1 KiB and an index entry for nearly every batch, so that little data reaches every path.
pub(crate) fn small() -> LogConfig {
    LogConfig { segment_bytes: 1024, index_interval_bytes: 100, retention_ms: -1, ..LogConfig::default() }
}

pub(crate) fn create_with(env: &Arc<StoreEnv>, config: LogConfig) -> PartitionLog {
    let log = PartitionLog::create(env, Path::new(FOLDER), partition(), TopicId([7; 16]), Arc::new(config)).unwrap();
    env.fs.sync_dir(Path::new("/data")).unwrap();
    env.fs.sync_dir(Path::new("/")).unwrap();
    log
}

pub(crate) fn create(config: LogConfig) -> (MemFs, PartitionLog) {
    let fs = MemFs::new();
    let log = create_with(&env_on(&fs), config);
    (fs, log)
}

pub(crate) fn open(fs: &MemFs, facts: OpenFacts, config: LogConfig) -> (PartitionLog, LogRecovery) {
    PartitionLog::open(&env_on(fs), Path::new(FOLDER), partition(), &facts, Arc::new(config)).unwrap()
}

pub(crate) fn clean() -> OpenFacts {
    OpenFacts { clean: true, ..OpenFacts::default() }
}

pub(crate) fn batch_at(time_ms: i64, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(TimestampMs(time_ms), Some(b"k"), Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub(crate) fn batch(values: &[&str]) -> Bytes {
    batch_at(NOW.0, values)
}

pub(crate) fn batch_in(codec: Codec, times: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new().codec(codec);
    for time in times {
        builder.append(TimestampMs(*time), None, Some(b"some value, some value"), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub(crate) fn produced(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch), sequence);
    for value in values {
        builder.append(NOW, None, Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub(crate) fn client() -> AppendContext {
    AppendContext {
        origin: Origin::Client,
        leader_epoch: LeaderEpoch(0),
        now: NOW,
        zstd_allowed: true,
        unpacked_bytes_max: usize::MAX,
    }
}

pub(crate) fn put(log: &PartitionLog, values: &[&str]) -> Appended {
    log.append(&batch(values), &client()).unwrap()
}

pub(crate) fn bytes_of(reading: &Reading) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in &reading.chunks {
        match chunk {
            ReadChunk::Bytes(bytes) => all.extend_from_slice(bytes),
            ReadChunk::Slice(slice) => {
                let mut bytes = vec![0; slice.len as usize];
                slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
                all.extend(bytes);
            }
        }
    }
    assert_eq!(all.len(), reading.bytes);
    all
}

pub(crate) fn records(bytes: &[u8]) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    for view in Batches::new(bytes) {
        let view = view.unwrap();
        assert!(view.crc_is_valid());
        let mut scratch = Vec::new();
        let show = |record: Record<'_>| {
            (record.offset.0, String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned())
        };
        found.extend(view.records(&mut scratch, 1 << 20).unwrap().map(|record| show(record.unwrap())));
    }
    found
}

/// Every record from the log start on, read in pieces as a consumer does.
pub(crate) fn all_records(log: &PartitionLog) -> Vec<(i64, String)> {
    let mut found: Vec<(i64, String)> = Vec::new();
    let mut from = log.log_start();
    loop {
        let request = ReadRequest { from, max_bytes: 300, upper: log.log_end(), min_one_batch: true };
        let bytes = bytes_of(&log.read(&request).unwrap());
        if bytes.is_empty() {
            return found;
        }
        let batch = records(&bytes);
        from = Offset(batch.last().unwrap().0 + 1);
        found.extend(batch.into_iter().filter(|(offset, _)| *offset >= log.log_start().0));
    }
}

/// `count` records, one a batch, named by their offset.
pub(crate) fn fill(log: &PartitionLog, count: usize) {
    for _ in 0..count {
        let value = format!("value {:04} {}", log.log_end(), "x".repeat(40));
        put(log, &[&value]);
    }
}

pub(crate) fn expect_filled(log: &PartitionLog, offsets: std::ops::Range<i64>) {
    let found = all_records(log);
    let expected: Vec<_> = offsets.map(|o| (o, format!("value {o:04} {}", "x".repeat(40)))).collect();
    assert_eq!(found, expected);
}
