//! Beginning a new segment, and the files that belong to the one that ends.

use super::headers;
use super::look::Disk;
use super::segment_file::random_below;
use super::state::LogState;
use super::{PartitionLog, segment_base};
use crate::config::LogConfig;
use crate::durability;
use crate::error::{AppendError, StorageError};
use crate::formats::names;
use crate::formats::transaction_index::{self, AbortedTransaction};
use crate::views::index_file;
use mainstem_env::{Fs, OpenOptions, is_disk_full, is_out_of_descriptors, may_pass};
use mainstem_journal::{Location, RollError};
use mainstem_record::{BatchHeader, HEADER_SIZE};
use mainstem_types::{Offset, TimestampMs};

/// So long before a segment gets too old the files of the next one are prepared.
const PREPARED_BEFORE_MS: i64 = 60_000;

impl PartitionLog {
    /// Rolls if this batch (or run of batches from `header.base_offset` to `header.last_offset()`) may not go into the
    /// active segment.
    pub(super) fn roll_if_needed(
        &self,
        state: &mut LogState,
        config: &LogConfig,
        header: &BatchHeader,
        size: usize,
        now: TimestampMs,
    ) -> Result<(), AppendError> {
        if state.segments.end_position() == 0 {
            // An empty segment takes anything; but offsets in it must be within reach of its base.
            let reachable = header.last_offset().0 - state.segments.active().base.0 <= i64::from(i32::MAX);
            return if reachable {
                Ok(())
            } else {
                self.roll(state, header.base_offset).map_err(|e| self.refuse(e, size))
            };
        }
        let too_large = state.segments.end_position() + size as u64 > u64::from(config.segment_bytes);
        let too_far = header.last_offset().0 - state.segments.active().base.0 > i64::from(i32::MAX);
        let full = state.segments.active().is_full(config.segment_index_bytes);
        if too_large || too_far || full || self.is_too_old(state, config, header.max_timestamp, now) {
            self.roll(state, state.next_offset).map_err(|error| self.refuse(error, size))?;
        } else if state.segments.end_position() > u64::from(config.segment_bytes) / 2
            || state.segments.active().is_full(config.segment_index_bytes / 2)
        {
            self.journal.prepare_next_soon();
        }
        Ok(())
    }

    /// For want of space or descriptors the batch is refused, and the log goes on; every other error is final.
    pub(super) fn refuse(&self, error: StorageError, size: usize) -> AppendError {
        if is_disk_full(&error.error) {
            return AppendError::DiskFull { partition: self.partition.clone(), bytes: size as u64 };
        }
        if !is_out_of_descriptors(&error.error) {
            let _ = self.failed.set(error.clone());
        }
        AppendError::Storage(error)
    }

    /// Kafka's rule: compares the time of the batch with the time of the segment's first batch. Without times there is
    /// no age.
    fn is_too_old(&self, state: &mut LogState, config: &LogConfig, batch_time: TimestampMs, now: TimestampMs) -> bool {
        let age_max_ms = config.segment_age_max_ms();
        if age_max_ms == i64::MAX {
            return false;
        }
        if state.segments.active().first_time_ms.is_none() {
            // An append does not wait for the disk: the next checkpoint reads a time that is not in memory.
            state.segments.active_mut().first_time_ms = self.read_first_time(state.segments.active().base, Disk::Never);
        }
        let first = state.segments.active().first_time_ms.filter(|first| *first >= 0);
        let newest = if batch_time.0 >= 0 { batch_time } else { now };
        let Some(first) = first else { return false };
        // Clients choose the times: any number is possible.
        let left_ms =
            age_max_ms.saturating_sub(state.segments.active().jitter_ms).saturating_sub(newest.0.saturating_sub(first));
        if (0..PREPARED_BEFORE_MS.min(age_max_ms / 2)).contains(&left_ms) {
            self.journal.prepare_next_soon();
        }
        left_ms < 0
    }

    /// The time of the first batch of a segment, -1 if it has none. `None`: it would have to be read from the disk.
    fn read_first_time(&self, base: Offset, disk: Disk) -> Option<i64> {
        let mut bytes = [0; HEADER_SIZE];
        let mut read = || {
            let slice = self.journal.slice(Location::new(segment_base(base), 0), HEADER_SIZE as u64);
            let slice = slice.map_err(|error| std::io::Error::other(error.to_string()))?;
            self.look(disk).read_segment_file(base, slice.file.as_ref(), &mut bytes, 0)
        };
        match read() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            // Unreadable means unknown here; the append itself will tell.
            Err(_) => Some(-1),
            Ok(count) => Some(headers::plausible(&bytes[..count]).map_or(-1, |header| header.max_timestamp.0)),
        }
    }

    /// Reads what an append needs to know of the active segment and does not wait for.
    pub(super) fn learn_first_time(&self) {
        let base = {
            let state = self.state.lock();
            // Only a log that is written to needs it; an idle one keeps its file closed.
            let needed = state.segments.active().first_time_ms.is_none() && state.unsynced.has_grown() && !state.closed;
            if !needed {
                return;
            }
            state.segments.active().base
        };
        let time = self.read_first_time(base, Disk::MayWait);
        let mut state = self.state.lock();
        if state.segments.active().base == base && state.segments.active().first_time_ms.is_none() {
            state.segments.active_mut().first_time_ms = time;
        }
    }

    /// Seals the active segment and begins one at `base`. If it fails nothing has changed.
    pub(super) fn roll(&self, state: &mut LogState, base: Offset) -> Result<(), StorageError> {
        self.write_aborted(state)?;
        self.seal_indexes(state)?;
        let end = state.next_offset;
        self.take_snapshot(state, end)?;
        if state.unsynced.new_files() && !self.journal.names_are_durable() {
            // A power cut must not take the first segment and leave a later one. Only of a log that fills a segment
            // faster than the files of the next one are prepared.
            self.fs().sync_dir(&self.folder).map_err(|error| self.sync_error(&self.folder, error))?;
        }
        self.journal.roll(segment_base(base)).map_err(|error| self.roll_failed(error))?;
        let config = self.config.load();
        if state.segments.end_position() > 0 {
            state.unsynced.sealed(state.segments.active().base);
        }
        let jitter_max_ms = config.segment_jitter_ms.min(config.segment_ms);
        state.segments.begin(base, random_below(self.env.rng.as_ref(), jitter_max_ms));
        self.create_index_files(base)
    }

    pub(super) fn roll_failed(&self, error: RollError) -> StorageError {
        match error {
            RollError::Failed(failure) => durability::storage_error(&failure),
            RollError::Create { path, source } => StorageError { action: "create", path, error: source },
            RollError::WriteOut { path, source } => StorageError { action: "write", path, error: source },
            other => StorageError {
                action: "roll",
                path: self.folder.clone(),
                error: std::sync::Arc::new(std::io::Error::other(other.to_string())),
            },
        }
    }

    /// Every segment has both index files from the beginning, as in Kafka, so that an absent one is known to be lost.
    fn create_index_files(&self, base: Offset) -> Result<(), StorageError> {
        for suffix in [names::INDEX, names::TIME_INDEX] {
            let path = self.file(base, suffix);
            if self.journal.take_prepared(suffix, &path) {
                continue;
            }
            match self.fs().open(&path, &OpenOptions::create_empty()) {
                Ok(_) => {}
                // The first entry creates it.
                Err(error) if may_pass(&error) => {}
                Err(error) => return Err(self.fail("create", &path, error)),
            }
        }
        Ok(())
    }

    /// The last time entry, then everything into the files, which then have their final length.
    pub(super) fn seal_indexes(&self, state: &mut LogState) -> Result<(), StorageError> {
        state.segments.active_mut().note_largest_time();
        self.try_write_indexes(state)
    }

    fn try_write_indexes(&self, state: &mut LogState) -> Result<(), StorageError> {
        let active = state.segments.active_mut();
        let (offsets, times) = (self.file(active.base, names::INDEX), self.file(active.base, names::TIME_INDEX));
        let storage = |path: &std::path::Path| {
            let path = path.to_owned();
            move |error| StorageError { action: "write", path, error: std::sync::Arc::new(error) }
        };
        if !active.offsets.pending.is_empty() {
            index_file::write(self.fs(), &offsets, active.offsets.in_file, &active.offsets.pending)
                .map_err(storage(&offsets))?;
            active.offsets.written();
        }
        if !active.times.pending.is_empty() {
            index_file::write(self.fs(), &times, active.times.in_file, &active.times.pending)
                .map_err(storage(&times))?;
            active.times.written();
        }
        Ok(())
    }

    /// Writes pending entries because there are many. Where that fails they wait in memory for the roll, which reports
    /// it.
    pub(super) fn write_pending_indexes(&self, state: &mut LogState) {
        if let Err(error) = self.try_write_indexes(state) {
            tracing::warn!(partition = %self.partition, "{error}");
        }
    }

    /// Adds to the transaction index of the active segment. Without a descriptor, or without room, the entry waits in
    /// memory: readers see it there.
    pub(super) fn add_aborted(&self, state: &mut LogState, aborted: AbortedTransaction) -> Result<(), StorageError> {
        state.unsynced.aborted(aborted);
        if let Some(segment) = state.segments.last_mut() {
            segment.has_aborted = true;
        }
        match self.write_aborted(state) {
            Err(error) if may_pass(&error.error) => {
                tracing::warn!(partition = %self.partition, "{error}; the entry is written later");
                Ok(())
            }
            written => written,
        }
    }

    /// Writes what waits for the transaction index of the active segment.
    pub(super) fn write_aborted(&self, state: &mut LogState) -> Result<(), StorageError> {
        if state.unsynced.unwritten_aborted().is_empty() {
            return Ok(());
        }
        let base = state.segments.active().base;
        let path = self.file(base, names::TRANSACTION_INDEX);
        let bytes = transaction_index::encode(state.unsynced.unwritten_aborted());
        let write = |fs: &dyn Fs| {
            let file = fs.open(&path, &OpenOptions::create())?;
            // A write that found no room may have left a part of an entry.
            let whole = transaction_index::whole_entries(file.len()?);
            file.write_all_at(&bytes, whole)
        };
        write(self.fs()).map_err(|error| self.file_error("write", &path, error))?;
        state.unsynced.aborted_written();
        state.unsynced.transaction_added(base);
        Ok(())
    }
}
