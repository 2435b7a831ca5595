//! Makes a log durable, and gives its entries for the checkpoint files.

use super::state::LogState;
use super::unsynced::CheckpointEntry;
use super::{PartitionLog, segment_base};
use crate::durability;
use crate::error::{LogStartError, StorageError};
use crate::formats::{epoch_checkpoint, names, partition_metadata};
use crate::views::index_file;
use mainstem_env::OpenOptions;
use mainstem_journal::{CloseError, FlushError, Location};
use mainstem_types::Offset;

/// As a file has it that is about to take the place of that one.
const EPOCH_FILE_STAGED: &str = "leader-epoch-checkpoint.tmp";

impl PartitionLog {
    /// Asks for a sync of everything below `offset`; the durable listener is told. True: it is durable already.
    pub fn request_flush(&self, offset: Offset) -> bool {
        if self.durability.end() >= offset {
            return true;
        }
        let mut state = self.state.lock();
        let end = self.mark_end(&mut state);
        drop(state);
        self.ask_flusher(end);
        self.durability.end() >= offset
    }

    /// `flush.ms`: asks for a sync if the oldest record that no flush covers is older than that. To be called about
    /// once a second.
    pub fn flush_if_due(&self) {
        let flush_ms = self.config.load().flush_ms;
        if flush_ms == i64::MAX {
            return;
        }
        let now = self.env.clock.monotonic();
        let mut state = self.state.lock();
        let due = state.unsynced.dirty_for(now).is_some_and(|waited| waited.as_millis() as i64 >= flush_ms);
        if due {
            let end = self.mark_end(&mut state);
            drop(state);
            self.ask_flusher(end);
        }
    }

    /// Syncs everything on this thread. Gives the durable end.
    pub fn flush_blocking(&self) -> Result<Offset, StorageError> {
        self.check_alive()?;
        let mut state = self.state.lock();
        let end = self.mark_end(&mut state);
        drop(state);
        match self.journal.flush() {
            Ok(Some(up_to)) => self.durable_up_to(up_to),
            Ok(None) => {}
            Err(failed) => {
                let error = durability::flush_error(&failed);
                match failed {
                    FlushError::Failed(_) => self.durability.tell(Err(error.clone())),
                    // For other waiters for the sync.
                    FlushError::Open { .. } => self.ask_flusher(end),
                }
                return Err(error);
            }
        }
        Ok(self.durability.end())
    }

    /// Sets the listener that is told of a new durable end. A log has one; the last one counts.
    pub fn set_durable_listener(&self, listener: durability::DurableListener) {
        self.durability.set_listener(listener);
    }

    pub(super) fn mark_end(&self, state: &mut LogState) -> Location {
        let end = Location::new(segment_base(state.segments.active().base), state.segments.end_position());
        self.durability.mark(end, state.next_offset);
        state.unsynced.flush_asked();
        end
    }

    pub(super) fn ask_flusher(&self, end: Location) {
        if self.env.flusher.request(&self.journal, end) {
            self.durable_up_to(end);
        }
    }

    fn durable_up_to(&self, location: Location) {
        if let Some(offset) = self.durability.reached(location) {
            self.durability.tell(Ok(offset));
        }
    }

    /// What to write into the checkpoint files. If the log cannot be brought up to date, what they say already, and
    /// why: a log must not lose its recovery point because its disk fails or is full.
    pub(crate) fn checkpoint_entry(&self) -> (Option<CheckpointEntry>, Option<StorageError>) {
        match self.prepare_checkpoint() {
            Ok(entry) => (Some(entry), None),
            Err(error) => {
                tracing::error!(partition = %self.partition, "cannot advance the checkpoint: {error}");
                (self.state.lock().unsynced.checkpointed(), Some(error))
            }
        }
    }

    /// What may be written into the checkpoint files now. Syncs the log if it has grown much, and the files that a
    /// recovery from the returned point relies on.
    pub(crate) fn prepare_checkpoint(&self) -> Result<CheckpointEntry, StorageError> {
        if self.failure().is_none() {
            self.remove_superseded_snapshots();
            self.learn_first_time();
            let (grown, log_start) = {
                let mut state = self.state.lock();
                // A log start that is written down must not lie above what a power cut leaves: offsets would go back.
                let grown =
                    (state.unsynced.has_grown_much() || state.log_start > self.durability.end()) && !state.closed;
                if grown {
                    state.unsynced.begin_growth();
                    let end = state.next_offset;
                    self.take_snapshot(&mut state, end)?;
                    self.write_pending_indexes(&mut state);
                }
                (grown, state.log_start)
            };
            if grown && self.flush_blocking()? < log_start {
                // Records that are only in memory find no room on the disk.
                let (path, error) = (self.folder.clone(), std::io::ErrorKind::StorageFull.into());
                return Err(StorageError { action: "write", path, error: std::sync::Arc::new(error) });
            }
        }
        if self.failure().is_none() {
            self.checkpoint_keys();
        }
        // Before the views are looked at: what becomes durable meanwhile may rely on views that are not.
        let durable_end = self.durability.end();
        self.sync_sealed_indexes()?;
        self.sync_transaction_indexes()?;
        self.write_epochs()?;
        self.sync_new_files()?;
        let mut state = self.state.lock();
        self.check_order(&state)?;
        let first = state.segments.first_base();
        let unsynced = state.unsynced.first_sealed().unwrap_or(durable_end);
        // Files of segments that are gone from the log may still be there, because they could not be renamed.
        let left_over = self.journal.first_segment().is_some_and(|left| left < segment_base(first));
        let log_start = match self.failure() {
            None => state.log_start,
            // What a power cut leaves of it may end below.
            Some(_) => state.log_start.min(durable_end),
        };
        let entry = CheckpointEntry {
            recovery_point: durable_end.min(unsynced).min(state.next_offset),
            log_start,
            log_start_matters: log_start > first || left_over,
            cleaned_to: state.cleaned_to,
        };
        state.unsynced.prepared(entry);
        Ok(entry)
    }

    fn sync_sealed_indexes(&self) -> Result<(), StorageError> {
        self.sync_snapshots()?;
        let sealed = self.state.lock().unsynced.sealed_segments();
        for base in sealed {
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX] {
                let path = self.file(base, suffix);
                index_file::sync(self.fs(), &path).map_err(|error| self.sync_error(&path, error))?;
            }
            self.state.lock().unsynced.settled(|known| known == base);
        }
        Ok(())
    }

    /// Makes what was added to transaction indexes durable, that of the active segment too: a scan that begins in the
    /// middle of it takes from there what lies before.
    fn sync_transaction_indexes(&self) -> Result<(), StorageError> {
        let bases = {
            let mut state = self.state.lock();
            self.write_aborted(&mut state)?;
            state.unsynced.take_transactions()
        };
        if bases.is_empty() {
            return Ok(());
        }
        let synced = self.sync_transaction_indexes_of(&bases);
        if synced.is_err() {
            self.state.lock().unsynced.give_back_transactions(bases);
        }
        synced
    }

    fn sync_transaction_indexes_of(&self, bases: &[Offset]) -> Result<(), StorageError> {
        for base in bases {
            let path = self.file(*base, names::TRANSACTION_INDEX);
            index_file::sync(self.fs(), &path).map_err(|error| self.sync_error(&path, error))?;
        }
        self.fs().sync_dir(&self.folder).map_err(|error| self.sync_error(&self.folder, error))
    }

    /// Writes `leader-epoch-checkpoint`, durably, if it is not up to date.
    pub(super) fn write_epochs(&self) -> Result<(), StorageError> {
        let bytes = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.epochs.dirty) {
                return Ok(());
            }
            epoch_checkpoint::encode(state.epochs.of_records(state.next_offset))
        };
        let path = self.folder.join(epoch_checkpoint::FILE_NAME);
        self.fs().atomic_write(&path, &bytes).map_err(|error| {
            self.state.lock().epochs.dirty = true;
            self.file_error("write", &path, error)
        })
    }

    /// Writes `leader-epoch-checkpoint` under another name, not durably, if it is not up to date: for
    /// [`PartitionLog::publish_epochs`].
    fn stage_epochs(&self) -> Result<(), StorageError> {
        let bytes = {
            let state = self.state.lock();
            if !state.epochs.dirty {
                return Ok(());
            }
            epoch_checkpoint::encode(state.epochs.of_records(state.next_offset))
        };
        let path = self.folder.join(EPOCH_FILE_STAGED);
        let file = self.fs().open(&path, &OpenOptions::create_empty());
        let written = file.and_then(|file| file.write_all_at(&bytes, 0));
        written.map_err(|error| self.file_error("write", &path, error))
    }

    /// Gives the staged file, which is durable now, its name.
    fn publish_epochs(&self) -> Result<(), StorageError> {
        if !self.state.lock().epochs.dirty {
            return Ok(());
        }
        let (from, to) = (self.folder.join(EPOCH_FILE_STAGED), self.folder.join(epoch_checkpoint::FILE_NAME));
        self.fs().rename(&from, &to).map_err(|error| self.file_error("rename", &from, error))?;
        self.state.lock().epochs.dirty = false;
        Ok(())
    }

    /// Makes durable what creating the log left in memory: `partition.metadata`, and the names of its first files.
    pub fn sync_new_files(&self) -> Result<(), StorageError> {
        if !self.state.lock().unsynced.new_files() {
            return Ok(());
        }
        let metadata = self.folder.join(partition_metadata::FILE_NAME);
        let synced = index_file::sync(self.fs(), &metadata).and_then(|()| self.fs().sync_dir(&self.folder));
        match synced {
            Ok(()) => {}
            // The folder of a topic that was deleted meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.state.lock().closed => {}
            Err(error) => return Err(self.sync_error(&self.folder, error)),
        }
        self.state.lock().unsynced.set_new_files(false);
        Ok(())
    }

    /// DeleteRecords: nothing below `offset` is served any more. In memory at once; durable when the data folder wrote
    /// its checkpoints ([`crate::DataFolder::write_checkpoints`]). An offset at or below the present start changes
    /// nothing. Gives the log start.
    pub fn raise_log_start(&self, offset: Offset, high_watermark: Offset) -> Result<Offset, LogStartError> {
        self.check_alive()?;
        let mut state = self.state.lock();
        let limit = high_watermark.min(state.next_offset);
        if offset > limit || offset < Offset::ZERO {
            let (partition, log_start) = (self.partition.clone(), state.log_start);
            return Err(LogStartError::OutOfRange { partition, offset, log_start, limit });
        }
        if offset > state.log_start {
            state.log_start = offset;
            state.epochs.truncate_start(offset);
        }
        self.check_order(&state)?;
        Ok(state.log_start)
    }

    /// Syncs everything, trims and writes the indexes and the producer snapshot, and refuses appends and reads from now
    /// on.
    pub fn close(&self) -> Result<(), StorageError> {
        if self.begin_close(false)? { self.end_close(false) } else { Ok(()) }
    }

    /// The first half of a close: refuses appends and reads from now on, and writes everything that is to be durable.
    /// `false`: it was closed before. `to_be_synced`: the owner will sync the file system before
    /// [`PartitionLog::end_close`].
    pub(crate) fn begin_close(&self, to_be_synced: bool) -> Result<bool, StorageError> {
        let _files = self.replacing.lock();
        let _order = self.appending.lock();
        {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.closed, true) {
                return Ok(false);
            }
        }
        self.check_alive()?;
        let staged = if to_be_synced { self.stage_epochs() } else { Ok(()) };
        staged.and_then(|()| self.write_for_close()).inspect_err(|error| {
            let _ = self.failed.set(error.clone());
        })?;
        Ok(true)
    }

    /// The second half. `synced`: the file system was synced since the first one; new names are durable only with its
    /// next sync.
    pub(crate) fn end_close(&self, synced: bool) -> Result<(), StorageError> {
        let _files = self.replacing.lock();
        let _order = self.appending.lock();
        self.check_alive()?;
        let noted = if synced { self.note_synced() } else { Ok(()) };
        noted.and_then(|()| self.sync_for_close()).inspect_err(|error| {
            let _ = self.failed.set(error.clone());
        })
    }

    /// Refuses appends and reads from now on. Records in memory are dropped with the log.
    pub(crate) fn close_for_deletion(&self) {
        // The folder is about to get another name, and another log its own.
        let _files = self.replacing.lock();
        {
            let mut state = self.state.lock();
            state.closed = true;
            state.leaving = true;
        }
        self.journal.abandon();
        self.journal.release_idle();
        self.env.indexes.forget(self.number());
    }

    fn write_for_close(&self) -> Result<(), StorageError> {
        {
            let mut state = self.state.lock();
            self.write_aborted(&mut state)?;
            self.seal_indexes(&mut state)?;
            let end = state.next_offset;
            self.take_snapshot(&mut state, end)?;
            self.mark_end(&mut state);
            let base = state.segments.active().base;
            if state.unsynced.has_grown() {
                state.unsynced.sealed(base);
            }
        }
        self.journal.begin_close().map_err(close_error)
    }

    /// Everything that was written is durable.
    fn note_synced(&self) -> Result<(), StorageError> {
        {
            let mut state = self.state.lock();
            state.unsynced.all_synced();
            state.snapshots.all_synced();
        }
        self.journal.note_synced().map_err(close_error)?;
        self.publish_epochs()
    }

    fn sync_for_close(&self) -> Result<(), StorageError> {
        if let Some(up_to) = self.journal.close().map_err(close_error)? {
            self.durable_up_to(up_to);
        }
        self.checkpoint_keys();
        self.sync_sealed_indexes()?;
        self.sync_transaction_indexes()?;
        self.write_epochs()?;
        self.sync_new_files()?;
        tracing::debug!(partition = %self.partition, "closed");
        Ok(())
    }
}

fn close_error(error: CloseError) -> StorageError {
    match error {
        CloseError::Failed(failure) => durability::storage_error(&failure),
        CloseError::Flush(error) => durability::flush_error(&error),
    }
}
