//! From the journal's durable location to the log's durable end.
//!
//! ```text
//! durable end ≤ mark₁ ≤ mark₂ ≤ … ≤ log end
//! ```
//! A mark is a (location, offset) pair of a batch's end that somebody asked to have flushed.
//!
//! It also says which records may be acknowledged ([`Durability::acknowledged_end`]):
//!
//! | `mainstem.durability` | records below |
//! | --- | --- |
//! | `disk` | the durable end |
//! | `os`, `memory` | the log end, or while a sync that `flush.messages` asked for runs: the first record that waits for it |

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::config;
use crate::error::StorageError;
use mainstem_journal::{DurabilityObserver, FlushError, Journal, JournalFailure, Location};
use mainstem_types::Offset;
use parking_lot::Mutex;

/// Called from a flusher thread with the new durable end, or with the error that ended the log. Must not block.
pub type DurableListener = Box<dyn Fn(Result<Offset, StorageError>) + Send + Sync>;

pub(crate) struct Durability {
    end: AtomicI64,
    marks: Mutex<Marks>,
    /// The first record that waits for a sync of `flush.messages`; `i64::MAX`: none does. Changes with `marks` locked.
    held_from: AtomicI64,
    listener: Mutex<Option<Arc<DurableListener>>>,
}

#[derive(Debug, Default)]
struct Marks {
    ends: VecDeque<(Location, Offset)>,
    /// Where the last batch ends that reached the count of `flush.messages`.
    held_to: Offset,
}

/// No record waits for a sync of `flush.messages`.
const NOTHING_HELD: i64 = i64::MAX;

impl std::fmt::Debug for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durability").field("end", &self.end()).finish_non_exhaustive()
    }
}

impl Durability {
    pub(crate) fn new(end: Offset) -> Self {
        Durability {
            end: AtomicI64::new(end.0),
            marks: Mutex::default(),
            held_from: AtomicI64::new(NOTHING_HELD),
            listener: Mutex::default(),
        }
    }

    pub(crate) fn end(&self) -> Offset {
        Offset(self.end.load(Ordering::Acquire))
    }

    pub(crate) fn set_listener(&self, listener: DurableListener) {
        *self.listener.lock() = Some(Arc::new(listener));
    }

    /// Remembers that the bytes before `location` are the records below `offset`. Called with the log's lock held, so
    /// marks ascend. Says whether there was no mark before.
    pub(crate) fn mark(&self, location: Location, offset: Offset) -> bool {
        let mut marks = self.marks.lock();
        let first = marks.ends.is_empty();
        if marks.ends.back().is_none_or(|(last, _)| *last < location) {
            marks.ends.push_back((location, offset));
        }
        first
    }

    /// `flush.messages`: if `limit` records or more are not durable, the records `from..to`, which were just appended,
    /// are acknowledged when a sync has covered them. Called with the log's lock held, before the log end is seen. Says
    /// whether a sync is due.
    pub(crate) fn hold(&self, from: Offset, to: Offset, limit: i64) -> bool {
        if to.0.saturating_sub(self.end().0) < limit {
            return false;
        }
        let mut marks = self.marks.lock();
        self.held_from.fetch_min(from.0, Ordering::AcqRel);
        marks.held_to = to;
        true
    }

    /// Records below may be acknowledged: they are as safe as the settings promise. Called with the log's lock held.
    pub(crate) fn acknowledged_end(&self, durability: config::Durability, log_end: Offset) -> Offset {
        let held_from = self.held_from.load(Ordering::Acquire);
        let promised = match durability {
            config::Durability::Disk => self.end(),
            config::Durability::Os | config::Durability::Memory => self.end().max(Offset(held_from)),
        };
        promised.min(log_end)
    }

    pub(crate) fn is_marked(&self) -> bool {
        !self.marks.lock().ends.is_empty()
    }

    /// Everything before `up_to` is durable: gives the new end if it has moved.
    pub(crate) fn reached(&self, up_to: Location) -> Option<Offset> {
        let mut marks = self.marks.lock();
        let covered = marks.ends.partition_point(|(location, _)| *location <= up_to);
        let (_, offset) = marks.ends.drain(..covered).next_back()?;
        let moved = self.end.fetch_max(offset.0, Ordering::AcqRel) < offset.0;
        if offset >= marks.held_to {
            self.held_from.store(NOTHING_HELD, Ordering::Release);
        }
        moved.then_some(offset)
    }

    /// The log now ends at `end`: nothing above is durable, or will be.
    pub(crate) fn truncate(&self, end: Offset) {
        let mut marks = self.marks.lock();
        marks.ends.clear();
        marks.held_to = marks.held_to.min(end);
        if self.held_from.load(Ordering::Acquire) >= end.0 {
            self.held_from.store(NOTHING_HELD, Ordering::Release);
        }
        self.end.fetch_min(end.0, Ordering::AcqRel);
    }

    /// The log begins anew at `end`, where everything (nothing) is durable.
    pub(crate) fn restart(&self, end: Offset) {
        let mut marks = self.marks.lock();
        marks.ends.clear();
        self.held_from.store(NOTHING_HELD, Ordering::Release);
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

/// A log has got settings that promise more than memory: what was acknowledged under the old ones gets into the page
/// cache. Where the disk is too full for it, it stays in memory, nothing is acknowledged until it is written, and the
/// journal has said so.
pub(crate) fn write_out(journal: &Journal) {
    let _ = journal.write_out();
}

/// The journal's error in the log's terms.
pub(crate) fn storage_error(failure: &JournalFailure) -> StorageError {
    let path: PathBuf = failure.dir.join(format!("{}{}", failure.segment, crate::formats::names::LOG));
    let error = std::io::Error::new(failure.source.kind(), failure.source.to_string());
    StorageError { action: failure.operation, path, error: Arc::new(error) }
}

/// As [`storage_error`], for a flush. Where no file descriptor is left, that is an error that ends nothing.
pub(crate) fn flush_error(error: &FlushError) -> StorageError {
    match error {
        FlushError::Failed(failure) => storage_error(failure),
        FlushError::Open { path, source } => {
            StorageError { action: "open", path: path.clone(), error: Arc::clone(source) }
        }
    }
}
