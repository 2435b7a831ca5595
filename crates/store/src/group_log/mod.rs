//! The partitions of a group in one commit log: layouts `topic` and `shared`.
//!
//! Guarantees:
//!
//! - An append is in the page cache when it returns, and a later read sees it. It is durable when the partition's
//!   durable end has passed it. Offsets of a partition are dense, and never reused.
//! - Only the commit log counts. Consume queues, key index, producers, epochs, time marks and shares are views of it:
//!   each is a function of the entries up to the checkpoint and of those after it, which the start reads again. The
//!   start rebuilds a deleted view.
//! - The topic's id and an index identify a partition: records of a deleted topic never appear under its name again.
//! - The log ends where its last whole, checksummed entry ends. What follows is cut, durably, before the first append.
//! - A disk error is final for the whole group. A full disk refuses only the one append.
//!
//! ```text
//! checkpoint ≤ durable end of the commit log ≤ end of the commit log
//! log start ≤ durable end ≤ log end           (of each partition)
//! ```
//!
//! An append never waits for the files of a view. [`GroupLog::write_queues`] and the checkpoint write consume queues
//! from memory, which is bounded for all groups of the process together (`queue_bytes`, and at most four times as much
//! if the disk is too slow).
//!
//! Numbers: files of 1 GiB; a batch has at most 64 bytes less than a file; a key look-up compares at most 16,384
//! batches; a partition costs no file descriptor, and about 1 kB before its first append.
//!
//! Locks, in the order in which they may be taken: `checkpointing` → `appending` of a partition (several ones only to
//! truncate) → the one of the log starts (held while their file is written) → the commit log's (held across the write
//! of one entry) → `queue_folder` of a partition (held while files of its consume queue are written; appends only try
//! it) → `state` of a partition (held for moments) → those of the list of partitions, the key index, the journal and
//! the durability.

mod append;
mod checkpoint;
mod commit_log;
mod confirm;
mod entry_reader;
mod find;
mod find_by_key;
mod flush;
mod leader_epochs;
mod log_starts;
mod nowait;
mod open;
mod partition;
mod queue;
mod queue_files;
mod queue_folder;
mod queue_memory;
mod read;
mod replay;
mod replicated;
mod report;
mod resync;
mod retention;
mod run;
mod state;
mod strays;
mod time_marks;
mod truncate;
mod unit;

#[cfg(test)]
mod tests;

pub use open::LivePartition;
pub use partition::GroupPartition;
pub(crate) use queue_memory::QueueMemory;
pub use replicated::{Replicated, UnknownPartitions};
pub use report::GroupReport;
pub use retention::OldFile;
pub use unit::PlacedBatch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mainstem_env::Fs;
use mainstem_types::{Offset, PartitionIndex, TopicId, TopicPartition};
use parking_lot::{Mutex, RwLock};

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::formats::group_checkpoint::PartitionState;
use crate::store_env::StoreEnv;
use crate::views::key_index::{self, KeyIndex};
use commit_log::CommitLog;
use flush::Waiting;
use log_starts::LogStarts;
use queue::Queue;
use queue_files::QueueFiles;
use queue_folder::QueueFolder;

const COMMIT_LOG: &str = "commitlog";
const CONSUME_QUEUE: &str = "consumequeue";
const INDEX: &str = "index";

/// The sizes of a group's files. What is on the disk tells its own size where it matters; the two of the index must
/// stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    /// Of a commit log file.
    pub file_bytes: u64,
    /// Entries of a consume queue file.
    pub queue_entries: u32,
    /// Slots and entries of a key index file.
    pub index_slots: u32,
    pub index_entries: u32,
    /// The newest entries that are kept in memory.
    pub tail_cache_bytes: usize,
    /// What consume queues, those of all groups of the process together, may take of memory before they are written.
    pub queue_bytes: usize,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            file_bytes: 1 << 30,
            queue_entries: 300_000,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            tail_cache_bytes: 1 << 20,
            queue_bytes: 4 << 20,
        }
    }
}

impl GroupOptions {
    fn index_size(&self) -> key_index::Size {
        key_index::Size { slots: self.index_slots.max(1), entries: self.index_entries.max(2) }
    }
}

/// How a partition is known in a commit log.
pub type PartitionKey = (TopicId, PartitionIndex);

/// A group: one commit log and the views of its partitions. See the module's documentation for what is guaranteed.
#[derive(Debug)]
pub struct GroupLog {
    core: Arc<GroupCore>,
    partitions: RwLock<BTreeMap<PartitionKey, Arc<GroupPartition>>>,
    /// Of partitions that the metadata does not know.
    strays: Mutex<Vec<PartitionState>>,
    /// One checkpoint, retention pass or cut at a time; what the last checkpoint said.
    checkpointing: Mutex<checkpoint::Last>,
    log_starts: LogStarts,
}

/// What the partitions of a group share.
#[derive(Debug)]
pub(crate) struct GroupCore {
    env: Arc<StoreEnv>,
    folder: PathBuf,
    options: GroupOptions,
    log: CommitLog,
    index: KeyIndex,
    waiting: Arc<Waiting>,
    /// An error of the disk outside the commit log: in a view or a checkpoint.
    failed: OnceLock<StorageError>,
    /// Its topic was deleted, and its folder with it: what fails from now on is nobody's concern.
    left: AtomicBool,
    /// The log is a copy of a leader's: nothing of its own is written to it.
    follows: AtomicBool,
    /// A position: what the owner of the log knows to be committed. The checkpoint remembers it.
    high_watermark: AtomicU64,
}

impl GroupCore {
    fn fs(&self) -> &dyn Fs {
        self.env.fs.as_ref()
    }

    /// The error that ended the group, if one did.
    fn failure(&self) -> Option<StorageError> {
        let journal = || self.log.journal.failure().map(|failure| flush::storage_error(&failure));
        self.failed.get().cloned().or_else(journal)
    }

    fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    fn check_alive(&self) -> Result<(), StorageError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Ends the group with an error; the first one stays.
    fn fail(&self, action: &'static str, path: &Path, error: std::io::Error) -> StorageError {
        let failure = StorageError { action, path: path.to_owned(), error: Arc::new(error) };
        match self.has_left() {
            true => tracing::debug!(group = %self.folder.display(), "{failure}"),
            false => tracing::error!(group = %self.folder.display(), "{failure}"),
        }
        let first = self.failed.get_or_init(|| failure).clone();
        self.waiting.tell_all(&first);
        first
    }

    /// What an error in writing a view means: for want of space or descriptors the view is written later, everything
    /// else ends the group.
    fn view_failed(&self, path: &Path, error: std::io::Error) -> Result<(), StorageError> {
        match mainstem_env::may_pass(&error) {
            true => Ok(()),
            false => Err(self.fail("write", path, error)),
        }
    }

    fn queue_dir(&self, partition: &TopicPartition) -> PathBuf {
        self.folder.join(CONSUME_QUEUE).join(&*partition.topic).join(partition.partition.to_string())
    }

    fn index_dir(&self) -> PathBuf {
        self.folder.join(INDEX)
    }
}

impl GroupLog {
    pub fn folder(&self) -> &Path {
        &self.core.folder
    }

    pub fn options(&self) -> GroupOptions {
        self.core.options
    }

    /// The partition, if the group has it.
    pub fn partition(&self, topic_id: TopicId, partition: PartitionIndex) -> Option<Arc<GroupPartition>> {
        self.partitions.read().get(&(topic_id, partition)).cloned()
    }

    /// All partitions, by topic id and index.
    pub fn partitions(&self) -> Vec<Arc<GroupPartition>> {
        self.partitions.read().values().cloned().collect()
    }

    /// The partition, which begins empty if the group does not have it yet. Costs no IO.
    pub fn create(&self, name: TopicPartition, topic_id: TopicId, config: Arc<LogConfig>) -> Arc<GroupPartition> {
        let mut partitions = self.partitions.write();
        let made = partitions.entry((topic_id, name.partition));
        Arc::clone(made.or_insert_with(|| {
            let files = QueueFiles::new(self.core.queue_dir(&name), self.core.options.queue_entries);
            let queue = Queue::new(files.clone(), &self.core.env.queues, Offset::ZERO);
            let folder = QueueFolder::new(files, topic_id);
            GroupPartition::new(&self.core, name, topic_id, config, (state::PartitionViews::created(queue), folder))
        }))
    }

    /// Takes partitions out of the group: nobody reads or writes them any more, their views are removed, their records
    /// go with the files that hold them. The error says which views could not be removed; they are no part of the group
    /// either.
    pub fn delete(&self, keys: &[PartitionKey]) -> Result<usize, StorageError> {
        let gone: Vec<_> = {
            let mut partitions = self.partitions.write();
            keys.iter().filter_map(|key| partitions.remove(key)).collect()
        };
        let mut failed = None;
        for partition in &gone {
            partition.close_for_deletion();
            self.core.waiting.forget(&partition.key());
            self.core.env.indexes.forget(partition.state.lock().queue.files().number);
            if let Err(error) = partition.queue_folder.lock().delete(self.core.fs()) {
                let path = self.core.queue_dir(partition.partition());
                failed = Some(StorageError { action: "remove", path, error: Arc::new(error) });
            }
        }
        let gone: Vec<PartitionKey> = gone.iter().map(|partition| partition.key()).collect();
        if !gone.is_empty()
            && let Err(error) = self.note(&gone)
        {
            tracing::warn!("after a crash these records would belong to unknown topics: {error}");
        }
        failed.map_or(Ok(gone.len()), Err)
    }

    /// To be called before the folder of a group is renamed whose topic was deleted: a checkpoint or a retention pass
    /// that is under way, or comes later, has nothing to do.
    pub fn leave(&self) {
        self.core.left.store(true, Ordering::Release);
    }

    /// Bytes of the commit log, those of deleted topics included.
    pub fn size_bytes(&self) -> u64 {
        self.core.log.journal.total_bytes().unwrap_or(0)
    }

    /// Files of the commit log.
    pub fn file_count(&self) -> usize {
        self.core.log.journal.segment_bases().len()
    }

    /// The error that ended the group, if one did.
    pub fn failure(&self) -> Option<StorageError> {
        self.core.failure()
    }

    /// Writes the keys that wait for the index, so that no append has to, and adds those that were left out while the
    /// disk was full. To be called about once a second.
    pub fn write_keys(&self) {
        let written = self.core.index.write(self.core.fs());
        // An error of the disk ends the group, which is said where it does.
        if written.or_else(|error| self.core.view_failed(&self.core.index_dir(), error)).is_ok() {
            // What is still missing is said to those who look for it.
            let _ = self.add_missing_keys();
        }
    }

    /// Writes consume queues if all together take more memory than they may, so that no append has to. To be called
    /// about once a second.
    pub fn write_queues(&self) {
        let (memory, limit) = (&self.core.env.queues, self.core.options.queue_bytes);
        if !memory.is_write_due(limit) {
            return;
        }
        for partition in self.partitions() {
            let worth_it = memory.is_worth_writing(limit, partition.state.lock().queue.bytes());
            let written = if worth_it { partition.write_queue() } else { Ok(()) };
            let written =
                written.or_else(|error| self.core.view_failed(&self.core.queue_dir(&partition.partition), error));
            // An error of the disk ends the group, which is said where it does.
            if written.is_err() {
                return;
            }
        }
    }

    /// Frees memory and closes files that nobody has used lately. To be called now and then.
    pub fn release_idle(&self) {
        // Each is asked, also after one that is in use.
        let in_use = self.partitions().iter().filter(|partition| !partition.release_if_idle()).count();
        if in_use == 0 {
            self.core.log.journal.release_tail();
            self.core.index.release();
        }
    }
}
