//! Why a record of the metadata log cannot be applied.

use mainstem_types::{Offset, TopicId};

/// The metadata log contradicts itself. The broker must not serve on such an image: stop, and look at the log with
/// `mainstem dump` at the offset named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("metadata record at offset {offset}: topic {topic_id} does not exist")]
    UnknownTopic { offset: Offset, topic_id: TopicId },
    #[error("metadata record at offset {offset}: topic {topic_id} has no partition {partition}")]
    UnknownPartition { offset: Offset, topic_id: TopicId, partition: i32 },
    #[error("metadata record at offset {offset}: topic {name} exists already, with the id {existing}")]
    TopicExists { offset: Offset, name: String, existing: TopicId },
    #[error("metadata record at offset {offset}: broker {broker_id} is not registered")]
    UnknownBroker { offset: Offset, broker_id: i32 },
    #[error(
        "metadata record at offset {offset}: broker {broker_id} is registered with epoch {registered}, not {given}"
    )]
    BrokerEpoch { offset: Offset, broker_id: i32, registered: i64, given: i64 },
    #[error("metadata record at offset {offset}: a transaction begins inside another one")]
    NestedTransaction { offset: Offset },
    #[error("metadata record at offset {offset}: a transaction ends that did not begin")]
    NoTransaction { offset: Offset },
    #[error("metadata record at offset {offset} is already applied: the image is at {applied}")]
    Replayed { offset: Offset, applied: Offset },
}
