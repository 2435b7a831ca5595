//! The contract of a partition's log in every layout.
//!
//! An enum, not a trait: the layouts are known, a call costs one branch, and everything that is the same stays the same
//! type.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_record::BatchView;
use mainstem_types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::durability::DurableListener;
use crate::error::{AppendError, LogStartError, ReadError, StorageError};
use crate::formats::epoch_checkpoint::EpochEntry;
use crate::formats::transaction_index::AbortedTransaction;
use crate::group_log::GroupPartition;
use crate::lazy_log::LazyLog;
use crate::log_types::{
    AppendContext, Appended, LogEnds, LogPositions, ProducerSummary, ReadPositions, ReadRequest, Reading,
    RetentionOutcome, TimestampOffset,
};
use crate::partition_log::PartitionLog;
use crate::removal::Removal;

/// The log of one partition. Cheap to clone.
#[derive(Debug, Clone)]
pub enum TopicLog {
    /// Layout `partition`.
    Partition(Arc<PartitionLog>),
    /// Layout `partition`, of a partition that had no folder when this was made.
    Lazy(Arc<LazyLog>),
    /// Layouts `topic` and `shared`.
    Group(Arc<GroupPartition>),
}

impl From<Arc<LazyLog>> for TopicLog {
    fn from(log: Arc<LazyLog>) -> Self {
        TopicLog::Lazy(log)
    }
}

impl From<Arc<PartitionLog>> for TopicLog {
    fn from(log: Arc<PartitionLog>) -> Self {
        TopicLog::Partition(log)
    }
}

impl From<Arc<GroupPartition>> for TopicLog {
    fn from(log: Arc<GroupPartition>) -> Self {
        TopicLog::Group(log)
    }
}

/// The same call on the log of any layout. The second answer is for a log that has no folder yet.
macro_rules! of {
    ($self:ident, $log:ident => $call:expr, $lazy:ident => $empty:expr) => {
        match $self {
            TopicLog::Partition($log) => $call,
            TopicLog::Group($log) => $call,
            TopicLog::Lazy($lazy) => match $lazy.get() {
                Some($log) => $call,
                None => $empty,
            },
        }
    };
}

/// The same call, which a log without a folder answers itself.
macro_rules! of_each {
    ($self:ident, $log:ident => $call:expr) => {
        match $self {
            TopicLog::Partition($log) => $call,
            TopicLog::Group($log) => $call,
            TopicLog::Lazy($log) => $call,
        }
    };
}

impl TopicLog {
    /// The log, if its layout is `partition` and it has its folder.
    pub fn as_partition_log(&self) -> Option<&Arc<PartitionLog>> {
        match self {
            TopicLog::Partition(log) => Some(log),
            TopicLog::Lazy(lazy) => lazy.get(),
            TopicLog::Group(_) => None,
        }
    }

    /// The log, if its folder would have to be created before an append.
    pub fn without_folder(&self) -> Option<&Arc<LazyLog>> {
        match self {
            TopicLog::Lazy(lazy) => Some(lazy).filter(|lazy| lazy.get().is_none()),
            TopicLog::Partition(_) | TopicLog::Group(_) => None,
        }
    }

    /// The log, if its layout is `topic` or `shared`.
    pub fn as_group_partition(&self) -> Option<&Arc<GroupPartition>> {
        match self {
            TopicLog::Partition(_) | TopicLog::Lazy(_) => None,
            TopicLog::Group(log) => Some(log),
        }
    }

    pub fn partition(&self) -> &TopicPartition {
        of_each!(self, log => log.partition())
    }

    /// `None`: not known (folders of old Kafkas).
    pub fn topic_id(&self) -> Option<TopicId> {
        match self {
            TopicLog::Partition(log) => log.topic_id(),
            TopicLog::Lazy(log) => Some(log.topic_id()),
            TopicLog::Group(log) => Some(log.topic_id()),
        }
    }

    /// The folder of the partition or of its group.
    pub fn folder(&self) -> PathBuf {
        match self {
            TopicLog::Partition(log) => log.folder(),
            TopicLog::Lazy(log) => log.folder().to_owned(),
            TopicLog::Group(log) => log.folder().to_owned(),
        }
    }

    pub fn config(&self) -> Arc<LogConfig> {
        of_each!(self, log => log.config())
    }

    /// Exchanges the settings; they apply from the next append or pass on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        of_each!(self, log => log.set_config(config))
    }

    pub fn positions(&self) -> LogPositions {
        of!(self, log => log.positions(), _lazy => no_positions())
    }

    /// What readers are told, under one lock.
    pub fn read_positions(&self, high_watermark: Offset) -> ReadPositions {
        of!(self, log => log.read_positions(high_watermark), _lazy => ReadPositions { log_start: Offset::ZERO, log_end: Offset::ZERO, first_unstable: None })
    }

    pub fn log_start(&self) -> Offset {
        of!(self, log => log.log_start(), _lazy => Offset::ZERO)
    }

    pub fn log_end(&self) -> Offset {
        of!(self, log => log.log_end(), _lazy => Offset::ZERO)
    }

    /// Where the log ends, and which of its records may be acknowledged.
    pub fn ends(&self) -> LogEnds {
        of!(self, log => log.ends(), _lazy => LogEnds { acknowledged: Offset::ZERO, log_end: Offset::ZERO })
    }

    /// Everything below is on the disk.
    pub fn durable_end(&self) -> Offset {
        of!(self, log => log.durable_end(), _lazy => Offset::ZERO)
    }

    /// Bytes of the partition's batches on the disk.
    pub fn size_bytes(&self) -> u64 {
        of!(self, log => log.size_bytes(), _lazy => 0)
    }

    /// Files that hold records of the partition.
    pub fn segment_count(&self) -> usize {
        of!(self, log => log.segment_count(), _lazy => 0)
    }

    /// See [`PartitionLog::first_unstable_offset`].
    pub fn first_unstable_offset(&self, high_watermark: Offset) -> Option<Offset> {
        of!(self, log => log.first_unstable_offset(high_watermark), _lazy => None)
    }

    pub fn producers(&self) -> Vec<ProducerSummary> {
        of!(self, log => log.producers(), _lazy => Vec::new())
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`; gives their number.
    pub fn expire_producers(&self, now: TimestampMs) -> usize {
        of!(self, log => log.expire_producers(now), _lazy => 0)
    }

    /// The newest epoch noted, with its start.
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        of!(self, log => log.latest_epoch(), lazy => lazy.epochs().latest())
    }

    /// See [`PartitionLog::begin_epoch`].
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        of_each!(self, log => log.begin_epoch(epoch))
    }

    /// See [`PartitionLog::end_epoch`].
    pub fn end_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        of_each!(self, log => log.end_epoch(epoch))
    }

    /// See [`PartitionLog::end_with`].
    pub fn end_with(&self, reason: String) -> StorageError {
        match self {
            TopicLog::Partition(log) => log.end_with(reason),
            TopicLog::Group(log) => log.end_with(reason),
            TopicLog::Lazy(lazy) => match lazy.get() {
                Some(log) => log.end_with(reason),
                None => lazy.end_for(reason),
            },
        }
    }

    /// See [`PartitionLog::end_offset_for_epoch`].
    pub fn end_offset_for_epoch(&self, requested: LeaderEpoch) -> (LeaderEpoch, Offset) {
        of!(self, log => log.end_offset_for_epoch(requested), lazy => lazy.epochs().end_offset_for(requested, Offset::ZERO))
    }

    /// The epoch of the record at an offset.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        of!(self, log => log.epoch_for_offset(offset), lazy => lazy.epochs().epoch_for(offset))
    }

    /// The error that ended the log, if one did.
    pub fn failure(&self) -> Option<StorageError> {
        of_each!(self, log => log.failure())
    }

    /// Frees memory of a log that nobody writes to. Groups do that for all their partitions
    /// ([`crate::DataFolder::release_idle_groups`]).
    pub fn release_if_idle(&self) {
        if let Some(log) = self.as_partition_log() {
            log.release_if_idle();
        }
    }

    /// See [`PartitionLog::append`]. Waits for the disk if the log has no folder ([`TopicLog::without_folder`]).
    pub fn append(&self, batch: &Bytes, context: &AppendContext) -> Result<Appended, AppendError> {
        of!(self, log => log.append(batch, context), lazy => {
            lazy.check_epoch(context)?;
            lazy.get_or_create()?.append(batch, context)
        })
    }

    /// What was answered to a batch of an idempotent producer that is stored already, if this is one.
    pub fn known_duplicate(&self, batch: &Bytes) -> Option<Appended> {
        let view = BatchView::parse(batch).ok().filter(BatchView::crc_is_valid)?;
        of!(self, log => log.known_duplicate(view.header()), _lazy => None)
    }

    /// Whole batches; may wait for the disk.
    pub fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        of!(self, log => log.read(request), lazy => lazy.read_nothing(request))
    }

    /// Whole batches, from memory alone, or [`ReadError::WouldBlock`].
    pub fn read_nowait(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        of!(self, log => log.read_nowait(request), lazy => lazy.read_nothing(request))
    }

    /// The first record with a timestamp at or above `target`, from the log start up to `upper` (exclusive).
    pub fn find_by_time(&self, target: TimestampMs, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        of!(self, log => log.find_by_time(target, upper), _lazy => Ok(None))
    }

    /// The first record that has the largest timestamp (ListOffsets -3).
    pub fn find_max_timestamp(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        of!(self, log => log.find_max_timestamp(upper), _lazy => Ok(None))
    }

    /// Aborted transactions that overlap `from..upper`, ascending by first offset.
    pub fn aborted_transactions(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        match (self.as_partition_log(), self) {
            (Some(log), _) => log.aborted_transactions(from, upper),
            (None, TopicLog::Group(log)) => Ok(log.aborted_transactions(from, upper)),
            (None, _) => Ok(Vec::new()),
        }
    }

    /// As [`TopicLog::aborted_transactions`] up to the log end, for threads that must not wait for the disk.
    pub fn aborted_transactions_nowait(&self, from: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        match (self.as_partition_log(), self) {
            (Some(log), _) => log.aborted_transactions_nowait(from),
            (None, TopicLog::Group(log)) => Ok(log.aborted_transactions(from, log.log_end())),
            (None, _) => Ok(Vec::new()),
        }
    }

    /// Applies `retention.ms` and `retention.bytes`. Files of groups go with [`crate::DataFolder::remove_unneeded`].
    pub fn retention_pass(&self, now: TimestampMs, high_watermark: Offset) -> Result<RetentionOutcome, StorageError> {
        of!(self, log => log.retention_pass(now, high_watermark), _lazy => Ok(RetentionOutcome::default()))
    }

    /// Removes files whose delay is over; gives their number. Those of groups go with [`crate::DataFolder::remove`].
    pub fn remove_due_files(&self) -> usize {
        self.remove_files(&Removal::due())
    }

    /// Removes deleted files as `removal` says; gives their number. Those of groups go with
    /// [`crate::DataFolder::remove`].
    pub fn remove_files(&self, removal: &Removal<'_>) -> usize {
        self.as_partition_log().map_or(0, |log| log.remove_files(removal))
    }

    /// DeleteRecords. See [`PartitionLog::raise_log_start`].
    pub fn raise_log_start(&self, offset: Offset, high_watermark: Offset) -> Result<Offset, LogStartError> {
        of!(self, log => log.raise_log_start(offset, high_watermark), lazy => lazy.raise_no_log_start(offset))
    }

    /// Asks for a sync of everything below `offset`; the durable listener is told. True: it is durable already.
    pub fn request_flush(&self, offset: Offset) -> bool {
        of!(self, log => log.request_flush(offset), _lazy => offset <= Offset::ZERO)
    }

    /// `flush.ms`: to be called about once a second.
    pub fn flush_if_due(&self) {
        of!(self, log => log.flush_if_due(), _lazy => ())
    }

    /// Syncs everything on this thread. Gives the durable end.
    pub fn flush_blocking(&self) -> Result<Offset, StorageError> {
        of!(self, log => log.flush_blocking(), _lazy => Ok(Offset::ZERO))
    }

    /// Sets the listener that is told of a new durable end. A log has one; the last one counts.
    pub fn set_durable_listener(&self, listener: DurableListener) {
        of_each!(self, log => log.set_durable_listener(listener))
    }
}

fn no_positions() -> LogPositions {
    LogPositions {
        log_start: Offset::ZERO,
        durable_end: Offset::ZERO,
        log_end: Offset::ZERO,
        first_open_transaction: None,
    }
}
