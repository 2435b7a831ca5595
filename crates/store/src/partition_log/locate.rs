//! From offsets to byte positions: the index gets close, headers do the rest.

use std::io;

use super::headers::{self, Step, Walked};
use super::look::{Disk, LogLook};
use super::span::{Region, Span};
use super::{PartitionLog, segment_base};
use crate::error::{ReadError, StorageError};
use crate::formats::names;
use crate::formats::offset_index::OffsetIndexEntry;
use crate::views::index_file;
use crate::views::index_file::IndexEntry;
use mainstem_journal::Location;
use mainstem_record::{BatchHeader, HEADER_SIZE};
use mainstem_types::Offset;
use std::sync::Arc;

const HINTS: usize = 4;

/// Where the last readers stopped: the next read of a consumer begins there, without a look into the index. Each with
/// the number that the log had.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    entries: [Option<(Offset, u64, Location)>; HINTS],
    next: usize,
}

impl Hints {
    pub(crate) fn add(&mut self, offset: Offset, number: u64, location: Location) {
        let known = self.entries.iter_mut().flatten().find(|(known, ..)| *known == offset);
        match known {
            Some(entry) => (entry.1, entry.2) = (number, location),
            None => {
                self.entries[self.next] = Some((offset, number, location));
                self.next = (self.next + 1) % HINTS;
            }
        }
    }

    pub(crate) fn get(&self, offset: Offset, number: u64) -> Option<Location> {
        let found = self.entries.iter().flatten().find(|entry| (entry.0, entry.1) == (offset, number));
        found.map(|(.., location)| *location)
    }

    pub(crate) fn clear(&mut self) {
        *self = Hints::default();
    }
}

impl LogLook<'_> {
    /// The position of the first batch whose last offset is `offset` or above; `segment_end` if there is none in the
    /// segment.
    pub(crate) fn locate(&self, base: Offset, offset: Offset, segment_end: u64) -> Result<u64, ReadError> {
        if offset <= base {
            return Ok(0);
        }
        let start =
            self.index_start(base, segment_end, |entry| i64::from(entry.relative_offset) <= offset.0 - base.0)?;
        let (mut found, mut next, mut wrong) = (segment_end, base, None);
        self.walk(Span { base, start, end: segment_end }, |position, header| {
            if header.base_offset < next {
                wrong = Some(position);
                return Step::Stop;
            }
            next = header.next_offset();
            if header.last_offset() >= offset {
                found = position;
                return Step::Stop;
            }
            Step::Next
        })?;
        wrong.map_or(Ok(found), |position| Err(self.log.corrupt(base, position)))
    }

    /// As [`LogLook::locate`], within a part of a segment that has no damage.
    pub(super) fn locate_in(&self, base: Offset, region: Region, offset: Offset) -> Result<u64, ReadError> {
        let indexed =
            self.index_start(base, region.end, |entry| i64::from(entry.relative_offset) <= offset.0 - base.0)?;
        let mut found = region.end;
        self.walk(Span { base, start: indexed.max(region.start), end: region.end }, |position, header| {
            if header.last_offset() >= offset {
                found = position;
                return Step::Stop;
            }
            Step::Next
        })?;
        Ok(found)
    }

    /// The position of the last indexed batch that fulfils the condition; 0 if there is none. An entry that the log
    /// contradicts is not believed.
    pub(crate) fn index_start(
        &self,
        base: Offset,
        segment_end: u64,
        holds: impl Fn(&OffsetIndexEntry) -> bool,
    ) -> Result<u64, ReadError> {
        let Some(entry) = self.index_entry(base, holds)? else { return Ok(0) };
        let position = u64::from(entry.position);
        if position >= segment_end {
            return Ok(0);
        }
        let header = self.header_at(base, position)?;
        let right = header.is_some_and(|header| header.last_offset() == base.plus(entry.relative_offset.into()));
        Ok(if right { position } else { 0 })
    }

    fn index_entry(
        &self,
        base: Offset,
        holds: impl Fn(&OffsetIndexEntry) -> bool,
    ) -> Result<Option<OffsetIndexEntry>, ReadError> {
        let in_file = {
            let state = self.log.state.lock();
            if state.segments.active().base == base {
                let index = &state.segments.active().offsets;
                let after = index.pending.partition_point(&holds);
                if after > 0 {
                    return Ok(Some(index.pending[after - 1]));
                }
                Some(index.in_file)
            } else {
                None
            }
        };
        if in_file == Some(0) {
            return Ok(None);
        }
        let Some(index) = self.index(base)? else { return Ok(None) };
        let search = || {
            // Asks about an open file, whose length is in memory.
            let whole = index.file.len()? as usize / OffsetIndexEntry::SIZE;
            let count = in_file.map_or(whole, |count| count.min(whole));
            let read = |buffer: &mut [u8], at| self.read_file(index.file.as_ref(), buffer, at, false);
            index_file::last_where_near(read, count, index.near(), holds)
        };
        let found = search().map_err(|error| self.log.read_failed(self.log.file(base, names::INDEX), error))?;
        let Some((place, entry)) = found else { return Ok(None) };
        index.found_at(place);
        Ok(Some(entry))
    }

    /// The header of the batch at a position, if there is a plausible one.
    pub(crate) fn header_at(&self, base: Offset, position: u64) -> Result<Option<BatchHeader>, ReadError> {
        let slice = self.slice(Location::new(segment_base(base), position), HEADER_SIZE as u64)?;
        let mut bytes = [0; HEADER_SIZE];
        let count = self
            .read_segment_file(base, slice.file.as_ref(), &mut bytes, position)
            .map_err(|error| self.log.read_failed(self.log.file(base, names::LOG), error))?;
        if count < HEADER_SIZE && self.disk == Disk::Never {
            return Err(ReadError::WouldBlock);
        }
        Ok(headers::plausible(&bytes[..count]))
    }

    /// Shows the headers of the batches that begin in a span. Reads no payload. Bytes in the span that are no whole
    /// batch are an error.
    pub(crate) fn walk(&self, span: Span, visit: impl FnMut(u64, &BatchHeader) -> Step) -> Result<(), ReadError> {
        let at = Location::new(segment_base(span.base), span.start);
        let slice = self.slice(at, span.end.saturating_sub(span.start))?;
        let read = |buffer: &mut [u8], position| {
            let count = self.read_segment_file(span.base, slice.file.as_ref(), buffer, position)?;
            let cut_short = self.disk == Disk::Never && count < buffer.len().min(HEADER_SIZE);
            if cut_short { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
        };
        let walked = headers::walk_with(read, span.start, span.start + slice.len, visit);
        match walked.map_err(|error| self.log.read_failed(self.log.file(span.base, names::LOG), error))? {
            Walked::Whole => Ok(()),
            Walked::Corrupt { position } => Err(self.log.corrupt(span.base, position)),
        }
    }
}

impl PartitionLog {
    pub(crate) fn read_bytes(&self, at: Location, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.journal.read_at(at, buffer).map_err(|error| self.journal_read_failed(error))
    }

    pub(crate) fn corrupt(&self, base: Offset, position: u64) -> ReadError {
        ReadError::Corrupt {
            partition: self.partition.clone(),
            offset: base,
            path: self.file(base, names::LOG),
            position,
        }
    }

    /// A read error concerns the reader; it does not end the log.
    pub(crate) fn read_failed(&self, path: std::path::PathBuf, error: io::Error) -> ReadError {
        if error.kind() == io::ErrorKind::WouldBlock {
            return ReadError::WouldBlock;
        }
        ReadError::Storage(StorageError { action: "read", path, error: Arc::new(error) })
    }

    pub(crate) fn journal_read_failed(&self, error: mainstem_journal::ReadError) -> ReadError {
        use mainstem_journal::ReadError as JournalError;
        match error {
            // The segment was deleted, or the log cut, between the look-up and the read.
            JournalError::NoSegment { .. } | JournalError::PastEnd { .. } => {
                ReadError::Gone { partition: self.partition.clone() }
            }
            JournalError::Io { path, source } => self.read_failed(path, source),
        }
    }
}
