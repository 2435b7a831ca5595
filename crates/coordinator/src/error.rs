//! Why an operation on a group is refused.

use thiserror::Error;

/// Why the coordinator refuses an operation. The number in each comment is the protocol's error code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GroupError {
    /// UNKNOWN_MEMBER_ID 25.
    #[error("the member is not part of the group: join again without a member id")]
    UnknownMemberId,
    /// ILLEGAL_GENERATION 22.
    #[error("the generation is not the group's current one: join again")]
    IllegalGeneration,
    /// REBALANCE_IN_PROGRESS 27.
    #[error("the group rebalances: join again")]
    RebalanceInProgress,
    /// MEMBER_ID_REQUIRED 79. The member joins again with this id.
    #[error("join again with the member id {member_id}")]
    MemberIdRequired { member_id: String },
    /// FENCED_INSTANCE_ID 82.
    #[error("another member took over this group.instance.id")]
    FencedInstanceId,
    /// INCONSISTENT_GROUP_PROTOCOL 23.
    #[error("the group's members have another protocol type, or no protocol in common with this one")]
    InconsistentGroupProtocol,
    /// INVALID_SESSION_TIMEOUT 26.
    #[error("session.timeout.ms is outside group.min.session.timeout.ms and group.max.session.timeout.ms")]
    InvalidSessionTimeout,
    /// GROUP_MAX_SIZE_REACHED 81.
    #[error("the group has group.max.size members already")]
    GroupMaxSizeReached,
    /// INVALID_GROUP_ID 24.
    #[error("a group id cannot be empty here")]
    InvalidGroupId,
    /// GROUP_ID_NOT_FOUND 69.
    #[error("there is no such group")]
    GroupIdNotFound,
    /// NON_EMPTY_GROUP 68.
    #[error("the group has members: stop them first")]
    NonEmptyGroup,
    /// GROUP_SUBSCRIBED_TO_TOPIC 86.
    #[error("the group's members are subscribed to the topic")]
    GroupSubscribedToTopic,
    /// OFFSET_METADATA_TOO_LARGE 12.
    #[error("the commit's metadata is longer than offset.metadata.max.bytes")]
    OffsetMetadataTooLarge,
    /// UNSTABLE_OFFSET_COMMIT 88.
    #[error("a transaction with an offset of this partition is open: ask again")]
    UnstableOffsetCommit,
    /// COORDINATOR_LOAD_IN_PROGRESS 14.
    #[error("the coordinator still reads its log: try again")]
    CoordinatorLoadInProgress,
    /// COORDINATOR_NOT_AVAILABLE 15.
    #[error("the coordinator cannot store its state now: try again")]
    CoordinatorNotAvailable,
    /// NOT_COORDINATOR 16.
    #[error("this broker does not coordinate the group any more: look the coordinator up again")]
    NotCoordinator,
    /// UNKNOWN_SERVER_ERROR -1, as Kafka 4 answers when the group's state exceeds `max.message.bytes` of the internal
    /// topic.
    #[error("the group's state does not fit a record batch of __consumer_offsets")]
    StateTooLarge,
}

/// Why the records of an outcome could not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AppendFailure {
    /// Too few replicas, a timeout, or the internal topic is not there yet. Clients retry.
    #[error("the records could not be replicated")]
    NotReplicated,
    /// The log does not take records any more: storage error, or the leadership has gone. Clients look elsewhere.
    #[error("the log does not take records any more")]
    NotWritable,
    /// The batch is larger than the topic allows.
    #[error("the batch is larger than the topic allows")]
    TooLarge,
}

impl AppendFailure {
    pub(crate) fn as_group_error(self) -> GroupError {
        match self {
            AppendFailure::NotReplicated => GroupError::CoordinatorNotAvailable,
            AppendFailure::NotWritable => GroupError::NotCoordinator,
            AppendFailure::TooLarge => GroupError::StateTooLarge,
        }
    }
}

/// Why a record of `__consumer_offsets` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("the key of a record in __consumer_offsets is cut short or malformed: {reason}")]
    Key { reason: String },
    #[error("the value of a record in __consumer_offsets for group {group} is cut short or malformed: {reason}")]
    Value { group: String, reason: String },
    #[error(
        "the value of a record in __consumer_offsets for group {group} has version {version}, this broker knows 0 to {max}"
    )]
    ValueVersion { group: String, version: i16, max: i16 },
}
