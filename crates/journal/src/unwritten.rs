//! Entries that were acknowledged from memory and wait to be written to the file.
//!
//! ```text
//!             durable        written          end
//!  ──────────────┼──────────────┼──────────────┼────▶ bytes of the journal
//!                │◀ page cache ▶│◀── memory ──▶│
//! ```
//! They are the end of the active segment. Whatever must follow them in the file writes them first. A killed process
//! therefore leaves a prefix of the journal, which contains everything that was appended in another way.

use std::io::{self, IoSlice};
use std::sync::Arc;

use mainstem_env::{is_disk_full, is_out_of_descriptors};
use parking_lot::MutexGuard;

use crate::journal::AppendState;
use crate::{AppendError, Journal, JournalFailure, Location, MemoryBudget, RollError};

/// What one journal may have in memory alone: as much as makes the cost of a system call small beside that of the
/// bytes, and no more.
pub const UNWRITTEN_BYTES_MAX: usize = 256 << 10;

/// A larger entry is written at once: to copy it first costs more than the system call that is saved.
pub const IN_MEMORY_ENTRY_BYTES_MAX: usize = 32 << 10;

/// The first size of a buffer, which doubles.
const BUFFER_BYTES_MIN: usize = 8 << 10;

/// The buffer of one journal.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// The last bytes of the active segment.
    bytes: Vec<u8>,
    /// Bytes taken from the budget; `bytes` is never longer.
    granted: usize,
    /// The disk was too full for them, and nothing is taken until it is not.
    pub(crate) held_back: bool,
    /// A flush could not cover the entries, and the caller that asked for it waits.
    pub(crate) flush_waits: bool,
}

impl Unwritten {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gets room for `len` more bytes if the limits allow it.
    fn grow(&mut self, budget: &MemoryBudget, len: usize) -> bool {
        let needed = self.bytes.len() + len;
        while self.granted < needed.min(UNWRITTEN_BYTES_MAX) {
            let want = (self.granted * 2).clamp(BUFFER_BYTES_MIN, UNWRITTEN_BYTES_MAX);
            if !budget.take(want - self.granted) {
                break;
            }
            self.granted = want;
        }
        // Exact, so that the budget counts the real memory.
        self.bytes.reserve_exact(self.granted - self.bytes.len());
        needed <= self.granted
    }

    pub(crate) fn free(self, budget: &MemoryBudget) {
        budget.give_back(self.granted);
    }
}

impl Journal {
    /// As [`Journal::append`], but returns when the entry is in memory: readers see it, and a killed process loses it,
    /// unless it was written out meanwhile ([`crate::WriteOut`]). An entry of more than [`IN_MEMORY_ENTRY_BYTES_MAX`],
    /// or for which there is no memory, is written at once.
    pub fn append_in_memory(self: &Arc<Self>, parts: &[IoSlice<'_>]) -> Result<Location, AppendError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut state = self.state.lock();
        let at = self.next_entry(&state)?;
        if !self.make_room(&mut state, at, bytes)? {
            return self.write_entry(&mut state, at, parts);
        }
        let end = at.plus(bytes as u64);
        let AppendState { unwritten: Some(unwritten), active: Some(segment), options, .. } = &mut *state else {
            return self.write_entry(&mut state, at, parts);
        };
        if unwritten.is_empty() {
            segment.set_in_memory_from(at.position);
        }
        parts.iter().for_each(|part| unwritten.bytes.extend_from_slice(part));
        // Before the entry is visible: a reader at the end finds the entry here, and causes no write.
        self.tail.append(&self.host.tail_budget, options.tail_cache_bytes, at, parts);
        segment.set_len(end.position);
        state.end = Some(end);
        Ok(at)
    }

    /// Room for an entry behind those that wait. `false`: it is to be written at once, and everything before it is
    /// written.
    fn make_room(
        self: &Arc<Self>,
        state: &mut MutexGuard<'_, AppendState>,
        at: Location,
        bytes: usize,
    ) -> Result<bool, AppendError> {
        if bytes > IN_MEMORY_ENTRY_BYTES_MAX {
            self.write_out_locked(state)?;
            return Ok(false);
        }
        if state.unwritten.is_none() {
            // An entry is not acknowledged for which no file can be opened.
            self.active_for(state, at)?;
            state.unwritten = Some(Box::default());
            self.host.write_out.note(Arc::downgrade(self));
        }
        let budget = &self.host.write_out.budget;
        let fits = |state: &mut MutexGuard<'_, AppendState>| {
            state.unwritten.as_mut().is_some_and(|unwritten| !unwritten.held_back && unwritten.grow(budget, bytes))
        };
        if fits(state) {
            return Ok(true);
        }
        self.write_out_locked(state)?;
        Ok(fits(state))
    }

    /// Writes the entries that are only in memory to the page cache.
    pub fn write_out(&self) -> Result<(), AppendError> {
        self.write_out_locked(&mut self.state.lock())
    }

    /// How many bytes are in memory alone.
    pub fn unwritten_bytes(&self) -> usize {
        self.state.lock().unwritten.as_ref().map_or(0, |unwritten| unwritten.bytes.len())
    }

    pub(crate) fn write_out_locked(&self, state: &mut MutexGuard<'_, AppendState>) -> Result<(), AppendError> {
        let Some(end) = state.end.filter(|_| state.unwritten.as_ref().is_some_and(|unwritten| !unwritten.is_empty()))
        else {
            return Ok(());
        };
        if let Some(failure) = self.failure() {
            return Err(AppendError::Failed(failure));
        }
        let active = self.active_for(state, end)?;
        self.reserve(state, &active, end.position);
        let Some(unwritten) = &mut state.unwritten else { return Ok(()) };
        active.segment.note_write();
        let waiting = unwritten.bytes.len() as u64;
        match active.file.write_all_at(&unwritten.bytes, end.position - waiting) {
            Ok(()) => {
                unwritten.bytes.clear();
                let was_held_back = std::mem::take(&mut unwritten.held_back);
                active.segment.set_in_memory_from(u64::MAX);
                self.note_writeback(state, &active, end.position);
                if was_held_back {
                    tracing::warn!("journal {}: there is room again, and everything is written", self.dir.display());
                }
                Ok(())
            }
            Err(error) if is_disk_full(&error) => {
                if !std::mem::replace(&mut unwritten.held_back, true) {
                    tracing::error!(
                        "journal {}: the disk is full: {waiting} bytes that were acknowledged from memory are only in memory, and a kill would lose them; free space, and the broker writes them",
                        self.dir.display()
                    );
                }
                // A part may have been written. The next write has the same bytes at the same place.
                state.reserved_to = 0;
                state.reserve_refused = true;
                Err(AppendError::DiskFull { dir: self.dir.to_path_buf(), bytes: waiting })
            }
            Err(error) => Err(AppendError::Failed(self.fail("write", end.segment, error))),
        }
    }

    /// Writes out what waits and says up to where the journal is written. Where the disk is too full for it, that is
    /// not the end.
    pub(crate) fn written_for_flush(
        &self,
        state: &mut MutexGuard<'_, AppendState>,
    ) -> Result<Option<Location>, Arc<JournalFailure>> {
        let outcome = self.write_out_locked(state);
        let (Some(end), Some(unwritten)) = (state.end, &mut state.unwritten) else { return Ok(state.end) };
        match outcome {
            Ok(()) => unwritten.flush_waits = false,
            Err(AppendError::Failed(failure)) => return Err(failure),
            Err(_) => unwritten.flush_waits = true,
        }
        Ok(Some(Location::new(end.segment, end.position - unwritten.bytes.len() as u64)))
    }

    /// Gives the buffer back; it is empty.
    pub(crate) fn release_unwritten(&self, state: &mut MutexGuard<'_, AppendState>) {
        if let Some(unwritten) = state.unwritten.take_if(|unwritten| unwritten.is_empty()) {
            unwritten.free(&self.host.write_out.budget);
        }
    }

    /// The directory is about to go, and another journal may get its name: what is in memory alone goes with it, and
    /// nothing is written from now on. What was written can be read as long as a reader holds it.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.prepared = None;
        let Some(unwritten) = state.unwritten.take() else { return };
        if let (Some(end), Some(segment), false) = (state.end, &state.active, unwritten.is_empty()) {
            let written = Location::new(end.segment, end.position - unwritten.bytes.len() as u64);
            // First unseen, then gone.
            self.release_tail();
            segment.set_len(written.position);
            segment.set_in_memory_from(u64::MAX);
            state.end = Some(written);
        }
        unwritten.free(&self.host.write_out.budget);
    }

    /// Why a journal is not closed or cut: final only if it is the journal's own failure.
    pub(crate) fn write_out_failure(&self, state: &AppendState, error: AppendError) -> Arc<JournalFailure> {
        let segment = state.end.unwrap_or_default().segment;
        match error {
            AppendError::Failed(failure) => failure,
            error => {
                let source = self.write_out_error(error);
                Arc::new(JournalFailure { dir: self.dir.to_path_buf(), segment, operation: "write", source })
            }
        }
    }

    pub(crate) fn write_out_before_roll(&self, state: &AppendState, error: AppendError) -> RollError {
        let path = self.path(state.end.unwrap_or_default().segment);
        match error {
            AppendError::Failed(failure) => RollError::Failed(failure),
            error => RollError::WriteOut { path, source: Arc::new(self.write_out_error(error)) },
        }
    }

    /// The system's error, for callers that know nothing of appends.
    pub(crate) fn write_out_error(&self, error: AppendError) -> io::Error {
        let kind = match &error {
            // As the system said it, by number: the owner looks whether it will pass.
            AppendError::Open { source, .. } if is_out_of_descriptors(source) => {
                return source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
            }
            AppendError::Failed(failure) => failure.source.kind(),
            AppendError::Open { source, .. } => source.kind(),
            AppendError::DiskFull { .. } => io::ErrorKind::StorageFull,
            AppendError::NoSegment { .. } | AppendError::Closed { .. } => io::ErrorKind::Other,
        };
        io::Error::new(kind, error.to_string())
    }
}
