//! AlterPartitionReassignments (KIP-455), as far as one node needs it.
//!
//! A partition can only be asked to stay where it is. Nothing moves between nodes, so no record comes of it.

use mainstem_types::PartitionIndex;

use super::{AssignmentError, Controller};

/// The wanted replicas of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    pub topic: String,
    pub partition: PartitionIndex,
    /// The brokers that are to hold it; `None` ends a move that is under way.
    pub replicas: Option<Vec<i32>>,
}

/// Why a partition is not moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReassignError {
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION (3).
    #[error("Unable to find a topic named {0}.")]
    UnknownTopic(String),
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION (3).
    #[error("Unable to find partition {topic}:{partition}.")]
    UnknownPartition { topic: String, partition: PartitionIndex },
    /// Kafka: NO_REASSIGNMENT_IN_PROGRESS (85).
    #[error("No partition reassignment is in progress.")]
    NotInProgress,
    /// Kafka: INVALID_REPLICA_ASSIGNMENT (39).
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// Kafka: INVALID_REPLICATION_FACTOR (38).
    #[error("The replication factor is changed from {from} to {to}, which the request does not allow.")]
    ReplicationFactor { from: usize, to: usize },
    /// Kafka starts to move it; here it is INVALID_REPLICA_ASSIGNMENT (39).
    #[error("Brokers that do not run cannot take over a partition; it stays on {0:?}.")]
    Elsewhere(Vec<i32>),
}

impl Controller {
    /// Whether a partition may be where it is asked to be.
    pub fn check_reassignment(&self, wanted: &Reassignment, may_change_factor: bool) -> Result<(), ReassignError> {
        let Some(topic) = self.image.topic(&wanted.topic) else {
            return Err(ReassignError::UnknownTopic(wanted.topic.clone()));
        };
        let Some(current) = topic.partitions.get(&wanted.partition.0) else {
            let (topic, partition) = (wanted.topic.clone(), wanted.partition);
            return Err(ReassignError::UnknownPartition { topic, partition });
        };
        let Some(replicas) = &wanted.replicas else { return Err(ReassignError::NotInProgress) };
        self.check_assignment(replicas, None)?;
        if !may_change_factor && replicas.len() != current.replicas.len() {
            return Err(ReassignError::ReplicationFactor { from: current.replicas.len(), to: replicas.len() });
        }
        match *replicas == current.replicas {
            true => Ok(()),
            false => Err(ReassignError::Elsewhere(current.replicas.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::with_topics;
    use super::*;

    fn check(replicas: Option<Vec<i32>>, may_change_factor: bool) -> Result<(), ReassignError> {
        let wanted = Reassignment { topic: "plain".to_owned(), partition: PartitionIndex(0), replicas };
        with_topics(&["plain"]).check_reassignment(&wanted, may_change_factor)
    }

    #[test]
    fn a_partition_stays_where_it_is() {
        assert_eq!(check(Some(vec![1]), false), Ok(()));
        assert_eq!(check(None, true), Err(ReassignError::NotInProgress));
        assert_eq!(check(Some(vec![]), true), Err(AssignmentError::Empty.into()));
        assert_eq!(check(Some(vec![1, 1]), true), Err(AssignmentError::Twice(1).into()));
        assert_eq!(check(Some(vec![1, 7]), false), Err(AssignmentError::UnknownBroker(7).into()));
    }

    #[test]
    fn what_is_not_there_cannot_be_moved() {
        let controller = with_topics(&["plain"]);
        let wanted = |topic: &str, partition| Reassignment {
            topic: topic.to_owned(),
            partition: PartitionIndex(partition),
            replicas: None,
        };
        let check = |topic, partition| controller.check_reassignment(&wanted(topic, partition), true);
        assert_eq!(check("nope", 0), Err(ReassignError::UnknownTopic("nope".to_owned())));
        assert!(matches!(check("plain", 77), Err(ReassignError::UnknownPartition { .. })));
    }
}
