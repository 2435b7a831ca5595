//! Partition logs: in Kafka's own files (`partition_log`), or many in one commit log (`group_log`); and the data
//! folder. The two layouts know nothing of each other: they share the contract (`log_types.rs`) and the folder `views`.
//!
//! Guarantees:
//!
//! - [`TopicLog`] is the contract of all layouts: [`PartitionLog`] for layout `partition`, [`GroupPartition`] for
//!   layouts `topic` and `shared`. All are `Send + Sync`, and every method takes `&self`. An append is in the page
//!   cache when it returns (with [`Durability::Memory`] in the journal's memory, which a killed process loses), and
//!   durable when the durable end ([`TopicLog::durable_end`]) has passed it. Offsets are dense, and never reused.
//! - In layout `partition` every file is Kafka's, byte for byte. In the other layouts consume queues and key index are
//!   RocketMQ's. `docs/formats/` draws all files. Indexes, queues, producer state and aborted transactions are views:
//!   the store rebuilds lost or damaged ones.
//! - A log ends where its last whole, checksummed batch ends. What follows is cut, durably, before the first append.
//! - A disk error is final for its log ([`StorageError`]). Other logs of the folder are not affected.
//! - [`DataFolder`]: one process at a time uses it. It never deletes data of an unknown topic, but parks it.
//!
//! Numbers: a segment has at most 2,147,483,647 bytes and as many offsets; a batch at most `max.message.bytes`; five
//! batches are remembered for each producer; an idle log costs no file descriptor and less than 3 kB.
//!
//! ```text
//! log start ≤ durable end ≤ log end          (of a PartitionLog)
//! log start ≤ last stable offset ≤ high watermark ≤ log end    (the high watermark is the replica's, not kept here)
//! ```

pub mod compaction;
pub mod config;
pub mod data_folder;
mod durability;
pub mod error;
mod file_window;
pub mod formats;
pub mod group_log;
mod key_query;
mod lazy_log;
mod log_number;
mod log_types;
pub mod metadata_files;
mod parallel;
pub mod partition_log;
mod prepare;
pub mod rebuild;
mod removal;
mod small_file;
mod store_env;
mod sync;
mod topic_log;
mod views;

pub use compaction::{Cleanable, CleanerLimits, CleaningControl, CompactError, Compaction};
pub use config::{Compression, Durability, KeyIndexing, LogConfig};
pub use data_folder::{
    CutError, DataFolder, FolderEntry, FolderReport, GroupPlacement, GroupedPartition, NewLog, PartitionGroupsReport,
    StopKind,
};
pub use durability::DurableListener;
pub use error::{AppendError, LogStartError, OpenError, ReadError, ReplicateError, StorageError};
pub use formats::epoch_checkpoint::EpochEntry;
pub use formats::group_checkpoint::EpochStart;
pub use formats::meta_properties::MetaProperties;
pub use formats::names::Parting;
pub use formats::quorum_state::{QuorumContent, QuorumState};
pub use formats::transaction_index::AbortedTransaction;
pub use group_log::{
    GroupLog, GroupOptions, GroupPartition, GroupReport, LivePartition, OldFile, PlacedBatch, Replicated,
    UnknownPartitions,
};
pub use key_query::{FindByKeyError, FoundByKey, INDEXED_BYTES_MAX, KeyMatches, KeyQuery};
pub use lazy_log::LazyLog;
pub use log_types::{
    AppendContext, Appended, LogEnds, LogPositions, LogRecovery, Origin, ProducerSummary, ReadChunk, ReadPositions,
    ReadRequest, Reading, RetentionOutcome, TimestampOffset,
};
pub use mainstem_journal::{UNWRITTEN_BYTES_MAX, WRITE_OUT_AFTER};
pub use metadata_files::{MetadataFiles, SnapshotId};
pub use partition_log::{OpenFacts, PartitionLog};
pub use removal::Removal;
pub use small_file::Loaded;
pub use store_env::StoreEnv;
pub use topic_log::TopicLog;

/// CRC-32C, the checksum of every structure here that has one.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
