//! A partition of a group: the operations of a partition log, over the group's commit log.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use mainstem_types::{LeaderEpoch, Offset, Position, TimestampMs, TopicId, TopicPartition};
use parking_lot::Mutex;

use super::queue_folder::{Missing, QueueFolder};
use super::state::PartitionViews;
use super::{GroupCore, PartitionKey};
use crate::config::{self, LogConfig};
use crate::durability::{self, Durability};
use crate::error::{LogStartError, StorageError};
use crate::formats::epoch_checkpoint::EpochEntry;
use crate::formats::transaction_index::AbortedTransaction;
use crate::log_types::{LogEnds, LogPositions, ProducerSummary, ReadPositions};
use crate::views::producers::Producer;

/// One partition of a [`super::GroupLog`].
#[derive(Debug)]
pub struct GroupPartition {
    pub(super) core: Arc<GroupCore>,
    pub(super) partition: TopicPartition,
    pub(super) topic_id: TopicId,
    /// Of the topic's name, for keys.
    pub(super) topic_hash: i32,
    pub(super) config: ArcSwap<LogConfig>,
    /// Held from the numbering of a batch until the views know it.
    pub(super) appending: Mutex<()>,
    pub(super) state: Mutex<PartitionViews>,
    /// Held while the files of the consume queue are written, cut or removed.
    pub(super) queue_folder: Mutex<QueueFolder>,
    pub(super) durability: Arc<Durability>,
    /// The consume queue was found wrong, and that was said.
    pub(super) queue_is_wrong: AtomicBool,
    /// Found to be lost.
    pub(super) lost: Mutex<Vec<LostRecords>>,
}

/// Offsets without a whole entry in the commit log, and where the queue says that it is.
#[derive(Debug, Clone)]
pub(super) struct LostRecords {
    pub(super) offsets: Range<i64>,
    pub(super) position: Position,
}

impl GroupPartition {
    pub(super) fn new(
        core: &Arc<GroupCore>,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
        (mut state, queue_folder): (PartitionViews, QueueFolder),
    ) -> Arc<GroupPartition> {
        state.queue.set_number(core.env.next_log_number());
        let durability = Arc::new(Durability::new(state.next_offset));
        core.waiting.know((topic_id, partition.partition), &durability);
        Arc::new(GroupPartition {
            core: Arc::clone(core),
            topic_hash: crate::views::inspect::topic_hash(&partition.topic),
            partition,
            topic_id,
            config: ArcSwap::new(config),
            appending: Mutex::default(),
            state: Mutex::new(state),
            queue_folder: Mutex::new(queue_folder),
            durability,
            queue_is_wrong: AtomicBool::new(false),
            lost: Mutex::default(),
        })
    }

    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    pub(super) fn key(&self) -> PartitionKey {
        (self.topic_id, self.partition.partition)
    }

    /// The folder of the group.
    pub fn folder(&self) -> &Path {
        &self.core.folder
    }

    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Exchanges the settings; they apply from the next append or pass on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let promises_more = config.durability != config::Durability::Memory;
        let old = self.config.swap(config);
        if promises_more && old.durability == config::Durability::Memory {
            durability::write_out(&self.core.log.journal);
        }
    }

    pub fn positions(&self) -> LogPositions {
        let state = self.state.lock();
        LogPositions {
            log_start: state.log_start,
            durable_end: self.durability.end().min(state.next_offset),
            log_end: state.next_offset,
            first_open_transaction: state.producers.first_open(),
        }
    }

    /// Under one lock: every fetch asks.
    pub fn read_positions(&self, high_watermark: Offset) -> ReadPositions {
        let mut state = self.state.lock();
        ReadPositions {
            log_start: state.log_start,
            log_end: state.next_offset,
            first_unstable: state.producers.first_unstable(high_watermark),
        }
    }

    pub fn log_start(&self) -> Offset {
        self.state.lock().log_start
    }

    pub fn log_end(&self) -> Offset {
        self.state.lock().next_offset
    }

    /// Where the log ends, and which of its records may be acknowledged.
    pub fn ends(&self) -> LogEnds {
        let state = self.state.lock();
        let log_end = state.next_offset;
        // The settings after the lock: a batch is never judged by settings that are older than it.
        let durability = self.config.load().durability;
        LogEnds { log_end, acknowledged: self.durability.acknowledged_end(durability, log_end) }
    }

    /// Everything below is on the disk.
    pub fn durable_end(&self) -> Offset {
        self.durability.end()
    }

    /// Bytes of the partition's entries in the commit log.
    pub fn size_bytes(&self) -> u64 {
        self.state.lock().size_bytes()
    }

    /// Files of the commit log that hold records of the partition.
    pub fn segment_count(&self) -> usize {
        self.state.lock().shares.len()
    }

    /// See [`crate::PartitionLog::first_unstable_offset`].
    pub fn first_unstable_offset(&self, high_watermark: Offset) -> Option<Offset> {
        self.state.lock().producers.first_unstable(high_watermark)
    }

    pub fn producers(&self) -> Vec<ProducerSummary> {
        let state = self.state.lock();
        let summary = |(id, producer): (&mainstem_types::ProducerId, &Producer)| ProducerSummary {
            producer_id: *id,
            epoch: producer.epoch,
            last_sequence: producer.last_sequence(),
            last_timestamp: TimestampMs(producer.last_timestamp_ms),
            coordinator_epoch: producer.coordinator_epoch,
            transaction_first_offset: producer.transaction_first_offset,
        };
        let mut all: Vec<_> = state.producers.iter().map(summary).collect();
        all.sort_unstable_by_key(|producer| producer.producer_id);
        all
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`; gives their number.
    pub fn expire_producers(&self, now: TimestampMs) -> usize {
        let expiration_ms = self.config.load().producer_id_expiration_ms;
        self.state.lock().producers.expire(now, expiration_ms)
    }

    /// The newest epoch noted, with its start.
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.state.lock().epochs.latest()
    }

    /// Notes that `epoch` begins at the log end. See [`crate::PartitionLog::begin_epoch`]. Earlier epochs end in the
    /// whole group, which has one leader.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.core.check_alive()?;
        self.core.log.begin_epoch(epoch);
        self.note_epoch(epoch);
        Ok(())
    }

    /// After the earlier epochs have ended: no batch of theirs is on its way to the views.
    pub(super) fn note_epoch(&self, epoch: LeaderEpoch) {
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        let end = state.next_offset;
        state.epochs.assign(epoch, end);
    }

    /// An epoch that began at the log end has no record. After it has ended: no batch of it is on its way to the views.
    pub(super) fn forget_empty_epoch(&self) {
        let _order = self.appending.lock();
        self.state.lock().forget_empty_epoch();
    }

    /// See [`crate::PartitionLog::end_epoch`]. The epoch ends in the whole group.
    pub fn end_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.core.check_alive()?;
        self.core.log.end_epoch(epoch);
        Ok(())
    }

    /// See [`crate::PartitionLog::end_with`]. Ends the whole group.
    pub fn end_with(&self, reason: String) -> StorageError {
        self.core.fail("trust", &self.core.folder, io::Error::other(format!("{}: {reason}", self.partition)))
    }

    /// OffsetForLeaderEpoch. See [`crate::PartitionLog::end_offset_for_epoch`].
    pub fn end_offset_for_epoch(&self, requested: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let state = self.state.lock();
        state.epochs.end_offset_for(requested, state.next_offset)
    }

    /// The epoch of the record at an offset.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.state.lock().epoch_for(offset)
    }

    /// Aborted transactions that overlap `from..upper`, ascending by first offset. From memory.
    pub fn aborted_transactions(&self, from: Offset, upper: Offset) -> Vec<AbortedTransaction> {
        let state = self.state.lock();
        let overlap = |aborted: &&AbortedTransaction| aborted.last_offset >= from && aborted.first_offset < upper;
        let mut found: Vec<_> = state.aborted.iter().filter(overlap).copied().collect();
        found.sort_unstable_by_key(|aborted| aborted.first_offset);
        found
    }

    /// The error that ended the group, if one did.
    pub fn failure(&self) -> Option<StorageError> {
        self.core.failure()
    }

    /// DeleteRecords: nothing below `offset` is served any more. In memory at once; durable with the next checkpoint of
    /// the group, or with [`super::GroupLog::write_log_starts`]. Gives the log start.
    pub fn raise_log_start(&self, offset: Offset, high_watermark: Offset) -> Result<Offset, LogStartError> {
        self.core.check_alive()?;
        let mut state = self.state.lock();
        let limit = high_watermark.min(state.next_offset);
        if offset > limit || offset < Offset::ZERO {
            let (partition, log_start) = (self.partition.clone(), state.log_start);
            return Err(LogStartError::OutOfRange { partition, offset, log_start, limit });
        }
        state.raise_log_start(offset);
        Ok(state.log_start)
    }

    /// Frees memory if nothing was appended since the last call. `true`: nothing was appended.
    pub(super) fn release_if_idle(&self) -> bool {
        let (idle, closed) = {
            let mut state = self.state.lock();
            let end = state.next_offset;
            (std::mem::replace(&mut state.idle_end, end) == end, state.closed)
        };
        // What cannot be written now stays in memory.
        if idle && !closed && self.write_queue().is_ok() {
            self.state.lock().queue.release();
        }
        idle
    }

    /// Writes what waits of the consume queue into its files.
    pub(super) fn write_queue(&self) -> io::Result<()> {
        self.write_queue_to(&mut self.queue_folder.lock(), Missing::Create)
    }

    /// What is appended meanwhile waits for the next time: no lock that an append takes is held while files are
    /// written.
    pub(super) fn write_queue_to(&self, folder: &mut QueueFolder, missing: Missing) -> io::Result<()> {
        if folder.is_gone() {
            return Ok(());
        }
        let mut entries = Vec::new();
        let end = self.state.lock().queue.end();
        loop {
            let from = self.state.lock().queue.unwritten(end, &mut entries);
            let Some(from) = from else { return Ok(()) };
            let written = folder.write(self.core.fs(), from, &entries, missing)?;
            let kept = self.core.env.queues.kept_max(self.core.options.queue_bytes);
            self.state.lock().queue.wrote(Offset(written), kept);
            if folder.needs_file() {
                return Ok(());
            }
        }
    }

    /// Refuses appends and reads from now on.
    pub(super) fn close_for_deletion(&self) {
        self.state.lock().closed = true;
    }
}
