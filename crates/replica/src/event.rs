//! The events of a replica set, and its outcomes.

use mainstem_types::{LeaderEpoch, NodeId, Offset};

use crate::UnitPosition;
use crate::positions::PositionsError;

/// One replica as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica<P = Offset> {
    pub node: NodeId,
    /// Where its log ends. For another node: up to where it has fetched.
    pub log_end: P,
    /// Where what it has acknowledged ends: its share in the high watermark. At most `log_end`.
    pub acknowledged: P,
    pub in_sync: bool,
}

/// What this node is to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Leader,
    /// It has a replica, and another node leads, or none.
    Follower {
        leader: Option<NodeId>,
    },
    /// It has no replica.
    Nothing,
}

/// What a new [`crate::ReplicaSet`] starts from, as recovery found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSetState<P = Offset> {
    pub local: NodeId,
    pub replicas: Vec<NodeId>,
    pub log_start: P,
    /// From the checkpoint; clamped into `log start ..= log end`, because the checkpoint is written behind the log.
    pub high_watermark: P,
    pub log_end: P,
    /// What of the local log counts towards the high watermark, as recovery found it.
    pub acknowledged: P,
}

/// What happened to the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P = Offset> {
    /// The metadata log says who has a replica, who leads, from which epoch on, and who is in sync. One event: several
    /// records of the log may have changed all of it, and nothing is committed by a part of them.
    LeaderElected { replicas: Vec<NodeId>, leader: Option<NodeId>, epoch: LeaderEpoch, in_sync: Vec<NodeId> },
    /// The local log was appended to, or synced. Records below `acknowledged` are as safe as the topic's settings
    /// promise: in the page cache or on the disk, as the log says. Only these count towards the high watermark.
    LocalEnds { log_end: P, acknowledged: P },
    /// The local log was cut at its front (retention, DeleteRecords).
    LocalLogStart(P),
    /// The local log was cut at its end, as the leader asked: this node follows.
    LocalTruncated(P),
    /// A follower fetches from a position, so it has everything before. Its log was found to be a prefix of this one
    /// ([`crate::diverging`]).
    FollowerFetched { node: NodeId, epoch: LeaderEpoch, from: P },
    /// The leader's answer to a fetch of this node said what is committed. To be told after the append, or the cut,
    /// that the answer brought.
    LeaderCommitted { epoch: LeaderEpoch, high_watermark: P },
    /// This leader has asked the controller for this in-sync set. Until the next [`Event::LeaderElected`] the members
    /// of both sets count.
    InSyncProposed(Vec<NodeId>),
    /// The topic's `min.insync.replicas`. More than all replicas are never asked for.
    MinInSyncChanged(usize),
}

/// What follows from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaOutcome<P = Offset> {
    Nothing,
    /// Replies that wait for an offset below `to` may leave, readers see up to `to`.
    HighWatermarkAdvanced {
        to: P,
    },
    /// This node has begun to lead. `high_watermark` is where readers stop now.
    BecameLeader {
        epoch: LeaderEpoch,
        high_watermark: P,
    },
    /// This node no longer leads: waiting replies get "not leader".
    Resigned {
        epoch: LeaderEpoch,
    },
    /// The log was cut below what was committed, as an unclean election demands: readers may have seen records that are
    /// gone.
    HighWatermarkLowered {
        from: P,
        to: P,
    },
}

/// Why an event is refused. State is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError<P: UnitPosition = Offset> {
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
    WentBack { what: &'static str, from: P, to: P },
    #[error("{what} {given} lies beyond the log end {log_end}")]
    BeyondLogEnd { what: &'static str, given: P, log_end: P },
    #[error(transparent)]
    Order(#[from] PositionsError<P>),
    /// A leader's log is what others follow: nothing of it is cut.
    #[error("this node leads, so its log is not cut at {0}")]
    LeaderCut(P),
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

/// `acks=all` cannot be honoured, because of `min.insync.replicas`. Kafka: NOT_ENOUGH_REPLICAS (19) when checked before
/// the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND (20) when checked while waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{in_sync} replicas are in sync, but min.insync.replicas asks for {required}")]
pub struct MinInSyncError {
    pub in_sync: usize,
    pub required: usize,
}
