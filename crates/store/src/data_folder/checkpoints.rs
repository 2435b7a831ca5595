//! The checkpoint files of a data folder.

use std::path::Path;
use std::sync::Arc;

use super::{DataFolder, metadata_partition};
use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::checkpoint::{self, Checkpoint};
use crate::formats::offset_checkpoint::{self, OffsetsByPartition};
use crate::formats::{FormatError, names};
use crate::partition_log::{CheckpointEntry, PartitionLog};
use crate::small_file::{self, Loaded};
use crate::topic_log::TopicLog;
use mainstem_env::Fs;
use mainstem_types::{Offset, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
const LOG_STARTS: &str = "log-start-offset-checkpoint";
const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
const CLEANED: &str = "cleaner-offset-checkpoint";

/// What the files said when the folder was opened, and what was written of single logs since. It stays in the files for
/// logs that a checkpoint of all logs does not list: they could not be opened, or were created or opened after the list
/// was made.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    pub(super) recovery_points: OffsetsByPartition,
    pub(super) log_starts: OffsetsByPartition,
    pub(super) high_watermarks: OffsetsByPartition,
    /// Up to where each log is compacted.
    pub(super) cleaned: OffsetsByPartition,
    pub(super) positions: BTreeMap<String, i64>,
    pub(super) generation: u64,
}

impl Known {
    /// A file that is damaged is reported and counts as absent: recovery then scans more. So does an empty one, which
    /// is reported only if it is ours: a Kafka creates its files empty, and fills them when it has something to say.
    pub(super) fn load(fs: &dyn Fs, path: &Path, unreadable: &mut Vec<(PathBuf, String)>) -> Result<Known, OpenError> {
        let mut load = |name: &str| -> Result<OffsetsByPartition, OpenError> {
            let path = path.join(name);
            match small_file::load(fs, &path, offset_checkpoint::decode)? {
                Loaded::Empty => Ok(OffsetsByPartition::new()),
                loaded => Ok(note(loaded, path, unreadable).unwrap_or_default()),
            }
        };
        let (recovery_points, log_starts, high_watermarks) =
            (load(RECOVERY_POINTS)?, load(LOG_STARTS)?, load(HIGH_WATERMARKS)?);
        let cleaned = load(CLEANED)?;
        let mut ours = None;
        for name in [checkpoint::FILE_NAME, checkpoint::OLD_FILE_NAME] {
            let path = path.join(name);
            let loaded = small_file::load(fs, &path, checkpoint::decode)?;
            if let Loaded::Damaged(FormatError::Version { found, supported, .. }) = loaded
                && found > supported
            {
                // Its checksum is right: this is no damage.
                return Err(OpenError::Newer { path, found, supported });
            }
            ours = ours.or(note(loaded, path, unreadable));
        }
        let ours: Checkpoint = ours.unwrap_or_default();
        Ok(Known {
            recovery_points,
            log_starts,
            high_watermarks,
            cleaned,
            positions: ours.positions,
            generation: ours.generation,
        })
    }
}

fn note<T>(loaded: Loaded<T>, path: PathBuf, unreadable: &mut Vec<(PathBuf, String)>) -> Option<T> {
    match &loaded {
        Loaded::Empty => unreadable.push((path, "the file is empty".to_owned())),
        Loaded::Damaged(error) => unreadable.push((path, error.to_string())),
        Loaded::Absent | Loaded::Content(_) => {}
    }
    loaded.content()
}

/// A file as it is on the disk.
#[derive(Debug)]
struct OnDisk {
    offsets: OffsetsByPartition,
    /// A write failed: the disk has the old content or the new one, and `offsets` what either of them has.
    uncertain: bool,
}

impl OnDisk {
    fn new(offsets: &OffsetsByPartition) -> Self {
        OnDisk { offsets: offsets.clone(), uncertain: false }
    }
}

/// The files as they are on the disk, so that nothing is written twice.
#[derive(Debug)]
pub(super) struct Checkpoints {
    log_starts: OnDisk,
    recovery_points: OnDisk,
    high_watermarks: OnDisk,
    cleaned: OnDisk,
    positions: Option<BTreeMap<String, i64>>,
    generation: u64,
}

impl Checkpoints {
    pub(super) fn new(known: &Known) -> Self {
        Checkpoints {
            log_starts: OnDisk::new(&known.log_starts),
            recovery_points: OnDisk::new(&known.recovery_points),
            high_watermarks: OnDisk::new(&known.high_watermarks),
            cleaned: OnDisk::new(&known.cleaned),
            positions: None,
            generation: known.generation,
        }
    }

    fn knows(&self, partition: &TopicPartition) -> bool {
        let files = [&self.log_starts, &self.recovery_points, &self.high_watermarks, &self.cleaned];
        files.iter().any(|file| file.offsets.contains_key(partition))
    }

    /// The largest offset that any of the files has of a partition.
    pub(super) fn largest_offset(&self, partition: &TopicPartition) -> Option<Offset> {
        let files = [&self.log_starts, &self.recovery_points, &self.high_watermarks, &self.cleaned];
        files.iter().filter_map(|file| file.offsets.get(partition)).max().copied()
    }

    /// The files of Kafka's, to be changed.
    pub(super) fn kafkas(&self) -> Known {
        Known {
            log_starts: self.log_starts.offsets.clone(),
            recovery_points: self.recovery_points.offsets.clone(),
            high_watermarks: self.high_watermarks.offsets.clone(),
            cleaned: self.cleaned.offsets.clone(),
            ..Known::default()
        }
    }
}

impl Known {
    /// Keeps the entries of these partitions, and drops all others.
    pub(super) fn retain(&mut self, wanted: impl Fn(&TopicPartition) -> bool) {
        self.files().into_iter().for_each(|file| file.retain(|partition, _| wanted(partition)));
    }

    /// The partition is deleted, or begins again.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        for file in self.files() {
            file.remove(partition);
        }
    }

    /// Nothing is said of what lies at or above `offset`, where the log may be cut. False: nothing was.
    pub(super) fn lower(&mut self, partition: &TopicPartition, offset: Offset) -> bool {
        let mut lowered = false;
        for file in self.files() {
            if let Some(known) = file.get_mut(partition).filter(|known| **known > offset) {
                *known = offset;
                lowered = true;
            }
        }
        lowered
    }

    /// As [`Known::note`], of a log that is written alone, or was known before.
    fn renew(&mut self, log: &PartitionLog, entry: &CheckpointEntry, high_watermark: Offset) {
        // A deleted log is closed first and forgotten afterwards.
        if !log.is_closed() {
            self.note(log.partition(), entry, high_watermark);
        }
    }

    fn files(&mut self) -> [&mut OffsetsByPartition; 4] {
        [&mut self.recovery_points, &mut self.log_starts, &mut self.high_watermarks, &mut self.cleaned]
    }

    fn note(&mut self, partition: &TopicPartition, entry: &CheckpointEntry, high_watermark: Offset) {
        self.recovery_points.insert(partition.clone(), entry.recovery_point);
        self.high_watermarks.insert(partition.clone(), high_watermark);
        let log_start = Some(entry.log_start).filter(|_| entry.log_start_matters);
        for (file, value) in [(&mut self.log_starts, log_start), (&mut self.cleaned, entry.cleaned_to)] {
            match value {
                Some(offset) => file.insert(partition.clone(), offset),
                None => file.remove(partition),
            };
        }
    }
}

impl DataFolder {
    /// Writes the checkpoint files: recovery points (never above the durable end), log starts, and the high watermarks
    /// that are given. What they say of a folder whose log could not be opened stays, and so it does for a log that
    /// cannot be brought up to date: the others are written all the same, and the error tells.
    ///
    /// Syncs logs that have grown by more than 32 MiB since their last checkpoint, so call it where no request waits,
    /// about once a minute, and after log starts were raised. Give all logs that are open, with the metadata log.
    /// Groups write their own checkpoints.
    ///
    /// Asks `go_on` before each log and each group. Once it says no, the files stay as they are: the stop of the broker
    /// writes them.
    pub fn write_checkpoints(
        &self,
        logs: &[(Arc<PartitionLog>, Offset)],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), OpenError> {
        let groups = self.checkpoint_groups(go_on);
        self.write_logs(logs, go_on)?;
        self.keep_reserve();
        Ok(groups?)
    }

    /// The files that Kafka has too, and the metadata log's position.
    pub(super) fn write_logs(
        &self,
        logs: &[(Arc<PartitionLog>, Offset)],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), OpenError> {
        let mut checkpoints = self.checkpoints.lock();
        let mut next = self.known.lock().clone();
        next.positions.clear();
        let (mut failed, mut written) = (None, Vec::with_capacity(logs.len()));
        let metadata = metadata_partition();
        for (log, high_watermark) in logs {
            if !go_on() {
                return Ok(());
            }
            let partition = log.partition();
            if log.is_leaving() {
                // Its folder may belong to another log of the same name by now.
                continue;
            }
            // Also forgets transactions that ended below the log start.
            log.first_unstable_offset(*high_watermark);
            let (entry, failure) = log.checkpoint_entry();
            failed = failed.or(failure);
            let Some(entry) = entry else { continue };
            if *partition == metadata {
                next.positions.insert(names::METADATA_FOLDER.to_owned(), entry.recovery_point.0);
                continue;
            }
            next.note(partition, &entry, *high_watermark);
            written.push((log, entry, *high_watermark));
        }
        let positions = std::mem::take(&mut next.positions);
        self.replace_kafkas(&mut checkpoints, next)?;
        {
            let mut known = self.known.lock();
            for (log, entry, high_watermark) in written {
                log.checkpoint_written(entry.recovery_point);
                if known.recovery_points.contains_key(log.partition()) {
                    known.renew(log, &entry, high_watermark);
                }
            }
        }
        self.replace_ours(&mut checkpoints, positions)?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Brings what is said of these logs up to date, and leaves the others alone. One result a log, in their order: an
    /// error of one of them is none of the others'.
    pub fn write_checkpoints_of(&self, logs: &[(TopicLog, Offset)]) -> Vec<Result<(), Arc<OpenError>>> {
        let groups = self.write_group_log_starts(logs.iter().filter_map(|(log, _)| log.as_group_partition()));
        let mut checkpoints = self.checkpoints.lock();
        let mut next = checkpoints.kafkas();
        let mut written = Vec::new();
        let mut prepare = |(log, high_watermark): &(TopicLog, Offset)| {
            if let Some(partition) = log.as_group_partition() {
                let failed = groups.iter().find(|(folder, _)| folder == partition.folder());
                return failed.map_or(Ok(()), |(_, error)| Err(Arc::new(error.clone().into())));
            }
            // Where there is no folder, nothing was deleted.
            let Some(log) = log.as_partition_log() else { return Ok(()) };
            if log.is_closed() {
                // Its folder may belong to another log of the same name by now.
                return Ok(());
            }
            log.check_alive().map_err(|error| Arc::new(error.into()))?;
            let entry = log.prepare_checkpoint().map_err(|error| Arc::new(error.into()))?;
            next.note(log.partition(), &entry, *high_watermark);
            written.push((Arc::clone(log), entry, *high_watermark));
            Ok(())
        };
        let mut results: Vec<_> = logs.iter().map(&mut prepare).collect();
        if written.is_empty() {
            return results;
        }
        match self.replace_kafkas(&mut checkpoints, next) {
            Ok(()) => written.iter().for_each(|(log, entry, high_watermark)| self.written(log, entry, *high_watermark)),
            Err(error) => {
                let error = Arc::new(error);
                let of_files = |(result, (log, _)): &(&mut Result<(), _>, &(TopicLog, Offset))| {
                    result.is_ok() && log.as_partition_log().is_some()
                };
                for (result, _) in results.iter_mut().zip(logs).filter(of_files) {
                    *result = Err(Arc::clone(&error));
                }
            }
        }
        results
    }

    /// Brings what the files say of one log up to date: before it is compacted, up to its recovery point, and after
    /// that.
    pub fn write_checkpoint_of(&self, log: &PartitionLog, high_watermark: Offset) -> Result<(), OpenError> {
        let mut checkpoints = self.checkpoints.lock();
        if log.is_closed() {
            // Its folder may belong to another log of the same name by now.
            return Ok(());
        }
        let entry = log.prepare_checkpoint()?;
        let mut next = checkpoints.kafkas();
        next.note(log.partition(), &entry, high_watermark);
        self.replace_kafkas(&mut checkpoints, next)?;
        self.written(log, &entry, high_watermark);
        Ok(())
    }

    /// The files say this of a log that was written alone. To be called before the lock of the checkpoints is given
    /// back.
    fn written(&self, log: &PartitionLog, entry: &CheckpointEntry, high_watermark: Offset) {
        log.checkpoint_written(entry.recovery_point);
        self.known.lock().renew(log, entry, high_watermark);
    }

    /// Takes partitions that are about to be created out of the files: what these say is of earlier ones of the same
    /// name, and their log start would hide the records of the new ones after a crash.
    pub(super) fn forget_in_checkpoints<'p>(
        &self,
        partitions: impl Iterator<Item = &'p TopicPartition>,
    ) -> Result<(), OpenError> {
        let mut checkpoints = self.checkpoints.lock();
        let stale: BTreeSet<_> = partitions.filter(|partition| checkpoints.knows(partition)).cloned().collect();
        if stale.is_empty() {
            return Ok(());
        }
        stale.iter().for_each(|partition| self.known.lock().forget(partition));
        let mut next = checkpoints.kafkas();
        stale.iter().for_each(|partition| next.forget(partition));
        self.replace_kafkas(&mut checkpoints, next)
    }

    /// Log starts first: deleted records must not come back because a later file could not be written.
    pub(super) fn replace_kafkas(&self, checkpoints: &mut Checkpoints, next: Known) -> Result<(), OpenError> {
        self.replace(LOG_STARTS, &mut checkpoints.log_starts, next.log_starts)?;
        self.replace(RECOVERY_POINTS, &mut checkpoints.recovery_points, next.recovery_points)?;
        self.replace(HIGH_WATERMARKS, &mut checkpoints.high_watermarks, next.high_watermarks)?;
        self.replace(CLEANED, &mut checkpoints.cleaned, next.cleaned)
    }

    fn replace(&self, name: &str, on_disk: &mut OnDisk, next: OffsetsByPartition) -> Result<(), OpenError> {
        if on_disk.offsets == next && !on_disk.uncertain {
            return Ok(());
        }
        let path = self.path.join(name);
        on_disk.uncertain = true;
        on_disk.offsets.extend(next.iter().map(|(partition, offset)| (partition.clone(), *offset)));
        self.env.fs.atomic_write(&path, &offset_checkpoint::encode(&next)).map_err(io_error(&path))?;
        *on_disk = OnDisk { offsets: next, uncertain: false };
        Ok(())
    }

    fn replace_ours(&self, checkpoints: &mut Checkpoints, positions: BTreeMap<String, i64>) -> Result<(), OpenError> {
        if checkpoints.positions.as_ref() == Some(&positions) {
            return Ok(());
        }
        let fs = self.env.fs.as_ref();
        let path = self.path.join(checkpoint::FILE_NAME);
        let previous = small_file::load(fs, &path, checkpoint::decode)?;
        if let Loaded::Content(previous) = previous {
            let old = self.path.join(checkpoint::OLD_FILE_NAME);
            fs.atomic_write(&old, &checkpoint::encode(&previous)).map_err(io_error(&old))?;
        }
        checkpoints.generation += 1;
        let next = Checkpoint { generation: checkpoints.generation, positions };
        fs.atomic_write(&path, &checkpoint::encode(&next)).map_err(io_error(&path))?;
        checkpoints.positions = Some(next.positions);
        Ok(())
    }
}
