//! What the coordinator answers.

use std::sync::Arc;

use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use crate::{AppendFailure, Blob, GroupError, GroupState, GroupType};

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    pub member_id: Arc<str>,
    pub instance_id: Option<Arc<str>>,
    pub metadata: Blob,
}

/// A join that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedGroup {
    pub generation: i32,
    pub protocol_type: Option<Arc<str>>,
    pub protocol_name: Option<Arc<str>>,
    pub leader: Arc<str>,
    pub skip_assignment: bool,
    pub member_id: Arc<str>,
    /// For the leader only, else empty.
    pub members: Vec<JoinedMember>,
}

/// A sync that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncedGroup {
    pub protocol_type: Option<Arc<str>>,
    pub protocol_name: Option<Arc<str>>,
    pub assignment: Blob,
}

/// One member of a LeaveGroup, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub result: Result<(), GroupError>,
}

/// One partition of an OffsetCommit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedPartition {
    pub partition: PartitionIndex,
    pub result: Result<(), GroupError>,
}

/// One topic of an OffsetCommit, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedTopic {
    pub name: String,
    pub topic_id: TopicId,
    pub partitions: Vec<CommittedPartition>,
}

/// One topic of an OffsetDelete, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedOffsets {
    pub name: String,
    pub partitions: Vec<CommittedPartition>,
}

/// One partition of an OffsetFetch. Without an offset: -1, -1, "" and no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPartition {
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: Arc<str>,
    pub error: Option<GroupError>,
}

/// One topic of an OffsetFetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    pub name: Arc<str>,
    pub partitions: Vec<FetchedPartition>,
}

/// A member in DescribeGroups. The bytes are the client's own, undecoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    pub member_id: Arc<str>,
    pub instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    /// Empty unless the group is Stable.
    pub metadata: Blob,
    pub assignment: Blob,
}

/// A group in DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    pub state: GroupState,
    pub protocol_type: Arc<str>,
    /// The chosen protocol, "" unless the group is Stable.
    pub protocol_name: Arc<str>,
    pub members: Vec<DescribedMember>,
}

/// A group in ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    pub group_id: Arc<str>,
    pub protocol_type: Arc<str>,
    pub state: GroupState,
    pub group_type: GroupType,
}

/// An answer for the request of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Join(Result<JoinedGroup, GroupError>),
    Sync(Result<SyncedGroup, GroupError>),
    Leave(Result<Vec<LeftMember>, GroupError>),
    OffsetCommit(Result<Vec<CommittedTopic>, GroupError>),
    OffsetDelete(Result<Vec<DeletedOffsets>, GroupError>),
    DeleteGroup(Result<(), GroupError>),
}

impl Reply {
    /// The same answer after its records could not be appended: what promised something, fails.
    pub(crate) fn after(self, failure: AppendFailure) -> Reply {
        let error = failure.as_group_error();
        match self {
            Reply::Join(Ok(_) | Err(GroupError::MemberIdRequired { .. })) => Reply::Join(Err(error)),
            Reply::Sync(Ok(_)) => Reply::Sync(Err(error)),
            Reply::Leave(Ok(_)) => Reply::Leave(Err(error)),
            Reply::OffsetCommit(Ok(_)) => Reply::OffsetCommit(Err(error)),
            Reply::OffsetDelete(Ok(_)) => Reply::OffsetDelete(Err(error)),
            Reply::DeleteGroup(Ok(())) => Reply::DeleteGroup(Err(error)),
            refused => refused,
        }
    }
}
