//! Retention. A partition's records go, for its readers, in the stretches that lie in one file each; a file goes when
//! no partition has records in it that are still to be seen, or in any file before it. Where nobody has any record, the
//! written file is ended, so that it can go as well.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_journal::{AppendError, DeleteError, RollError, SegmentBase};
use mainstem_types::{Offset, Position, TimestampMs};

use super::commit_log::WriteError;
use super::{GroupCore, GroupLog, GroupPartition, flush};
use crate::error::StorageError;
use crate::formats::group_checkpoint::Share;
use crate::log_types::RetentionOutcome;
use crate::removal::Removal;

impl GroupPartition {
    /// Applies `retention.ms` and `retention.bytes` below the high watermark. Nothing is removed from the disk by this:
    /// see [`GroupLog::remove_unneeded`].
    pub fn retention_pass(&self, now: TimestampMs, high_watermark: Offset) -> Result<RetentionOutcome, StorageError> {
        self.core.check_alive()?;
        let (shares, log_end) = {
            let state = self.state.lock();
            (state.shares.clone(), state.next_offset)
        };
        let newest = shares.iter().map(|share| self.core.newest_ms(share)).collect::<Result<Vec<_>, _>>()?;
        let count = self.deletable(&shares, &newest, log_end, now, high_watermark);
        Ok(self.hide(&shares, count, log_end))
    }

    /// Hides the records in the files of the commit log before a position, whatever the settings say, as far as the
    /// high watermark is above them.
    pub fn hide_before(&self, position: Position, high_watermark: Offset) -> Result<RetentionOutcome, StorageError> {
        self.core.check_alive()?;
        let (shares, log_end) = {
            let state = self.state.lock();
            (state.shares.clone(), state.next_offset)
        };
        let ends = shares.iter().skip(1).map(|share| share.first_offset).chain([log_end]);
        let goes = |(share, end): &(&Share, Offset)| share.segment < position.0 && *end <= high_watermark;
        let count = shares.iter().zip(ends).take_while(goes).count();
        Ok(self.hide(&shares, count, log_end))
    }

    /// Hides the first shares, unless others are the first ones by now.
    fn hide(&self, shares: &[Share], count: usize, log_end: Offset) -> RetentionOutcome {
        let mut state = self.state.lock();
        let unchanged = state.shares.first().map(|share| share.segment) == shares.first().map(|share| share.segment);
        if count > 0 && unchanged {
            state.raise_log_start(shares.get(count).map_or(log_end, |share| share.first_offset));
        }
        let removed = if unchanged { &shares[..count] } else { &[] };
        RetentionOutcome {
            segments_removed: removed.len(),
            bytes_removed: removed.iter().map(|share| share.bytes).sum(),
            log_start: state.log_start,
            newest: removed.iter().map(|share| share.newest_ms).filter(|time| *time >= 0).max().map(TimestampMs),
        }
    }

    fn deletable(
        &self,
        shares: &[Share],
        newest: &[i64],
        log_end: Offset,
        now: TimestampMs,
        high_watermark: Offset,
    ) -> usize {
        let config = self.config.load();
        if !config.cleanup_delete {
            return 0;
        }
        let kept = u64::try_from(config.retention_bytes).unwrap_or(u64::MAX);
        let mut excess = shares.iter().map(|share| share.bytes).sum::<u64>().saturating_sub(kept);
        let mut count = 0;
        for (index, share) in shares.iter().enumerate() {
            let next = shares.get(index + 1).map_or(log_end, |next| next.first_offset);
            let too_old = config.retention_ms >= 0 && now.0.saturating_sub(newest[index]) > config.retention_ms;
            let too_much = excess > 0 && excess >= share.bytes;
            if next > high_watermark || !(too_old || too_much) {
                break;
            }
            excess = excess.saturating_sub(share.bytes);
            count += 1;
        }
        count
    }
}

impl GroupCore {
    /// Without any timestamp the age of the file counts.
    pub(super) fn newest_ms(&self, share: &Share) -> Result<i64, StorageError> {
        if share.newest_ms >= 0 {
            return Ok(share.newest_ms);
        }
        let path = self.log.journal.dir().join(SegmentBase(share.segment).to_string());
        let metadata = self.fs().metadata(&path);
        let metadata = metadata.map_err(|error| StorageError { action: "read", path, error: Arc::new(error) })?;
        Ok(metadata.map_or(i64::MAX, |metadata| metadata.modified_ms.0))
    }
}

/// A file of a commit log that is written no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldFile {
    /// The folder of the group.
    pub group: PathBuf,
    /// When it was written last.
    pub modified: TimestampMs,
    /// Where the next file begins.
    pub end: Position,
}

impl GroupLog {
    /// The oldest file, unless it is the one that is written.
    pub fn oldest_file(&self) -> Result<Option<OldFile>, StorageError> {
        let journal = &self.core.log.journal;
        let Some(first) = journal.first_segment() else { return Ok(None) };
        let Some(next) = journal.segment_after(first) else { return Ok(None) };
        let path = journal.dir().join(first.to_string());
        let metadata = self.core.fs().metadata(&path);
        let metadata = metadata.map_err(|error| StorageError { action: "read", path, error: Arc::new(error) })?;
        let modified = metadata.map_or(TimestampMs(0), |metadata| metadata.modified_ms);
        Ok(Some(OldFile { group: self.core.folder.clone(), modified, end: Position(next.0) }))
    }

    /// Deletes the files of the commit log that no partition needs, from the front, the written one too if none needs
    /// it; then what of the views belongs to them. Writes a checkpoint before. Gives the number of files. Their space
    /// is free after [`GroupLog::remove_due_files`].
    pub fn remove_unneeded(&self) -> Result<usize, StorageError> {
        match self.remove_files() {
            Err(_) if self.core.has_left() => Ok(0),
            done => done,
        }
    }

    fn remove_files(&self) -> Result<usize, StorageError> {
        let mut last = self.checkpointing.lock();
        self.core.check_alive()?;
        let journal = &self.core.log.journal;
        if self.first_needed().is_none() && !self.core.follows.load(Ordering::Acquire) {
            // The entries of the written file go, too.
            self.end_file()?;
        }
        // Appends only add to the active file, which is never deleted.
        let Some(active) = journal.active_segment() else { return Ok(0) };
        let keep = SegmentBase(self.first_needed().unwrap_or(active.0)).min(active);
        if journal.first_segment().is_none_or(|first| first >= keep) {
            return Ok(0);
        }
        let indexes = self.core.index.take_before(keep.0);
        // Offsets are not given twice, even if all records of a partition go now.
        self.checkpoint_with(&mut last)?;
        let deleted = journal.delete_before(keep).map_err(|error| self.delete_failed(error))?;
        // Checkpoints do not wait until the views are removed.
        drop(last);
        for path in indexes {
            self.remove_view(&path, self.core.fs().remove_file(&path));
        }
        for partition in self.partitions() {
            let mut folder = partition.queue_folder.lock();
            let (log_start, written) = {
                let state = partition.state.lock();
                (state.log_start, state.queue.written())
            };
            let removed = folder.remove_before(self.core.fs(), log_start, written);
            self.remove_view(&self.core.queue_dir(&partition.partition), removed);
        }
        Ok(deleted.bases.len())
    }

    /// The first file that a partition has records in which are still to be seen.
    fn first_needed(&self) -> Option<u64> {
        let needed = |partition: &Arc<GroupPartition>| {
            // When this lock is granted, the views have seen every entry that was written before.
            let _order = partition.appending.lock();
            partition.state.lock().first_segment()
        };
        self.partitions().iter().filter_map(needed).chain(self.first_needed_by_strays()).min()
    }

    /// A disk that is full, or a process without file descriptors, leaves the file as it is until the next pass.
    fn end_file(&self) -> Result<(), StorageError> {
        let dir = self.core.log.journal.dir();
        match self.core.log.end_file() {
            Err(WriteError::Append(AppendError::Failed(failure)) | WriteError::Roll(RollError::Failed(failure))) => {
                Err(flush::storage_error(&failure))
            }
            Err(error) => {
                tracing::debug!("{}: the written file is not ended yet: {error:?}", dir.display());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// A part of a view that cannot be removed costs space only.
    fn remove_view(&self, path: &std::path::Path, removed: io::Result<()>) {
        if let Err(error) = removed.or_else(ignore_absent) {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }

    fn delete_failed(&self, error: DeleteError) -> StorageError {
        match error {
            DeleteError::Rename { path, source } => StorageError { action: "rename", path, error: source.into() },
            DeleteError::Sync { path, source } => StorageError { action: "sync", path, error: source.into() },
            DeleteError::Failed(failure) => flush::storage_error(&failure),
            DeleteError::Remove { path, source } => StorageError { action: "remove", path, error: source.into() },
        }
    }

    /// Frees the space of deleted files; gives their number. Slow.
    pub fn remove_due_files(&self) -> usize {
        self.remove_deleted_files(&Removal::due())
    }

    /// As [`GroupLog::remove_due_files`], as long as `removal` lets it go on.
    pub fn remove_deleted_files(&self, removal: &Removal<'_>) -> usize {
        self.core.log.journal.remove_deleted_while(removal.go_on).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            0
        })
    }
}

fn ignore_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
