//! Tests of compaction over the in-memory file system.

mod concurrent;
mod crash;
mod damage;
mod faults;
mod folder;
mod model;
mod passes;
mod recordings;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_record::{BatchBuilder, BatchHeader, Batches, ControlRecord};
use mainstem_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use super::*;
use crate::config::LogConfig;
use crate::log_types::{AppendContext, Origin, ReadRequest};
use crate::partition_log::PartitionLog;
use crate::partition_log::tests::{NOW, bytes_of, client};

/// Offset, key, value.
pub(super) type Kept = (i64, String, Option<String>);

pub(super) const LIMITS: CleanerLimits =
    CleanerLimits { dedupe_bytes: 1 << 20, load_factor: 0.9, io_buffer_bytes: 512 };

/// Segments of 500 bytes, an index entry for nearly every batch, everything dirty is due.
pub(super) fn compacted() -> LogConfig {
    LogConfig {
        segment_bytes: 500,
        index_interval_bytes: 100,
        retention_ms: -1,
        cleanup_compact: true,
        cleanup_delete: false,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: 1000,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

pub(super) fn coordinator() -> AppendContext {
    AppendContext { origin: Origin::Coordinator, ..client() }
}

/// A record of a test: its key, and its value; `None` is a tombstone.
pub(super) type Pair<'a> = (&'a str, Option<&'a str>);

pub(super) fn batch_of(builder: BatchBuilder, pairs: &[Pair<'_>]) -> Bytes {
    let mut builder = builder;
    for (key, value) in pairs {
        builder.append(NOW, Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

/// Appends one batch, and gives its first offset.
pub(super) fn put(log: &PartitionLog, pairs: &[Pair<'_>]) -> i64 {
    log.append(&batch_of(BatchBuilder::new(), pairs), &client()).unwrap().base_offset.0
}

pub(super) fn producer(id: i64, sequence: i32) -> BatchBuilder {
    BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), sequence)
}

pub(super) fn end_transaction(log: &PartitionLog, id: i64, committed: bool) -> i64 {
    let mut marker = producer(id, -1).transactional();
    marker.append_control(NOW, &ControlRecord::EndTransaction { committed, coordinator_epoch: 1 });
    log.append(&Bytes::from(marker.build().unwrap()), &coordinator()).unwrap().base_offset.0
}

/// Begins a new segment with a record of its own key, so that everything before can be compacted.
pub(super) fn seal(log: &PartitionLog) {
    let config = log.config();
    log.set_config(Arc::new(LogConfig { segment_ms: 1, ..(*config).clone() }));
    let mut end = BatchBuilder::new();
    let later = TimestampMs(NOW.0 + 10 * (log.log_end().0 + 1));
    end.append(later, Some(b"~"), Some(b"end"), &[]);
    log.append(&Bytes::from(end.build().unwrap()), &client()).unwrap();
    log.set_config(config);
}

/// As a checkpoint of the folder does it.
pub(super) fn checkpoint(log: &PartitionLog) {
    log.flush_blocking().unwrap();
    let entry = log.prepare_checkpoint().unwrap();
    log.checkpoint_written(entry.recovery_point);
}

pub(super) fn compact_at(log: &PartitionLog, now: i64, limits: &CleanerLimits) -> Option<Compaction> {
    checkpoint(log);
    let work = log.cleanable(TimestampMs(now), log.log_end()).unwrap()?;
    Some(log.compact(&work, limits, TimestampMs(now), &mut Unthrottled).unwrap())
}

pub(super) fn compact(log: &PartitionLog) -> Compaction {
    compact_at(log, NOW.0, &LIMITS).unwrap()
}

/// Every whole batch from the log start on, read in pieces as a consumer does it.
pub(super) fn batches(log: &PartitionLog) -> Vec<(BatchHeader, Vec<u8>)> {
    let mut found: Vec<(BatchHeader, Vec<u8>)> = Vec::new();
    let mut from = log.log_start();
    loop {
        let request = ReadRequest { from, max_bytes: 300, upper: log.log_end(), min_one_batch: true };
        let bytes = bytes_of(&log.read(&request).unwrap());
        if bytes.is_empty() {
            return found;
        }
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.crc_is_valid());
            let header = *batch.header();
            assert!(found.last().is_none_or(|(last, _)| last.last_offset() < header.base_offset), "offsets ascend");
            assert!(header.last_offset() >= from, "a read goes on");
            from = header.next_offset();
            found.push((header, batch.as_bytes().to_vec()));
        }
    }
}

/// Every record, control records left out.
pub(super) fn contents(log: &PartitionLog) -> Vec<Kept> {
    let mut found = Vec::new();
    for (header, bytes) in batches(log) {
        if !header.attributes.is_control() {
            found.extend(records_of(&bytes));
        }
    }
    found.retain(|(offset, ..)| *offset >= log.log_start().0);
    found
}

pub(super) fn records_of(batch: &[u8]) -> Vec<Kept> {
    let batch = mainstem_record::BatchView::parse(batch).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut scratch = Vec::new();
    let records = batch.records(&mut scratch, 1 << 20).unwrap();
    records
        .map(|record| {
            let record = record.unwrap();
            (record.offset.0, text(record.key.unwrap_or_default()), record.value.map(text))
        })
        .collect()
}

/// What a consumer knows that has read from the beginning.
pub(super) fn table(records: &[Kept]) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for (_, key, value) in records {
        match value {
            Some(value) => table.insert(key.clone(), value.clone()),
            None => table.remove(key),
        };
    }
    table
}

/// A read from each offset gives the batch that holds it, or the first one after it.
pub(super) fn check_every_offset(log: &PartitionLog) {
    let all = batches(log);
    for offset in log.log_start().0..log.log_end().0 {
        let request = ReadRequest { from: Offset(offset), max_bytes: 1, upper: log.log_end(), min_one_batch: true };
        let bytes = bytes_of(&log.read(&request).unwrap());
        let expected = all.iter().find(|(header, _)| header.last_offset().0 >= offset);
        assert_eq!(bytes, expected.map(|(_, bytes)| bytes.clone()).unwrap_or_default(), "from {offset}");
    }
}
