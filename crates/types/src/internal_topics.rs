//! The names of the topics that belong to the broker itself.

/// Groups and their offsets: the log of the group coordinators.
pub const CONSUMER_OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Transactions: the log of the transaction coordinators.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
/// Where share groups are. Written by a Kafka whose folder was taken over.
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";
/// The metadata log. No topic of the cluster: no request may create it, and clients do not see it.
pub const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Whether a topic of the cluster is the broker's own: clients see that it is internal and may not write it.
pub fn is_internal_topic(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS_TOPIC | TRANSACTION_STATE_TOPIC | SHARE_GROUP_STATE_TOPIC)
}
