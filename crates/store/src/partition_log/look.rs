//! One look into the files of a log, which may wait for the disk, or never does.
//!
//! A reactor may only use a look that never waits. Such a look reads what the page cache has, from files that are
//! already open. If it would have to read the disk, open a file or ask for a length, it ends with
//! [`ReadError::WouldBlock`], and a thread that may wait repeats it. Its work is bounded: [`PEEKS_MAX`] reads of at
//! most 16 KiB.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::{PartitionLog, segment_base};
use crate::error::ReadError;
use crate::formats::names;
use crate::views::index_cache::OpenIndex;
use crate::views::index_file;
use mainstem_env::{File, FileSlice, Residency};
use mainstem_journal::Location;
use mainstem_types::Offset;

/// Reads of a look that never waits; past them the look is a long one, also if all of it is in memory.
const PEEKS_MAX: u32 = 64;
/// Where the system cannot say what is in the page cache, the last bytes of a log are taken to be there: they were just
/// written.
const FRESH_BYTES: u64 = 8 << 20;

/// Whether a look may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    MayWait,
    Never,
}

/// One look.
pub(crate) struct LogLook<'l> {
    pub(crate) log: &'l PartitionLog,
    pub(crate) disk: Disk,
    /// The log's number when the look began.
    pub(crate) number: u64,
    peeks_left: Cell<u32>,
    /// The active segment and the position from which its bytes are fresh.
    fresh: Cell<Option<(Offset, u64)>>,
}

impl PartitionLog {
    pub(crate) fn look(&self, disk: Disk) -> LogLook<'_> {
        LogLook { log: self, disk, number: self.number(), peeks_left: Cell::new(PEEKS_MAX), fresh: Cell::new(None) }
    }
}

impl LogLook<'_> {
    /// Notes where the log ends.
    pub(super) fn note_end(&self, active: Offset, end: u64) {
        self.fresh.set(Some((active, end.saturating_sub(FRESH_BYTES))));
    }

    pub(super) fn segment_len(&self, base: Offset) -> Result<u64, ReadError> {
        let journal = &self.log.journal;
        let len = match self.disk {
            Disk::MayWait => journal.segment_len(segment_base(base)).map(Some),
            Disk::Never => journal.segment_len_nowait(segment_base(base)),
        };
        len.map_err(|error| self.log.journal_read_failed(error))?.ok_or(ReadError::WouldBlock)
    }

    pub(super) fn slice(&self, at: Location, len: u64) -> Result<FileSlice, ReadError> {
        let slice = match self.disk {
            Disk::MayWait => self.log.journal.slice(at, len).map(Some),
            Disk::Never => self.log.journal.slice_nowait(at, len),
        };
        slice.map_err(|error| self.log.journal_read_failed(error))?.ok_or(ReadError::WouldBlock)
    }

    /// The offset index file of a segment. `None`: there is none.
    pub(super) fn index(&self, base: Offset) -> Result<Option<Arc<OpenIndex>>, ReadError> {
        let log = self.log;
        if let Some(index) = log.env.indexes.get(self.number, base) {
            return Ok(Some(index));
        }
        if self.disk == Disk::Never {
            return Err(ReadError::WouldBlock);
        }
        let path = log.view_file(base, names::INDEX);
        let file = index_file::open(log.fs(), &path).map_err(|error| log.read_failed(path, error))?;
        let index = file.map(|file| Arc::new(OpenIndex::new(file)));
        if let Some(index) = &index {
            log.env.indexes.insert(self.number, base, Arc::clone(index));
        }
        Ok(index)
    }

    /// Reads from a segment file. Fewer bytes than asked for: the file ends, or (never waiting) the rest is not in
    /// memory.
    pub(super) fn read_segment_file(
        &self,
        base: Offset,
        file: &dyn File,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        let fresh = self.fresh.get().is_some_and(|(active, from)| active == base && position >= from);
        self.read_file(file, buffer, position, fresh)
    }

    pub(super) fn read_file(
        &self,
        file: &dyn File,
        buffer: &mut [u8],
        position: u64,
        fresh: bool,
    ) -> io::Result<usize> {
        if self.disk == Disk::MayWait {
            return file.read_full_at(buffer, position);
        }
        let left = self.peeks_left.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        self.peeks_left.set(left);
        if let Some(count) = file.try_read_at_nowait(buffer, position)? {
            return Ok(count);
        }
        // Not every file system reads without waiting, even where the system can tell what is in memory.
        match file.residency(position, buffer.len() as u64)? {
            Residency::Resident => file.read_full_at(buffer, position),
            Residency::Unknown if fresh => file.read_full_at(buffer, position),
            Residency::Partial | Residency::Unknown => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
