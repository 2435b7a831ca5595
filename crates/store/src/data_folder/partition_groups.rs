//! The partition groups of a data folder, below `mainstem/`: which there are, and which partition is in which.
//!
//! ```text
//! mainstem/shared-<number>              the common groups of the broker
//! mainstem/topic-<topic id>-<number>    the groups of one topic
//! mainstem/….deleted                    of a deleted topic, to be removed
//! mainstem/….stray                      of a topic that the metadata does not know; kept
//! ```
//! A partition stays in the group that it was created in, whatever the settings say. The first one creates the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_types::{TimestampMs, TopicId};
use parking_lot::Mutex;

use super::DataFolder;
use super::group_placement::{GroupName, GroupedPartition};
use crate::error::io_error;
use crate::error::{OpenError, StorageError};
use crate::group_log::{GroupLog, GroupOptions, GroupPartition, GroupReport, LivePartition, OldFile, PartitionKey};
use crate::parallel;
use crate::removal::{FolderRemoval, Removal, remove_folder};
use crate::store_env::StoreEnv;

const FOLDER: &str = "mainstem";
const DELETED: &str = ".deleted";
const STRAY: &str = ".stray";

/// What opening the groups found and did.
#[derive(Debug, Default)]
pub struct PartitionGroupsReport {
    /// The groups that are open, by their folders.
    pub opened: Vec<(PathBuf, GroupReport)>,
    /// PartitionGroups of topics that the metadata does not know; renamed, not deleted.
    pub parked: Vec<PathBuf>,
    /// PartitionGroups that cannot be opened. Partitions that no other group has are not served.
    pub failed: Vec<(PathBuf, OpenError)>,
}

/// The open groups.
#[derive(Debug)]
pub(super) struct PartitionGroups {
    env: Arc<StoreEnv>,
    root: PathBuf,
    options: GroupOptions,
    open: Mutex<BTreeMap<GroupName, Arc<GroupLog>>>,
    /// PartitionGroups that could not be opened may have any of their partitions.
    failed: BTreeSet<GroupName>,
    leaving: Mutex<Vec<PathBuf>>,
}

impl PartitionGroups {
    fn open(
        folder: &DataFolder,
        options: GroupOptions,
        live: &[GroupedPartition],
    ) -> Result<(PartitionGroups, PartitionGroupsReport), OpenError> {
        let (env, root) = (Arc::clone(&folder.env), folder.path.join(FOLDER));
        let mut groups = PartitionGroups {
            env,
            root,
            options,
            open: Mutex::default(),
            failed: BTreeSet::new(),
            leaving: Mutex::default(),
        };
        let mut report = PartitionGroupsReport::default();
        let mut found = Vec::new();
        for name in groups.list()? {
            let path = groups.root.join(name.folder());
            let wanted: Vec<LivePartition> = match name {
                // Also those of other layouts now: a topic keeps its layout, but a folder may come from elsewhere.
                GroupName::Shared(_) => live.iter().map(GroupedPartition::live).collect(),
                GroupName::Topic(id, _) => {
                    live.iter().filter(|one| one.topic_id == id).map(GroupedPartition::live).collect()
                }
            };
            if let GroupName::Topic(..) = name
                && wanted.is_empty()
            {
                report.parked.push(groups.rename(&path, STRAY)?);
                continue;
            }
            found.push((name, path, wanted));
        }
        // Each group reads the entries after its checkpoint.
        let opened = parallel::map_large(&found, |(_, path, wanted)| {
            GroupLog::open(&groups.env, path, options, wanted, folder.clean)
        });
        for ((name, path, _), opened) in found.into_iter().zip(opened) {
            match opened {
                Ok((group, opened)) => {
                    groups.open.get_mut().insert(name, Arc::new(group));
                    report.opened.push((path, opened));
                }
                Err(error) => {
                    groups.failed.insert(name);
                    report.failed.push((path, error));
                }
            }
        }
        Ok((groups, report))
    }

    fn list(&self) -> Result<Vec<GroupName>, OpenError> {
        let entries = match self.env.fs.read_dir(&self.root) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error(&self.root))?,
        };
        let names = entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| entry.name.to_str());
        let deleted = names.clone().filter(|name| name.contains(DELETED)).map(|name| self.root.join(name));
        self.leaving.lock().extend(deleted);
        Ok(names.filter_map(GroupName::parse).collect())
    }

    fn rename(&self, path: &Path, suffix: &str) -> Result<PathBuf, OpenError> {
        let mut to = path.as_os_str().to_owned();
        to.push(suffix);
        let mut to = PathBuf::from(to);
        let mut number = 1;
        while self.env.fs.exists(&to).map_err(io_error(&to))? {
            to = path.with_added_extension(format!("{}.{number}", &suffix[1..]));
            number += 1;
        }
        self.env.fs.rename(path, &to).and_then(|()| self.env.fs.sync_dir(&self.root)).map_err(io_error(path))?;
        Ok(to)
    }

    /// The partition; created in its group if no group has it.
    fn partition(&self, wanted: &GroupedPartition) -> Result<Arc<GroupPartition>, OpenError> {
        let mut open = self.open.lock();
        let (id, index) = wanted.key();
        if let Some(found) = open.values().find_map(|group| group.partition(id, index)) {
            return Ok(found);
        }
        let may_have = |name: &&GroupName| match name {
            GroupName::Shared(_) => true,
            GroupName::Topic(topic, _) => *topic == id,
        };
        if let Some(name) = self.failed.iter().find(may_have) {
            let reason = format!("{} cannot be opened and may have it", self.root.join(name.folder()).display());
            return Err(OpenError::Journal(reason));
        }
        let name = wanted.place();
        let group = match open.get(&name) {
            Some(group) => Arc::clone(group),
            None => {
                let path = self.root.join(name.folder());
                let (group, _) = GroupLog::open(&self.env, &path, self.options, &[], true)?;
                // The name of a group that records are acknowledged in must not be lost.
                self.env.fs.sync_dir(&self.root).map_err(io_error(&self.root))?;
                let group = Arc::new(group);
                open.insert(name, Arc::clone(&group));
                group
            }
        };
        Ok(group.create(wanted.name.clone(), id, Arc::clone(&wanted.config)))
    }

    fn all(&self) -> Vec<Arc<GroupLog>> {
        self.open.lock().values().cloned().collect()
    }

    /// Deletes partitions; the groups of a topic go with it.
    fn delete(&self, partitions: &[Arc<GroupPartition>]) -> Vec<Result<(), OpenError>> {
        let mut open = self.open.lock();
        let keys: Vec<PartitionKey> =
            partitions.iter().map(|one| (one.topic_id(), one.partition().partition)).collect();
        let mut failed: Option<StorageError> = None;
        for group in open.values() {
            failed = failed.or(group.delete(&keys).err());
        }
        let topics: BTreeSet<TopicId> = keys.iter().map(|(topic, _)| *topic).collect();
        let empty = |name: &GroupName, group: &Arc<GroupLog>| match name {
            GroupName::Topic(topic, _) => topics.contains(topic) && group.partitions().is_empty(),
            GroupName::Shared(_) => false,
        };
        let gone: Vec<GroupName> =
            open.iter().filter(|(name, group)| empty(name, group)).map(|(name, _)| *name).collect();
        for name in gone {
            open.remove(&name).iter().for_each(|group| group.leave());
            match self.rename(&self.root.join(name.folder()), DELETED) {
                Ok(path) => self.leaving.lock().push(path),
                Err(error) => tracing::error!("cannot remove the group of a deleted topic: {error}"),
            }
        }
        // Leftover files of a view only cost space: the partitions are gone all the same.
        if let Some(error) = failed {
            tracing::warn!("cannot remove views of deleted partitions before the next start: {error}");
        }
        partitions.iter().map(|_| Ok(())).collect()
    }

    fn remove(&self, removal: &Removal<'_>) -> usize {
        let mut removed = self.all().iter().map(|group| group.remove_deleted_files(removal)).sum();
        // Taken before the loop: its guard would be held in it.
        let leaving = std::mem::take(&mut *self.leaving.lock());
        for path in leaving {
            match remove_folder(self.env.fs.as_ref(), &path, removal.go_on) {
                Ok(FolderRemoval::Removed) => removed += 1,
                Ok(FolderRemoval::Absent) => {}
                Ok(FolderRemoval::Stopped) => self.leaving.lock().push(path),
                Err(error) => {
                    tracing::warn!("cannot remove {}: {error}", path.display());
                    self.leaving.lock().push(path);
                }
            }
        }
        removed
    }
}

/// Does the same to every group; gives the first error.
fn for_each(
    groups: &[Arc<GroupLog>],
    work: impl Fn(&GroupLog) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    groups.iter().map(|group| work(group)).fold(Ok(()), Result::and)
}

impl DataFolder {
    /// Opens the groups that are there, with the partitions that the metadata knows of. To be called once, before
    /// [`DataFolder::group_partition`].
    pub fn open_groups(
        &self,
        options: GroupOptions,
        live: &[GroupedPartition],
    ) -> Result<PartitionGroupsReport, OpenError> {
        let (groups, report) = PartitionGroups::open(self, options, live)?;
        // A second call would open files twice; the first one counts.
        let _ = self.groups.set(groups);
        Ok(report)
    }

    /// The groups that are open.
    pub fn groups(&self) -> Vec<Arc<GroupLog>> {
        self.groups.get().map(PartitionGroups::all).unwrap_or_default()
    }

    /// The group in a folder, if it is open.
    pub fn group_in(&self, folder: &Path) -> Option<Arc<GroupLog>> {
        let name = GroupName::parse(folder.file_name()?.to_str()?)?;
        self.groups.get()?.open.lock().get(&name).cloned()
    }

    /// The partition, in the group that has it; created in the one that it belongs into if none has.
    pub fn group_partition(&self, wanted: &GroupedPartition) -> Result<Arc<GroupPartition>, OpenError> {
        match self.groups.get() {
            Some(groups) => groups.partition(wanted),
            None => Err(OpenError::Journal(format!("{}: the groups are not open", wanted.name))),
        }
    }

    /// Takes partitions out of their groups. Nobody reads or writes them any more; retention frees their space.
    pub fn delete_group_partitions(&self, partitions: &[Arc<GroupPartition>]) -> Vec<Result<(), OpenError>> {
        self.groups.get().map_or_else(Vec::new, |groups| groups.delete(partitions))
    }

    /// Deletes files of commit logs that no partition needs any more; gives their number. A group that an error of the
    /// disk ended stays as it is, and so does what is left when `go_on` says no.
    pub fn remove_unneeded(&self, go_on: &dyn Fn() -> bool) -> Result<usize, StorageError> {
        let groups = self.groups_alive().take_while(|_| go_on());
        let removed: Vec<_> = groups.map(|group| group.remove_unneeded()).collect();
        removed.into_iter().sum()
    }

    /// As [`DataFolder::remove_unneeded`], of the group in a folder alone: what is wrong with others does not matter.
    pub fn remove_unneeded_of(&self, group: &Path) -> Result<usize, StorageError> {
        self.groups_alive().find(|one| one.folder() == group).map_or(Ok(0), |group| group.remove_unneeded())
    }

    /// Lets go of records of partitions that the metadata does not know, once they are older than `retention_ms` (below
    /// 0: never). Their files go with [`DataFolder::remove_unneeded`]. Groups that are left when `go_on` says no wait
    /// for the next call.
    pub fn expire_unknown(
        &self,
        now: TimestampMs,
        retention_ms: i64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), StorageError> {
        let groups = self.groups_alive().take_while(|_| go_on());
        groups.map(|group| group.expire_strays(now, retention_ms)).fold(Ok(()), Result::and)
    }

    /// Whether there is any group.
    pub fn has_groups(&self) -> Result<bool, OpenError> {
        let root = self.path.join(FOLDER);
        match self.env.fs.read_dir(&root) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            entries => {
                let entries = entries.map_err(io_error(&root))?;
                Ok(entries.iter().filter_map(|entry| entry.name.to_str()).any(|name| GroupName::parse(name).is_some()))
            }
        }
    }

    /// The oldest file of each commit log, if it is written no more and can be deleted; the oldest writing comes first.
    pub fn oldest_commit_log_files(&self) -> Result<Vec<OldFile>, StorageError> {
        let oldest = self.groups_alive().map(|group| group.oldest_file()).collect::<Result<Vec<_>, _>>()?;
        let mut oldest: Vec<_> = oldest.into_iter().flatten().collect();
        oldest.sort_by_key(|file| file.modified);
        Ok(oldest)
    }

    fn groups_alive(&self) -> impl Iterator<Item = Arc<GroupLog>> {
        self.groups().into_iter().filter(|group| group.failure().is_none())
    }

    /// Writes keys that wait for an index, and consume queues that take too much memory. Call it about once a second.
    pub fn write_views_of_groups(&self) {
        self.groups().iter().for_each(|group| {
            group.write_queues();
            group.write_keys();
        });
    }

    /// Frees memory and files that were not used lately.
    pub fn release_idle_groups(&self) {
        self.groups().iter().for_each(|group| group.release_idle());
    }

    /// Leaves out the groups that are left when `go_on` says no.
    pub(super) fn checkpoint_groups(&self, go_on: &dyn Fn() -> bool) -> Result<(), StorageError> {
        for_each(&self.groups(), |group| if go_on() { group.checkpoint() } else { Ok(()) })
    }

    /// Makes the log starts of these partitions durable; gives the folders of the groups that failed, and why.
    pub(super) fn write_group_log_starts<'p>(
        &self,
        partitions: impl Iterator<Item = &'p Arc<GroupPartition>>,
    ) -> Vec<(PathBuf, StorageError)> {
        let mut folders: BTreeMap<&Path, Vec<Arc<GroupPartition>>> = BTreeMap::new();
        for partition in partitions {
            folders.entry(partition.folder()).or_default().push(Arc::clone(partition));
        }
        if folders.is_empty() {
            return Vec::new();
        }
        let groups = self.groups();
        let written =
            groups.iter().filter_map(|group| Some((group, group.write_log_starts(folders.get(group.folder())?))));
        written.filter_map(|(group, written)| Some((group.folder().to_owned(), written.err()?))).collect()
    }

    pub(super) fn close_groups(&self) -> Result<(), StorageError> {
        for_each(&self.groups(), GroupLog::close)
    }

    pub(super) fn remove_of_groups(&self, removal: &Removal<'_>) -> usize {
        self.groups.get().map_or(0, |groups| groups.remove(removal))
    }
}
