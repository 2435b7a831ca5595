//! Finding records by time, by key, and by position.

use mainstem_record::{BatchHeader, BatchView};
use mainstem_types::{Offset, PartitionIndex, TimestampMs, TopicId};

use super::inspect::{INSPECTED_BYTES_MAX, for_each_key, topic_hash};
use super::queue::Span;
use super::{GroupLog, GroupPartition};
use crate::config::KeyIndexing;
use crate::error::{ReadError, StorageError};
use crate::formats::commit_log_entry::{self, EntryHeader, EntryKind, HEADER_SIZE};
use crate::formats::key_index::{continue_hash, stored_hash};
use crate::partition_log::TimestampOffset;

/// What the records of a batch may take, decompressed, to be looked through.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;
/// Records that are compared in a look-up by key.
const COMPARED_MAX: usize = 1024;
/// Bytes of batches whose places are looked up at once.
const WALK_BYTES: u64 = 4 << 20;

/// A record found by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundByKey {
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub timestamp: TimestampMs,
    /// Of its batch in the commit log; in layout `partition` the batch's base offset.
    pub position: u64,
}

impl GroupPartition {
    /// The first record with a timestamp at or above `target`, from the log start up to `upper` (exclusive).
    pub fn find_by_time(&self, target: TimestampMs, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let (stretches, log_start, log_end) = {
            let state = self.state.lock();
            if state.closed {
                return Err(ReadError::Closed { partition: self.partition.clone() });
            }
            (state.marks.stretches(target.0), state.log_start, state.next_offset)
        };
        let upper = upper.min(log_end);
        for (first, next) in stretches {
            let (from, to) = (first.max(log_start), next.unwrap_or(log_end).min(upper));
            if let Some(found) = self.find_in_stretch(from, to, log_end, target, log_start)? {
                // Offsets ascend: if this one is too far, every later one is.
                return Ok(Some(found).filter(|found| found.offset < upper));
            }
        }
        Ok(None)
    }

    /// The first record that has the largest timestamp (ListOffsets -3).
    pub fn find_max_timestamp(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let newest = self.state.lock().newest_time();
        match newest {
            Some(newest) => self.find_by_time(newest, upper),
            None => Ok(None),
        }
    }

    /// Looks through the batches that begin in `from..to`.
    fn find_in_stretch(
        &self,
        mut from: Offset,
        to: Offset,
        log_end: Offset,
        target: TimestampMs,
        log_start: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        while from < to {
            let spans = self.confirmed_spans(from, log_end, WALK_BYTES)?;
            let Some(last) = spans.last() else { return Ok(None) };
            // The last one may have been looked at in part.
            let count = if last.last_offset + 1 >= log_end.0 { spans.len() } else { (spans.len() - 1).max(1) };
            for span in &spans[..count] {
                let header = self.core.log.batch_header(span.position).map_err(|error| self.unreadable(error))?;
                if header.max_timestamp >= target
                    && let Some(found) = self.find_in_batch(span, &header, target, log_start)?
                {
                    return Ok(Some(found));
                }
                from = header.next_offset().max(from.plus(1));
                if from >= to {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn find_in_batch(
        &self,
        span: &Span,
        header: &BatchHeader,
        target: TimestampMs,
        log_start: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let bytes = self.core.log.batch(span.position, span.size).map_err(|error| self.unreadable(error))?;
        let corrupt = || self.corrupt(span.position);
        let view = BatchView::parse(&bytes).map_err(|_| corrupt())?;
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, DECOMPRESSED_BYTES_MAX).map_err(|_| corrupt())? {
            let record = record.map_err(|_| corrupt())?;
            if record.timestamp >= target && record.offset >= log_start {
                let (offset, timestamp) = (record.offset, record.timestamp);
                return Ok(Some(TimestampOffset { offset, timestamp, leader_epoch: header.leader_epoch }));
            }
        }
        Ok(None)
    }

    /// The position of the batch that holds an offset, or of the first one after it; `None` at the log end.
    pub fn position_of(&self, offset: Offset) -> Result<Option<u64>, ReadError> {
        let end = self.log_end();
        Ok(self.confirmed_spans(offset, end, 0)?.first().map(|span| span.position))
    }
}

impl GroupLog {
    /// Records of a topic that have a key: their own, a word of the header `KEYS`, or the header `UNIQ_KEY`. Newest first, at most `max`.
    /// Looks at no more than 1,024 records whose keys have the same hash.
    pub fn find_by_key(&self, topic_id: TopicId, key: &str, max: usize) -> Result<Vec<FoundByKey>, StorageError> {
        let partitions: Vec<_> = self.partitions().into_iter().filter(|known| known.topic_id == topic_id).collect();
        let Some(name) = partitions.first().map(|partition| partition.partition.topic.clone()) else {
            return Ok(Vec::new());
        };
        let hash = stored_hash(continue_hash(topic_hash(&name), key));
        let dir = self.core.index_dir();
        let positions = self.core.index.find(self.core.fs(), hash, COMPARED_MAX);
        let positions = positions.map_err(|error| StorageError { action: "read", path: dir, error: error.into() })?;
        let mut found = Vec::new();
        for position in positions {
            if found.len() >= max {
                break;
            }
            self.compare(topic_id, position, key, &mut found);
        }
        found.truncate(max);
        Ok(found)
    }

    /// Adds the records of one batch that have the key. What is not there any more, or is something else, has none.
    fn compare(&self, topic_id: TopicId, position: u64, key: &str, found: &mut Vec<FoundByKey>) {
        let Some((header, bytes)) = self.entry_at(position) else { return };
        let EntryKind::Batch { topic_id: of, partition: index } = header.kind else { return };
        let Some(partition) = self.partition(topic_id, index).filter(|_| of == topic_id) else { return };
        let Ok(view) = BatchView::parse(&bytes) else { return };
        let (log_start, log_end) = (partition.log_start(), partition.log_end());
        let mut scratch = Vec::new();
        let Ok(records) = view.records(&mut scratch, INSPECTED_BYTES_MAX) else { return };
        let first = found.len();
        for record in records.map_while(Result::ok) {
            let mut has_key = false;
            for_each_key(&record, KeyIndexing::All, |word| has_key |= word == key);
            if has_key && record.offset >= log_start && record.offset < log_end {
                found.push(FoundByKey {
                    partition: index,
                    offset: record.offset,
                    timestamp: record.timestamp,
                    position,
                });
            }
        }
        found[first..].reverse();
    }

    /// The entry at a position, with its batch.
    fn entry_at(&self, position: u64) -> Option<(EntryHeader, Vec<u8>)> {
        let log = &self.core.log;
        if position >= log.end().position() {
            return None;
        }
        let mut head = [0; HEADER_SIZE + mainstem_record::HEADER_SIZE];
        log.read(position, &mut head).ok()?;
        let header = EntryHeader::decode(&head).ok()?;
        let mut bytes = vec![0; header.stored_len()];
        log.read(position, &mut bytes).ok()?;
        commit_log_entry::decode(&bytes).ok()?;
        bytes.drain(..HEADER_SIZE);
        Some((header, bytes))
    }
}
