//! The role of this node for a partition: leader, follower, or none; and the consequences of a change.
//!
//! The metadata says the role ([`Partition::follow`]), on the controller thread alone. A leader takes records of
//! clients and of coordinators. A follower, and a partition without a leader, refuses records and reads. Requests that
//! wait get NOT_LEADER_OR_FOLLOWER.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use mainstem_metadata::image::{PartitionImage, UnitRole};
use mainstem_replica::{
    Event, EventError, GroupMember, PositionsError, ReplicaOutcome, ReplicaSet, ReplicaSetState, Role,
};
use mainstem_store::{Durability, LogEnds, StorageError, TopicLog};
use mainstem_types::{LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId};
use parking_lot::{Mutex, MutexGuard};

use super::{Partition, Replication, UNKNOWN_BYTES};
use crate::commit_wait::{CommitFailed, CommitWaiters};
use crate::group_unit::{GroupUnit, Member, SettledUnit};
use crate::space::Space;

/// The start of a partition: what recovery and the metadata know.
pub(crate) struct PartitionStart {
    pub topic: Arc<str>,
    pub topic_id: TopicId,
    pub index: PartitionIndex,
    pub node: NodeId,
    /// From the checkpoint.
    pub high_watermark: Option<Offset>,
    pub space: Space,
}

/// See [`Partition::settled`]. Released in the order of the fields.
pub(super) enum Settled<'p> {
    Own(#[allow(dead_code)] MutexGuard<'p, ReplicaSet>),
    Group(#[allow(dead_code)] MutexGuard<'p, GroupMember>, #[allow(dead_code)] SettledUnit<'p>),
}

impl Partition {
    /// The partition as the log has it; [`Partition::follow`] then gives it its role. `unit`: of its group.
    pub(crate) fn new(log: TopicLog, start: PartitionStart, unit: Option<Arc<GroupUnit>>) -> Arc<Partition> {
        let positions = log.positions();
        let acknowledged = log.ends().acknowledged;
        let (replication, high_watermark) = match unit.clone() {
            Some(unit) => {
                let member = GroupMember::new(positions.log_start, positions.log_end, acknowledged);
                let high_watermark = member.high_watermark();
                (Replication::Group { unit, member: Mutex::new(member) }, high_watermark)
            }
            None => {
                let state = ReplicaSetState {
                    local: start.node,
                    replicas: vec![start.node],
                    log_start: positions.log_start,
                    high_watermark: start.high_watermark.unwrap_or(positions.log_start),
                    log_end: positions.log_end,
                    acknowledged,
                };
                // reason: log start ≤ log end is what opening a log guarantees, and the watermark is clamped between.
                let replica = ReplicaSet::new(state).expect("the positions of an opened log are in order");
                let high_watermark = replica.high_watermark();
                (Replication::Own(Mutex::new(replica)), high_watermark)
            }
        };
        let partition = Arc::new(Partition {
            topic: start.topic,
            topic_id: start.topic_id,
            index: start.index,
            replication,
            high_watermark: AtomicI64::new(high_watermark.0),
            leader_epoch: AtomicI32::new(LeaderEpoch::NONE.0),
            leads_since: AtomicI32::new(i32::MAX),
            partition_epoch: AtomicI32::new(-1),
            leads: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            space: start.space,
            log,
            commit_waiters: CommitWaiters::default(),
            fetch_waiters: Arc::default(),
        });
        partition.listen_for_durability();
        if let Some(unit) = unit {
            let member: Arc<dyn Member> = partition.clone();
            unit.join((partition.topic_id, partition.index), Arc::downgrade(&member));
        }
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

    /// Takes the role that the metadata gives this node. What is not newer than what is known changes nothing. In a
    /// group: gives the unit, if that has to look at the roles of all its partitions.
    #[must_use = "the unit has to follow"]
    pub(crate) fn follow(&self, image: &PartitionImage, node: NodeId) -> Option<Arc<GroupUnit>> {
        match &self.replication {
            Replication::Own(_) => self.follow_alone(image, node),
            Replication::Group { unit, .. } => {
                let is_new = !self.has_role();
                if !unit.has_role_of(image, self) {
                    return Some(Arc::clone(unit));
                }
                // It was not there when the group began its epoch. Nobody has found it yet.
                if is_new && self.leads() {
                    let begun = self.log.begin_epoch(self.leader_epoch());
                    begun.unwrap_or_else(|error| self.failed(&error));
                }
            }
        }
        None
    }

    fn follow_alone(&self, image: &PartitionImage, node: NodeId) {
        if image.partition_epoch <= self.partition_epoch.load(Ordering::Relaxed) {
            return;
        }
        self.partition_epoch.store(image.partition_epoch, Ordering::Relaxed);
        let UnitRole { replicas, in_sync, leader, epoch } = UnitRole::of(image);
        let leads = leader == Some(node);
        // Under the log's own lock: no append that has read the older epoch comes after this.
        let begun = match leads {
            true => self.log.begin_epoch(epoch),
            false => self.log.end_epoch(epoch),
        };
        if let Err(error) = begun {
            return self.failed(&error);
        }
        self.prepare_role(leads, epoch);
        self.apply(Event::LeaderElected { replicas, leader, epoch, in_sync });
        self.leader_epoch.store(epoch.0, Ordering::Release);
        self.leads.store(leads, Ordering::Release);
        if !leads {
            // Also waiters that came between the end of the epoch and this.
            self.commit_waiters.fail(CommitFailed::NotLeader);
        }
        self.fetch_waiters.wake_all();
    }

    /// Before anybody is told that this node does not lead, so that nobody waits under an old epoch after that.
    pub(super) fn prepare_role(&self, leads: bool, epoch: LeaderEpoch) {
        match leads {
            false => self.leads_since.store(i32::MAX, Ordering::SeqCst),
            true if !self.leads() => self.leads_since.store(epoch.0, Ordering::SeqCst),
            true => {}
        }
        if leads {
            self.commit_waiters.reopen();
        }
    }

    /// What this node is to the partition.
    pub fn role(&self) -> Role {
        match &self.replication {
            Replication::Own(replica) => replica.lock().role(),
            Replication::Group { unit, .. } => unit.role(),
        }
    }

    /// Whether this node leads, and takes records.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Whether this leader knows that everything from before its epoch is committed. Until then its high watermark may
    /// be lower than what an earlier leader told clients.
    pub(crate) fn has_committed_earlier_epochs(&self) -> bool {
        match &self.replication {
            Replication::Own(replica) => {
                let replica = replica.lock();
                replica.high_watermark() >= replica.epoch_start()
            }
            Replication::Group { member, .. } => {
                let member = member.lock();
                member.high_watermark() >= member.epoch_start()
            }
        }
    }

    /// Tells what decides about the high watermark what happened, and does what follows from it. Of a partition in a
    /// group these are the events of its own log. The events of the replica set are its group's.
    pub(super) fn apply(&self, event: Event) {
        match &self.replication {
            Replication::Own(replica) => {
                let mut replica = replica.lock();
                let outcome = replica.apply(event);
                self.happened(replica, outcome);
            }
            Replication::Group { member, .. } => {
                let mut member = member.lock();
                let outcome = match event {
                    Event::LocalEnds { log_end, acknowledged } => member.local_ends(log_end, acknowledged),
                    Event::LocalLogStart(position) => member.local_log_start(position),
                    Event::MinInSyncChanged(required) => member.min_in_sync_changed(required),
                    _ => Ok(ReplicaOutcome::Nothing),
                };
                self.happened(member, outcome);
            }
        }
    }

    /// While this is held, no cut of the log is half done.
    pub(super) fn settled(&self) -> Settled<'_> {
        match &self.replication {
            Replication::Own(replica) => Settled::Own(replica.lock()),
            Replication::Group { unit, member } => {
                let unit = unit.settled();
                Settled::Group(member.lock(), unit)
            }
        }
    }

    /// `decider`: the lock under which the outcome came.
    fn happened<G>(&self, decider: G, outcome: Result<ReplicaOutcome, EventError>) {
        match outcome {
            Ok(
                ReplicaOutcome::HighWatermarkAdvanced { to } | ReplicaOutcome::BecameLeader { high_watermark: to, .. },
            ) => {
                let before = self.high_watermark.swap(to.0, Ordering::SeqCst);
                drop(decider);
                self.wake_committed(Offset(before), to);
            }
            Ok(ReplicaOutcome::Resigned { .. }) => {
                self.leads.store(false, Ordering::Release);
                drop(decider);
                self.commit_waiters.fail(CommitFailed::NotLeader);
                self.fetch_waiters.wake_all();
            }
            Ok(ReplicaOutcome::HighWatermarkLowered { from, to }) => {
                self.high_watermark.store(to.0, Ordering::SeqCst);
                drop(decider);
                self.fetch_waiters.wake_all();
                tracing::warn!(
                    "{}-{}: records {to} to {from} were committed and are cut, as an unclean election demands",
                    self.topic,
                    self.index
                );
            }
            Ok(ReplicaOutcome::Nothing) => {}
            // Two threads that moved the log start may arrive in the other order: the larger one counts.
            Err(EventError::WentBack { .. }) => {}
            Err(EventError::Order(error)) => {
                drop(decider);
                self.out_of_order(&error);
            }
            Err(error) => tracing::error!("{}-{}: {error}", self.topic, self.index),
        }
    }

    /// A sync, or other settings: more may be acknowledged. The log is asked with the lock held, so that answers are
    /// taken in order.
    pub(super) fn acknowledged_end_moved(&self) {
        match &self.replication {
            Replication::Own(replica) => {
                let mut replica = replica.lock();
                let LogEnds { log_end, acknowledged } = self.log.ends();
                let outcome = replica.local_ends(log_end, acknowledged);
                self.happened(replica, outcome);
            }
            Replication::Group { member, .. } => {
                let mut member = member.lock();
                let LogEnds { log_end, acknowledged } = self.log.ends();
                let outcome = member.local_ends(log_end, acknowledged);
                self.happened(member, outcome);
            }
        }
    }

    pub(super) fn wake_committed(&self, before: Offset, high_watermark: Offset) {
        self.commit_waiters.advance(high_watermark);
        if high_watermark > before {
            self.fetch_waiters.wake(UNKNOWN_BYTES);
        }
    }

    pub(super) fn failed(&self, error: &StorageError) {
        tracing::error!("{}-{} takes no more writes: {error}", self.topic, self.index);
        self.close_waits();
    }

    /// The order of positions does not hold: nobody knows what may be shown or acknowledged, so the log ends here.
    pub(super) fn out_of_order(&self, error: &PositionsError) {
        self.failed(&self.log.end_with(error.to_string()));
    }

    /// The topic is gone, or this node's replica is: waiters and other holders of the partition are told so.
    pub(crate) fn was_deleted(&self) {
        self.deleted.store(true, Ordering::SeqCst);
        if let Replication::Group { unit, .. } = &self.replication {
            unit.leave((self.topic_id, self.index));
        }
        self.close_waits();
    }

    /// Ends all waits: the topic is deleted, the log failed, or the broker stops.
    pub(crate) fn close_waits(&self) {
        self.commit_waiters.fail(CommitFailed::Log);
        self.fetch_waiters.wake_all();
    }

    pub(crate) fn set_config(&self, config: Arc<mainstem_store::LogConfig>) {
        let durability = config.durability;
        self.log.set_config(config);
        self.acknowledged_end_moved();
        if durability == Durability::Disk {
            self.log.request_flush(self.log.log_end());
        }
    }

    /// The topic's `min.insync.replicas`: with fewer, nothing is committed (KIP-966).
    pub(crate) fn set_min_in_sync(&self, required: i32) {
        self.apply(Event::MinInSyncChanged(required.max(1) as usize));
    }

    /// Retention moved the log start: the replica set follows.
    pub(crate) fn log_start_moved(&self) {
        self.apply(Event::LocalLogStart(self.log.log_start()));
        self.fetch_waiters.changed();
    }
}

#[cfg(test)]
#[path = "role_tests.rs"]
mod tests;
