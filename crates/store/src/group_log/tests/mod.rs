//! Tests of the group as a whole, over the in-memory file system.

mod append;
mod crash;
mod faults;
mod keys;
mod model;
mod queues;
mod read;
mod recovery;
mod retention;
mod strays;
mod truncate;
mod unit;

use super::*;
use crate::KeyQuery;
use crate::config::KeyIndexing;
use crate::log_types::{AppendContext, Appended, Origin, ReadChunk, ReadRequest, Reading};
use bytes::Bytes;
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_record::{BatchBuilder, Batches, Codec, Record, RecordHeader};
use mainstem_types::{LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId, TimestampMs};

pub(crate) const FOLDER: &str = "/data/mainstem/shared-0";
pub(crate) const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

pub(crate) fn env_on(fs: &MemFs) -> Arc<StoreEnv> {
    let clock = Arc::new(ManualClock::at(NOW));
    StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(7)), 1 << 20, 0).unwrap()
}

/// Files so small that little data reaches every path.
pub(crate) fn options() -> GroupOptions {
    GroupOptions {
        file_bytes: 2048,
        queue_entries: 16,
        index_slots: 7,
        index_entries: 20,
        tail_cache_bytes: 512,
        queue_bytes: 400,
    }
}

pub(crate) fn config() -> LogConfig {
    LogConfig { retention_ms: -1, key_indexing: KeyIndexing::All, ..LogConfig::default() }
}

pub(crate) fn live_of(topic: &str, id: u8, index: i32, config: LogConfig) -> LivePartition {
    let name = TopicPartition::new(topic, PartitionIndex(index));
    LivePartition { name, topic_id: TopicId([id; 16]), config: Arc::new(config) }
}

/// Two topics, three partitions.
pub(crate) fn live() -> Vec<LivePartition> {
    vec![live_of("orders", 7, 0, config()), live_of("orders", 7, 1, config()), live_of("thin", 8, 0, config())]
}

pub(crate) fn open_with(fs: &MemFs, live: &[LivePartition], clean: bool) -> (GroupLog, GroupReport) {
    GroupLog::open(&env_on(fs), Path::new(FOLDER), options(), live, clean).unwrap()
}

pub(crate) fn open(fs: &MemFs) -> (GroupLog, GroupReport) {
    open_with(fs, &live(), false)
}

pub(crate) fn make(group: &GroupLog, live: &LivePartition) -> Arc<GroupPartition> {
    group.create(live.name.clone(), live.topic_id, Arc::clone(&live.config))
}

/// A new group with its three partitions.
pub(crate) fn create() -> (MemFs, GroupLog, Vec<Arc<GroupPartition>>) {
    let fs = MemFs::new();
    let (group, _) = open(&fs);
    let partitions = live().iter().map(|live| make(&group, live)).collect();
    (fs, group, partitions)
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

pub(crate) fn batch_at(time_ms: i64, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(TimestampMs(time_ms), Some(b"k"), Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub(crate) fn put(log: &GroupPartition, values: &[&str]) -> Appended {
    log.append(&batch_at(NOW.0, values), &client()).unwrap()
}

pub(crate) fn produced(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch), sequence);
    for value in values {
        builder.append(NOW, None, Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub(crate) fn bytes_of(reading: &Reading) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in &reading.chunks {
        match chunk {
            ReadChunk::Bytes(bytes) => all.extend_from_slice(bytes),
            ReadChunk::Slice(slice) => all.extend(slice.read().unwrap()),
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
pub(crate) fn all_records(log: &GroupPartition) -> Vec<(i64, String)> {
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

pub(crate) fn value(topic: &str, offset: i64) -> String {
    format!("{topic} {offset:04} {}", "x".repeat(40))
}

/// `count` records, one a batch, named by topic and offset.
pub(crate) fn fill(log: &GroupPartition, count: usize) {
    for _ in 0..count {
        let value = value(&log.partition().topic, log.log_end().0);
        put(log, &[&value]);
    }
}

pub(crate) fn expect_filled(log: &GroupPartition, offsets: std::ops::Range<i64>) {
    let expected: Vec<_> = offsets.map(|offset| (offset, value(&log.partition().topic, offset))).collect();
    assert_eq!(all_records(log), expected);
}
