//! Reading. A read of bytes that are in the files waits for no append, flush or deletion. A read of bytes that are only
//! in memory writes them first, as an append does.

use std::io;
use std::sync::Arc;

use mainstem_env::{File, FileSlice};

use crate::scan::scan_segment;
use crate::segment::Segment;
use crate::{EntryScanner, Journal, Location, ReadError, ScanEnd, ScanError, ScanOutcome, SegmentBase};

/// A segment as a reader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    pub base: SegmentBase,
    pub len: u64,
}

impl Journal {
    /// Reads up to `buffer.len()` bytes and says how many; fewer only at the end of the segment.
    pub fn read_at(&self, at: Location, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let slice = self.slice(at, buffer.len() as u64)?;
        let count = slice.len as usize;
        match slice.file.read_full_at(&mut buffer[..count], slice.position) {
            Ok(read) => Ok(read),
            Err(source) => Err(ReadError::Io { path: self.path(at.segment), source }),
        }
    }

    /// Up to `len` bytes of a segment, to be sent or read later; fewer only at the end of the segment.
    pub fn slice(&self, at: Location, len: u64) -> Result<FileSlice, ReadError> {
        let segment = self.segment(at.segment)?;
        let segment_len = self.len_of(&segment)?;
        if at.position > segment_len {
            return Err(ReadError::PastEnd { dir: self.dir.to_path_buf(), location: at, len: segment_len });
        }
        let len = len.min(segment_len - at.position);
        self.have_written(&segment, at.position, len)?;
        let file = self.file_of(&segment)?;
        Ok(FileSlice::new(file, at.position, len))
    }

    /// As [`Journal::slice`], without asking the file system anything. `None`: the file is not open, or its length is
    /// not known yet.
    pub fn slice_nowait(&self, at: Location, len: u64) -> Result<Option<FileSlice>, ReadError> {
        let segment = self.segment(at.segment)?;
        let Some(segment_len) = segment.known_len() else { return Ok(None) };
        if at.position > segment_len {
            return Err(ReadError::PastEnd { dir: self.dir.to_path_buf(), location: at, len: segment_len });
        }
        let len = len.min(segment_len - at.position);
        self.have_written(&segment, at.position, len)?;
        let file = segment.file_if_open();
        Ok(file.map(|file| FileSlice::new(file, at.position, len)))
    }

    /// Everything that is written of a segment from `at` on, and at least `needed` bytes if the segment has them.
    pub fn slice_written(&self, at: Location, needed: u64) -> Result<FileSlice, ReadError> {
        let slice = self.slice(at, needed)?;
        let segment = self.segment(at.segment)?;
        let written = self.len_of(&segment)?.min(segment.in_memory_from());
        Ok(FileSlice { len: slice.len.max(written.saturating_sub(at.position)), ..slice })
    }

    /// As [`Journal::slice_written`], without asking the file system anything. `None`: the file is not open, or its
    /// length is not known yet.
    pub fn slice_written_nowait(&self, at: Location, needed: u64) -> Result<Option<FileSlice>, ReadError> {
        let Some(slice) = self.slice_nowait(at, needed)? else { return Ok(None) };
        let segment = self.segment(at.segment)?;
        let Some(segment_len) = segment.known_len() else { return Ok(None) };
        let written = segment_len.min(segment.in_memory_from());
        Ok(Some(FileSlice { len: slice.len.max(written.saturating_sub(at.position)), ..slice }))
    }

    /// As [`Journal::segment_len`], without asking the file system. `None`: the length is not known yet.
    pub fn segment_len_nowait(&self, base: SegmentBase) -> Result<Option<u64>, ReadError> {
        Ok(self.segment(base)?.known_len())
    }

    /// All segments, in order.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, ReadError> {
        let segments = self.segments.read().clone();
        segments.iter().map(|segment| self.info(segment)).collect()
    }

    /// The bases of all segments, in order. Asks the file system nothing.
    pub fn segment_bases(&self) -> Vec<SegmentBase> {
        self.segments.read().iter().map(|segment| segment.base).collect()
    }

    /// The base of the oldest segment.
    pub fn first_segment(&self) -> Option<SegmentBase> {
        self.segments.read().first().map(|segment| segment.base)
    }

    /// The last segment whose base is `number` or below: the one that holds it.
    pub fn segment_holding(&self, number: u64) -> Option<SegmentBase> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base.0 <= number);
        after.checked_sub(1).map(|index| segments[index].base)
    }

    /// The segment that follows `base`, whether or not `base` still exists.
    pub fn segment_after(&self, base: SegmentBase) -> Option<SegmentBase> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base <= base);
        segments.get(after).map(|segment| segment.base)
    }

    /// How many bytes a segment has.
    pub fn segment_len(&self, base: SegmentBase) -> Result<u64, ReadError> {
        self.len_of(&*self.segment(base)?)
    }

    /// The bytes of all segments.
    pub fn total_bytes(&self) -> Result<u64, ReadError> {
        let segments = self.segments.read().clone();
        segments.iter().map(|segment| self.len_of(segment)).sum()
    }

    /// Gives the entries from `from` (the start of an entry) to the end as of now to `scanner`. Ends early at what is
    /// no entry; changes nothing.
    pub fn scan(&self, from: Location, scanner: &mut dyn EntryScanner) -> Result<ScanOutcome, ScanError> {
        let max_entry_bytes = self.options().max_entry_bytes;
        let mut total = ScanOutcome { entries: 0, bytes: 0, end: from, reason: ScanEnd::Whole };
        let mut next = Some(from);
        while let Some(start) = next {
            let segment = self.segment(start.segment)?;
            let follows = scanner.begin_segment(start);
            if !follows && start != from {
                total.reason = ScanEnd::Gap;
                break;
            }
            let len = self.len_of(&segment)?;
            self.have_written(&segment, start.position, len.saturating_sub(start.position))?;
            let file = self.file_of(&segment)?;
            let outcome = scan_segment(file.as_ref(), start, len, max_entry_bytes, scanner)
                .map_err(|source| ReadError::Io { path: self.path(start.segment), source })?;
            total.entries += outcome.entries;
            total.bytes += outcome.bytes;
            (total.end, total.reason) = (outcome.end, outcome.reason);
            if outcome.reason != ScanEnd::Whole {
                break;
            }
            next = self.segment_after(start.segment).map(|base| Location::new(base, 0));
        }
        Ok(total)
    }

    pub(crate) fn segment(&self, base: SegmentBase) -> Result<Arc<Segment>, ReadError> {
        let segments = self.segments.read();
        match segments.binary_search_by_key(&base, |segment| segment.base) {
            Ok(index) => Ok(Arc::clone(&segments[index])),
            Err(_) => Err(ReadError::NoSegment { dir: self.dir.to_path_buf(), segment: base }),
        }
    }

    /// Readers find these bytes in the file.
    fn have_written(&self, segment: &Segment, position: u64, len: u64) -> Result<(), ReadError> {
        if len == 0 || position + len <= segment.in_memory_from() {
            return Ok(());
        }
        self.write_out().map_err(|error| {
            let source = self.write_out_error(error);
            ReadError::Io { path: self.path(segment.base), source }
        })
    }

    pub(crate) fn len_of(&self, segment: &Segment) -> Result<u64, ReadError> {
        let len = segment.len(self.host.fs.as_ref(), || self.path(segment.base));
        len.map_err(|source| self.read_error(segment.base, source))
    }

    pub(crate) fn file_of(&self, segment: &Arc<Segment>) -> Result<Arc<dyn File>, ReadError> {
        let file = self.open_file(segment);
        file.map_err(|source| self.read_error(segment.base, source))
    }

    fn info(&self, segment: &Segment) -> Result<SegmentInfo, ReadError> {
        Ok(SegmentInfo { base: segment.base, len: self.len_of(segment)? })
    }

    /// A file that is gone belonged to a segment that was deleted between the look-up and the opening.
    fn read_error(&self, segment: SegmentBase, source: io::Error) -> ReadError {
        match source.kind() {
            io::ErrorKind::NotFound => ReadError::NoSegment { dir: self.dir.to_path_buf(), segment },
            _ => ReadError::Io { path: self.path(segment), source },
        }
    }
}
