//! From the broker's errors to Kafka's codes.

use mainstem_broker::{Broker, ControllerError, EpochCheckError, ReadError};
use mainstem_coordinator::GroupError;
use mainstem_kafka_wire::ErrorCode;
use mainstem_metadata::controller::{AlterConfigError, CreatePartitionsError, CreateTopicError, DeleteTopicError};
use mainstem_record::{ErrorClass, FramingError, ValidationError};
use mainstem_store::AppendError;

/// Produce, per partition.
pub fn append_error_code(error: &AppendError) -> ErrorCode {
    match error {
        // A format that never existed is damage; an old one is a batch that this broker does not take.
        AppendError::Invalid(ValidationError::Framing(FramingError::UnsupportedMagic { magic }))
            if !(0..=2).contains(magic) =>
        {
            ErrorCode::CORRUPT_MESSAGE
        }
        AppendError::Invalid(error) => match error.class() {
            ErrorClass::InvalidRecord => ErrorCode::INVALID_RECORD,
            ErrorClass::InvalidTimestamp => ErrorCode::INVALID_TIMESTAMP,
            ErrorClass::CorruptMessage => ErrorCode::CORRUPT_MESSAGE,
            ErrorClass::MessageTooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            ErrorClass::UnsupportedCompression => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        },
        AppendError::MessageTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        AppendError::RecordListTooLarge { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        AppendError::InvalidTransactionState { .. } => ErrorCode::INVALID_TXN_STATE,
        AppendError::Recompression { .. } => ErrorCode::CORRUPT_MESSAGE,
        // Only replication and the metadata log append batches that carry their offsets.
        AppendError::NotNext { .. } => ErrorCode::UNKNOWN_SERVER_ERROR,
        AppendError::DiskFull { .. }
        | AppendError::DiskReserve { .. }
        | AppendError::NoFolder { .. }
        | AppendError::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        // Also where the topic is being deleted: the client asks the metadata again and learns so.
        AppendError::Closed { .. } | AppendError::NotLeader { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

/// Fetch and ListOffsets, per partition. Only codes that Java's consumer accepts in a fetch.
pub fn read_error_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Corrupt { .. } => ErrorCode::CORRUPT_MESSAGE,
        ReadError::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        // Never told: the read is repeated where waiting is allowed.
        ReadError::WouldBlock => ErrorCode::KAFKA_STORAGE_ERROR,
        // What retention removed during the read: the client asks again and learns where the log begins now.
        ReadError::Gone { .. } | ReadError::Closed { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

/// Requests that name a leader epoch.
pub fn epoch_error_code(error: &EpochCheckError) -> ErrorCode {
    match error {
        EpochCheckError::NotLeader => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        EpochCheckError::Fenced { .. } => ErrorCode::FENCED_LEADER_EPOCH,
        EpochCheckError::Unknown { .. } => ErrorCode::UNKNOWN_LEADER_EPOCH,
    }
}

/// The group apis.
pub fn group_error_code(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::UnknownMemberId => ErrorCode::UNKNOWN_MEMBER_ID,
        GroupError::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        GroupError::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
        GroupError::MemberIdRequired { .. } => ErrorCode::MEMBER_ID_REQUIRED,
        GroupError::FencedInstanceId => ErrorCode::FENCED_INSTANCE_ID,
        GroupError::InconsistentGroupProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        GroupError::InvalidSessionTimeout => ErrorCode::INVALID_SESSION_TIMEOUT,
        GroupError::GroupMaxSizeReached => ErrorCode::GROUP_MAX_SIZE_REACHED,
        GroupError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        GroupError::GroupIdNotFound => ErrorCode::GROUP_ID_NOT_FOUND,
        GroupError::NonEmptyGroup => ErrorCode::NON_EMPTY_GROUP,
        GroupError::GroupSubscribedToTopic => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
        GroupError::OffsetMetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        GroupError::UnstableOffsetCommit => ErrorCode::UNSTABLE_OFFSET_COMMIT,
        GroupError::CoordinatorLoadInProgress => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        GroupError::CoordinatorNotAvailable => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        GroupError::NotCoordinator => ErrorCode::NOT_COORDINATOR,
        GroupError::StateTooLarge => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

/// The code of a group operation: [`ErrorCode::NONE`] when it went well.
pub fn group_result_code(result: &Result<(), GroupError>) -> ErrorCode {
    result.as_ref().err().map_or(ErrorCode::NONE, group_error_code)
}

/// A change of the metadata that was not made. The request may be sent again after a restart, or to the next leader.
pub fn controller_error_code(error: &ControllerError) -> ErrorCode {
    match error {
        ControllerError::Write(_) | ControllerError::Failed => ErrorCode::KAFKA_STORAGE_ERROR,
        ControllerError::Stopping => ErrorCode::NOT_CONTROLLER,
        ControllerError::Replay(_) | ControllerError::ProducerIds(_) | ControllerError::OffsetsTopic(_) => {
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
    }
}

/// CreateTopics and CreatePartitions: what to say of a topic that was recorded and is not served as a whole.
pub fn unserved_error(broker: &Broker, topic: &str) -> Option<(ErrorCode, String)> {
    let unserved = broker.unserved_partitions(topic);
    let first = unserved.first()?;
    let message = format!(
        "the topic was recorded, but {} of its partitions ({first} first) cannot be served: their folders could not be created; see the broker's log, then restart the broker or delete the topic",
        unserved.len()
    );
    Some((ErrorCode::KAFKA_STORAGE_ERROR, message))
}

/// CreateTopics, per topic.
pub fn create_topic_error_code(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::Name(_) | CreateTopicError::Collision { .. } => ErrorCode::INVALID_TOPIC_EXCEPTION,
        CreateTopicError::Exists(_) => ErrorCode::TOPIC_ALREADY_EXISTS,
        CreateTopicError::Prohibited | CreateTopicError::Duplicate | CreateTopicError::CountBesideAssignment(_) => {
            ErrorCode::INVALID_REQUEST
        }
        CreateTopicError::Partitions => ErrorCode::INVALID_PARTITIONS,
        CreateTopicError::ReplicationFactor | CreateTopicError::TooFewBrokers { .. } => {
            ErrorCode::INVALID_REPLICATION_FACTOR
        }
        CreateTopicError::Assignment(_) => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        CreateTopicError::Config(_) => ErrorCode::INVALID_CONFIG,
        CreateTopicError::TooManyPartitions => ErrorCode::POLICY_VIOLATION,
    }
}

/// DeleteTopics, per topic. Before version 3 clients did not know that deletion can be disabled.
pub fn delete_topic_error_code(error: &DeleteTopicError, version: i16) -> ErrorCode {
    match error {
        DeleteTopicError::UnknownName(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        DeleteTopicError::UnknownId(_) => ErrorCode::UNKNOWN_TOPIC_ID,
        DeleteTopicError::Duplicate(_) => ErrorCode::INVALID_REQUEST,
        DeleteTopicError::Disabled if version < 3 => ErrorCode::INVALID_REQUEST,
        DeleteTopicError::Disabled => ErrorCode::TOPIC_DELETION_DISABLED,
    }
}

/// CreatePartitions, per topic.
pub fn create_partitions_error_code(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::UnknownTopic(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        CreatePartitionsError::Duplicate => ErrorCode::INVALID_REQUEST,
        CreatePartitionsError::Unchanged(_) | CreatePartitionsError::Fewer { .. } => ErrorCode::INVALID_PARTITIONS,
        CreatePartitionsError::TooFewBrokers { .. } => ErrorCode::INVALID_REPLICATION_FACTOR,
        CreatePartitionsError::Assignment(_) => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        CreatePartitionsError::TooMany => ErrorCode::POLICY_VIOLATION,
    }
}

/// IncrementalAlterConfigs, per resource.
pub fn alter_config_error_code(error: &AlterConfigError) -> ErrorCode {
    match error {
        AlterConfigError::UnknownTopic(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        AlterConfigError::TopicName(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
        AlterConfigError::NotAList { .. } | AlterConfigError::MinInSync { .. } | AlterConfigError::TopicValue(_) => {
            ErrorCode::INVALID_CONFIG
        }
        AlterConfigError::DefaultTopic
        | AlterConfigError::UnknownBroker(_)
        | AlterConfigError::UnsupportedResource(_)
        | AlterConfigError::DuplicateResource
        | AlterConfigError::DuplicateKey(_)
        | AlterConfigError::NullValue(_)
        | AlterConfigError::ReadOnly(_)
        | AlterConfigError::PerBrokerOnly(_)
        | AlterConfigError::BrokerValue(_) => ErrorCode::INVALID_REQUEST,
    }
}
