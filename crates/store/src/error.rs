//! What can go wrong, one enum for each operation.

use mainstem_env::{is_disk_full, is_out_of_descriptors};
use mainstem_record::ValidationError;
use mainstem_types::{
    LeaderEpoch, Offset, PartitionIndex, Position, ProducerEpoch, ProducerId, TopicId, TopicPartition,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::formats::FormatError;

/// The disk failed under a log. Final for this log until it is opened again, unless the message says that the log goes
/// on: nothing is acknowledged after it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{action} {path} failed: {error}{}", consequence(action, error), path = path.display())]
pub struct StorageError {
    /// The attempted action, as a verb: "write", "sync", "open".
    pub action: &'static str,
    pub path: PathBuf,
    pub error: Arc<io::Error>,
}

/// What follows for the log. Want of space or of descriptors ends no log, except where a sync found no space: what was
/// written before may be lost. Nor does a read.
fn consequence(action: &str, error: &io::Error) -> &'static str {
    match action {
        _ if is_out_of_descriptors(error) => "; the log goes on, and a later attempt may find a file descriptor",
        "read" | "look keys up in" => "",
        "sync" => FINAL,
        _ if is_disk_full(error) => "; the log goes on, and a later attempt may find space",
        _ => FINAL,
    }
}

const FINAL: &str = "; the log accepts no more writes until the next start";

/// Why a batch was not appended. Nothing was written, unless it is `Storage`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// Framing, CRC, counts, timestamps, keys, codec: what `record::validate` says, with its class and record errors.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    #[error("{partition}: the batch has {size} bytes, max.message.bytes is {limit}")]
    MessageTooLarge { partition: TopicPartition, size: usize, limit: u32 },
    #[error("{partition}: the batch has {size} bytes, a segment at most {limit} (segment.bytes)")]
    RecordListTooLarge { partition: TopicPartition, size: usize, limit: u32 },
    #[error("{partition}: producer {producer_id} sent sequence {found} where {expected} follows")]
    OutOfOrderSequence { partition: TopicPartition, producer_id: ProducerId, expected: i32, found: i32 },
    #[error("{partition}: producer {producer_id} sent epoch {found}, a newer instance has epoch {current}")]
    InvalidProducerEpoch {
        partition: TopicPartition,
        producer_id: ProducerId,
        current: ProducerEpoch,
        found: ProducerEpoch,
    },
    #[error("{partition}: producer {producer_id} sent a plain batch while its transaction is open")]
    InvalidTransactionState { partition: TopicPartition, producer_id: ProducerId },
    /// The batch could not be compressed again for `compression.type`.
    #[error("{partition}: the batch cannot be compressed as compression.type asks: {reason}")]
    Recompression { partition: TopicPartition, reason: Arc<mainstem_record::RecompressError> },
    /// Offsets or epochs of a batch that came with both do not continue the log.
    #[error(
        "{partition}: a batch with offset {found} and epoch {found_epoch} cannot follow offset {expected} and epoch {epoch}"
    )]
    NotNext { partition: TopicPartition, expected: Offset, epoch: LeaderEpoch, found: Offset, found_epoch: LeaderEpoch },
    /// Nothing of the batch was written; the log goes on as soon as there is room again.
    #[error("{partition}: no space left on the device for {bytes} bytes; free space, then send it again")]
    DiskFull { partition: TopicPartition, bytes: u64 },
    /// The remaining space is kept for reads, deletions and administration.
    #[error("{partition}: the disk is nearly full (mainstem.disk.reserve); free space, then send it again")]
    DiskReserve { partition: TopicPartition },
    /// Nothing was written; the next append tries again.
    #[error("{partition}: its folder cannot be created: {path}: {error}; remove the cause, then send the batch again", path = path.display())]
    NoFolder { partition: TopicPartition, path: PathBuf, error: Arc<io::Error> },
    /// This node does not lead the partition, or not in the epoch any more that the batch would be stamped with.
    #[error("{partition}: this node does not lead the partition")]
    NotLeader { partition: TopicPartition },
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log was closed, or its topic deleted.
    #[error("{partition} is closed")]
    Closed { partition: TopicPartition },
}

/// Why entries of a commit log were not read for a follower, or not appended by one.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplicateError {
    /// Deleted by retention, or not written yet. A follower below the start begins anew at the start.
    #[error("{log}: position {position} is outside {start}..={end}")]
    OutOfRange { log: String, position: Position, start: Position, end: Position },
    #[error("{log}: what was sent for position {position} does not continue this log: {reason}")]
    NotNext { log: String, position: Position, reason: String },
    #[error(
        "{log}: partition {partition} of topic {topic_id} is not known here yet; wait for newer metadata, then send it again"
    )]
    UnknownPartition { log: String, topic_id: TopicId, partition: PartitionIndex },
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why nothing was read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    #[error("{partition}: offset {offset} is outside {log_start}..={log_end}")]
    OutOfRange { partition: TopicPartition, offset: Offset, log_start: Offset, log_end: Offset },
    #[error("{partition}: the bytes at offset {offset} ({path}, byte {position}) are no batch", path = path.display())]
    Corrupt { partition: TopicPartition, offset: Offset, path: PathBuf, position: u64 },
    /// The bytes were deleted or cut while they were being looked for; the read can be repeated.
    #[error("{partition}: the records have just been deleted")]
    Gone { partition: TopicPartition },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{partition} is closed")]
    Closed { partition: TopicPartition },
    /// Only of reads that must not wait: the answer cannot be given from memory; read again where waiting is allowed.
    #[error("the read would wait for the disk")]
    WouldBlock,
}

/// Why a log or a data folder was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path}: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {error}; restore the file, or remove it if you know that the rest of the folder is good", path = path.display())]
    Format { path: PathBuf, error: FormatError },
    #[error(
        "{path} has format {found}, but this Mainstem knows formats up to {supported}: a newer version wrote the folder; use that version, or choose \
         another --data-dir",
        path = path.display()
    )]
    Newer { path: PathBuf, found: i64, supported: i64 },
    #[error(
        "{path} has version {found}, which Kafka wrote before KRaft; let a Kafka 3.9 migrate the folder first, or choose another --data-dir",
        path = path.display()
    )]
    Older { path: PathBuf, found: i64 },
    #[error("{path} is empty; restore the file, or remove it if you know that the rest of the folder is good", path = path.display())]
    Empty { path: PathBuf },
    #[error("{path} is used by another process{holder}; stop it, or choose another --data-dir", path = path.display())]
    Locked { path: PathBuf, holder: String },
    #[error("{path} belongs to topic id {found}, not {expected}", path = path.display())]
    TopicId { path: PathBuf, found: mainstem_types::TopicId, expected: mainstem_types::TopicId },
    #[error("{path} exists already and holds data; move it away, or open it", path = path.display())]
    Exists { path: PathBuf },
    /// The first segment of a new log was refused.
    #[error("{0}")]
    Journal(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why the start of a log could not be raised.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogStartError {
    #[error("{partition}: offset {offset} is outside {log_start}..={limit}")]
    OutOfRange { partition: TopicPartition, offset: Offset, log_start: Offset, limit: Offset },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Of a call on this path.
pub(crate) fn io_error(path: &std::path::Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_whether_the_log_goes_on() {
        const EMFILE: i32 = 24;
        let message = |action, error: fn() -> io::Error| {
            StorageError { action, path: "/data/a-0".into(), error: Arc::new(error()) }.to_string()
        };
        let io: fn() -> io::Error = || io::Error::other("broken");
        let no_space: fn() -> io::Error = || io::ErrorKind::StorageFull.into();
        let no_descriptor: fn() -> io::Error = || io::Error::from_raw_os_error(EMFILE);
        for (action, error) in [("write", no_space), ("write", no_descriptor), ("sync", no_descriptor)] {
            let message = message(action, error);
            assert!(message.contains("the log goes on") && !message.contains("no more writes"), "{message}");
        }
        for (action, error) in [("write", io), ("sync", io), ("sync", no_space), ("trust", io)] {
            let message = message(action, error);
            assert!(message.ends_with("the log accepts no more writes until the next start"), "{message}");
        }
        assert!(!message("read", io).contains("the log"));
    }
}
