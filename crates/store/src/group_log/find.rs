//! Finding records by time and by position.

use mainstem_record::{BatchHeader, BatchView};
use mainstem_types::{Offset, TimestampMs};

use super::GroupPartition;
use super::queue::Span;
use crate::error::ReadError;
use crate::partition_log::TimestampOffset;

/// What the records of a batch may take, decompressed, to be looked through.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;
/// Bytes of batches whose places are looked up at once.
const WALK_BYTES: u64 = 4 << 20;

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
