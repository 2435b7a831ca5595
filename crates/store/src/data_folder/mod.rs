//! The data folder: one process, many logs, the checkpoints over them.
//!
//! Order at the start: lock, `abort` written, `.kafka_cleanshutdown` removed, both durable before a log is touched.
//! Order at the end: logs closed, checkpoints written, `.kafka_cleanshutdown` written, `abort` removed. So a crash at
//! any point is seen as one.

mod across_groups;
mod checkpoints;
mod classify;
mod cut;
mod group_placement;
mod lazy;
mod lifecycle;
mod partition_groups;
mod reserve;

#[cfg(test)]
mod tests;

pub use classify::{FolderEntry, FolderReport, StopKind};
pub use cut::CutError;
pub use group_placement::{GroupPlacement, GroupedPartition};
pub use partition_groups::PartitionGroupsReport;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use checkpoints::{Checkpoints, Known};
use mainstem_env::{File, OpenOptions};
use mainstem_types::{CLUSTER_METADATA_TOPIC, Offset, PartitionIndex, TopicId, TopicPartition};
use parking_lot::Mutex;
use partition_groups::PartitionGroups;

use crate::config::LogConfig;
use crate::error::io_error;
use crate::error::{OpenError, StorageError};
use crate::formats::checkpoint::{self, Checkpoint};
use crate::formats::meta_properties::{self, MetaProperties};
use crate::formats::{clean_shutdown, lock, names};
use crate::lazy_log::ParentFolder;
use crate::log_types::LogRecovery;
use crate::metadata_files::MetadataFiles;
use crate::parallel;
use crate::partition_log::{OpenFacts, PartitionLog};
use crate::small_file;
use crate::store_env::StoreEnv;

const META_PROPERTIES: &str = "meta.properties";
/// So many logs are closed with one sync of the whole file system, which may be others', too: fewer are synced each by
/// itself.
const SYNC_AT_ONCE_LOGS: usize = 64;

/// An open data folder. Dropping it without [`DataFolder::close`] leaves it as a crash would.
#[derive(Debug)]
pub struct DataFolder {
    env: Arc<StoreEnv>,
    path: PathBuf,
    /// Keeps the lock.
    lock: Arc<dyn File>,
    clean: bool,
    /// Left by a Kafka that was killed.
    foreign: bool,
    /// What stays in the checkpoints of logs that a checkpoint of all logs does not list. Of folders that are there.
    known: Mutex<Known>,
    checkpoints: Mutex<Checkpoints>,
    /// As those see it that create folders of partitions.
    parent: Arc<ParentFolder>,
    /// Deleted partitions whose folders could not be renamed: they lie where new ones of these names would.
    in_the_way: Mutex<HashSet<TopicPartition>>,
    /// `-delete` folders, and the monotonic time at which each may go.
    leaving: Mutex<Vec<(PathBuf, Duration)>>,
    /// The partition groups, once they were asked for.
    groups: OnceLock<PartitionGroups>,
}

impl DataFolder {
    /// Locks the folder (creates it if absent), looks at every entry, writes `abort`, removes `.kafka_cleanshutdown`.
    pub fn open(env: &Arc<StoreEnv>, path: &Path) -> Result<(DataFolder, FolderReport), OpenError> {
        let fs = env.fs.as_ref();
        fs.create_dir_all_synced(path).map_err(io_error(path))?;
        let lock = take_lock(env, path)?;
        let mut report = classify::classify(fs, path)?;
        let mut known = Known::load(fs, path, &mut report.unreadable)?;
        let checkpoints = Mutex::new(Checkpoints::new(&known));
        let found: HashSet<_> = report.partitions.iter().map(|entry| &entry.partition).collect();
        known.retain(|partition| found.contains(partition));
        let abort = path.join(lock::ABORT_FILE_NAME);
        let foreign = report.stop == StopKind::Unclean && !fs.exists(&abort).map_err(io_error(&abort))?;
        mark_in_use(env, path)?;
        let folder = DataFolder {
            env: Arc::clone(env),
            path: path.to_owned(),
            parent: Arc::new(ParentFolder::new(env, path)),
            lock,
            clean: matches!(report.stop, StopKind::Clean { .. }),
            foreign,
            checkpoints,
            known: Mutex::new(known),
            in_the_way: Mutex::default(),
            leaving: Mutex::default(),
            groups: OnceLock::new(),
        };
        let found = report.parted.iter().filter(|(_, _, parting)| *parting == names::Parting::Delete);
        folder.leaving.lock().extend(found.map(|(path, ..)| (path.clone(), Duration::ZERO)));
        Ok((folder, report))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn env(&self) -> &Arc<StoreEnv> {
        &self.env
    }

    /// `meta.properties`; `None` in a new folder. An empty or damaged one is an error: whose folder it is must not be
    /// guessed.
    pub fn meta_properties(&self) -> Result<Option<MetaProperties>, OpenError> {
        let path = self.path.join(META_PROPERTIES);
        small_file::load(self.env.fs.as_ref(), &path, meta_properties::decode)?.required(&path)
    }

    /// Writes `meta.properties`, durably. What formats a new folder, so it says in `checkpoint` which format that is,
    /// too.
    pub fn write_meta_properties(&self, properties: &MetaProperties) -> Result<(), OpenError> {
        let fs = self.env.fs.as_ref();
        let format = self.path.join(checkpoint::FILE_NAME);
        if !fs.exists(&format).map_err(io_error(&format))? {
            fs.atomic_write(&format, &checkpoint::encode(&Checkpoint::default())).map_err(io_error(&format))?;
        }
        let path = self.path.join(META_PROPERTIES);
        fs.atomic_write(&path, &meta_properties::encode(properties)).map_err(io_error(&path))
    }

    /// Whether there is a log of the cluster's metadata.
    pub fn has_metadata_log(&self) -> Result<bool, OpenError> {
        let folder = self.path.join(names::METADATA_FOLDER);
        let metadata = folder.join("partition.metadata");
        Ok(self.env.fs.exists(&metadata).map_err(io_error(&metadata))? || self.has_segments(&folder)?)
    }

    /// Undoes what [`DataFolder::open`] did to the marks: for a start that is given up before any log was touched.
    /// Durable when it returns.
    pub fn give_back(&self, found: &FolderReport) -> Result<(), OpenError> {
        match found.stop {
            StopKind::Clean { broker_epoch } => self.write_mark(broker_epoch)?,
            StopKind::New => {}
            StopKind::Unclean => return Ok(()),
        }
        self.remove_abort()
    }

    /// Opens (or creates, in a new folder) the log of the cluster's metadata.
    ///
    /// Kafka keeps no checkpoint of it, so only ours tells up to where it needs no scan, whoever stopped last.
    pub fn open_metadata_log(&self, config: Arc<LogConfig>) -> Result<(Arc<PartitionLog>, LogRecovery), OpenError> {
        let partition = metadata_partition();
        let folder = self.path.join(names::METADATA_FOLDER);
        let fs = self.env.fs.as_ref();
        if !self.has_metadata_log()? {
            let log =
                PartitionLog::create(&self.env, &folder, partition, TopicId::CLUSTER_METADATA, Arc::clone(&config))?;
            log.sync_new_files()?;
            fs.sync_dir(&self.path).map_err(io_error(&self.path))?;
            return Ok((Arc::new(log), LogRecovery::default()));
        }
        let facts = OpenFacts {
            clean: false,
            recovery_point: self.known.lock().positions.get(names::METADATA_FOLDER).map(|position| Offset(*position)),
            log_start: None,
            cleaned_to: None,
            foreign: false,
            covered_to: MetadataFiles::new(Arc::clone(&self.env.fs), &folder)
                .snapshots()?
                .last()
                .map(|newest| newest.end),
            topic_id: None,
        };
        let (log, recovery) = PartitionLog::open(&self.env, &folder, partition, &facts, config)?;
        Ok((Arc::new(log), recovery))
    }

    fn has_segments(&self, folder: &Path) -> Result<bool, OpenError> {
        let fs = self.env.fs.as_ref();
        if !fs.exists(folder).map_err(io_error(folder))? {
            return Ok(false);
        }
        let entries = fs.read_dir(folder).map_err(io_error(folder))?;
        let segment = |name: &str| names::parse_segment_file(name, names::LOG).is_some();
        Ok(entries.iter().filter_map(|entry| entry.name.to_str()).any(segment))
    }

    /// High watermarks as of the last checkpoint.
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.known.lock().high_watermarks.get(partition).copied()
    }

    /// Bytes that can still be written.
    pub fn free_space(&self) -> std::io::Result<u64> {
        self.env.fs.free_space(&self.path)
    }

    /// Bytes of the file system, used or not.
    pub fn total_space(&self) -> std::io::Result<u64> {
        self.env.fs.total_space(&self.path)
    }

    /// Closes every log and all groups, writes the checkpoints, then `.kafka_cleanshutdown` with the broker's epoch,
    /// then removes `abort`. Logs come with their high watermarks, the metadata log among them.
    ///
    /// If a log cannot be closed the others are, the folder stays marked as unclean, and the error says why.
    pub fn close(&self, logs: &[(Arc<PartitionLog>, Offset)], broker_epoch: i64) -> Result<(), OpenError> {
        self.close_unfinished(logs)?;
        self.write_mark(broker_epoch)?;
        self.remove_abort()
    }

    /// As [`DataFolder::close`], of a folder with logs that nobody has recovered: what was recovered needs no further
    /// look, and the folder stays marked as unclean for the sake of the others.
    pub fn close_unfinished(&self, logs: &[(Arc<PartitionLog>, Offset)]) -> Result<(), OpenError> {
        self.end_creations();
        let mut failed = None;
        let (closed, at_once) = self.close_logs(logs);
        for ((log, _), closed) in logs.iter().zip(closed) {
            if let Err(error) = closed {
                tracing::error!(partition = %log.partition(), "not closed cleanly: {error}");
                failed.get_or_insert(error);
            }
        }
        if let Err(error) = self.close_groups() {
            failed.get_or_insert(error);
        }
        // Before the checkpoints, which rely on the renames and cuts of the logs.
        if at_once && !self.lock.sync_file_system().map_err(io_error(&self.path))? {
            return Err(io_error(&self.path)(std::io::ErrorKind::Unsupported.into()));
        }
        self.write_logs(logs, &|| true)?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Closes logs; many of them with one sync of the file system between the two halves of each close. `true`: another
    /// one is needed for names.
    fn close_logs(&self, logs: &[(Arc<PartitionLog>, Offset)]) -> (Vec<Result<(), StorageError>>, bool) {
        if logs.len() < SYNC_AT_ONCE_LOGS {
            return (parallel::map(logs, |(log, _)| log.close()), false);
        }
        let begun = parallel::map(logs, |(log, _)| log.begin_close(true));
        let at_once = self.lock.sync_file_system().unwrap_or_else(|error| {
            tracing::error!("{}: the file system is not synced, each log is by itself: {error}", self.path.display());
            false
        });
        let fs = self.env.fs.as_ref();
        let own = fs.file_system_id(&self.path).ok();
        let begun: Vec<_> = logs.iter().map(|(log, _)| log).zip(begun).collect();
        let closed = parallel::map(&begun, |(log, begun)| match begun {
            Ok(false) => Ok(()),
            // An administrator may have moved the folder to another disk, and left a link.
            Ok(true) => log.end_close(at_once && own.is_some() && fs.file_system_id(&log.folder()).ok() == own),
            Err(error) => Err(error.clone()),
        });
        (closed, at_once)
    }

    fn write_mark(&self, broker_epoch: i64) -> Result<(), OpenError> {
        let mark = self.path.join(clean_shutdown::FILE_NAME);
        let bytes = clean_shutdown::encode(clean_shutdown::CleanShutdown { broker_epoch });
        self.env.fs.atomic_write(&mark, &bytes).map_err(io_error(&mark))
    }

    fn remove_abort(&self) -> Result<(), OpenError> {
        let fs = self.env.fs.as_ref();
        let abort = self.path.join(lock::ABORT_FILE_NAME);
        fs.remove_file(&abort).and_then(|()| fs.sync_dir(&self.path)).map_err(io_error(&abort))
    }
}

/// Writes `abort` and removes the mark of an orderly stop. One sync for both names: with either of them lost the other
/// one, or the absence of both, still says "unclean" as long as no log was touched. What `abort` holds is for people,
/// so it needs no sync.
fn mark_in_use(env: &StoreEnv, path: &Path) -> Result<(), OpenError> {
    let fs = env.fs.as_ref();
    let abort = path.join(lock::ABORT_FILE_NAME);
    let written = fs.open(&abort, &OpenOptions::create_empty());
    let written = written.and_then(|file| file.write_all_at(&lock::encode(std::process::id()), 0));
    written.map_err(io_error(&abort))?;
    let mark = path.join(clean_shutdown::FILE_NAME);
    if fs.exists(&mark).map_err(io_error(&mark))? {
        fs.remove_file(&mark).map_err(io_error(&mark))?;
    }
    fs.sync_dir(path).map_err(io_error(path))
}

fn metadata_partition() -> TopicPartition {
    TopicPartition::new(CLUSTER_METADATA_TOPIC, PartitionIndex(0))
}

fn take_lock(env: &StoreEnv, path: &Path) -> Result<Arc<dyn File>, OpenError> {
    let lock_path = path.join(lock::LOCK_FILE_NAME);
    let file = env.fs.open(&lock_path, &OpenOptions::create()).map_err(io_error(&lock_path))?;
    if !file.try_lock().map_err(io_error(&lock_path))? {
        let holder = env.fs.read_all(&lock_path).ok().and_then(|bytes| lock::decode(&bytes));
        let holder = holder.map_or_else(String::new, |id| format!(" (process {id})"));
        return Err(OpenError::Locked { path: path.to_owned(), holder });
    }
    // Only now: the reserve of a folder in use is not ours to give back.
    reserve::release_if_needed(env.fs.as_ref(), path);
    let bytes = lock::encode(std::process::id());
    file.set_len(0).and_then(|()| file.write_all_at(&bytes, 0)).map_err(io_error(&lock_path))?;
    Ok(file)
}

/// One log to create.
pub type NewLog = (TopicPartition, TopicId, Arc<LogConfig>);
