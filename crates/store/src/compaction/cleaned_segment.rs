//! Writing the segment that takes the place of a group, with its views.

use std::path::PathBuf;
use std::sync::Arc;

use mainstem_env::{File, OpenOptions};
use mainstem_record::BatchHeader;
use mainstem_types::{Offset, TimestampMs};

use super::CompactError;
use crate::formats::names;
use crate::formats::transaction_index::{self, AbortedTransaction};
use crate::partition_log::PartitionLog;
use crate::partition_log::active_index::ActiveIndex;
use crate::views::index_file;

/// Kafka reads positions as int32.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;
const ALL_SUFFIXES: [&str; 4] = [names::LOG, names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX];

/// A segment on its way. Dropping it leaves its files; [`discard`] removes them.
pub(super) struct CleanedSegment<'l> {
    log: &'l PartitionLog,
    base: Offset,
    file: Arc<dyn File>,
    /// Bytes in the file.
    written: u64,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    interval_bytes: u32,
    index: ActiveIndex,
}

/// A segment whose files are durable, under names that end in `.cleaned`.
pub(super) struct FinishedSegment {
    pub(super) file: Arc<dyn File>,
    pub(super) len: u64,
    pub(super) largest_time: Option<TimestampMs>,
    pub(super) suffixes: Vec<&'static str>,
}

impl<'l> CleanedSegment<'l> {
    pub(super) fn create(log: &'l PartitionLog, base: Offset, buffer_bytes: usize) -> Result<Self, CompactError> {
        let path = cleaned_file(log, base, names::LOG);
        let file = log.fs().open(&path, &OpenOptions::create_empty());
        Ok(CleanedSegment {
            log,
            base,
            file: file.map_err(|error| CompactError::io("create", path, error))?,
            written: 0,
            buffer: Vec::new(),
            buffer_bytes,
            interval_bytes: log.config().index_interval_bytes,
            index: ActiveIndex::new(base),
        })
    }

    /// Adds a batch. Gives the number of bytes that were written to the file, often none.
    pub(super) fn append(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<u64, CompactError> {
        let position = self.written + self.buffer.len() as u64;
        if position + batch.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(CompactError::TooLarge { path: self.log.file(self.base, names::LOG) });
        }
        self.index.observe(header, position, self.interval_bytes);
        self.buffer.extend_from_slice(batch);
        if self.buffer.len() < self.buffer_bytes { Ok(0) } else { self.write_out() }
    }

    fn write_out(&mut self) -> Result<u64, CompactError> {
        let count = self.buffer.len() as u64;
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|error| CompactError::io("write", cleaned_file(self.log, self.base, names::LOG), error))?;
        // Bit by bit, so that the sync at the end finds little to do and holds nobody else's up. Only a hint.
        let _ = self.file.start_writeback(self.written, count);
        self.written += count;
        self.buffer.clear();
        self.buffer.shrink_to(self.buffer_bytes);
        Ok(count)
    }

    /// Writes and syncs everything, the names too. `with_transactions`: there is to be a transaction index even if it
    /// is empty, because it takes the place of one that is not.
    pub(super) fn finish(
        mut self,
        aborted: &[AbortedTransaction],
        with_transactions: bool,
    ) -> Result<FinishedSegment, CompactError> {
        self.write_out()?;
        self.index.note_largest_time();
        let fs = self.log.fs();
        let mut suffixes = vec![names::LOG, names::INDEX, names::TIME_INDEX];
        let path = |suffix| cleaned_file(self.log, self.base, suffix);
        let failed = |path: PathBuf| move |error| CompactError::io("write", path, error);
        let (offsets, times) = (path(names::INDEX), path(names::TIME_INDEX));
        index_file::write(fs, &offsets, 0, &self.index.offsets.pending).map_err(failed(offsets))?;
        index_file::write(fs, &times, 0, &self.index.times.pending).map_err(failed(times))?;
        if with_transactions || !aborted.is_empty() {
            let path = path(names::TRANSACTION_INDEX);
            let file = fs.open(&path, &OpenOptions::create_empty());
            let written = file.and_then(|file| file.write_all_at(&transaction_index::encode(aborted), 0));
            written.map_err(failed(path))?;
            suffixes.push(names::TRANSACTION_INDEX);
        }
        self.file.sync_all().map_err(|error| CompactError::io("sync", path(names::LOG), error))?;
        for suffix in &suffixes[1..] {
            let path = path(suffix);
            index_file::sync(fs, &path).map_err(|error| CompactError::io("sync", path, error))?;
        }
        let folder = self.log.folder();
        fs.sync_dir(&folder).map_err(|error| CompactError::io("sync", folder, error))?;
        let largest_time = self.index.largest_time.map(|largest| TimestampMs(largest.timestamp_ms));
        Ok(FinishedSegment { file: self.file, len: self.written, largest_time, suffixes })
    }
}

/// Removes what an attempt left. What stays all the same is removed by the next opening, or overwritten by the next
/// attempt.
pub(super) fn discard(log: &PartitionLog, base: Offset) {
    for suffix in ALL_SUFFIXES {
        let path = cleaned_file(log, base, suffix);
        match log.fs().remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(partition = %log.partition(), "cannot remove {}: {error}", path.display());
            }
            _ => {}
        }
    }
}

fn cleaned_file(log: &PartitionLog, base: Offset, suffix: &str) -> PathBuf {
    log.file(base, &format!("{suffix}{}", names::CLEANED))
}
