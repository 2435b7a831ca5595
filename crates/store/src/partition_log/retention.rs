//! Retention: whole segments from the front, by age, size and log start. Never waits for readers, never makes appenders
//! wait for the disk (except for the roll of an active segment that is to go too).

use std::time::Duration;

use super::state::LogState;
use super::{PartitionLog, listing, segment_base};
use crate::durability;
use crate::error::StorageError;
use crate::formats::names;
use crate::formats::time_index::TimeIndexEntry;
use crate::log_types::RetentionOutcome;
use crate::removal::Removal;
use crate::views::index_file;
use mainstem_env::is_disk_full;
use mainstem_journal::DeleteError;
use mainstem_types::{Offset, TimestampMs};

/// What retention knows about a segment.
struct Candidate {
    base: Offset,
    /// The offset after its last one.
    next: Offset,
    bytes: u64,
    newest_ms: i64,
}

impl PartitionLog {
    /// Applies `retention.ms`, `retention.bytes` and the log start to whole segments below the high watermark; files of
    /// removed segments go after `file.delete.delay.ms` ([`PartitionLog::remove_due_files`]). An active segment that is
    /// to go is rolled first.
    pub fn retention_pass(&self, now: TimestampMs, high_watermark: Offset) -> Result<RetentionOutcome, StorageError> {
        self.check_alive()?;
        let _files = self.replacing.lock();
        let candidates = self.candidates()?;
        let count = self.deletable(&candidates, now, high_watermark);
        let mut outcome = RetentionOutcome { log_start: self.log_start(), ..RetentionOutcome::default() };
        if count > 0 {
            let removed = self.drop_views(&candidates[..count])?;
            outcome.segments_removed = removed.len();
            outcome.bytes_removed = candidates[..removed.len()].iter().map(|candidate| candidate.bytes).sum();
            outcome.log_start = self.log_start();
            outcome.newest = candidates[..removed.len()].iter().map(|gone| TimestampMs(gone.newest_ms)).max();
            // What remains is durable before anything goes, the name of a new segment above all: a power cut that took
            // it would leave nothing that tells where the offsets are.
            self.flush_blocking()?;
        }
        self.delete_files(&candidates[..outcome.segments_removed])?;
        Ok(outcome)
    }

    fn candidates(&self) -> Result<Vec<Candidate>, StorageError> {
        let (segments, active_bytes, active_time, end) = {
            let state = self.state.lock();
            let active_time = state.segments.active().largest_time.map(|largest| largest.timestamp_ms);
            (state.segments.all().to_vec(), state.segments.end_position(), active_time, state.next_offset)
        };
        let mut candidates = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map(|next| next.base);
            let fail = |error: std::io::Error| StorageError {
                action: "read",
                path: self.file(segment.base, names::LOG),
                error: std::sync::Arc::new(error),
            };
            let (bytes, newest_ms) = match (next, active_time) {
                (None, Some(time)) => (active_bytes, time),
                (None, None) => (active_bytes, self.file_time_ms(segment.base).map_err(fail)?),
                (Some(_), _) => {
                    let bytes = self.journal.segment_len(segment_base(segment.base)).unwrap_or(0);
                    (bytes, self.newest_ms(segment.base).map_err(fail)?)
                }
            };
            candidates.push(Candidate { base: segment.base, next: next.unwrap_or(end), bytes, newest_ms });
        }
        Ok(candidates)
    }

    /// The largest timestamp of a sealed segment; remembered.
    pub(super) fn largest_time(&self, base: Offset) -> std::io::Result<Option<i64>> {
        let known = {
            let state = self.state.lock();
            state.segments.all().iter().find(|segment| segment.base == base).and_then(|segment| segment.largest_time_ms)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let tail = index_file::tail::<TimeIndexEntry>(self.fs(), &self.file(base, names::TIME_INDEX))?;
        let time = tail.and_then(|(_, last)| last).map(|last| last.timestamp_ms);
        match self.state.lock().segments.find_mut(base) {
            // Not if somebody knows already: this may be what the segment held before it was compacted.
            Some(segment) => Ok(*segment.largest_time_ms.get_or_insert(time)),
            None => Ok(time),
        }
    }

    /// How many segments from the front are to go.
    fn deletable(&self, candidates: &[Candidate], now: TimestampMs, high_watermark: Offset) -> usize {
        let config = self.config.load();
        let log_start = self.log_start();
        let total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
        let bytes_kept = u64::try_from(config.retention_bytes).unwrap_or(u64::MAX);
        let mut excess = total.saturating_sub(bytes_kept);
        let mut count = 0;
        for (index, candidate) in candidates.iter().enumerate() {
            let last = index + 1 == candidates.len();
            let below_start = !last && candidate.next <= log_start;
            let too_old = config.cleanup_delete
                && config.retention_ms >= 0
                && now.0.saturating_sub(candidate.newest_ms) > config.retention_ms;
            let too_much = config.cleanup_delete && excess >= candidate.bytes && excess > 0;
            let empty_active = last && candidate.bytes == 0;
            if candidate.next > high_watermark || empty_active || !(below_start || too_old || too_much) {
                break;
            }
            excess = excess.saturating_sub(candidate.bytes);
            count += 1;
        }
        count
    }

    /// Takes the segments out of the log, in memory: from here on nobody is sent there. Gives their bases.
    fn drop_views(&self, gone: &[Candidate]) -> Result<Vec<Offset>, StorageError> {
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        let last_base = state.segments.all().last().map(|segment| segment.base);
        if gone.last().map(|candidate| candidate.base) == last_base {
            let unchanged = gone.last().is_some_and(|candidate| candidate.next == state.next_offset);
            if !unchanged {
                // Somebody appended meanwhile: the active segment is young again.
                return self.drop_front(&mut state, &gone[..gone.len() - 1]);
            }
            let end = state.next_offset;
            self.roll(&mut state, end)?;
        }
        self.drop_front(&mut state, gone)
    }

    fn drop_front(&self, state: &mut LogState, gone: &[Candidate]) -> Result<Vec<Offset>, StorageError> {
        let bases: Vec<Offset> = gone.iter().map(|candidate| candidate.base).collect();
        state.segments.remove(&bases);
        state.unsynced.settled(|base| bases.contains(&base));
        let first = state.segments.first_base();
        if first > state.log_start {
            state.log_start = first;
            state.epochs.truncate_start(first);
        }
        self.check_order(state)?;
        Ok(bases)
    }

    /// Renames the files of segments that are no longer part of the log, also of those that an earlier pass failed to.
    fn delete_files(&self, gone: &[Candidate]) -> Result<(), StorageError> {
        let first = Some(self.state.lock().segments.first_base());
        let Some(first) = first.filter(|first| self.journal.first_segment() < Some(segment_base(*first))) else {
            return Ok(());
        };
        self.keep_producers(first)?;
        self.journal.delete_before(segment_base(first)).map_err(|error| self.delete_failed(error))?;
        let mut files = Vec::new();
        for candidate in gone {
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX, names::PRODUCER_SNAPSHOT] {
                let path = self.file(candidate.base, suffix);
                let deleted = self.file(candidate.base, &format!("{suffix}{}", names::DELETED));
                match self.fs().rename(&path, &deleted) {
                    Ok(()) => files.push(deleted),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    // No room for the longer name. An index that stays is removed by the next open.
                    Err(error) if is_disk_full(&error) => _ = self.fs().remove_file(&path),
                    // An index without a segment is removed by the next open.
                    Err(error) => {
                        tracing::warn!(partition = %self.partition, "cannot rename {}: {error}", path.display())
                    }
                }
            }
        }
        self.env.indexes.forget(self.number());
        self.remove_later(files);
        Ok(())
    }

    /// Has files removed when `file.delete.delay.ms` is over, with those of deleted segments.
    pub(super) fn remove_later(&self, files: Vec<std::path::PathBuf>) {
        let delay_ms = self.config.load().file_delete_delay_ms.max(0) as u64;
        let due = self.env.clock.monotonic() + Duration::from_millis(delay_ms);
        let mut state = self.state.lock();
        state.deleted.add(files, due);
    }

    fn delete_failed(&self, error: DeleteError) -> StorageError {
        match error {
            DeleteError::Rename { path, source } => StorageError { action: "rename", path, error: source.into() },
            DeleteError::Sync { path, source } => StorageError { action: "sync", path, error: source.into() },
            DeleteError::Failed(failure) => durability::storage_error(&failure),
            DeleteError::Remove { path, source } => StorageError { action: "remove", path, error: source.into() },
        }
    }

    /// Removes `.deleted` files whose delay is over; gives their number.
    pub fn remove_due_files(&self) -> usize {
        self.remove_files(&Removal::due())
    }

    /// Removes `.deleted` files as `removal` says; gives their number. Slow.
    pub fn remove_files(&self, removal: &Removal<'_>) -> usize {
        let now = self.env.clock.monotonic();
        if !self.state.lock().deleted.may_go(now, removal.everything) {
            return 0;
        }
        let mut removed = self.journal.remove_deleted_while(removal.go_on).unwrap_or_else(|error| {
            tracing::warn!(partition = %self.partition, "{error}");
            0
        });
        while (removal.go_on)() {
            let Some(path) = self.state.lock().deleted.pop() else { break };
            removed += usize::from(listing::remove_if_present(self.fs(), &path).is_ok());
        }
        removed
    }

    /// Cuts the journal at an offset for [`PartitionLog::truncate_to`].
    pub(super) fn truncate_failed(&self, error: mainstem_journal::TruncateError) -> StorageError {
        match error {
            mainstem_journal::TruncateError::Failed(failure) => durability::storage_error(&failure),
            mainstem_journal::TruncateError::Read(mainstem_journal::ReadError::Io { path, source }) => {
                self.file_error("open", &path, source)
            }
            other => self.fail("cut", &self.folder, std::io::Error::other(other.to_string())),
        }
    }
}
