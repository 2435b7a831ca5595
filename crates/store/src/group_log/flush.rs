//! Making a group durable, and telling the partitions whose records that covers.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_journal::{DurabilityObserver, FlushError, JournalFailure, Location};
use mainstem_types::Offset;
use parking_lot::Mutex;

use super::state::PartitionViews;
use super::{GroupCore, GroupPartition, PartitionKey, commit_log};
use crate::durability::Durability;
use crate::durability::DurableListener;
use crate::error::StorageError;

/// The partitions of a group, as the flusher sees them.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    all: Mutex<HashMap<PartitionKey, Arc<Durability>>>,
    /// Those that asked for a flush and were not told yet.
    marked: Mutex<Vec<Arc<Durability>>>,
}

impl Waiting {
    pub(super) fn know(&self, key: PartitionKey, durability: &Arc<Durability>) {
        self.all.lock().insert(key, Arc::clone(durability));
    }

    pub(super) fn forget(&self, key: &PartitionKey) {
        self.all.lock().remove(key);
    }

    fn mark(&self, durability: &Arc<Durability>, location: Location, offset: Offset) {
        if durability.mark(location, offset) {
            self.marked.lock().push(Arc::clone(durability));
        }
    }

    /// Everything before `up_to` is durable.
    pub(super) fn reached(&self, up_to: Location) {
        let mut moved = Vec::new();
        self.marked.lock().retain(|durability| {
            if let Some(offset) = durability.reached(up_to) {
                moved.push((Arc::clone(durability), offset));
            }
            durability.is_marked()
        });
        moved.iter().for_each(|(durability, offset)| durability.tell(Ok(*offset)));
    }

    pub(super) fn tell_all(&self, error: &StorageError) {
        let all: Vec<_> = self.all.lock().values().cloned().collect();
        all.iter().for_each(|durability| durability.tell(Err(error.clone())));
    }
}

impl DurabilityObserver for Waiting {
    fn on_durable(&self, up_to: Location) {
        self.reached(up_to);
    }

    fn on_failed(&self, failure: &Arc<JournalFailure>) {
        self.tell_all(&storage_error(failure));
    }
}

/// The journal's error in the log's terms.
pub(super) fn storage_error(failure: &JournalFailure) -> StorageError {
    let error = std::io::Error::new(failure.source.kind(), failure.source.to_string());
    let path = failure.dir.join(failure.segment.to_string());
    StorageError { action: failure.operation, path, error: Arc::new(error) }
}

/// As [`storage_error`], for a flush.
pub(super) fn flush_error(error: &FlushError) -> StorageError {
    match error {
        FlushError::Failed(failure) => storage_error(failure),
        FlushError::Open { path, source } => {
            StorageError { action: "open", path: path.clone(), error: Arc::clone(source) }
        }
    }
}

impl GroupCore {
    /// Syncs the commit log on this thread; gives up to where it is durable. Where the disk is too full for what is in
    /// memory alone, or no file descriptor is left, that is an error that ends nothing.
    pub(super) fn flush(&self) -> Result<Option<Location>, StorageError> {
        self.check_alive()?;
        let end = self.log.journal.end();
        match self.log.journal.flush() {
            Ok(up_to) => {
                up_to.into_iter().for_each(|up_to| self.waiting.reached(up_to));
                if up_to < end {
                    let (path, error) = (self.log.journal.dir().to_owned(), std::io::ErrorKind::StorageFull.into());
                    return Err(StorageError { action: "write", path, error: Arc::new(error) });
                }
                Ok(up_to)
            }
            Err(failed) => {
                let error = flush_error(&failed);
                match failed {
                    FlushError::Failed(_) => self.waiting.tell_all(&error),
                    // For other waiters for the sync.
                    FlushError::Open { .. } => end.into_iter().for_each(|end| self.ask_flusher(end)),
                }
                Err(error)
            }
        }
    }

    fn ask_flusher(&self, up_to: Location) {
        if self.env.flusher.request(&self.log.journal, up_to) {
            self.waiting.reached(up_to);
        }
    }
}

impl GroupPartition {
    /// Sets the listener that is told of a new durable end. A partition has one; the last one counts.
    pub fn set_durable_listener(&self, listener: DurableListener) {
        self.durability.set_listener(listener);
    }

    /// Asks for a sync of everything below `offset`; the durable listener is told. True: it is durable already.
    pub fn request_flush(&self, offset: Offset) -> bool {
        if self.durability.end() >= offset {
            return true;
        }
        let end = self.mark_end(&mut self.state.lock());
        end.into_iter().for_each(|end| self.core.ask_flusher(end));
        self.durability.end() >= offset
    }

    /// `flush.ms`: asks for a sync if the oldest record that no flush covers is older than that. To be called about
    /// once a second.
    pub fn flush_if_due(&self) {
        let flush_ms = self.config.load().flush_ms;
        if flush_ms == i64::MAX {
            return;
        }
        let now = self.core.env.clock.monotonic();
        let mut state = self.state.lock();
        let due = state.dirty_since.is_some_and(|since| now.saturating_sub(since).as_millis() as i64 >= flush_ms);
        let end = if due { self.mark_end(&mut state) } else { None };
        drop(state);
        end.into_iter().for_each(|end| self.core.ask_flusher(end));
    }

    /// Syncs everything on this thread. Gives the durable end.
    pub fn flush_blocking(&self) -> Result<Offset, StorageError> {
        self.core.check_alive()?;
        self.mark_end(&mut self.state.lock());
        self.core.flush()?;
        Ok(self.durability.end())
    }

    /// Remembers where the partition ends. `None`: it has no record.
    pub(super) fn mark_end(&self, state: &mut PartitionViews) -> Option<Location> {
        state.dirty_since = None;
        let end = self.core.log.location(state.last.position).ok().filter(|_| state.last.size > 0)?;
        let end = end.plus(state.last.size.into());
        debug_assert!(commit_log::position_of(end) == state.end_position(), "an entry lies in one file");
        self.core.waiting.mark(&self.durability, end, state.next_offset);
        Some(end)
    }

    /// Asks for a sync of the last append.
    pub(super) fn flush_appended(&self, end: Option<Location>) {
        end.into_iter().for_each(|end| self.core.ask_flusher(end));
    }
}
