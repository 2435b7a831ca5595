//! Partitions come and go: open, create, delete, park.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{DataFolder, FolderEntry, NewLog};
use crate::config::LogConfig;
use crate::error::OpenError;
use crate::formats::names::{self, Parting};
use crate::partition_log::{LogRecovery, OpenFacts, PartitionLog, io_error};
use mainstem_types::{TopicId, TopicPartition};

impl DataFolder {
    /// Opens a partition of the report. Any thread; logs of one folder may be opened in parallel.
    pub fn open_log(
        &self,
        entry: &FolderEntry,
        config: Arc<LogConfig>,
    ) -> Result<(Arc<PartitionLog>, LogRecovery), OpenError> {
        let facts = OpenFacts {
            clean: self.clean,
            recovery_point: self.known.recovery_points.get(&entry.partition).copied(),
            log_start: self.known.log_starts.get(&entry.partition).copied(),
        };
        let (log, recovery) = PartitionLog::open(&self.env, &entry.path, entry.partition.clone(), &facts, config)?;
        Ok((Arc::new(log), recovery))
    }

    /// Creates the folder of a new partition, durably.
    pub fn create_log(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        let mut logs = self.create_logs(&[(partition.clone(), topic_id, config)])?;
        logs.pop().ok_or_else(|| OpenError::Exists { path: self.path.clone() })
    }

    /// As [`DataFolder::create_log`] for many, with one sync of the folder for all of them. On an error those created so far stay; they are
    /// found at the next start.
    pub fn create_logs(&self, partitions: &[NewLog]) -> Result<Vec<Arc<PartitionLog>>, OpenError> {
        let mut logs = Vec::with_capacity(partitions.len());
        for (partition, topic_id, config) in partitions {
            let folder = self.path.join(partition.to_string());
            let log = PartitionLog::create(&self.env, &folder, partition.clone(), *topic_id, Arc::clone(config))?;
            logs.push(Arc::new(log));
        }
        self.env.fs.sync_dir(&self.path).map_err(io_error(&self.path))?;
        Ok(logs)
    }

    /// Closes a log and renames its folder to `<topic>-<partition>.<id>-delete`, durably. Its files go with
    /// [`DataFolder::remove_due`], after `delay`; readers that hold slices go on.
    pub fn delete_log(&self, log: &PartitionLog, delay: Duration) -> Result<(), OpenError> {
        log.close_for_deletion();
        self.leave(&log.folder(), log.partition(), delay)
    }

    /// Deletes a folder of the report that was never opened (its topic was deleted while the broker was down).
    pub fn delete_entry(&self, entry: &FolderEntry, delay: Duration) -> Result<(), OpenError> {
        self.leave(&entry.path, &entry.partition, delay)
    }

    /// Parks a folder whose topic the metadata does not know: renames it to `…-stray`. Gives the new path. Nothing in it is touched.
    pub fn park_stray(&self, entry: &FolderEntry) -> Result<PathBuf, OpenError> {
        let parked = self.part(&entry.path, &entry.partition, Parting::Stray)?;
        tracing::warn!(
            partition = %entry.partition,
            "the metadata does not know this partition; its data is kept as {}",
            parked.display()
        );
        Ok(parked)
    }

    fn leave(&self, folder: &Path, partition: &TopicPartition, delay: Duration) -> Result<(), OpenError> {
        let path = self.part(folder, partition, Parting::Delete)?;
        let due = self.env.clock.monotonic() + delay;
        self.leaving.lock().push((path, due));
        Ok(())
    }

    fn part(&self, folder: &Path, partition: &TopicPartition, parting: Parting) -> Result<PathBuf, OpenError> {
        let mut id = [0; 16];
        self.env.rng.fill(&mut id).map_err(io_error(folder))?;
        let to = self.path.join(names::parted_folder(partition, parting, u128::from_be_bytes(id)));
        let fs = self.env.fs.as_ref();
        fs.rename(folder, &to).and_then(|()| fs.sync_dir(&self.path)).map_err(io_error(folder))?;
        Ok(to)
    }

    /// Removes `-delete` folders whose delay is over (those found at the start: at once); gives their number. Slow; call it where nobody waits.
    /// What cannot be removed is tried again by the next call.
    pub fn remove_due(&self) -> usize {
        let now = self.env.clock.monotonic();
        let due: Vec<_> = self.leaving.lock().extract_if(.., |(_, due)| *due <= now).collect();
        let mut removed = 0;
        for (path, due) in due {
            match self.env.fs.remove_dir_all(&path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!("remove {}: {error}", path.display());
                    self.leaving.lock().push((path, due));
                }
            }
        }
        removed
    }
}
