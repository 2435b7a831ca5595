//! One partition as the broker serves it: its log, its high watermark, its waiters.
//!
//! ```text
//! log start ≤ last stable offset ≤ high watermark ≤ log end
//! ```
//!
//! An append is written and counted on the caller's thread. The high watermark follows the records that the log may
//! acknowledge ([`TopicLog::ends`]): at once with `mainstem.durability=os`; with `disk`, and where `flush.messages` is
//! reached, when a sync has covered them. A reply waits with [`Partition::committed`]. Readers see records below it.

mod appended;
mod member;
mod role;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use bytes::Bytes;
use mainstem_replica::{EpochCheckError, GroupMember, MinInSyncError, Positions, ReplicaSet};
use mainstem_store::{
    AppendContext, AppendError, Appended, Origin, ReadError, ReadPositions, ReadRequest, Reading, TopicLog,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId};
use parking_lot::Mutex;

use crate::commit_wait::{Commit, CommitWaiters};
use crate::fetch_wait::FetchWaiters;
use crate::group_unit::GroupUnit;
use crate::space::Space;
pub(crate) use role::PartitionStart;

/// Wakes every fetch that waits, where it is not known how many bytes became visible: records of several appends that
/// were synced together. The woken fetch looks at the real log.
const UNKNOWN_BYTES: i64 = i64::MAX / 4;

/// One partition that this node has a replica of.
pub struct Partition {
    pub topic: Arc<str>,
    pub topic_id: TopicId,
    pub index: PartitionIndex,
    log: TopicLog,
    replication: Replication,
    /// The replica set's state, readable without its lock.
    high_watermark: AtomicI64,
    leader_epoch: AtomicI32,
    /// The first epoch since which this node leads without a break. Nobody leads here: larger than any.
    leads_since: AtomicI32,
    /// Of the image that was followed last.
    partition_epoch: AtomicI32,
    leads: AtomicBool,
    deleted: AtomicBool,
    pub(crate) space: Space,
    commit_waiters: CommitWaiters,
    pub(crate) fetch_waiters: Arc<FetchWaiters>,
}

/// The replica set that decides what is committed.
enum Replication {
    /// Layout `partition`: the partition is a unit of its own.
    Own(Mutex<ReplicaSet>),
    /// Layouts `topic` and `shared`: the group is the unit.
    Group { unit: Arc<GroupUnit>, member: Mutex<GroupMember> },
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

impl Partition {
    /// Whether the topic is gone.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Appends one batch. It may be acknowledged when [`committed`](Self::committed) says so for the offset after it.
    pub fn append(
        &self,
        batch: &Bytes,
        origin: Origin,
        now: TimestampMs,
        zstd_allowed: bool,
    ) -> Result<Appended, AppendError> {
        self.append_within(batch, origin, now, zstd_allowed, usize::MAX).map(|(appended, _)| appended)
    }

    /// As [`append`](Self::append), of records that take at most `unpacked_bytes_max` when they are decompressed: with
    /// more, nothing is appended, and the error says so. Also gives the leader epoch of the batch.
    pub fn append_within(
        &self,
        batch: &Bytes,
        origin: Origin,
        now: TimestampMs,
        zstd_allowed: bool,
        unpacked_bytes_max: usize,
    ) -> Result<(Appended, LeaderEpoch), AppendError> {
        let leader_epoch = self.leader_epoch();
        // Counted as written when this returns.
        let Some(_taken) = self.space.take_for(origin, batch.len()) else {
            let refused = AppendError::DiskReserve { partition: self.log.partition().clone() };
            return self.log.known_duplicate(batch).map(|known| (known, leader_epoch)).ok_or(refused);
        };
        let context = AppendContext { origin, leader_epoch, now, zstd_allowed, unpacked_bytes_max };
        let appended = self.log.append(batch, &context).inspect_err(|error| {
            // Without a descriptor the log goes on, and waiters are still told of commits.
            if let AppendError::Storage(error) = error
                && self.log.failure().is_some()
            {
                self.failed(error);
            }
        })?;
        if !appended.duplicate {
            self.log_end_moved(&appended, batch.len());
        }
        Ok((appended, leader_epoch))
    }

    /// Waits until everything below `end` is committed: acknowledged as the topic's durability asks. `epoch` is that of
    /// the append. If this node has not led ever since, the records may have been cut, and others be in their place.
    pub fn committed(&self, end: Offset, epoch: LeaderEpoch) -> Commit {
        // With `os` and `memory` the append itself moved the watermark past it: no lock is needed to see that. The
        // watermark is read first: it is of no later leadership than the one that is then compared.
        if self.high_watermark() >= end && self.has_led_since(epoch) {
            return Commit::Done;
        }
        self.commit_waiters.wait(end, || self.high_watermark(), || self.has_led_since(epoch))
    }

    fn has_led_since(&self, epoch: LeaderEpoch) -> bool {
        self.leads_since.load(Ordering::SeqCst) <= epoch.0
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
        let positions = ordered(high_watermark, log.log_start, &log);
        match positions.check() {
            Ok(()) => positions.into(),
            Err(_) => self.settled_positions(),
        }
    }

    /// The log start may pass a high watermark that was read before, and a cut moves both ends down, one after the
    /// other. Read in the order in which they bound each other, with the lock that a cut takes, they are in order; or
    /// something is wrong, and the log ends.
    #[cold]
    fn settled_positions(&self) -> PartitionPositions {
        let settled = self.settled();
        let log_start = self.log.log_start();
        let high_watermark = self.high_watermark();
        let positions = ordered(high_watermark, log_start, &self.log.read_positions(high_watermark));
        drop(settled);
        if let Err(error) = positions.check() {
            self.out_of_order(&error);
            // What is shown until the client comes again is empty, and in order.
            let at = positions.log_start.min(positions.log_end);
            return PartitionPositions { log_start: at, last_stable: at, high_watermark: at, log_end: at };
        }
        positions.into()
    }

    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::SeqCst))
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// Whether this node leads, and in the leader epoch that a request names; -1 is any.
    pub fn check_leader_epoch(&self, given: LeaderEpoch) -> Result<(), EpochCheckError> {
        if self.leads() && (given == LeaderEpoch::NONE || given == self.leader_epoch()) {
            return Ok(());
        }
        match &self.replication {
            Replication::Own(replica) => replica.lock().check_leader_epoch(given),
            Replication::Group { unit, .. } => unit.check_leader_epoch(given),
        }
    }

    /// Checks `min.insync.replicas` for `acks=all`. More than all replicas are never asked for (KIP-966): a topic with
    /// one replica can always be written.
    pub fn check_min_in_sync(&self, required: usize) -> Result<(), MinInSyncError> {
        match &self.replication {
            Replication::Own(replica) => {
                let replica = replica.lock();
                replica.check_min_in_sync(required.min(replica.replicas().count()))
            }
            Replication::Group { unit, .. } => unit.check_min_in_sync(required),
        }
    }

    /// The waiters for records, and a count of the changes that a fetch can see.
    pub fn fetch_waiters(&self) -> &Arc<FetchWaiters> {
        &self.fetch_waiters
    }

    /// The log itself: for lookups by time and epoch, retention, and administration.
    pub fn log(&self) -> &TopicLog {
        &self.log
    }
}

impl From<Positions> for PartitionPositions {
    fn from(positions: Positions) -> PartitionPositions {
        let Positions { log_start, last_stable, high_watermark, log_end } = positions;
        PartitionPositions { log_start, last_stable, high_watermark, log_end }
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

/// DeleteRecords may go past the beginning of an open transaction: only there the last stable offset is moved.
fn ordered(high_watermark: Offset, log_start: Offset, log: &ReadPositions) -> Positions {
    let last_stable = log.first_unstable.map_or(high_watermark, |first| first.min(high_watermark)).max(log_start);
    Positions { log_start, last_stable, high_watermark, log_end: log.log_end }
}

/// Whether a batch was refused because its records take too much when they are decompressed.
pub(crate) fn is_too_much_to_unpack(error: &AppendError) -> bool {
    matches!(error, AppendError::Invalid(error) if error.is_too_much_to_unpack())
}
