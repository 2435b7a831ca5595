//! Appending, and beginning new segments.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::{File, OpenOptions, is_disk_full};
use parking_lot::MutexGuard;

use crate::journal::{Active, AppendState};
use crate::segment::Segment;
use crate::{AppendError, Journal, Location, RollError, SegmentBase};

/// A segment below this size gets no reserved space: thousands of thin journals cost nothing.
const RESERVE_FROM_BYTES: u64 = 1 << 20;

/// The system writes such a piece as one.
const PAGE_BYTES: u64 = 4096;

/// The largest step of reserved space.
const RESERVE_STEP_BYTES_MAX: u64 = 64 << 20;

impl Journal {
    /// Writes one entry, the concatenation of `parts`, behind the last and returns where it begins. It is in the page
    /// cache then; [`crate::Flusher::request`] makes it durable.
    ///
    /// Appends are taken in the order of the calls. Never rolls by itself: ask [`Journal::needs_roll`] first.
    pub fn append(&self, parts: &[IoSlice<'_>]) -> Result<Location, AppendError> {
        let mut state = self.state.lock();
        let at = self.next_entry(&state)?;
        if state.unwritten.is_some() {
            self.write_out_locked(&mut state)?;
        }
        self.write_entry(&mut state, at, parts)
    }

    /// Where the next entry goes, if entries are taken.
    pub(crate) fn next_entry(&self, state: &MutexGuard<'_, AppendState>) -> Result<Location, AppendError> {
        if let Some(failure) = self.failure() {
            return Err(AppendError::Failed(failure));
        }
        if state.closed {
            return Err(AppendError::Closed { dir: self.dir.to_path_buf() });
        }
        state.end.ok_or_else(|| AppendError::NoSegment { dir: self.dir.to_path_buf() })
    }

    /// Writes an entry to the page cache, behind everything else, all of which is written.
    pub(crate) fn write_entry(
        &self,
        state: &mut MutexGuard<'_, AppendState>,
        at: Location,
        parts: &[IoSlice<'_>],
    ) -> Result<Location, AppendError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let active = self.active_for(state, at)?;
        let end = at.plus(bytes as u64);
        self.reserve(state, &active, end.position);
        active.segment.note_write();
        if let Err(error) = active.file.write_all_vectored_at(parts, at.position) {
            return Err(self.take_back(state, &active, at, bytes, error));
        }
        // Readers may see the bytes from here on; they are all written.
        active.segment.set_len(end.position);
        state.end = Some(end);
        self.note_writeback(state, &active, end.position);
        self.tail.append(&self.host.tail_budget, state.options.tail_cache_bytes, at, parts);
        Ok(at)
    }

    /// The active segment, with its file opened, for a write at `at`.
    pub(crate) fn active_for(
        &self,
        state: &mut MutexGuard<'_, AppendState>,
        at: Location,
    ) -> Result<Active, AppendError> {
        match self.active(state) {
            Ok(Some(active)) => Ok(active),
            Ok(None) => Err(AppendError::NoSegment { dir: self.dir.to_path_buf() }),
            Err(source) => Err(AppendError::Open { path: self.path(at.segment), source: Arc::new(source) }),
        }
    }

    /// Whether an entry of `bytes` bytes would make the active segment larger than `segment_bytes`, or there is no
    /// segment yet. An entry larger than a whole segment gets a segment of its own.
    pub fn needs_roll(&self, bytes: u64) -> bool {
        let state = self.state.lock();
        state.end.is_none_or(|end| end.position > 0 && end.position.saturating_add(bytes) > state.options.segment_bytes)
    }

    /// Begins a new segment, empty, named by `base`, which must be above the active one. A flush makes its name
    /// durable. Does nothing if the active segment is empty and has this base.
    pub fn roll(&self, base: SegmentBase) -> Result<(), RollError> {
        let mut state = self.state.lock();
        if let Some(failure) = self.failure() {
            return Err(RollError::Failed(failure));
        }
        if state.closed {
            return Err(RollError::Closed { dir: self.dir.to_path_buf() });
        }
        match state.end {
            Some(end) if end == Location::new(base, 0) => return Ok(()),
            Some(end) if base <= end.segment => {
                return Err(RollError::NotAfter { dir: self.dir.to_path_buf(), base, active: end.segment });
            }
            _ => {}
        }
        if state.unwritten.is_some() {
            self.write_out_locked(&mut state).map_err(|error| self.write_out_before_roll(&state, error))?;
        }
        let file = match self.take_prepared_log(&mut state, base) {
            Some(file) => file,
            None => self.create_segment(base)?,
        };
        self.note_sealed_writeback(&mut state);
        let segment = Segment::created(base, file, &self.host.open_files);
        if state.end.is_none() {
            *self.durable.lock() = Location::new(base, 0);
        }
        self.segments.write().push(Arc::clone(&segment));
        state.end = Some(Location::new(base, 0));
        state.active = Some(segment);
        state.dir_dirty = true;
        state.reserved_to = 0;
        state.reserve_refused = false;
        self.tail.clear(&self.host.tail_budget);
        Ok(())
    }

    fn create_segment(&self, base: SegmentBase) -> Result<Arc<dyn File>, RollError> {
        let path = self.path(base);
        // Nothing after the creation may fail: an empty segment that the journal does not know of would be found by the
        // next recovery, in the wrong place.
        match self.host.fs.open(&path, &OpenOptions::create_new()) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(RollError::Occupied { path }),
            Err(source) => Err(RollError::Create { path, source: Arc::new(source) }),
        }
    }

    /// Reserves blocks ahead of `end`, once the segment has become a busy one.
    pub(crate) fn reserve(&self, state: &mut MutexGuard<'_, AppendState>, active: &Active, end: u64) {
        if end <= RESERVE_FROM_BYTES || end <= state.reserved_to || state.reserve_refused || !state.options.preallocate
        {
            return;
        }
        let step = end.clamp(RESERVE_FROM_BYTES, RESERVE_STEP_BYTES_MAX);
        let from = state.reserved_to.max(end - end % 4096);
        let to = (end + step).min(state.options.segment_bytes);
        if to <= from || !self.host.take_reservable(to - from) {
            return;
        }
        // Only a saving: where it fails, the write itself says whether there is room.
        match active.file.allocate_keep_size(from, to - from) {
            Ok(()) => {
                state.reserved_to = to;
                active.segment.reserved.store(true, Ordering::Relaxed);
            }
            Err(_) => state.reserve_refused = true,
        }
    }

    /// Has the bytes before `end` written, whole pages of them, when they are enough.
    pub(crate) fn note_writeback(&self, state: &mut MutexGuard<'_, AppendState>, active: &Active, end: u64) {
        let step = state.options.writeback_bytes;
        let dirty = end.saturating_sub(state.written_back_to);
        if step == 0 || dirty < step || !self.host.writeback.is_running() {
            return;
        }
        // The last page will be written to again.
        let to = end - end % PAGE_BYTES;
        let from = std::mem::replace(&mut state.written_back_to, to);
        self.host.writeback.note(&active.file, from, to - from);
    }

    /// The rest of a segment that is full, if it was a busy one.
    fn note_sealed_writeback(&self, state: &mut MutexGuard<'_, AppendState>) {
        let from = std::mem::take(&mut state.written_back_to);
        let Some(end) = state.end.filter(|end| from >= PAGE_BYTES && end.position > from) else { return };
        let file = state.active.as_ref().and_then(|segment| segment.file_if_open());
        if let Some(file) = file.filter(|_| self.host.writeback.is_running()) {
            self.host.writeback.note(&file, from, end.position - from);
        }
    }

    /// Gives back the space reserved past `len`.
    pub(crate) fn release_reserved(&self, segment: &Segment, file: &dyn File, len: u64) -> io::Result<()> {
        if segment.reserved.swap(false, Ordering::Relaxed) { file.set_len(len) } else { Ok(()) }
    }

    /// After a failed write: a full disk costs this entry only, everything else ends the journal.
    fn take_back(
        &self,
        state: &mut MutexGuard<'_, AppendState>,
        active: &Active,
        at: Location,
        bytes: usize,
        error: io::Error,
    ) -> AppendError {
        if !is_disk_full(&error) {
            return AppendError::Failed(self.fail("write", at.segment, error));
        }
        // A part may have been written; what follows the end must be nothing when the next entry goes there.
        if let Err(error) = active.file.set_len(at.position) {
            return AppendError::Failed(self.fail(
                "taking back an entry for which the disk was full",
                at.segment,
                error,
            ));
        }
        state.reserved_to = 0;
        state.reserve_refused = true;
        AppendError::DiskFull { dir: self.dir.to_path_buf(), bytes: bytes as u64 }
    }
}
