//! Reading entries of the commit log: from the tail cache, else from the page cache, else from the disk.

use std::path::PathBuf;
use std::sync::Arc;

use mainstem_env::{FileSlice, Residency};
use mainstem_journal::{Location, ReadError, SegmentBase};
use mainstem_types::Position;

use super::commit_log::CommitLog;
use super::nowait::read_nowait;
use crate::formats::commit_log_entry::HEADER_SIZE;

/// Reads of a look that never waits; past them the look is a long one, also if all of it is in memory: about half a
/// millisecond.
const READS_NOWAIT_MAX: u32 = 1024;

/// One look at the commit log. Reads in the same file share the look-up of it.
pub(crate) struct EntryReader<'l> {
    pub(super) log: &'l CommitLog,
    /// Whether the disk may be waited for.
    pub(super) wait: bool,
    /// The file of the last read, as long as it was then.
    pub(super) file: Option<(SegmentBase, FileSlice)>,
    pub(super) reads_left: u32,
}

impl CommitLog {
    /// For reading entries. `wait`: the disk may be waited for.
    pub(crate) fn reader(&self, wait: bool) -> EntryReader<'_> {
        EntryReader { log: self, wait, file: None, reads_left: READS_NOWAIT_MAX }
    }
}

impl EntryReader<'_> {
    /// Reads bytes of one file into the buffer. `false`, never waiting: they are not in memory.
    pub(crate) fn read(&mut self, position: Position, buffer: &mut [u8]) -> Result<bool, ReadError> {
        let at = self.locate(position)?;
        if self.log.journal.tail_into(at, buffer) {
            return Ok(true);
        }
        if !self.find(at, buffer.len() as u64)? || (!self.wait && self.reads_left == 0) {
            return Ok(false);
        }
        let Some((_, slice)) = &self.file else { return Ok(false) };
        let read = match self.wait {
            true => slice.file.read_exact_at(buffer, at.position).map(|()| true),
            false => {
                self.reads_left -= 1;
                read_nowait(slice.file.as_ref(), buffer, at.position).map(|count| count == Some(buffer.len()))
            }
        };
        read.map_err(|source| ReadError::Io { path: self.path(at), source })
    }

    /// The batch of an entry, to be sent or read later. `None`, never waiting: its file is not open, or it is not in
    /// memory.
    pub(crate) fn batch(&mut self, position: Position, size: u32) -> Result<Option<FileSlice>, ReadError> {
        let at = self.locate(position)?.plus(HEADER_SIZE as u64);
        let len = u64::from(size) - HEADER_SIZE as u64;
        if !self.find(at, len)? {
            return Ok(None);
        }
        let slice = self.file.as_ref().map(|(_, file)| FileSlice::new(Arc::clone(&file.file), at.position, len));
        let in_memory = |slice: &FileSlice| matches!(slice.file.residency(at.position, len), Ok(Residency::Resident));
        Ok(slice.filter(|slice| self.wait || in_memory(slice)))
    }

    /// Up to which position the entries lie in the same file as the one at this position, as far as that is known.
    pub(crate) fn end_of_file(&mut self, position: Position) -> Result<Position, ReadError> {
        let at = self.locate(position)?;
        if let Some((base, file)) =
            self.file.as_ref().filter(|(base, file)| *base == at.segment && at.position < file.len)
        {
            return Ok(Position(base.0 + file.len));
        }
        // Without its file: that would have written what is in memory alone.
        if let Some(len) = self.log.journal.segment_len_nowait(at.segment)? {
            return Ok(Position(at.segment.0 + len));
        }
        let known = self.find(at, 0)?;
        Ok(self.file.as_ref().filter(|_| known).map_or(position, |(base, file)| Position(base.0 + file.len)))
    }

    fn locate(&self, position: Position) -> Result<Location, ReadError> {
        match &self.file {
            Some((base, file)) if position.0 >= base.0 && position.0 < base.0 + file.len => {
                Ok(Location::new(*base, position.0 - base.0))
            }
            _ => self.log.location(position),
        }
    }

    /// Gets hold of the file that has these bytes. `false`, never waiting: it is not open.
    fn find(&mut self, at: Location, len: u64) -> Result<bool, ReadError> {
        let end = at.position + len;
        if self.file.as_ref().is_some_and(|(base, file)| *base == at.segment && end <= file.len) {
            return Ok(true);
        }
        let (begin, journal) = (Location::new(at.segment, 0), &self.log.journal);
        let file = match self.wait {
            true => Some(journal.slice_written(begin, end)?),
            false => journal.slice_written_nowait(begin, end)?,
        };
        let Some(file) = file else { return Ok(false) };
        if end > file.len {
            let (dir, len) = (journal.dir().to_owned(), file.len);
            return Err(ReadError::PastEnd { dir, location: at, len });
        }
        self.file = Some((at.segment, file));
        Ok(true)
    }

    fn path(&self, at: Location) -> PathBuf {
        self.log.journal.dir().join(at.segment.to_string())
    }
}
