//! One partition as the broker serves it: its log, its high watermark, those who wait for it.
//!
//! ```text
//! log start ≤ last stable offset ≤ high watermark ≤ log end
//! ```
//!
//! An append is written and counted on the caller's thread. The high watermark follows the records that the log may
//! acknowledge ([`TopicLog::ends`]): at once with `mainstem.durability=os`; with `disk`, and where `flush.messages` is
//! reached, when a sync has covered them. A reply waits with [`Partition::committed`]; readers see what is below it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstem_replica::{EpochCheckError, Event, EventError, MinInSyncError, Outcome, ReplicaSet, ReplicaSetState};
use mainstem_store::{
    AppendContext, AppendError, Appended, Durability, LogEnds, Origin, ReadError, ReadRequest, Reading, TopicLog,
};
use mainstem_types::{LeaderEpoch, NodeId, Offset, PartitionIndex, TimestampMs, TopicId};
use parking_lot::{Mutex, MutexGuard};

use crate::commit_wait::{Commit, CommitWaiters};
use crate::fetch_wait::FetchWaiters;
use crate::space::Space;

/// One partition that this node leads.
pub struct Partition {
    pub topic: Arc<str>,
    pub topic_id: TopicId,
    pub index: PartitionIndex,
    log: TopicLog,
    replica: Mutex<ReplicaSet>,
    /// What the replica set says, readable without its lock.
    high_watermark: AtomicI64,
    leader_epoch: AtomicI32,
    deleted: AtomicBool,
    space: Space,
    commit_waiters: CommitWaiters,
    pub(crate) fetch_waiters: Arc<FetchWaiters>,
}

/// Which records a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
}

/// What a fetch of one partition gives.
#[derive(Debug, Clone)]
pub struct PartitionReading {
    pub reading: Reading,
    pub positions: PartitionPositions,
}

/// The offsets that a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionPositions {
    pub log_start: Offset,
    pub last_stable: Offset,
    pub high_watermark: Offset,
    pub log_end: Offset,
}

/// The start of a partition: what recovery and the metadata know.
pub(crate) struct PartitionStart {
    pub topic: Arc<str>,
    pub topic_id: TopicId,
    pub index: PartitionIndex,
    pub node: NodeId,
    pub leader_epoch: LeaderEpoch,
    pub high_watermark: Option<Offset>,
    pub space: Space,
}

impl Partition {
    pub(crate) fn new(log: TopicLog, start: PartitionStart) -> Arc<Partition> {
        let positions = log.positions();
        let state = ReplicaSetState {
            local: start.node,
            replicas: vec![start.node],
            log_start: positions.log_start,
            high_watermark: start.high_watermark.unwrap_or(positions.log_start),
            log_end: positions.log_end,
            acknowledged: log.ends().acknowledged,
        };
        // reason: log start ≤ log end is what opening a log guarantees, and the watermark is clamped between them.
        let replica = ReplicaSet::new(state).expect("the positions of an opened log are in order");
        let partition = Arc::new(Partition {
            topic: start.topic,
            topic_id: start.topic_id,
            index: start.index,
            high_watermark: AtomicI64::new(replica.high_watermark().0),
            replica: Mutex::new(replica),
            leader_epoch: AtomicI32::new(LeaderEpoch::NONE.0),
            deleted: AtomicBool::new(false),
            space: start.space,
            log,
            commit_waiters: CommitWaiters::default(),
            fetch_waiters: Arc::default(),
        });
        partition.listen_for_durability();
        partition.elect(start.node, start.leader_epoch);
        partition
    }

    fn listen_for_durability(self: &Arc<Self>) {
        let partition: Weak<Partition> = Arc::downgrade(self);
        self.log.set_durable_listener(Box::new(move |durable| {
            let Some(partition) = partition.upgrade() else { return };
            match durable {
                Ok(_) => partition.acknowledged_end_moved(),
                Err(error) => partition.failed(&error),
            }
        }));
    }

    /// The metadata says that `leader` leads from `epoch` on.
    pub(crate) fn elect(&self, leader: NodeId, epoch: LeaderEpoch) {
        if epoch <= self.leader_epoch() {
            return;
        }
        if let Err(error) = self.log.begin_epoch(epoch) {
            return self.failed(&error);
        }
        self.apply(Event::LeaderElected { leader: Some(leader), epoch, in_sync: vec![leader] });
        self.leader_epoch.store(epoch.0, Ordering::Release);
        self.fetch_waiters.changed();
    }

    /// Tells the replica set what happened, and does what follows from it.
    fn apply(&self, event: Event) {
        self.apply_locked(self.replica.lock(), event);
    }

    fn apply_locked(&self, mut replica: MutexGuard<'_, ReplicaSet>, event: Event) {
        match replica.apply(event) {
            Ok(Outcome::HighWatermarkAdvanced { to } | Outcome::BecameLeader { high_watermark: to, .. }) => {
                let before = self.high_watermark.swap(to.0, Ordering::SeqCst);
                drop(replica);
                self.wake(Offset(before), to);
            }
            Ok(Outcome::Resigned { .. }) => {
                drop(replica);
                self.close_waits();
            }
            Ok(Outcome::HighWatermarkLowered { from, to }) => {
                self.high_watermark.store(to.0, Ordering::SeqCst);
                tracing::warn!(
                    "{}-{}: committed records {to} to {from} are cut, because of an unclean election",
                    self.topic,
                    self.index
                );
            }
            Ok(Outcome::Nothing) => {}
            // Two threads that moved the log start may arrive in the other order: the larger one counts.
            Err(EventError::WentBack { .. }) => {}
            Err(error) => tracing::error!("{}-{}: {error}", self.topic, self.index),
        }
    }

    /// A sync, or other settings: more may be acknowledged. The log is asked with the lock held, so that answers are
    /// taken in order.
    fn acknowledged_end_moved(&self) {
        let replica = self.replica.lock();
        let LogEnds { log_end, acknowledged } = self.log.ends();
        self.apply_locked(replica, Event::LocalEnds { log_end, acknowledged });
    }

    fn wake(&self, before: Offset, high_watermark: Offset) {
        self.commit_waiters.advance(high_watermark);
        if high_watermark > before {
            // Bytes are not known here for appends that were flushed together; a record counts as one byte at least,
            // and the woken fetch looks at what is really there.
            self.fetch_waiters.wake(i64::MAX / 4);
        }
    }

    fn failed(&self, error: &mainstem_store::StorageError) {
        tracing::error!("{}-{} accepts no more writes: {error}", self.topic, self.index);
        self.close_waits();
    }

    /// The topic is deleted: waiting requests and holders of the partition learn of it.
    pub(crate) fn was_deleted(&self) {
        self.deleted.store(true, Ordering::SeqCst);
        self.close_waits();
    }

    /// Whether the topic is gone.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Ends all waits: the topic is deleted, the log failed, or the broker stops.
    pub(crate) fn close_waits(&self) {
        self.commit_waiters.fail();
        self.fetch_waiters.wake_all();
    }

    /// Appends one batch. It may be acknowledged when [`committed`](Self::committed) says so for the offset after it.
    pub fn append(
        &self,
        batch: &Bytes,
        origin: Origin,
        now: TimestampMs,
        zstd_allowed: bool,
    ) -> Result<Appended, AppendError> {
        self.append_within(batch, origin, now, zstd_allowed, usize::MAX)
    }

    /// As [`append`](Self::append), of records that take at most `unpacked_bytes_max` when they are decompressed: with
    /// more, nothing is appended, and the error says so.
    pub fn append_within(
        &self,
        batch: &Bytes,
        origin: Origin,
        now: TimestampMs,
        zstd_allowed: bool,
        unpacked_bytes_max: usize,
    ) -> Result<Appended, AppendError> {
        // Counted as written when this returns.
        let Some(_taken) = self.space.take_for(origin, batch.len()) else {
            let refused = AppendError::DiskReserve { partition: self.log.partition().clone() };
            return self.log.known_duplicate(batch).ok_or(refused);
        };
        let leader_epoch = self.leader_epoch();
        let context = AppendContext { origin, leader_epoch, now, zstd_allowed, unpacked_bytes_max };
        let appended = self.log.append(batch, &context).inspect_err(|error| {
            if let AppendError::Storage(error) = error {
                self.failed(error);
            }
        })?;
        if !appended.duplicate {
            self.log_end_moved(appended.next_offset(), batch.len());
        }
        Ok(appended)
    }

    /// Counts what was appended, and tells readers of its `bytes`. Appends of several threads may arrive here out of
    /// order: the log end is read anew, and who comes late finds its records counted, but not its bytes.
    fn log_end_moved(&self, end: Offset, bytes: usize) {
        let mut replica = self.replica.lock();
        let LogEnds { log_end, acknowledged } = self.log.ends();
        if log_end > replica.log_end() {
            match replica.local_ends(log_end, acknowledged) {
                Ok(Outcome::HighWatermarkAdvanced { to }) => {
                    self.high_watermark.store(to.0, Ordering::SeqCst);
                    self.fetch_waiters.changed();
                    drop(replica);
                    self.commit_waiters.advance(to);
                }
                Ok(_) => return,
                Err(error) => return tracing::error!("{}-{}: {error}", self.topic, self.index),
            }
        } else {
            drop(replica);
        }
        if self.high_watermark() >= end {
            self.fetch_waiters.wake(bytes as i64);
        }
    }

    /// Waits until everything below `end` is committed: acknowledged as the topic's durability asks.
    pub fn committed(&self, end: Offset) -> Commit {
        // With `os` and `memory` the append itself moved the watermark past it: no lock is needed to see that.
        if self.high_watermark() >= end {
            return Commit::Done;
        }
        self.commit_waiters.wait(end, || self.high_watermark())
    }

    /// Reads whole batches from `from` on, up to what `isolation` shows. May wait for the disk: not for a reactor.
    pub fn read(
        &self,
        from: Offset,
        max_bytes: u32,
        min_one_batch: bool,
        isolation: Isolation,
    ) -> Result<PartitionReading, ReadError> {
        self.read_with(from, max_bytes, min_one_batch, isolation, TopicLog::read)
    }

    /// As [`read`](Self::read), from memory alone: [`ReadError::WouldBlock`] where that is not enough.
    pub fn read_nowait(
        &self,
        from: Offset,
        max_bytes: u32,
        min_one_batch: bool,
        isolation: Isolation,
    ) -> Result<PartitionReading, ReadError> {
        self.read_with(from, max_bytes, min_one_batch, isolation, TopicLog::read_nowait)
    }

    fn read_with(
        &self,
        from: Offset,
        max_bytes: u32,
        min_one_batch: bool,
        isolation: Isolation,
        read: fn(&TopicLog, &ReadRequest) -> Result<Reading, ReadError>,
    ) -> Result<PartitionReading, ReadError> {
        if self.is_deleted() {
            return Err(ReadError::Closed { partition: self.log.partition().clone() });
        }
        let positions = self.positions();
        if from < positions.log_start || from > positions.log_end {
            return Err(ReadError::OutOfRange {
                partition: self.log.partition().clone(),
                offset: from,
                log_start: positions.log_start,
                log_end: positions.log_end,
            });
        }
        let upper = positions.upper(isolation);
        let reading = if from >= upper {
            Reading::default()
        } else {
            read(&self.log, &ReadRequest { from, max_bytes, upper, min_one_batch })?
        };
        Ok(PartitionReading { reading, positions })
    }

    /// The four positions, in order also while appends go on.
    pub fn positions(&self) -> PartitionPositions {
        let high_watermark = self.high_watermark();
        let log = self.log.read_positions(high_watermark);
        let last_stable = log.first_unstable.map_or(high_watermark, |first| first.min(high_watermark));
        PartitionPositions {
            log_start: log.log_start,
            last_stable: last_stable.max(log.log_start),
            high_watermark: high_watermark.max(log.log_start),
            log_end: log.log_end.max(high_watermark),
        }
    }

    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::SeqCst))
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// Checks the leader epoch that a request names; -1 is not checked.
    pub fn check_leader_epoch(&self, given: LeaderEpoch) -> Result<(), EpochCheckError> {
        if given == LeaderEpoch::NONE || given == self.leader_epoch() {
            return Ok(());
        }
        self.replica.lock().check_leader_epoch(given)
    }

    /// Checks `min.insync.replicas` for `acks=all`. More than all replicas are never asked for (KIP-966): a topic with
    /// one replica can be written whatever the setting says.
    pub fn check_min_in_sync(&self, required: usize) -> Result<(), MinInSyncError> {
        let replica = self.replica.lock();
        replica.check_min_in_sync(required.min(replica.replicas().count()))
    }

    /// Who waits for records, and how often changed what a fetch can see.
    pub fn fetch_waiters(&self) -> &Arc<FetchWaiters> {
        &self.fetch_waiters
    }

    /// The log itself: for lookups by time and epoch, retention, and administration.
    pub fn log(&self) -> &TopicLog {
        &self.log
    }

    pub(crate) fn set_config(&self, config: Arc<mainstem_store::LogConfig>) {
        let durability = config.durability;
        self.log.set_config(config);
        self.acknowledged_end_moved();
        if durability == Durability::Disk {
            self.log.request_flush(self.log.log_end());
        }
    }

    /// Retention moved the log start: the replica set follows.
    pub(crate) fn log_start_moved(&self) {
        self.apply(Event::LocalLogStart(self.log.log_start()));
        self.fetch_waiters.changed();
    }
}

impl PartitionPositions {
    /// First offset that a reader does not get.
    pub fn upper(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark,
            Isolation::ReadCommitted => self.last_stable,
        }
    }
}

/// Whether a batch was refused because its records take too much when they are decompressed.
pub(crate) fn is_too_much_to_unpack(error: &AppendError) -> bool {
    matches!(error, AppendError::Invalid(error) if error.is_too_much_to_unpack())
}
