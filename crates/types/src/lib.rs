//! Newtypes of the field: offsets, positions, epochs, ids.
//!
//! No IO, no clock, no dependency. Each number that travels between crates has a type of its own, so that an
//! [`Offset`] (counts records of one partition) can never be mistaken for a [`Position`] (counts bytes of one journal).

mod ids;
mod internal_topics;
mod java_hash;
mod name;
mod numbers;

pub use ids::{NodeId, TopicId, TopicIdError};
pub use internal_topics::{
    CLUSTER_METADATA_TOPIC, CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, is_internal_topic,
};
pub use java_hash::java_string_hash;
pub use name::{TopicNameError, validate_topic_name};
pub use numbers::{LeaderEpoch, Offset, PartitionIndex, Position, ProducerEpoch, ProducerId, TimestampMs};

/// A partition of a topic, by name. The form in which people and clients speak of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: std::sync::Arc<str>,
    pub partition: PartitionIndex,
}

impl TopicPartition {
    pub fn new(topic: impl Into<std::sync::Arc<str>>, partition: PartitionIndex) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl std::fmt::Display for TopicPartition {
    /// `topic-partition`, as Kafka names the folder.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
