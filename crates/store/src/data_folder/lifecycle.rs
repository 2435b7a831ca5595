//! Partitions come and go: open, create, delete, park.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{DataFolder, FolderEntry, NewLog};
use crate::config::LogConfig;
use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::names::{self, Parting};
use crate::log_types::LogRecovery;
use crate::parallel;
use crate::partition_log::{OpenFacts, PartitionLog};
use crate::removal::{FolderRemoval, Removal, remove_folder};
use mainstem_types::{TopicId, TopicPartition};

impl DataFolder {
    /// Opens a partition of the report. Any thread; logs of one folder may be opened in parallel.
    pub fn open_log(
        &self,
        entry: &FolderEntry,
        config: Arc<LogConfig>,
    ) -> Result<(Arc<PartitionLog>, LogRecovery), OpenError> {
        let facts = {
            let known = self.known.lock();
            OpenFacts {
                clean: self.clean,
                recovery_point: known.recovery_points.get(&entry.partition).copied(),
                log_start: known.log_starts.get(&entry.partition).copied(),
                cleaned_to: known.cleaned.get(&entry.partition).copied(),
                foreign: self.foreign,
                covered_to: None,
                topic_id: entry.topic_id,
            }
        };
        let (log, recovery) = PartitionLog::open(&self.env, &entry.path, entry.partition.clone(), &facts, config)?;
        Ok((Arc::new(log), recovery))
    }

    /// Gives a folder without a readable `partition.metadata` (of an old Kafka, or of a creation that a crash
    /// interrupted) its topic's id, durably: from here on it cannot be taken for the folder of a later topic of the
    /// same name.
    pub fn adopt(&self, entry: &FolderEntry, topic_id: TopicId) -> Result<(), OpenError> {
        PartitionLog::write_topic_id(self.env.fs.as_ref(), &entry.path, topic_id)
    }

    /// Creates the folder of a new partition. Its name is durable when this returns; see [`PartitionLog::create`] for
    /// the rest.
    pub fn create_log(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        let mut logs = self.create_logs(&[(partition.clone(), topic_id, config)])?;
        logs.pop().unwrap_or_else(|| Err(OpenError::Exists { path: self.path.clone() }))
    }

    /// As [`DataFolder::create_log`] for many, with one sync of the folder for all of them. One result a partition, in
    /// their order; an error of the whole says that none of them may be used. What was created so far stays; it is
    /// found at the next start.
    pub fn create_logs(&self, partitions: &[NewLog]) -> Result<Vec<Result<Arc<PartitionLog>, OpenError>>, OpenError> {
        self.forget_in_checkpoints(partitions.iter().map(|(partition, ..)| partition))?;
        let create = |(partition, topic_id, config): &NewLog| {
            let folder = self.path.join(partition.to_string());
            PartitionLog::create(&self.env, &folder, partition.clone(), *topic_id, Arc::clone(config)).map(Arc::new)
        };
        let logs = parallel::map(partitions, create);
        self.env.fs.sync_dir(&self.path).map_err(io_error(&self.path))?;
        Ok(logs)
    }

    /// Closes a log and renames its folder to `<topic>-<partition>.<id>-delete`, durably. Its files go with
    /// [`DataFolder::remove`], after `delay`; readers that hold slices go on.
    pub fn delete_log(&self, log: &PartitionLog, delay: Duration) -> Result<(), OpenError> {
        self.delete_logs(&[(log, delay)]).pop().unwrap_or(Ok(()))
    }

    /// As [`DataFolder::delete_log`] for many, with one sync of the folder for all of them. One result a log, in their
    /// order.
    pub fn delete_logs(&self, logs: &[(&PartitionLog, Duration)]) -> Vec<Result<(), OpenError>> {
        let renamed: Vec<_> = logs
            .iter()
            .map(|(log, delay)| {
                log.close_for_deletion();
                self.rename_away(&log.folder(), log.partition(), Parting::Delete).map(|path| Some((path, *delay)))
            })
            .collect();
        self.settle_deletions(renamed)
    }

    /// Makes the new names of deleted folders durable, and notes when each folder may go.
    pub(super) fn settle_deletions(
        &self,
        renamed: Vec<Result<Option<(PathBuf, Duration)>, OpenError>>,
    ) -> Vec<Result<(), OpenError>> {
        let any = renamed.iter().any(|renamed| matches!(renamed, Ok(Some(_))));
        let synced = if any { self.env.fs.sync_dir(&self.path) } else { Ok(()) };
        let settle = |renamed: Result<Option<(PathBuf, Duration)>, OpenError>| {
            let Some((path, delay)) = renamed? else { return Ok(()) };
            self.leaving.lock().push((path, self.env.clock.monotonic() + delay));
            match &synced {
                Ok(()) => Ok(()),
                Err(error) => Err(io_error(&self.path)(std::io::Error::new(error.kind(), error.to_string()))),
            }
        };
        renamed.into_iter().map(settle).collect()
    }

    /// Deletes a folder of the report that was never opened (its topic was deleted while the broker was down).
    pub fn delete_entry(&self, entry: &FolderEntry, delay: Duration) -> Result<(), OpenError> {
        self.leave(&entry.path, &entry.partition, delay)
    }

    /// Parks a folder whose topic the metadata does not know: renames it to `…-stray`. Gives the new path. Nothing in
    /// it is touched.
    pub fn park_stray(&self, entry: &FolderEntry) -> Result<PathBuf, OpenError> {
        let parked = self.part(&entry.path, &entry.partition, Parting::Stray)?;
        tracing::warn!(
            partition = %entry.partition,
            "the metadata does not know this partition; its data stays as {}",
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
        let to = self.rename_away(folder, partition, parting)?;
        self.env.fs.sync_dir(&self.path).map_err(io_error(&self.path))?;
        Ok(to)
    }

    pub(super) fn rename_away(
        &self,
        folder: &Path,
        partition: &TopicPartition,
        parting: Parting,
    ) -> Result<PathBuf, OpenError> {
        let mut id = [0; 16];
        self.env.rng.fill(&mut id).map_err(io_error(folder))?;
        let to = self.path.join(names::parted_folder(partition, parting, u128::from_be_bytes(id)));
        self.env.fs.rename(folder, &to).map_err(io_error(folder))?;
        self.known.lock().forget(partition);
        Ok(to)
    }

    /// Removes `-delete` folders whose delay is over (those found at the start: at once); gives their number. Slow;
    /// call it where no request waits. What cannot be removed is tried again by the next call.
    pub fn remove_due(&self) -> usize {
        self.remove(&Removal::due())
    }

    /// Removes `-delete` folders and deleted files of groups as `removal` says; gives their number.
    pub fn remove(&self, removal: &Removal<'_>) -> usize {
        let now = self.env.clock.monotonic();
        let (mut removed, mut stay) = (self.remove_of_groups(removal), Vec::new());
        while (removal.go_on)() {
            let next = {
                let mut leaving = self.leaving.lock();
                let due = leaving.iter().position(|(_, due)| removal.everything || *due <= now);
                due.map(|place| leaving.swap_remove(place))
            };
            let Some((path, due)) = next else { break };
            match remove_folder(self.env.fs.as_ref(), &path, removal.go_on) {
                Ok(FolderRemoval::Removed) => removed += 1,
                Ok(FolderRemoval::Absent) => {}
                Ok(FolderRemoval::Stopped) => stay.push((path, due)),
                Err(error) => {
                    tracing::warn!("cannot remove {}: {error}", path.display());
                    stay.push((path, due));
                }
            }
        }
        self.leaving.lock().append(&mut stay);
        removed
    }
}
