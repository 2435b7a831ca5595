//! What stays of one batch. The rules are Kafka's (`Cleaner`, `MemoryRecords.filterTo`).

use std::collections::HashMap;

use mainstem_record::{BatchHeader, BatchView, BuildError, Codec, Record, RecordError, RetainedBatch, empty_batch};
use mainstem_types::{Offset, ProducerId, TimestampMs};

use super::offset_map::OffsetMap;
use crate::partition_log::LastOfProducer;

/// Records of one batch, decompressed, may take this much: as much as an append accepts.
pub(super) const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Copied byte for byte.
    Stays,
    Goes,
    /// This takes its place.
    Becomes(Vec<u8>),
}

/// Why a batch cannot be judged.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("its records cannot be rebuilt: {0}")]
    Build(#[from] BuildError),
}

/// Counts of read and kept records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records_read: u64,
    pub(super) records_kept: u64,
    pub(super) records_without_key: u64,
}

/// Judges batches, in the order of the log.
pub(super) struct BatchFilter<'a> {
    pub(super) map: &'a OffsetMap,
    pub(super) now: TimestampMs,
    pub(super) delete_retention_ms: i64,
    /// The newest thing known of each active producer.
    pub(super) producers: HashMap<ProducerId, LastOfProducer>,
    /// Where the part that can be compacted ends: the last batch before it stays, so that the log end is known from the
    /// segments alone.
    pub(super) end: Offset,
    /// A segment before was not looked at: an older value of a key may be in it.
    pub(super) tombstones_stay: bool,
    pub(super) counts: Counts,
    scratch: Vec<u8>,
    stays: Vec<bool>,
}

impl<'a> BatchFilter<'a> {
    pub(super) fn new(
        map: &'a OffsetMap,
        producers: HashMap<ProducerId, LastOfProducer>,
        end: Offset,
        now: TimestampMs,
        delete_retention_ms: i64,
    ) -> Self {
        let (scratch, stays) = (Vec::new(), Vec::new());
        let (tombstones_stay, counts) = (false, Counts::default());
        BatchFilter { map, now, delete_retention_ms, producers, end, tombstones_stay, counts, scratch, stays }
    }

    /// `can_go`: the batch is aborted, or a marker of a transaction without remaining records.
    pub(super) fn judge(&mut self, batch: &BatchView<'_>, can_go: bool) -> Result<Verdict, FilterError> {
        let header = *batch.header();
        let control = header.attributes.is_control();
        let is_over = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        let records_go = can_go && (!control || is_over);
        let must_be_known = self.is_last_of_producer(&header) || header.next_offset() == self.end;
        if records_go && !must_be_known {
            self.counts.records_read += header.record_count.max(0) as u64;
            return Ok(Verdict::Goes);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let verdict = self.judge_records(batch, can_go, records_go, must_be_known, &mut scratch);
        self.scratch = scratch;
        verdict
    }

    fn judge_records(
        &mut self,
        batch: &BatchView<'_>,
        can_go: bool,
        records_go: bool,
        must_be_known: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<Verdict, FilterError> {
        let header = *batch.header();
        let control = header.attributes.is_control();
        self.stays.clear();
        let (mut kept, mut tombstones) = (0, false);
        for record in batch.records(scratch, DECOMPRESSED_BYTES_MAX)? {
            let record = record?;
            let stays = !records_go && (control || self.record_stays(&header, &record));
            self.stays.push(stays);
            kept += usize::from(stays);
            tombstones |= stays && record.value.is_none();
        }
        self.counts.records_read += self.stays.len() as u64;
        self.counts.records_kept += kept as u64;
        if kept == 0 {
            return Ok(match must_be_known {
                true if header.record_count == 0 => Verdict::Stays,
                true => Verdict::Becomes(empty_batch(&header).to_vec()),
                false => Verdict::Goes,
            });
        }
        // The time of tombstones, and of markers without remaining records, begins with the first pass that meets them.
        let begins = (tombstones || (can_go && control)) && header.delete_horizon().is_none();
        if kept == self.stays.len() && !begins {
            return Ok(Verdict::Stays);
        }
        let horizon = match begins {
            true => Some(TimestampMs(self.now.0.saturating_add(self.delete_retention_ms))),
            false => header.delete_horizon(),
        };
        // A codec that does not exist was refused above.
        let codec = batch.codec().unwrap_or(Codec::None);
        let mut retained = RetainedBatch::of(&header, codec, horizon);
        let records = match codec {
            Codec::None => batch.records_in(batch.payload()),
            _ => batch.records_in(scratch),
        };
        for (record, stays) in records.zip(&self.stays) {
            let record = record?;
            if *stays {
                retained.append(&record);
            }
        }
        Ok(Verdict::Becomes(retained.build()?))
    }

    fn record_stays(&mut self, header: &BatchHeader, record: &Record<'_>) -> bool {
        if record.offset > self.map.latest() {
            return true;
        }
        let Some(key) = record.key else {
            self.counts.records_without_key += 1;
            return false;
        };
        let newest = self.map.get(key).is_none_or(|newest| record.offset >= newest);
        let in_time = self.tombstones_stay || header.delete_horizon().is_none_or(|horizon| self.now < horizon);
        newest && (record.value.is_some() || in_time)
    }

    /// Without a batch of messages that is known, the marker with its epoch counts.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        if !header.has_producer_id() {
            return false;
        }
        self.producers.get(&header.producer_id).is_some_and(|last| match last.last_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        })
    }
}
