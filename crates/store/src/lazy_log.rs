//! A partition of layout `partition` that has no folder until its first append.
//!
//! - Until then the log answers as an empty log does, from memory. It costs no file system call: not when its topic is
//!   created, and not at a start.
//! - The first append creates the folder and its first files, and makes the folder's name durable, before it writes.
//!   Concurrent appends create the folder once, and share one sync of the data folder.
//! - If the folder cannot be created, the batch is refused, and the next append tries again. Only a failed sync is
//!   final.
//! - A log that was deleted creates nothing any more, and leaves nothing behind.
//!
//! Creating waits for the disk. Threads that must not wait ask [`LazyLog::get`] first.
//!
//! Locks, in this order: `creation` (held across the calls that create the files) → `ahead` (for moments).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mainstem_types::{LeaderEpoch, Offset, TopicId, TopicPartition};
use parking_lot::{Mutex, RwLock};

use crate::config::LogConfig;
use crate::durability::DurableListener;
use crate::error::{AppendError, LogStartError, OpenError, ReadError, StorageError};
use crate::log_types::{AppendContext, ReadRequest, Reading};
use crate::partition_log::PartitionLog;
use crate::store_env::StoreEnv;
use crate::views::epochs::Epochs;

/// The log of a partition that gets its folder with its first append.
#[derive(Debug)]
pub struct LazyLog {
    partition: TopicPartition,
    topic_id: TopicId,
    folder: PathBuf,
    parent: Arc<ParentFolder>,
    /// Set once, with `ahead` locked.
    created: OnceLock<Arc<PartitionLog>>,
    creation: Mutex<Creation>,
    ahead: Mutex<Ahead>,
}

/// A log with segments up to this size makes the names of its first files durable when it gets its folder: a producer
/// may fill the first segment before the files of the next one are prepared, and the roll would wait for that sync.
const SMALL_SEGMENT_BYTES: u32 = 64 << 20;

#[derive(Debug)]
enum Creation {
    NotBegun,
    /// It failed: some of the files may be there.
    Failed,
    /// The files are there. The name of the folder may not be durable.
    Unsynced(Arc<PartitionLog>),
    Done,
    Deleted,
}

/// Settings and epochs that the log is told before it exists.
struct Ahead {
    config: Arc<LogConfig>,
    epochs: Epochs,
    /// Leader epochs below have ended.
    fence: LeaderEpoch,
    listener: Option<DurableListener>,
    failure: Option<StorageError>,
    deleted: bool,
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").field("epochs", &self.epochs).field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// What a deleted log leaves behind.
pub(crate) enum Remains {
    Nothing,
    /// A folder may be there, with empty files.
    Files,
    Log(Arc<PartitionLog>),
}

impl LazyLog {
    pub(crate) fn new(
        parent: &Arc<ParentFolder>,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> LazyLog {
        let ahead = Ahead {
            config,
            epochs: Epochs::default(),
            fence: LeaderEpoch::NONE,
            listener: None,
            failure: None,
            deleted: false,
        };
        LazyLog {
            folder: parent.path.join(partition.to_string()),
            partition,
            topic_id,
            parent: Arc::clone(parent),
            created: OnceLock::new(),
            creation: Mutex::new(Creation::NotBegun),
            ahead: Mutex::new(ahead),
        }
    }

    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log, if it has its folder. Waits for nothing.
    pub fn get(&self) -> Option<&Arc<PartitionLog>> {
        self.created.get()
    }

    /// The log; creates its folder if it has none. Waits for the disk.
    pub fn get_or_create(&self) -> Result<&Arc<PartitionLog>, AppendError> {
        if let Some(log) = self.get() {
            return Ok(log);
        }
        self.create_files()?;
        self.finish(self.parent.names_created())
    }

    /// The first half of a creation: the folder and its files.
    pub(crate) fn create_files(&self) -> Result<(), AppendError> {
        let mut creation = self.creation.lock();
        match (&*creation, self.failure()) {
            (Creation::Done, _) => return Ok(()),
            (Creation::Deleted, _) => return Err(self.closed()),
            (_, Some(failure)) => return Err(failure.into()),
            (Creation::Unsynced(_), None) => return Ok(()),
            (Creation::NotBegun | Creation::Failed, None) => {}
        }
        let is_closed = self.parent.is_closed.read();
        if *is_closed {
            return Err(self.closed());
        }
        *creation = Creation::Failed;
        let config = self.config();
        let created =
            PartitionLog::create(&self.parent.env, &self.folder, self.partition.clone(), self.topic_id, config);
        let log = created.map_err(|error| self.not_created(error))?;
        if log.config().segment_bytes <= SMALL_SEGMENT_BYTES {
            log.sync_new_files().map_err(|failure| self.not_synced(failure))?;
        }
        *creation = Creation::Unsynced(Arc::new(log));
        Ok(())
    }

    /// The second half: `names` is [`ParentFolder::names_created`] after the first one.
    pub(crate) fn finish(&self, names: u64) -> Result<&Arc<PartitionLog>, AppendError> {
        if let Err(error) = self.parent.sync(names) {
            let failure = StorageError { action: "sync", path: self.folder.clone(), error: Arc::new(error) };
            return Err(self.not_synced(failure));
        }
        let mut creation = self.creation.lock();
        let is_closed = self.parent.is_closed.read();
        match std::mem::replace(&mut *creation, Creation::Done) {
            Creation::Unsynced(log) if !*is_closed => self.hand_over(log)?,
            Creation::Done => {}
            other => *creation = other,
        }
        self.get().ok_or_else(|| self.closed())
    }

    /// Tells the log what came before it, and lets everybody have it.
    fn hand_over(&self, log: Arc<PartitionLog>) -> Result<(), StorageError> {
        let mut ahead = self.ahead.lock();
        if *log.config() != *ahead.config {
            log.set_config(Arc::clone(&ahead.config));
        }
        if let Some(latest) = ahead.epochs.latest() {
            log.begin_epoch(latest.epoch)?;
        }
        if ahead.fence > LeaderEpoch::NONE {
            log.end_epoch(LeaderEpoch(ahead.fence.0 - 1))?;
        }
        if let Some(listener) = ahead.listener.take() {
            log.set_durable_listener(listener);
        }
        self.created.get_or_init(|| log);
        Ok(())
    }

    fn not_created(&self, error: OpenError) -> AppendError {
        let partition = self.partition.clone();
        let (path, error) = match error {
            OpenError::Io { error, .. } if mainstem_env::is_disk_full(&error) => {
                return AppendError::DiskFull { partition, bytes: 0 };
            }
            OpenError::Io { path, error } => (path, error),
            other => (self.folder.clone(), io::Error::other(other.to_string())),
        };
        tracing::error!(%partition, "the folder of the partition cannot be created: {}: {error}", path.display());
        AppendError::NoFolder { partition, path, error: Arc::new(error) }
    }

    fn not_synced(&self, failure: StorageError) -> AppendError {
        if !mainstem_env::may_pass(&failure.error) {
            self.end_with(failure.clone());
        }
        failure.into()
    }

    fn closed(&self) -> AppendError {
        AppendError::Closed { partition: self.partition.clone() }
    }

    /// Ends the log for good, and gives its remains. Waits for a creation under way.
    pub(crate) fn delete(&self) -> Remains {
        let mut creation = self.creation.lock();
        self.ahead.lock().deleted = true;
        match std::mem::replace(&mut *creation, Creation::Deleted) {
            Creation::NotBegun | Creation::Deleted => Remains::Nothing,
            Creation::Failed => Remains::Files,
            Creation::Unsynced(log) => Remains::Log(log),
            Creation::Done => self.get().map_or(Remains::Nothing, |log| Remains::Log(Arc::clone(log))),
        }
    }
}

/// Told to the log, or kept for the log until it exists.
impl LazyLog {
    pub(crate) fn config(&self) -> Arc<LogConfig> {
        match self.get() {
            Some(log) => log.config(),
            None => Arc::clone(&self.ahead.lock().config),
        }
    }

    pub(crate) fn set_config(&self, config: Arc<LogConfig>) {
        self.told(config, |ahead, config| ahead.config = config, |log, config| log.set_config(config));
    }

    pub(crate) fn set_durable_listener(&self, listener: DurableListener) {
        self.told(
            listener,
            |ahead, listener| ahead.listener = Some(listener),
            |log, listener| log.set_durable_listener(listener),
        );
    }

    pub(crate) fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        let begin = |ahead: &mut Ahead, epoch| {
            ahead.epochs.begin(epoch, Offset::ZERO);
            ahead.fence = ahead.fence.max(epoch);
            ahead.failure.clone().map_or(Ok(()), Err)
        };
        self.told(epoch, begin, |log, epoch| log.begin_epoch(epoch))
    }

    pub(crate) fn end_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        let end = |ahead: &mut Ahead, epoch: LeaderEpoch| {
            ahead.fence = ahead.fence.max(LeaderEpoch(epoch.0.saturating_add(1)));
            ahead.failure.clone().map_or(Ok(()), Err)
        };
        self.told(epoch, end, |log, epoch| log.end_epoch(epoch))
    }

    /// No log comes into being between the look and the action.
    fn told<T, R>(
        &self,
        what: T,
        before: impl FnOnce(&mut Ahead, T) -> R,
        after: impl FnOnce(&PartitionLog, T) -> R,
    ) -> R {
        let mut ahead = self.ahead.lock();
        if let Some(log) = self.get() {
            drop(ahead);
            return after(log, what);
        }
        before(&mut ahead, what)
    }

    /// The epochs that began, none of which has a record.
    pub(crate) fn epochs(&self) -> Epochs {
        self.ahead.lock().epochs.clone()
    }

    pub(crate) fn failure(&self) -> Option<StorageError> {
        match self.get() {
            Some(log) => log.failure(),
            None => self.ahead.lock().failure.clone(),
        }
    }

    /// Ends the log with an error; the first one stays.
    pub(crate) fn end_with(&self, failure: StorageError) -> StorageError {
        tracing::error!(partition = %self.partition, "{failure}");
        self.ahead.lock().failure.get_or_insert(failure).clone()
    }

    /// See [`PartitionLog::end_with`].
    pub(crate) fn end_for(&self, reason: String) -> StorageError {
        self.end_with(StorageError {
            action: "trust",
            path: self.folder.clone(),
            error: Arc::new(io::Error::other(reason)),
        })
    }

    /// DeleteRecords while there is no record.
    pub(crate) fn raise_no_log_start(&self, offset: Offset) -> Result<Offset, LogStartError> {
        if offset == Offset::ZERO {
            return Ok(Offset::ZERO);
        }
        let (partition, log_start, limit) = (self.partition.clone(), Offset::ZERO, Offset::ZERO);
        Err(LogStartError::OutOfRange { partition, offset, log_start, limit })
    }

    /// Refuses a batch of an epoch that has ended: it needs no folder.
    pub(crate) fn check_epoch(&self, context: &AppendContext) -> Result<(), AppendError> {
        if context.leader_epoch < self.ahead.lock().fence {
            return Err(AppendError::NotLeader { partition: self.partition.clone() });
        }
        Ok(())
    }

    /// What a read finds while there is no record.
    pub(crate) fn read_nothing(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        let partition = self.partition.clone();
        if self.ahead.lock().deleted {
            return Err(ReadError::Closed { partition });
        }
        if request.from != Offset::ZERO {
            let (log_start, log_end) = (Offset::ZERO, Offset::ZERO);
            return Err(ReadError::OutOfRange { partition, offset: request.from, log_start, log_end });
        }
        Ok(Reading::default())
    }
}

/// The data folder as creations of partitions see it.
#[derive(Debug)]
pub(crate) struct ParentFolder {
    env: Arc<StoreEnv>,
    path: PathBuf,
    /// Nothing is created any more.
    is_closed: RwLock<bool>,
    /// Counts names of partitions that were created.
    names: AtomicU64,
    /// So many of them are durable.
    durable: Mutex<u64>,
}

impl ParentFolder {
    pub(crate) fn new(env: &Arc<StoreEnv>, path: &Path) -> ParentFolder {
        ParentFolder {
            env: Arc::clone(env),
            path: path.to_owned(),
            is_closed: RwLock::new(false),
            names: AtomicU64::new(0),
            durable: Mutex::new(0),
        }
    }

    /// Waits for creations under way; none begins after this.
    pub(crate) fn close(&self) {
        *self.is_closed.write() = true;
    }

    /// To be called when names were created: [`ParentFolder::sync`] of the result makes them durable.
    pub(crate) fn names_created(&self) -> u64 {
        self.names.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// One sync covers all waiters.
    fn sync(&self, names: u64) -> io::Result<()> {
        let mut durable = self.durable.lock();
        if *durable < names {
            let all = self.names.load(Ordering::Acquire);
            self.env.fs.sync_dir(&self.path)?;
            *durable = all;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "lazy_log_tests.rs"]
mod tests;
