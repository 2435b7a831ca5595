//! What a door asks of the coordinator: borrowed views, nothing is kept of them but copies.

use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

/// One protocol that a member offers, in its order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinProtocol<'a> {
    pub name: &'a str,
    pub metadata: &'a [u8],
}

/// JoinGroup.
#[derive(Debug, Clone)]
pub struct JoinGroupRequest<'a> {
    pub group_id: &'a str,
    /// Empty: not known yet.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member (KIP-345, v5+).
    pub instance_id: Option<&'a str>,
    pub client_id: &'a str,
    /// As Kafka writes it: `/127.0.0.1`.
    pub client_host: &'a str,
    pub session_timeout_ms: i32,
    /// Negative (v0 has none): the session timeout counts.
    pub rebalance_timeout_ms: i32,
    pub protocol_type: &'a str,
    pub protocols: Vec<JoinProtocol<'a>>,
    /// v4+ (KIP-394): a new dynamic member is told its id first and joins with it.
    pub requires_known_member_id: bool,
    /// v9+: a returning static leader is told to skip the assignment.
    pub supports_skipping_assignment: bool,
    /// 16 random bytes of the caller; become the uuid in the new member's id if one is needed.
    pub member_uuid: [u8; 16],
}

/// SyncGroup.
#[derive(Debug, Clone)]
pub struct SyncGroupRequest<'a> {
    pub group_id: &'a str,
    pub generation: i32,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// v5+, else `None`.
    pub protocol_type: Option<&'a str>,
    /// v5+, else `None`.
    pub protocol_name: Option<&'a str>,
    /// From the leader: member id and assignment.
    pub assignments: Vec<(&'a str, &'a [u8])>,
}

/// Heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatRequest<'a> {
    pub group_id: &'a str,
    pub generation: i32,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
}

/// One member of a LeaveGroup.
#[derive(Debug, Clone, Copy)]
pub struct LeavingMember<'a> {
    /// Empty with an instance id: an administrator removes the static member.
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
}

/// LeaveGroup; v0-2 have one member.
#[derive(Debug, Clone)]
pub struct LeaveGroupRequest<'a> {
    pub group_id: &'a str,
    pub members: Vec<LeavingMember<'a>>,
}

/// One partition of an OffsetCommit.
#[derive(Debug, Clone, Copy)]
pub struct CommitPartition<'a> {
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: Option<&'a str>,
}

/// One topic of an OffsetCommit. The caller has checked that topic and partitions exist.
#[derive(Debug, Clone)]
pub struct CommitTopic<'a> {
    pub name: &'a str,
    /// The topic's id, or [`TopicId::ZERO`] when not known.
    pub topic_id: TopicId,
    pub partitions: Vec<CommitPartition<'a>>,
}

/// OffsetCommit.
#[derive(Debug, Clone)]
pub struct OffsetCommitRequest<'a> {
    /// May be empty: simple consumers of old clients commit to the empty group.
    pub group_id: &'a str,
    /// Negative: no group management.
    pub generation: i32,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// v2-4 only, and not -1: the offsets expire this long after the commit.
    pub retention_ms: Option<i64>,
    /// v9+: a missing group is GROUP_ID_NOT_FOUND, before it is ILLEGAL_GENERATION.
    pub reports_missing_group: bool,
    pub topics: Vec<CommitTopic<'a>>,
}

/// One topic of an OffsetFetch.
#[derive(Debug, Clone)]
pub struct FetchTopic<'a> {
    pub name: &'a str,
    /// The topic's current id, or [`TopicId::ZERO`] when not known: an offset of another incarnation is not shown.
    pub topic_id: TopicId,
    pub partitions: Vec<PartitionIndex>,
}

/// OffsetFetch for one group.
#[derive(Debug, Clone)]
pub struct OffsetFetchRequest<'a> {
    pub group_id: &'a str,
    /// v9+, KIP-848 members only.
    pub member_id: Option<&'a str>,
    /// v9+, -1 for classic members.
    pub member_epoch: i32,
    /// `None`: all of the group's.
    pub topics: Option<Vec<FetchTopic<'a>>>,
    /// v7+: partitions with an offset in an open transaction are refused.
    pub require_stable: bool,
}

/// Partitions of one topic, by name.
#[derive(Debug, Clone)]
pub struct TopicPartitions<'a> {
    pub name: &'a str,
    pub partitions: Vec<PartitionIndex>,
}

/// OffsetDelete.
#[derive(Debug, Clone)]
pub struct OffsetDeleteRequest<'a> {
    pub group_id: &'a str,
    pub topics: Vec<TopicPartitions<'a>>,
}
