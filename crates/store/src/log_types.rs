//! What goes into a partition log and what comes out of it.

use bytes::Bytes;
use mainstem_env::FileSlice;
use mainstem_types::{LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId, TimestampMs};

/// The source of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's Produce: the strictest rules. Checked against `config` in full, sequences included.
    Client,
    /// A coordinator of this broker, into an internal topic: as `Client`, but the size limit and time limits are not
    /// applied, and control batches are allowed.
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
    /// What the records may take once they are decompressed, if that is less than the log allows: a thread that others
    /// wait for does not want to be busy for long.
    pub unpacked_bytes_max: usize,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// The broker's time with LogAppendTime, else [`TimestampMs::NONE`].
    pub append_time: TimestampMs,
    pub log_start: Offset,
    /// Of a partition in a group: where its entry ends in the commit log. `None` for a duplicate.
    pub end_position: Option<Position>,
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

/// Whole batches, the first of which contains the offset asked for (or is the first one after it, where compaction left
/// a gap).
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
    /// First offset of the oldest transaction that is open (or whose marker lies at or above the high watermark: the
    /// caller caps).
    pub first_open_transaction: Option<Offset>,
}

/// What readers are told of a log, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPositions {
    pub log_start: Offset,
    pub log_end: Offset,
    /// First offset of the oldest transaction that is undecided below the high watermark that was given.
    pub first_unstable: Option<Offset>,
}

/// Where a log ends: `acknowledged ≤ log end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds {
    /// Records below are as safe as the settings promise: `mainstem.durability` and `flush.messages`. Goes back only
    /// when the settings promise more than before.
    pub acknowledged: Offset,
    pub log_end: Offset,
}

/// What one retention pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionOutcome {
    pub segments_removed: usize,
    pub bytes_removed: u64,
    pub log_start: Offset,
    /// The largest timestamp of what was removed; of a segment without any timestamp when its file was written.
    pub newest: Option<TimestampMs>,
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
    /// Files with what could not be read or does not belong to its log, under names that say so (`.parked`); nothing is
    /// deleted.
    pub segments_parked: usize,
    /// Logs that end before their recovery point: durable records are missing.
    pub logs_short: usize,
    pub indexes_rebuilt: usize,
}

impl std::ops::AddAssign for LogRecovery {
    fn add_assign(&mut self, other: LogRecovery) {
        self.logs += other.logs;
        self.segments_scanned += other.segments_scanned;
        self.bytes_scanned += other.bytes_scanned;
        self.bytes_cut += other.bytes_cut;
        self.segments_parked += other.segments_parked;
        self.logs_short += other.logs_short;
        self.indexes_rebuilt += other.indexes_rebuilt;
    }
}
