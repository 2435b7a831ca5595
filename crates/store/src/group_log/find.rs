//! Finding records by time and by position.

use mainstem_record::{BatchHeader, BatchView, Record};
use mainstem_types::{Offset, Position, TimestampMs};

use super::GroupPartition;
use super::queue::Span;
use crate::error::ReadError;
use crate::log_types::TimestampOffset;

/// The most bytes that the decompressed records of a batch may take in a look-up.
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

    /// The first record that has the largest timestamp (ListOffsets -3) of those from the log start up to `upper`
    /// (exclusive).
    pub fn find_max_timestamp(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let newest = self.state.lock().newest_time();
        let Some(newest) = newest else { return Ok(None) };
        if let Some(found) = self.find_by_time(newest, upper)? {
            return Ok(Some(found));
        }
        // That one was deleted, or lies above.
        match self.newest_below(upper)? {
            Some(newest) => self.find_by_time(newest, upper),
            None => Ok(None),
        }
    }

    /// The largest timestamp of the records from the log start up to `upper`, by their batches.
    fn newest_below(&self, upper: Offset) -> Result<Option<TimestampMs>, ReadError> {
        let (stretches, log_start, log_end) = {
            let state = self.state.lock();
            (state.marks.newest_first(), state.log_start, state.next_offset)
        };
        let upper = upper.min(log_end);
        let mut newest: Option<TimestampMs> = None;
        for (first, next, newest_ms) in stretches {
            if newest >= Some(TimestampMs(newest_ms)) {
                break;
            }
            let (from, to) = (first.max(log_start), next.unwrap_or(log_end).min(upper));
            self.walk(from, to, log_end, |span, header| {
                if Some(header.max_timestamp) <= newest {
                    return Ok(true);
                }
                if header.base_offset >= log_start && header.next_offset() <= upper {
                    newest = Some(header.max_timestamp);
                } else {
                    self.look_into(span, |record| {
                        if record.offset >= log_start && record.offset < upper {
                            newest = newest.max(Some(record.timestamp));
                        }
                        true
                    })?;
                }
                Ok(true)
            })?;
        }
        Ok(newest)
    }

    /// Looks through the batches that begin in `from..to`.
    fn find_in_stretch(
        &self,
        from: Offset,
        to: Offset,
        log_end: Offset,
        target: TimestampMs,
        log_start: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let mut found = None;
        self.walk(from, to, log_end, |span, header| {
            if header.max_timestamp >= target {
                self.look_into(span, |record| {
                    if record.timestamp >= target && record.offset >= log_start {
                        let (offset, timestamp) = (record.offset, record.timestamp);
                        found = Some(TimestampOffset { offset, timestamp, leader_epoch: header.leader_epoch });
                    }
                    found.is_none()
                })?;
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Shows the batches that hold offsets in `from..to`, as long as it is answered that there is more to look for.
    fn walk(
        &self,
        mut from: Offset,
        to: Offset,
        log_end: Offset,
        mut look: impl FnMut(&Span, &BatchHeader) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        while from < to {
            let spans = self.confirmed_spans(from, log_end, WALK_BYTES)?;
            let Some(last) = spans.last() else { return Ok(()) };
            // The last one may have been looked at in part.
            let count = if last.last_offset + 1 >= log_end.0 { spans.len() } else { (spans.len() - 1).max(1) };
            for span in &spans[..count] {
                let header = self.core.log.batch_header(span.position).map_err(|error| self.unreadable(error))?;
                from = header.next_offset().max(from.plus(1));
                if !look(span, &header)? || from >= to {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Shows the records of a batch, as long as it is answered that there is more to look for. A batch whose checksum
    /// is wrong has none that could be found.
    fn look_into(&self, span: &Span, mut look: impl FnMut(&Record<'_>) -> bool) -> Result<(), ReadError> {
        let bytes = self.core.log.batch(span.position, span.size).map_err(|error| self.unreadable(error))?;
        let Some(view) = BatchView::parse(&bytes).ok().filter(BatchView::crc_is_valid) else { return Ok(()) };
        let corrupt = || self.corrupt(span.position);
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, DECOMPRESSED_BYTES_MAX).map_err(|_| corrupt())? {
            if !look(&record.map_err(|_| corrupt())?) {
                break;
            }
        }
        Ok(())
    }

    /// The position of the batch that holds an offset, or of the first one after it; `None` at the log end.
    pub fn position_of(&self, offset: Offset) -> Result<Option<Position>, ReadError> {
        let end = self.log_end();
        Ok(self.confirmed_spans(offset, end, 0)?.first().map(|span| span.position))
    }
}
