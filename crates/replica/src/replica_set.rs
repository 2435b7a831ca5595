//! The replica set of one unit: events in, an [`ReplicaOutcome`] out.

use mainstem_types::{LeaderEpoch, NodeId, Offset};

use crate::UnitPosition;
use crate::event::{
    EpochCheckError, Event, EventError, MinInSyncError, Replica, ReplicaOutcome, ReplicaSetState, Role,
};
use crate::positions::{Positions, PositionsError};

/// What an event leads to. After an error the state is as before.
type Applied<P> = Result<ReplicaOutcome<P>, EventError<P>>;

/// The replica set of one unit. Not leading until the first [`Event::LeaderElected`] says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet<P = Offset> {
    local: NodeId,
    leader: Option<NodeId>,
    epoch: LeaderEpoch,
    /// Where the current epoch began in the local log, when this node leads.
    epoch_start: P,
    replicas: Vec<Replica<P>>,
    /// Replicas that count besides the in-sync ones until the controller has answered.
    proposed: Vec<NodeId>,
    min_in_sync: usize,
    log_start: P,
    high_watermark: P,
    log_end: P,
    acknowledged: P,
}

impl<P: UnitPosition> ReplicaSet<P> {
    /// `high_watermark` of `state` is clamped between log start and log end: checkpoints trail the log.
    pub fn new(state: ReplicaSetState<P>) -> Result<Self, PositionsError<P>> {
        let high_watermark = state.high_watermark.max(state.log_start).min(state.log_end);
        let set = ReplicaSet {
            local: state.local,
            leader: None,
            epoch: LeaderEpoch::NONE,
            epoch_start: state.log_end,
            replicas: state.replicas.iter().map(|node| blank(*node)).collect(),
            proposed: Vec::new(),
            min_in_sync: 1,
            log_start: state.log_start,
            high_watermark,
            log_end: state.log_end,
            acknowledged: state.acknowledged.max(state.log_start).min(state.log_end),
        };
        set.positions(set.high_watermark).check()?;
        Ok(set)
    }

    /// Takes one event. After an error the state is as before.
    pub fn apply(&mut self, event: Event<P>) -> Applied<P> {
        match event {
            Event::LeaderElected { replicas, leader, epoch, in_sync } => {
                self.elected(&replicas, leader, epoch, &in_sync)
            }
            Event::LocalEnds { log_end, acknowledged } => self.local_ends(log_end, acknowledged),
            Event::LocalLogStart(position) => self.local_log_start(position),
            Event::LocalTruncated(position) => self.local_truncated(position),
            Event::FollowerFetched { node, epoch, from } => self.follower_fetched(node, epoch, from),
            Event::LeaderCommitted { epoch, high_watermark } => self.leader_committed(epoch, high_watermark),
            Event::InSyncProposed(nodes) => self.in_sync_proposed(nodes),
            Event::MinInSyncChanged(required) => {
                self.min_in_sync = required;
                self.advance()
            }
        }
    }

    /// The fast path of an append on the leader: same as [`Event::LocalEnds`]. `acknowledged` may be lower than before:
    /// the settings promise more now. Records that were acknowledged under the old settings stay acknowledged.
    pub fn local_ends(&mut self, log_end: P, acknowledged: P) -> Applied<P> {
        if log_end < self.log_end {
            return Err(EventError::WentBack { what: "the log end", from: self.log_end, to: log_end });
        }
        if acknowledged > log_end {
            return Err(EventError::BeyondLogEnd { what: "the acknowledged end", given: acknowledged, log_end });
        }
        self.log_end = log_end;
        self.acknowledged = self.acknowledged.max(acknowledged);
        self.advance()
    }

    /// Same as [`Event::LocalLogStart`]. The front may be cut up to the high watermark.
    pub fn local_log_start(&mut self, position: P) -> Applied<P> {
        if position < self.log_start {
            return Err(EventError::WentBack { what: "the log start", from: self.log_start, to: position });
        }
        Positions { log_start: position, last_stable: self.high_watermark, ..self.positions(self.high_watermark) }
            .check()?;
        self.log_start = position;
        self.acknowledged = self.acknowledged.max(position);
        Ok(ReplicaOutcome::Nothing)
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

    /// Whether this leader may propose that a follower joins the in-sync set: the follower has everything that is
    /// committed, and everything from before this epoch, which an earlier leader may have committed without this one
    /// knowing (KAFKA-7128).
    pub fn may_join(&self, node: NodeId) -> bool {
        let needed = self.high_watermark.max(self.epoch_start);
        let mut replicas = self.replicas.iter().filter(|replica| replica.node == node && node != self.local);
        self.is_leader() && replicas.any(|replica| !replica.in_sync && replica.acknowledged >= needed)
    }

    pub fn is_leader(&self) -> bool {
        self.leader == Some(self.local)
    }

    /// Whether only the local log counts: everything that it acknowledges is committed.
    pub fn is_alone(&self) -> bool {
        let counts = |replica: &&Replica<P>| replica.in_sync || self.proposed.contains(&replica.node);
        let local = |replica: &Replica<P>| replica.node == self.local;
        let mut counted = self.replicas.iter().filter(counts).peekable();
        self.has_enough_in_sync() && counted.peek().is_some() && counted.all(local)
    }

    /// The role of the local node in the unit.
    pub fn role(&self) -> Role {
        match self.replicas.iter().any(|replica| replica.node == self.local) {
            _ if self.is_leader() => Role::Leader,
            true => Role::Follower { leader: self.leader },
            false => Role::Nothing,
        }
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Where the current epoch began in the local log. As long as the high watermark is below it, ListOffsets of a new
    /// leader answers "offset not available" (KIP-207), and nobody joins the in-sync set who is below it (KAFKA-7128).
    pub fn epoch_start(&self) -> P {
        self.epoch_start
    }

    pub fn high_watermark(&self) -> P {
        self.high_watermark
    }

    pub fn log_end(&self) -> P {
        self.log_end
    }

    pub fn log_start(&self) -> P {
        self.log_start
    }

    pub fn in_sync_count(&self) -> usize {
        self.replicas.iter().filter(|replica| replica.in_sync).count()
    }

    /// The replicas in assignment order. The local one is shown with the local positions.
    pub fn replicas(&self) -> impl Iterator<Item = Replica<P>> + '_ {
        self.replicas.iter().map(|replica| self.seen(replica))
    }

    /// The four positions. `first_open_transaction` is where the oldest open transaction began, or anything at or above
    /// the high watermark when there is none.
    pub fn positions(&self, first_open_transaction: P) -> Positions<P> {
        Positions {
            log_start: self.log_start,
            last_stable: first_open_transaction.min(self.high_watermark).max(self.log_start),
            high_watermark: self.high_watermark,
            log_end: self.log_end,
        }
    }

    fn elected(
        &mut self,
        replicas: &[NodeId],
        leader: Option<NodeId>,
        epoch: LeaderEpoch,
        in_sync: &[NodeId],
    ) -> Applied<P> {
        if epoch < self.epoch {
            return Err(EventError::OldEpoch { given: epoch, current: self.epoch });
        }
        let was_leader = self.is_leader();
        let new_epoch = epoch > self.epoch;
        self.leader = leader;
        self.epoch = epoch;
        self.proposed.clear();
        // Members that stay keep their known state.
        let known = std::mem::take(&mut self.replicas);
        let find = |node: &NodeId| known.iter().find(|replica| replica.node == *node).copied();
        self.replicas = replicas.iter().map(|node| find(node).unwrap_or_else(|| blank(*node))).collect();
        for replica in &mut self.replicas {
            // A member that has no replica any more is passed over (KAFKA-9672).
            replica.in_sync = in_sync.contains(&replica.node);
            if new_epoch && replica.node != self.local {
                // What a follower told an earlier leader says nothing about its log under this one.
                *replica = Replica { in_sync: replica.in_sync, ..blank(replica.node) };
            }
        }
        if self.is_leader() && new_epoch {
            self.epoch_start = self.log_end;
            self.advance()?;
            return Ok(ReplicaOutcome::BecameLeader { epoch, high_watermark: self.high_watermark });
        }
        if was_leader && !self.is_leader() {
            return Ok(ReplicaOutcome::Resigned { epoch });
        }
        self.advance()
    }

    fn follower_fetched(&mut self, node: NodeId, epoch: LeaderEpoch, from: P) -> Applied<P> {
        self.check_current(epoch)?;
        if from > self.log_end {
            return Err(EventError::BeyondLogEnd { what: "a fetch from", given: from, log_end: self.log_end });
        }
        let local = self.local;
        let Some(replica) = self.replicas.iter_mut().find(|r| r.node == node && node != local) else {
            return Err(EventError::NotAReplica(node));
        };
        // A follower that lost its disk may begin again further down: it is believed.
        replica.log_end = from;
        replica.acknowledged = from;
        self.advance()
    }

    /// An answer of an earlier leader is refused (KAFKA-18991).
    fn leader_committed(&mut self, epoch: LeaderEpoch, high_watermark: P) -> Applied<P> {
        self.check_current(epoch)?;
        let to = high_watermark.min(self.log_end);
        // A new leader may know less than its predecessor told: committed records stay committed.
        if self.is_leader() || to <= self.high_watermark {
            return Ok(ReplicaOutcome::Nothing);
        }
        self.set_high_watermark(to)
    }

    fn local_truncated(&mut self, to: P) -> Applied<P> {
        if self.is_leader() {
            return Err(EventError::LeaderCut(to));
        }
        if to > self.log_end {
            return Err(EventError::BeyondLogEnd { what: "a cut at", given: to, log_end: self.log_end });
        }
        let from = self.high_watermark;
        self.log_end = to;
        self.log_start = self.log_start.min(to);
        self.acknowledged = self.acknowledged.min(to);
        self.high_watermark = from.min(to);
        if to < from { Ok(ReplicaOutcome::HighWatermarkLowered { from, to }) } else { Ok(ReplicaOutcome::Nothing) }
    }

    /// Only a leader proposes. A member that would leave counts until the controller has agreed.
    fn in_sync_proposed(&mut self, nodes: Vec<NodeId>) -> Applied<P> {
        if self.is_leader() {
            self.proposed = nodes;
        }
        Ok(ReplicaOutcome::Nothing)
    }

    fn check_current(&self, epoch: LeaderEpoch) -> Result<(), EventError<P>> {
        if epoch < self.epoch {
            return Err(EventError::OldEpoch { given: epoch, current: self.epoch });
        }
        if epoch > self.epoch {
            return Err(EventError::FutureEpoch { given: epoch, current: self.epoch });
        }
        Ok(())
    }

    fn seen(&self, replica: &Replica<P>) -> Replica<P> {
        if replica.node != self.local {
            return *replica;
        }
        Replica { log_end: self.log_end, acknowledged: self.acknowledged, ..*replica }
    }

    /// The rule: the lowest acknowledged end of the in-sync set and of who is proposed to join it; never back, only on
    /// the leader, and only while enough are in sync.
    fn advance(&mut self) -> Applied<P> {
        if !self.has_enough_in_sync() {
            return Ok(ReplicaOutcome::Nothing);
        }
        let counts = |replica: &Replica<P>| replica.in_sync || self.proposed.contains(&replica.node);
        let lowest = self.replicas().filter(counts).map(|replica| replica.acknowledged).min();
        match lowest {
            Some(to) if to > self.high_watermark => self.set_high_watermark(to),
            _ => Ok(ReplicaOutcome::Nothing),
        }
    }

    /// Whether this leader may move the high watermark.
    fn has_enough_in_sync(&self) -> bool {
        self.is_leader() && self.in_sync_count() >= self.min_in_sync.min(self.replicas.len())
    }

    fn set_high_watermark(&mut self, to: P) -> Applied<P> {
        Positions { high_watermark: to, last_stable: to, ..self.positions(to) }.check()?;
        self.high_watermark = to;
        Ok(ReplicaOutcome::HighWatermarkAdvanced { to })
    }
}

fn blank<P: UnitPosition>(node: NodeId) -> Replica<P> {
    Replica { node, log_end: P::ZERO, acknowledged: P::ZERO, in_sync: false }
}

#[cfg(test)]
#[path = "replica_set_tests.rs"]
mod tests;
