//! The data folder: one process, many logs, the checkpoints over them.

use mainstem_types::{Offset, TopicId, TopicPartition};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::LogConfig;
use crate::error::OpenError;
use crate::formats::meta_properties::MetaProperties;
use crate::formats::names::Parting;
use crate::partition_log::{LogRecovery, PartitionLog, StoreEnv};

/// How the folder was left by whoever used it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// Nobody used it before.
    New,
    /// `.kafka_cleanshutdown` is there and `abort` is not. The epoch is the broker's registration, -1 if unknown.
    Clean { broker_epoch: i64 },
    /// Killed, or the machine stopped: logs are scanned from their recovery points.
    Unclean,
}

/// A folder of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    pub partition: TopicPartition,
    /// From `partition.metadata`; `None` if that file is absent.
    pub topic_id: Option<TopicId>,
    pub path: PathBuf,
}

/// What was found when the folder was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderReport {
    pub stop: StopKind,
    /// Live partitions, `__cluster_metadata-0` not among them.
    pub partitions: Vec<FolderEntry>,
    /// Folders on the way out, `-delete`, `-future` and `-stray`.
    pub parted: Vec<(PathBuf, TopicPartition, Parting)>,
    /// Entries that are neither ours nor Kafka's; left alone.
    pub unknown: Vec<PathBuf>,
    /// Partition folders whose `partition.metadata` is empty or damaged, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// An open data folder. Dropping it without [`DataFolder::close`] leaves it as a crash would.
#[derive(Debug)]
pub struct DataFolder {}

impl DataFolder {
    /// Locks the folder (creates it if absent), looks at every entry, writes `abort`, removes `.kafka_cleanshutdown`.
    pub fn open(env: &Arc<StoreEnv>, path: &Path) -> Result<(DataFolder, FolderReport), OpenError> {
        todo!("{env:?} {path:?}")
    }

    pub fn path(&self) -> &Path {
        todo!()
    }

    pub fn env(&self) -> &Arc<StoreEnv> {
        todo!()
    }

    /// `meta.properties`; `None` in a new folder.
    pub fn meta_properties(&self) -> Result<Option<MetaProperties>, OpenError> {
        todo!()
    }

    /// Writes `meta.properties`, durably. What formats a new folder.
    pub fn write_meta_properties(&self, properties: &MetaProperties) -> Result<(), OpenError> {
        todo!("{properties:?}")
    }

    /// Opens (or creates, in a new folder) the log of the cluster's metadata.
    pub fn open_metadata_log(&self, config: Arc<LogConfig>) -> Result<(Arc<PartitionLog>, LogRecovery), OpenError> {
        todo!("{config:?}")
    }

    /// Opens a partition of the report. Any thread; logs of one folder may be opened in parallel.
    pub fn open_log(
        &self,
        entry: &FolderEntry,
        config: Arc<LogConfig>,
    ) -> Result<(Arc<PartitionLog>, LogRecovery), OpenError> {
        todo!("{entry:?} {config:?}")
    }

    /// Creates the folder of a new partition, durably.
    pub fn create_log(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        todo!("{partition} {topic_id} {config:?}")
    }

    /// As [`DataFolder::create_log`] for many, with one sync of the folder for all of them.
    pub fn create_logs(
        &self,
        partitions: &[(TopicPartition, TopicId, Arc<LogConfig>)],
    ) -> Result<Vec<Arc<PartitionLog>>, OpenError> {
        todo!("{}", partitions.len())
    }

    /// Closes a log and renames its folder to `<topic>-<partition>.<id>-delete`, durably. Its files go with
    /// [`DataFolder::remove_due`], after `delay`; readers that hold slices go on.
    pub fn delete_log(&self, log: &PartitionLog, delay: Duration) -> Result<(), OpenError> {
        todo!("{log:?} {delay:?}")
    }

    /// Deletes a folder of the report that was never opened (its topic was deleted while the broker was down).
    pub fn delete_entry(&self, entry: &FolderEntry, delay: Duration) -> Result<(), OpenError> {
        todo!("{entry:?} {delay:?}")
    }

    /// Parks a folder whose topic the metadata does not know: renames it to `…-stray`. Gives the new path.
    pub fn park_stray(&self, entry: &FolderEntry) -> Result<PathBuf, OpenError> {
        todo!("{entry:?}")
    }

    /// Removes `-delete` folders whose delay is over (those found at the start: at once); gives their number.
    pub fn remove_due(&self) -> usize {
        todo!()
    }

    /// Writes the checkpoint files: recovery points (never above the durable end), log starts, and the high watermarks that are given.
    /// Files of partitions in `logs` only. To be called about once a minute, and after log starts were raised.
    pub fn write_checkpoints(&self, logs: &[(Arc<PartitionLog>, Offset)]) -> Result<(), OpenError> {
        todo!("{}", logs.len())
    }

    /// High watermarks as of the last checkpoint.
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        todo!("{partition}")
    }

    /// Bytes that can still be written.
    pub fn free_space(&self) -> std::io::Result<u64> {
        todo!()
    }

    /// Closes every log, writes the checkpoints, then `.kafka_cleanshutdown` with the broker's epoch, then removes `abort`.
    /// If a log cannot be closed the folder stays marked as unclean, and the error says why.
    pub fn close(&self, logs: &[(Arc<PartitionLog>, Offset)], broker_epoch: i64) -> Result<(), OpenError> {
        todo!("{} {broker_epoch}", logs.len())
    }
}
