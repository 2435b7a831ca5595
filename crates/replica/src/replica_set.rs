//! The replica set of one partition: events in, an [`Outcome`] out.

use mainstem_types::{LeaderEpoch, NodeId, Offset};

use crate::positions::{Positions, PositionsError};

/// One replica as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica {
    pub node: NodeId,
    /// Where its log ends. For another node: up to where it has fetched.
    pub log_end: Offset,
    /// Where what it has acknowledged ends: its share in the high watermark. At most `log_end`.
    pub acknowledged: Offset,
    pub in_sync: bool,
}

/// What a new [`ReplicaSet`] starts from, as recovery found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSetState {
    pub local: NodeId,
    pub replicas: Vec<NodeId>,
    pub log_start: Offset,
    /// From the checkpoint; clamped into `log start ..= log end`, because the checkpoint is written behind the log.
    pub high_watermark: Offset,
    pub log_end: Offset,
    /// What of the local log counts towards the high watermark, as recovery found it.
    pub acknowledged: Offset,
}

/// What happened to the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The metadata log says who leads, from which epoch on, and who is in sync.
    LeaderElected { leader: Option<NodeId>, epoch: LeaderEpoch, in_sync: Vec<NodeId> },
    /// The local log was appended to, or synced. Records below `acknowledged` are as safe as the topic's settings promise: in the page
    /// cache or on the disk, as the log says. Only these count towards the high watermark.
    LocalEnds { log_end: Offset, acknowledged: Offset },
    /// The local log was cut at its front (retention, DeleteRecords).
    LocalLogStart(Offset),
    /// A follower fetches from `offset`, so it has everything before it.
    FollowerFetched { node: NodeId, epoch: LeaderEpoch, offset: Offset },
}

/// What follows from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Nothing,
    /// Replies that wait for an offset below `to` may leave, readers see up to `to`.
    HighWatermarkAdvanced {
        to: Offset,
    },
    /// This node has begun to lead. `high_watermark` is where readers stop now.
    BecameLeader {
        epoch: LeaderEpoch,
        high_watermark: Offset,
    },
    /// This node no longer leads: waiting replies get "not leader".
    Resigned {
        epoch: LeaderEpoch,
    },
}

/// Why an event is refused. State is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Kafka: FENCED_LEADER_EPOCH for a follower's fetch; a stale metadata record is ignored.
    #[error("leader epoch {given} is older than the current one, {current}")]
    OldEpoch { given: LeaderEpoch, current: LeaderEpoch },
    /// Kafka: UNKNOWN_LEADER_EPOCH.
    #[error("leader epoch {given} is newer than the current one, {current}")]
    FutureEpoch { given: LeaderEpoch, current: LeaderEpoch },
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION for a follower that is not assigned.
    #[error("node {0} is not a replica of this partition")]
    NotAReplica(NodeId),
    #[error("{what} went back from {from} to {to}; appends are strictly ordered, so this log is damaged")]
    WentBack { what: &'static str, from: Offset, to: Offset },
    #[error("{what} {given} lies beyond the log end {log_end}")]
    BeyondLogEnd { what: &'static str, given: Offset, log_end: Offset },
    #[error(transparent)]
    Order(#[from] PositionsError),
}

/// Why a request that names a leader epoch is refused (KIP-320).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EpochCheckError {
    /// Kafka: NOT_LEADER_OR_FOLLOWER (6).
    #[error("this node does not lead the partition")]
    NotLeader,
    /// Kafka: FENCED_LEADER_EPOCH (74).
    #[error("the request names leader epoch {given}, but {current} is current: refresh the metadata")]
    Fenced { given: LeaderEpoch, current: LeaderEpoch },
    /// Kafka: UNKNOWN_LEADER_EPOCH (75).
    #[error("the request names leader epoch {given}, which this node does not know yet (it is at {current}): retry")]
    Unknown { given: LeaderEpoch, current: LeaderEpoch },
}

/// `acks=all` cannot be honoured, because of `min.insync.replicas`. Kafka: NOT_ENOUGH_REPLICAS (19) when checked before the append,
/// NOT_ENOUGH_REPLICAS_AFTER_APPEND (20) when checked while waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{in_sync} replicas are in sync, but min.insync.replicas asks for {required}")]
pub struct MinInSyncError {
    pub in_sync: usize,
    pub required: usize,
}

/// The replica set of one partition. Not leading until the first [`Event::LeaderElected`] says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    local: NodeId,
    leader: Option<NodeId>,
    epoch: LeaderEpoch,
    /// Where the current epoch began in the local log, when this node leads.
    epoch_start: Offset,
    replicas: Vec<Replica>,
    log_start: Offset,
    high_watermark: Offset,
    log_end: Offset,
    acknowledged: Offset,
}

impl ReplicaSet {
    /// `high_watermark` of `state` is clamped between log start and log end: checkpoints trail the log.
    pub fn new(state: ReplicaSetState) -> Result<Self, PositionsError> {
        let high_watermark = state.high_watermark.max(state.log_start).min(state.log_end);
        let set = ReplicaSet {
            local: state.local,
            leader: None,
            epoch: LeaderEpoch::NONE,
            epoch_start: state.log_end,
            replicas: state.replicas.iter().map(|node| blank(*node)).collect(),
            log_start: state.log_start,
            high_watermark,
            log_end: state.log_end,
            acknowledged: state.acknowledged.max(state.log_start).min(state.log_end),
        };
        set.positions(set.high_watermark).check()?;
        Ok(set)
    }

    /// Takes one event. After an error the state is as before.
    pub fn apply(&mut self, event: Event) -> Result<Outcome, EventError> {
        match event {
            Event::LeaderElected { leader, epoch, in_sync } => self.elected(leader, epoch, &in_sync),
            Event::LocalEnds { log_end, acknowledged } => self.local_ends(log_end, acknowledged),
            Event::LocalLogStart(offset) => self.local_log_start(offset),
            Event::FollowerFetched { node, epoch, offset } => self.follower_fetched(node, epoch, offset),
        }
    }

    /// The fast path of an append on the leader: same as [`Event::LocalEnds`]. `acknowledged` may be lower than before: the settings
    /// promise more now. What was acknowledged under the old ones stays so.
    pub fn local_ends(&mut self, log_end: Offset, acknowledged: Offset) -> Result<Outcome, EventError> {
        if log_end < self.log_end {
            return Err(EventError::WentBack { what: "the log end", from: self.log_end, to: log_end });
        }
        if acknowledged > log_end {
            return Err(EventError::BeyondLogEnd { what: "the acknowledged end", given: acknowledged, log_end });
        }
        self.log_end = log_end;
        self.acknowledged = self.acknowledged.max(acknowledged);
        Ok(self.advance())
    }

    /// Same as [`Event::LocalLogStart`]. The front may be cut up to the high watermark.
    pub fn local_log_start(&mut self, offset: Offset) -> Result<Outcome, EventError> {
        if offset < self.log_start {
            return Err(EventError::WentBack { what: "the log start", from: self.log_start, to: offset });
        }
        Positions { log_start: offset, last_stable: self.high_watermark, ..self.positions(self.high_watermark) }
            .check()?;
        self.log_start = offset;
        self.acknowledged = self.acknowledged.max(offset);
        Ok(Outcome::Nothing)
    }

    /// KIP-320: an older epoch is fenced, a newer one unknown, [`LeaderEpoch::NONE`] is not checked.
    pub fn check_leader_epoch(&self, given: LeaderEpoch) -> Result<(), EpochCheckError> {
        if given != LeaderEpoch::NONE && given < self.epoch {
            return Err(EpochCheckError::Fenced { given, current: self.epoch });
        }
        if given > self.epoch {
            return Err(EpochCheckError::Unknown { given, current: self.epoch });
        }
        if self.is_leader() { Ok(()) } else { Err(EpochCheckError::NotLeader) }
    }

    /// `min.insync.replicas`: call it before an `acks=all` append, and again while such a reply waits.
    pub fn check_min_in_sync(&self, required: usize) -> Result<(), MinInSyncError> {
        let in_sync = self.in_sync_count();
        if in_sync < required { Err(MinInSyncError { in_sync, required }) } else { Ok(()) }
    }

    pub fn is_leader(&self) -> bool {
        self.leader == Some(self.local)
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Where the current epoch began in the local log. As long as the high watermark is below it, ListOffsets of a new
    /// leader answers "offset not available" (KIP-207).
    pub fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    pub fn in_sync_count(&self) -> usize {
        self.replicas.iter().filter(|replica| replica.in_sync).count()
    }

    /// The replicas in assignment order. The local one is shown with the local positions.
    pub fn replicas(&self) -> impl Iterator<Item = Replica> + '_ {
        self.replicas.iter().map(|replica| self.seen(replica))
    }

    /// The four positions. `first_open_transaction` is where the oldest open transaction began, or anything at or above
    /// the high watermark when there is none.
    pub fn positions(&self, first_open_transaction: Offset) -> Positions {
        Positions {
            log_start: self.log_start,
            last_stable: first_open_transaction.min(self.high_watermark).max(self.log_start),
            high_watermark: self.high_watermark,
            log_end: self.log_end,
        }
    }

    fn elected(
        &mut self,
        leader: Option<NodeId>,
        epoch: LeaderEpoch,
        in_sync: &[NodeId],
    ) -> Result<Outcome, EventError> {
        if epoch < self.epoch {
            return Err(EventError::OldEpoch { given: epoch, current: self.epoch });
        }
        if let Some(stranger) = in_sync.iter().find(|node| !self.replicas.iter().any(|r| r.node == **node)) {
            return Err(EventError::NotAReplica(*stranger));
        }
        let was_leader = self.is_leader();
        let new_epoch = epoch > self.epoch;
        self.leader = leader;
        self.epoch = epoch;
        for replica in &mut self.replicas {
            replica.in_sync = in_sync.contains(&replica.node);
            if new_epoch && replica.node != self.local {
                // What a follower told an earlier leader says nothing about its log under this one.
                *replica = Replica { in_sync: replica.in_sync, ..blank(replica.node) };
            }
        }
        if self.is_leader() && new_epoch {
            self.epoch_start = self.log_end;
            self.advance();
            return Ok(Outcome::BecameLeader { epoch, high_watermark: self.high_watermark });
        }
        if was_leader && !self.is_leader() {
            return Ok(Outcome::Resigned { epoch });
        }
        Ok(self.advance())
    }

    fn follower_fetched(&mut self, node: NodeId, epoch: LeaderEpoch, offset: Offset) -> Result<Outcome, EventError> {
        if epoch < self.epoch {
            return Err(EventError::OldEpoch { given: epoch, current: self.epoch });
        }
        if epoch > self.epoch {
            return Err(EventError::FutureEpoch { given: epoch, current: self.epoch });
        }
        if offset > self.log_end {
            return Err(EventError::BeyondLogEnd { what: "a fetch from", given: offset, log_end: self.log_end });
        }
        let local = self.local;
        let Some(replica) = self.replicas.iter_mut().find(|r| r.node == node && node != local) else {
            return Err(EventError::NotAReplica(node));
        };
        // A follower that lost its disk may begin again further down: it is believed.
        replica.log_end = offset;
        replica.acknowledged = offset;
        Ok(self.advance())
    }

    fn seen(&self, replica: &Replica) -> Replica {
        if replica.node != self.local {
            return *replica;
        }
        Replica { log_end: self.log_end, acknowledged: self.acknowledged, ..*replica }
    }

    /// The rule: the lowest acknowledged end of the in-sync set, never back, and only on the leader.
    fn advance(&mut self) -> Outcome {
        if !self.is_leader() {
            return Outcome::Nothing;
        }
        let lowest = self.replicas().filter(|replica| replica.in_sync).map(|replica| replica.acknowledged).min();
        match lowest {
            Some(to) if to > self.high_watermark => {
                self.high_watermark = to;
                debug_assert_eq!(self.positions(to).check(), Ok(()));
                Outcome::HighWatermarkAdvanced { to }
            }
            _ => Outcome::Nothing,
        }
    }
}

fn blank(node: NodeId) -> Replica {
    Replica { node, log_end: Offset::ZERO, acknowledged: Offset::ZERO, in_sync: false }
}

#[cfg(test)]
#[path = "replica_set_tests.rs"]
mod tests;
