//! Damage inside a segment: which of its bytes hold no batch that may be served, and where the next whole batch begins
//! behind them.
//!
//! A batch is served if its header is valid and its offsets fit between those of its neighbours. The batch's checksum
//! does not cover its base offset and its length, so the neighbours decide:
//!
//! | found | damaged |
//! | --- | --- |
//! | bytes that are no header, or a batch that reaches over the end of the segment | all up to the next whole batch |
//! | a batch with a wrong checksum, and not the offsets behind it that are due | its length: all up to the next whole batch |
//! | offsets below those before, or at or above the next segment | this batch |
//! | offsets at or above those of the batch behind, and not the ones that are due | this batch; in a log with gaps both |
//!
//! The next whole batch is one with the right checksum from which the headers lead to the next index entry that the log
//! confirms, or to the end of the segment: a batch inside the value of a record does not.
//!
//! Numbers: [`SCAN_BYTES_MAX`] bytes behind damage are looked through, then the next index entry is taken;
//! [`STEPS_MAX`] headers are followed.

use std::io;

use super::headers;
use crate::file_window::FileWindow;
use crate::formats::offset_index::OffsetIndexEntry;
use mainstem_env::File;
use mainstem_record::{BatchHeader, BatchView, HEADER_SIZE};
use mainstem_types::Offset;

/// More than the largest batches that are usual: without an index, a batch begins within as many bytes behind a damaged
/// header.
const SCAN_BYTES_MAX: u64 = 64 << 20;
/// Headers that are followed to tell a batch from a record's value that looks like one.
const STEPS_MAX: u32 = 1 << 20;
/// Where a header has its format, and which it is.
const MAGIC_AT: u64 = 16;
const MAGIC: u8 = 2;

/// A part of a segment without a batch that may be served: the records `first..next` are lost, or the bytes are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DamagedArea {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) first: Offset,
    pub(super) next: Offset,
}

/// A segment that is looked through.
#[derive(Clone, Copy)]
pub(super) struct SurveyedSegment<'s> {
    pub(super) file: &'s dyn File,
    pub(super) base: Offset,
    pub(super) len: u64,
    /// The base of the next segment, or the log end.
    pub(super) next: Offset,
    /// Batches may be missing between others: the log was compacted.
    pub(super) may_have_gaps: bool,
    /// Of the offset index; they are believed where the log confirms them.
    pub(super) entries: &'s [OffsetIndexEntry],
}

/// The damaged areas of a segment, in order. Reads the headers, and of payloads what has to be told from damage.
pub(super) fn survey(segment: &SurveyedSegment<'_>) -> io::Result<Vec<DamagedArea>> {
    let mut survey = Survey {
        segment: *segment,
        window: FileWindow::new(segment.file, segment.len),
        expected: segment.base,
        is_due: true,
        begun: None,
        areas: Vec::new(),
    };
    let mut position = 0;
    while position < segment.len {
        position = match survey.judge(position)? {
            Verdict::Fits(header) => {
                survey.end_area(position, header.base_offset);
                survey.expected = header.next_offset();
                survey.is_due = true;
                position + header.size_in_bytes() as u64
            }
            Verdict::Damaged { to } => {
                survey.begun.get_or_insert((position, survey.expected));
                survey.is_due = false;
                to
            }
        };
    }
    survey.end_area(segment.len, segment.next);
    Ok(survey.areas)
}

enum Verdict {
    Fits(BatchHeader),
    /// Nothing before `to` may be served.
    Damaged {
        to: u64,
    },
}

struct Survey<'s> {
    segment: SurveyedSegment<'s>,
    window: FileWindow<'s>,
    /// The offset after the last batch that fits.
    expected: Offset,
    /// The next batch has exactly that offset, if the log has no gaps: nothing damaged lies between.
    is_due: bool,
    /// Where damage begins, and the first offset that it may hold.
    begun: Option<(u64, Offset)>,
    areas: Vec<DamagedArea>,
}

impl Survey<'_> {
    fn end_area(&mut self, end: u64, next: Offset) {
        if let Some((start, first)) = self.begun.take() {
            self.areas.push(DamagedArea { start, end, first, next });
        }
    }

    fn judge(&mut self, position: u64) -> io::Result<Verdict> {
        let Some(header) = header_at(&mut self.window, position)? else { return self.damaged_to_next(position) };
        let end = position + header.size_in_bytes() as u64;
        let behind = header_at(&mut self.window, end)?;
        let due = |behind: &BatchHeader| behind.base_offset == header.next_offset() && self.is_below_next(behind);
        if !behind.as_ref().is_some_and(due) && !is_whole(&self.window, position, &header)? {
            // Its length may be wrong, and lead anywhere.
            return self.damaged_to_next(position);
        }
        if !self.in_bounds(&header) {
            return Ok(Verdict::Damaged { to: end });
        }
        let Some(behind) = behind else { return Ok(Verdict::Fits(header)) };
        let conflict = behind.base_offset < header.next_offset();
        if !conflict || header.base_offset == self.expected || behind.base_offset < self.expected {
            return Ok(Verdict::Fits(header));
        }
        let only_this = self.is_due && !self.segment.may_have_gaps;
        Ok(Verdict::Damaged { to: if only_this { end } else { end + behind.size_in_bytes() as u64 } })
    }

    fn in_bounds(&self, header: &BatchHeader) -> bool {
        header.base_offset >= self.expected && self.is_below_next(header)
    }

    fn is_below_next(&self, header: &BatchHeader) -> bool {
        header.last_offset_delta >= 0 && header.last_offset() < self.segment.next
    }

    /// Nothing can be read from `position` on: looks for where something can.
    fn damaged_to_next(&mut self, position: u64) -> io::Result<Verdict> {
        let anchor = self.next_indexed(position)?;
        let mut steps_left = STEPS_MAX;
        let to = anchor.min(position.saturating_add(SCAN_BYTES_MAX));
        let mut from = position + 1;
        while let Some(magic_at) = self.window.find(MAGIC, from + MAGIC_AT, to)? {
            let candidate = magic_at - MAGIC_AT;
            if let Some(header) = header_at(&mut self.window, candidate)?
                && self.in_bounds(&header)
                && self.leads_to(anchor, candidate, &mut steps_left)?
                && is_whole(&self.window, candidate, &header)?
            {
                return Ok(Verdict::Damaged { to: candidate });
            }
            from = candidate + 1;
        }
        Ok(Verdict::Damaged { to: anchor })
    }

    /// The first indexed batch behind `position` that the log confirms; the end of the segment if there is none.
    fn next_indexed(&mut self, position: u64) -> io::Result<u64> {
        let entries = self.segment.entries;
        let behind = entries.partition_point(|entry| u64::from(entry.position) <= position);
        for entry in &entries[behind..] {
            let at = u64::from(entry.position);
            let last = self.segment.base.plus(entry.relative_offset.into());
            if let Some(header) = header_at(&mut self.window, at)?
                && header.last_offset() == last
                && self.in_bounds(&header)
            {
                return Ok(at);
            }
        }
        Ok(self.segment.len)
    }

    /// Whether batches with ascending offsets lie one behind the other from a position to another one.
    fn leads_to(&mut self, to: u64, mut position: u64, steps_left: &mut u32) -> io::Result<bool> {
        let mut expected = self.expected;
        while position < to && *steps_left > 0 {
            *steps_left -= 1;
            let Some(header) = header_at(&mut self.window, position)? else { return Ok(false) };
            if header.base_offset < expected || header.last_offset() >= self.segment.next {
                return Ok(false);
            }
            expected = header.next_offset();
            position += header.size_in_bytes() as u64;
        }
        Ok(position == to)
    }
}

/// The header at a position, if there is a plausible one of a batch that ends within the segment.
fn header_at(window: &mut FileWindow<'_>, position: u64) -> io::Result<Option<BatchHeader>> {
    let left = window.len.saturating_sub(position);
    let header = headers::plausible(window.load(position, HEADER_SIZE)?);
    Ok(header.filter(|header| header.size_in_bytes() as u64 <= left))
}

fn is_whole(window: &FileWindow<'_>, position: u64, header: &BatchHeader) -> io::Result<bool> {
    let mut bytes = vec![0; header.size_in_bytes()];
    let read = window.file.read_full_at(&mut bytes, position)?;
    Ok(BatchView::parse(&bytes[..read]).is_ok_and(|view| view.crc_is_valid()))
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
