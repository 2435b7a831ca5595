//! One partition: its segments, its indexes, its producers, its epochs.

use bytes::Bytes;
use mainstem_env::{Clock, FileSlice, Fs, Rng};
use mainstem_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicPartition};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::LogConfig;
use crate::error::{AppendError, LogStartError, OpenError, ReadError, StorageError};
use crate::formats::transaction_index::AbortedTransaction;

/// What all logs of a process share.
#[derive(Debug)]
pub struct StoreEnv {
    pub fs: Arc<dyn Fs>,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's Produce: the strictest rules. Checked against `config` in full, sequences included.
    Client,
    /// A coordinator of this broker, into an internal topic: as `Client`, but the size limit and time limits are not applied, and
    /// control batches are allowed.
    Coordinator,
}

/// How to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendContext {
    pub origin: Origin,
    /// Stamped into the batch; an epoch newer than the log's is noted in `leader-epoch-checkpoint` first.
    pub leader_epoch: LeaderEpoch,
    /// The wall clock: for LogAppendTime, the time limits, and rolling.
    pub now: TimestampMs,
    /// False for the version of Produce that may not carry zstd (below 7).
    pub zstd_allowed: bool,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// The broker's time with LogAppendTime, else [`TimestampMs::NONE`].
    pub append_time: TimestampMs,
    pub log_start: Offset,
    /// The producer had sent it before; nothing was written, and the offsets are those of the first time.
    pub duplicate: bool,
}

impl Appended {
    /// The log end after it.
    pub fn next_offset(&self) -> Offset {
        self.last_offset.plus(1)
    }
}

/// What to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    pub from: Offset,
    pub max_bytes: u32,
    /// Exclusive: the high watermark or the last stable offset. Nothing at or above it is returned.
    pub upper: Offset,
    /// Return the first batch even if it is larger than `max_bytes` (KIP-74).
    pub min_one_batch: bool,
}

/// A piece of the answer of a read.
#[derive(Debug, Clone)]
pub enum ReadChunk {
    Bytes(Bytes),
    /// To be sent with sendfile; keeps the file readable even after the segment was deleted.
    Slice(FileSlice),
}

impl ReadChunk {
    pub fn len(&self) -> usize {
        match self {
            ReadChunk::Bytes(bytes) => bytes.len(),
            ReadChunk::Slice(slice) => slice.len as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whole batches, the first of which contains the offset asked for (or is the first one after it, where compaction left a gap).
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub chunks: Vec<ReadChunk>,
    pub bytes: usize,
}

/// A record found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    pub offset: Offset,
    /// The record's own.
    pub timestamp: TimestampMs,
    /// Of the batch that holds it.
    pub leader_epoch: LeaderEpoch,
}

/// The positions of a log, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPositions {
    pub log_start: Offset,
    pub durable_end: Offset,
    pub log_end: Offset,
    /// First offset of the oldest transaction that is open (or whose marker lies at or above the high watermark: the caller caps).
    pub first_open_transaction: Option<Offset>,
}

/// What one retention pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionOutcome {
    pub segments_removed: usize,
    pub bytes_removed: u64,
    pub log_start: Offset,
}

/// One active producer, as DescribeProducers shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerSummary {
    pub producer_id: ProducerId,
    pub epoch: ProducerEpoch,
    pub last_sequence: i32,
    pub last_timestamp: TimestampMs,
    pub coordinator_epoch: i32,
    pub transaction_first_offset: Option<Offset>,
}

/// What opening a log after an unclean stop did; sums up with `+=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRecovery {
    pub logs: usize,
    pub segments_scanned: usize,
    pub bytes_scanned: u64,
    pub bytes_cut: u64,
    pub indexes_rebuilt: usize,
}

impl std::ops::AddAssign for LogRecovery {
    fn add_assign(&mut self, other: LogRecovery) {
        self.logs += other.logs;
        self.segments_scanned += other.segments_scanned;
        self.bytes_scanned += other.bytes_scanned;
        self.bytes_cut += other.bytes_cut;
        self.indexes_rebuilt += other.indexes_rebuilt;
    }
}

/// What is known about a log before it is opened, from the checkpoints of its data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFacts {
    /// The folder was left orderly: indexes and snapshots are trusted.
    pub clean: bool,
    /// Everything below is known to be durable and whole. `None`: nothing is known.
    pub recovery_point: Option<Offset>,
    /// From `log-start-offset-checkpoint`.
    pub log_start: Option<Offset>,
}

/// One partition of one topic. See the crate documentation for what is guaranteed.
#[derive(Debug)]
pub struct PartitionLog {}

/// Called from a flusher thread with the new durable end, or with the error that ended the log. Must not block.
pub type DurableListener = Box<dyn Fn(Result<Offset, StorageError>) + Send + Sync>;

impl PartitionLog {
    /// Creates the folder of a new partition, durably.
    pub fn create(
        env: &Arc<StoreEnv>,
        folder: &Path,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<PartitionLog, OpenError> {
        todo!("{env:?} {folder:?} {partition} {topic_id} {config:?}")
    }

    /// Opens an existing folder; scans from the recovery point on unless the stop was clean. The usual way is [`crate::DataFolder::open_log`].
    pub fn open(
        env: &Arc<StoreEnv>,
        folder: &Path,
        partition: TopicPartition,
        facts: &OpenFacts,
        config: Arc<LogConfig>,
    ) -> Result<(PartitionLog, LogRecovery), OpenError> {
        todo!("{env:?} {folder:?} {partition} {facts:?} {config:?}")
    }

    pub fn partition(&self) -> &TopicPartition {
        todo!()
    }

    /// From `partition.metadata`; `None` when the file is absent (folders of old Kafkas).
    pub fn topic_id(&self) -> Option<TopicId> {
        todo!()
    }

    pub fn folder(&self) -> PathBuf {
        todo!()
    }

    pub fn config(&self) -> Arc<LogConfig> {
        todo!()
    }

    /// Exchanges the settings; they apply from the next append or pass on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        todo!("{config:?}")
    }

    /// Appends one batch of a client or coordinator. Validates, numbers, stamps and writes it.
    ///
    /// The bytes must hold exactly one batch. Returns when they are in the page cache; with `mainstem.durability=disk` and with
    /// `flush.messages` reached, a sync was also asked for, and the durable listener tells.
    pub fn append(&self, batch: &Bytes, context: &AppendContext) -> Result<Appended, AppendError> {
        todo!("{batch:?} {context:?}")
    }

    /// Appends batches that carry their offsets and epochs already: of the metadata log (epoch = term), or copied from a leader.
    ///
    /// The first must begin at the log end, and offsets and epochs must ascend. Gaps between batches are allowed (compaction).
    pub fn append_stamped(&self, batches: &Bytes, now: TimestampMs) -> Result<Appended, AppendError> {
        todo!("{batches:?} {now}")
    }

    /// Whole batches from `from` on. Empty at the log end and at or above `upper`. Does not read payload bytes.
    pub fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        todo!("{request:?}")
    }

    pub fn positions(&self) -> LogPositions {
        todo!()
    }

    pub fn log_start(&self) -> Offset {
        todo!()
    }

    pub fn log_end(&self) -> Offset {
        todo!()
    }

    /// Everything below is on the disk.
    pub fn durable_end(&self) -> Offset {
        todo!()
    }

    /// Bytes in `.log` files.
    pub fn size_bytes(&self) -> u64 {
        todo!()
    }

    pub fn segment_count(&self) -> usize {
        todo!()
    }

    /// The first record with a timestamp at or above `target`, from the log start up to `upper` (exclusive).
    pub fn find_by_time(&self, target: TimestampMs, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        todo!("{target} {upper}")
    }

    /// The first record that has the largest timestamp (ListOffsets -3).
    pub fn find_max_timestamp(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        todo!("{upper}")
    }

    /// Aborted transactions that overlap `from..upper`, ascending by first offset.
    pub fn aborted_transactions(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        todo!("{from} {upper}")
    }

    /// First offset of the oldest open transaction, given the high watermark: a transaction whose marker is not yet below it counts as open.
    pub fn first_unstable_offset(&self, high_watermark: Offset) -> Option<Offset> {
        todo!("{high_watermark}")
    }

    pub fn producers(&self) -> Vec<ProducerSummary> {
        todo!()
    }

    /// The newest epoch noted, with its start.
    pub fn latest_epoch(&self) -> Option<crate::formats::epoch_checkpoint::EpochEntry> {
        todo!()
    }

    /// Notes that `epoch` begins at the log end, as a new leader does before its first append. Older epochs are ignored.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        todo!("{epoch}")
    }

    /// OffsetForLeaderEpoch: (largest epoch ≤ requested, its end offset). See `facts` row 39 for the corners; (-1, -1) is "unknown".
    pub fn end_offset_for_epoch(&self, requested: LeaderEpoch) -> (LeaderEpoch, Offset) {
        todo!("{requested}")
    }

    /// The epoch of the record at an offset.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        todo!("{offset}")
    }

    /// DeleteRecords: nothing below `offset` is served any more. In memory at once; durable when the data folder wrote its checkpoints
    /// ([`crate::DataFolder::write_checkpoints`]). An offset at or below the present start does nothing.
    pub fn raise_log_start(&self, offset: Offset, high_watermark: Offset) -> Result<Offset, LogStartError> {
        todo!("{offset} {high_watermark}")
    }

    /// Removes everything at and above `offset`, for replication.
    pub fn truncate_to(&self, offset: Offset) -> Result<Offset, StorageError> {
        todo!("{offset}")
    }

    /// Removes everything and begins again at `offset`: after a snapshot was fetched that is ahead of the log.
    pub fn restart_at(&self, offset: Offset) -> Result<(), StorageError> {
        todo!("{offset}")
    }

    /// Applies `retention.ms`, `retention.bytes` and the log start to whole segments below the high watermark; files of removed segments go
    /// after `file.delete.delay.ms` ([`PartitionLog::remove_due_files`]). Rolls an active segment that is too old to be kept.
    pub fn retention_pass(&self, now: TimestampMs, high_watermark: Offset) -> Result<RetentionOutcome, StorageError> {
        todo!("{now} {high_watermark}")
    }

    /// Removes `.deleted` files whose delay is over; gives their number.
    pub fn remove_due_files(&self) -> usize {
        todo!()
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`; gives their number.
    pub fn expire_producers(&self, now: TimestampMs) -> usize {
        todo!("{now}")
    }

    /// Asks for a sync up to `offset`; the durable listener is told. At once true if it is durable already.
    pub fn request_flush(&self, offset: Offset) -> bool {
        todo!("{offset}")
    }

    /// `flush.ms`: asks for a sync if the oldest record that is not durable is older than that. To be called about once a second.
    pub fn flush_if_due(&self) {
        todo!()
    }

    /// Syncs everything on this thread.
    pub fn flush_blocking(&self) -> Result<Offset, StorageError> {
        todo!()
    }

    /// Who is told of a new durable end. One listener a log; the last one set counts.
    pub fn set_durable_listener(&self, listener: DurableListener) {
        let _ = listener;
        todo!()
    }

    /// The error that ended this log, if one did.
    pub fn failure(&self) -> Option<StorageError> {
        todo!()
    }

    /// Syncs everything, trims and writes the indexes and the producer snapshot, and refuses appends from now on.
    pub fn close(&self) -> Result<(), StorageError> {
        todo!()
    }
}
