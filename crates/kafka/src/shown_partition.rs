//! What clients are told about the replicas of a partition: what the metadata says, except where this node cannot serve
//! its own replica.

use mainstem_broker::Topic;
use mainstem_metadata::image::{NO_LEADER, PartitionImage};
use mainstem_types::{NodeId, PartitionIndex};

/// Leader, and replicas that nobody serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownReplicas {
    /// [`NO_LEADER`] when no node leads, or when this one should and cannot.
    pub leader: i32,
    pub offline: Vec<i32>,
}

impl ShownReplicas {
    /// `served`: the topic as `node`, this one, serves it. The metadata alone says what other nodes do.
    pub fn of(image: &PartitionImage, index: i32, served: Option<&Topic>, node: NodeId) -> ShownReplicas {
        let is_served = served.is_some_and(|topic| topic.partition(PartitionIndex(index)).is_some());
        // A leader is only named when the partition can be written and read at once.
        let leader = if image.leader == node.0 && !is_served { NO_LEADER } else { image.leader };
        let offline = image.replicas.iter().copied().filter(|replica| *replica == node.0 && !is_served).collect();
        ShownReplicas { leader, offline }
    }
}
