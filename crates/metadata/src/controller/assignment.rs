//! Which brokers hold a partition: placed here, or named by the client.

use mainstem_kafka_wire::metadata_records::PartitionRecord;
use mainstem_types::TopicId;

use super::Controller;
use crate::image::{DIRECTORY_UNASSIGNED, PartitionImage};

/// Why a placement that the client named is refused. Kafka: INVALID_REPLICA_ASSIGNMENT (39).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    #[error("The manual partition assignment includes an empty replica list.")]
    Empty,
    #[error("The manual partition assignment includes the broker {0} more than once.")]
    Twice(i32),
    #[error("The manual partition assignment includes broker {0}, but no such broker is registered.")]
    UnknownBroker(i32),
    #[error(
        "The manual partition assignment includes a partition with {given} replica(s), but this is not consistent with \
         previous partitions, which have {expected} replica(s)."
    )]
    ReplicationFactor { given: usize, expected: usize },
    #[error("partitions should be a consecutive 0-based integer sequence")]
    NotConsecutive,
    #[error("Attempted to add {wanted} additional partition(s), but only {given} assignment(s) were specified.")]
    Count { wanted: usize, given: usize },
}

impl Controller {
    /// Checks one partition's replicas. `expected` is how many the partitions before it have.
    pub(super) fn check_assignment(&self, replicas: &[i32], expected: Option<usize>) -> Result<(), AssignmentError> {
        if replicas.is_empty() {
            return Err(AssignmentError::Empty);
        }
        for (index, broker) in replicas.iter().enumerate() {
            if replicas[..index].contains(broker) {
                return Err(AssignmentError::Twice(*broker));
            }
            if self.image.broker(*broker).is_none() {
                return Err(AssignmentError::UnknownBroker(*broker));
            }
        }
        match expected {
            Some(expected) if expected != replicas.len() => {
                Err(AssignmentError::ReplicationFactor { given: replicas.len(), expected })
            }
            _ => Ok(()),
        }
    }

    /// Places partition `number` on `count` of the active brokers, neighbours shifted by one, so that leaders spread.
    /// Nothing when there are fewer brokers than that.
    pub(super) fn place(&self, first: usize, number: i32, count: usize) -> Option<Vec<i32>> {
        let brokers: Vec<i32> = self.image.active_brokers().map(|broker| broker.id()).collect();
        if count > brokers.len() || brokers.is_empty() {
            return None;
        }
        let start = first + usize::try_from(number).unwrap_or(0);
        Some((0..count).map(|step| brokers[(start + step) % brokers.len()]).collect())
    }

    /// The record of a new partition: led by its first active replica, all active ones in sync.
    pub(super) fn partition_record(&self, topic_id: TopicId, number: i32, replicas: Vec<i32>) -> PartitionRecord {
        let active = |id: &i32| self.image.broker(*id).is_some_and(|broker| broker.is_active());
        let directory = |id: &i32| match self.image.broker(*id).map(|broker| broker.record.log_dirs.as_slice()) {
            Some([only]) => *only,
            _ => DIRECTORY_UNASSIGNED,
        };
        let isr: Vec<i32> = replicas.iter().copied().filter(active).collect();
        let partition = PartitionImage {
            directories: replicas.iter().map(directory).collect(),
            leader: isr.first().copied().unwrap_or(crate::image::NO_LEADER),
            isr,
            replicas,
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            eligible_leader_replicas: Vec::new(),
            last_known_eligible: Vec::new(),
            leader_recovery_state: 0,
            leader_epoch: 0,
            partition_epoch: 0,
        };
        let level = self.image.metadata_version();
        partition.to_record(topic_id, number, level.has_directories(), level.has_eligible_leader_replicas())
    }
}
