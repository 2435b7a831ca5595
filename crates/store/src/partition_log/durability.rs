//! From the journal's durable location to the log's durable end.
//!
//! ```text
//! durable end ≤ mark₁ ≤ mark₂ ≤ … ≤ log end
//! ```
//! A mark is a (location, offset) pair of a batch's end that somebody asked to have flushed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::StorageError;
use mainstem_journal::{DurabilityObserver, Journal, JournalFailure, Location};
use mainstem_types::Offset;
use parking_lot::Mutex;

/// Called from a flusher thread with the new durable end, or with the error that ended the log. Must not block.
pub type DurableListener = Box<dyn Fn(Result<Offset, StorageError>) + Send + Sync>;

pub(crate) struct Durability {
    end: AtomicI64,
    marks: Mutex<VecDeque<(Location, Offset)>>,
    listener: Mutex<Option<Arc<DurableListener>>>,
}

impl std::fmt::Debug for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durability").field("end", &self.end()).finish_non_exhaustive()
    }
}

impl Durability {
    pub(crate) fn new(end: Offset) -> Self {
        Durability { end: AtomicI64::new(end.0), marks: Mutex::default(), listener: Mutex::default() }
    }

    pub(crate) fn end(&self) -> Offset {
        Offset(self.end.load(Ordering::Acquire))
    }

    pub(crate) fn set_listener(&self, listener: DurableListener) {
        *self.listener.lock() = Some(Arc::new(listener));
    }

    /// Remembers that the bytes before `location` are the records below `offset`. Called with the log's lock held, so marks ascend. Says
    /// whether there was no mark before.
    pub(crate) fn mark(&self, location: Location, offset: Offset) -> bool {
        let mut marks = self.marks.lock();
        let first = marks.is_empty();
        if marks.back().is_none_or(|(last, _)| *last < location) {
            marks.push_back((location, offset));
        }
        first
    }

    pub(crate) fn is_marked(&self) -> bool {
        !self.marks.lock().is_empty()
    }

    /// Everything before `up_to` is durable: gives the new end if it has moved.
    pub(crate) fn reached(&self, up_to: Location) -> Option<Offset> {
        let mut marks = self.marks.lock();
        let covered = marks.partition_point(|(location, _)| *location <= up_to);
        let (_, offset) = marks.drain(..covered).next_back()?;
        (self.end.fetch_max(offset.0, Ordering::AcqRel) < offset.0).then_some(offset)
    }

    /// The log now ends at `end`: nothing above is durable, or will be.
    pub(crate) fn truncate(&self, end: Offset) {
        let mut marks = self.marks.lock();
        marks.clear();
        self.end.fetch_min(end.0, Ordering::AcqRel);
    }

    /// The log begins anew at `end`, where everything (nothing) is durable.
    pub(crate) fn restart(&self, end: Offset) {
        self.marks.lock().clear();
        self.end.store(end.0, Ordering::Release);
    }

    pub(crate) fn tell(&self, outcome: Result<Offset, StorageError>) {
        let listener = self.listener.lock().clone();
        if let Some(listener) = listener {
            listener(outcome);
        }
    }
}

impl DurabilityObserver for Durability {
    fn on_durable(&self, up_to: Location) {
        if let Some(offset) = self.reached(up_to) {
            self.tell(Ok(offset));
        }
    }

    fn on_failed(&self, failure: &Arc<JournalFailure>) {
        self.tell(Err(storage_error(failure)));
    }
}

/// A log has got settings that promise more than memory: what was acknowledged under the old ones gets into the page cache. Where the disk is
/// too full for it, it stays in memory, nothing is acknowledged until it is written, and the journal has said so.
pub(crate) fn write_out(journal: &Journal) {
    let _ = journal.write_out();
}

/// The journal's error in the log's terms.
pub(crate) fn storage_error(failure: &JournalFailure) -> StorageError {
    let path: PathBuf = failure.dir.join(format!("{}{}", failure.segment, crate::formats::names::LOG));
    let error = std::io::Error::new(failure.source.kind(), failure.source.to_string());
    StorageError { action: failure.operation, path, error: Arc::new(error) }
}
