//! CreatePartitions.

use std::collections::HashMap;

use mainstem_kafka_wire::metadata_records::MetadataRecord;

use super::group_epochs::GroupEpochs;
use super::{AssignmentError, Controller, Decision, MAX_PARTITIONS_PER_REQUEST};

/// How many partitions a topic is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    pub topic: String,
    /// In total.
    pub count: i32,
    /// The brokers of each added partition.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Why no partitions are added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreatePartitionsError {
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION (3).
    #[error("the topic {0} does not exist")]
    UnknownTopic(String),
    /// Kafka: INVALID_REQUEST (42).
    #[error("Duplicate topic name.")]
    Duplicate,
    /// Kafka: INVALID_PARTITIONS (37).
    #[error("Topic already has {0} partition(s).")]
    Unchanged(i32),
    /// Kafka: INVALID_PARTITIONS (37).
    #[error("The topic {topic} currently has {current} partition(s); {wanted} would not be an increase.")]
    Fewer { topic: String, current: i32, wanted: i32 },
    /// Kafka: INVALID_REPLICATION_FACTOR (38).
    #[error("{wanted} broker(s) are needed for the replicas, but only {brokers} are active.")]
    TooFewBrokers { wanted: usize, brokers: usize },
    /// Kafka: INVALID_REPLICA_ASSIGNMENT (39).
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// Kafka: POLICY_VIOLATION (44).
    #[error(
        "Excessively large number of additional partitions per request: the limit is {MAX_PARTITIONS_PER_REQUEST}."
    )]
    TooMany,
}

impl Controller {
    /// One result a topic, in the order of the request, with the new count; all additions form one batch.
    pub fn create_partitions(
        &self,
        topics: &[NewPartitions],
        validate_only: bool,
    ) -> Decision<Vec<Result<i32, CreatePartitionsError>>> {
        let mut named: HashMap<&str, usize> = HashMap::new();
        topics.iter().for_each(|topic| *named.entry(&topic.topic).or_default() += 1);
        let mut records = Vec::new();
        let mut left = MAX_PARTITIONS_PER_REQUEST;
        let mut epochs = GroupEpochs::new(self);
        let mut add = |topic: &NewPartitions| {
            if named.get(topic.topic.as_str()).is_some_and(|count| *count > 1) {
                return Err(CreatePartitionsError::Duplicate);
            }
            let mut added = self.add_partitions(topic, &mut left, &mut epochs)?;
            records.append(&mut added);
            Ok(topic.count)
        };
        let reply = topics.iter().map(&mut add).collect();
        if validate_only {
            records.clear();
        }
        Decision { records, reply }
    }

    fn add_partitions(
        &self,
        wanted: &NewPartitions,
        left: &mut usize,
        epochs: &mut GroupEpochs<'_>,
    ) -> Result<Vec<MetadataRecord<'static>>, CreatePartitionsError> {
        let unknown = || CreatePartitionsError::UnknownTopic(wanted.topic.clone());
        let topic = self.image.topic(&wanted.topic).ok_or_else(unknown)?;
        let current = topic.partitions.keys().next_back().map_or(0, |last| last + 1);
        if wanted.count == current {
            return Err(CreatePartitionsError::Unchanged(current));
        }
        if wanted.count < current {
            let topic = wanted.topic.clone();
            return Err(CreatePartitionsError::Fewer { topic, current, wanted: wanted.count });
        }
        let additional = usize::try_from(wanted.count - current).unwrap_or(usize::MAX);
        *left = left.checked_sub(additional).ok_or(CreatePartitionsError::TooMany)?;
        let factor = topic.partitions.values().next().map_or(1, |partition| partition.replicas.len());
        let replicas = match &wanted.assignments {
            Some(assignments) => {
                if assignments.len() != additional {
                    let given = assignments.len();
                    return Err(AssignmentError::Count { wanted: additional, given }.into());
                }
                assignments.iter().try_for_each(|brokers| self.check_assignment(brokers, Some(factor)))?;
                assignments.clone()
            }
            None => {
                let brokers = self.image.active_brokers().count();
                let too_few = || CreatePartitionsError::TooFewBrokers { wanted: factor, brokers };
                let place = |number| self.place(0, number, factor).ok_or_else(too_few);
                (current..wanted.count).map(place).collect::<Result<_, _>>()?
            }
        };
        let in_groups = self.is_in_groups(topic);
        let record = |(number, replicas)| {
            let mut record = self.partition_record(topic.id, number, replicas);
            if in_groups {
                record.leader_epoch = epochs.of(record.leader);
            }
            record.into()
        };
        Ok((current..).zip(replicas).map(record).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{apply, with_topics};
    use super::*;

    fn wanted(topic: &str, count: i32, assignments: Option<Vec<Vec<i32>>>) -> NewPartitions {
        NewPartitions { topic: topic.to_string(), count, assignments }
    }

    #[test]
    fn partitions_are_added_behind_the_existing_ones() {
        let mut controller = with_topics(&["a"]);
        let decision = controller.create_partitions(&[wanted("a", 3, None)], false);
        assert_eq!(decision.reply, vec![Ok(3)]);
        apply(&mut controller, &decision.records);
        let topic = controller.image().topic("a").unwrap();
        assert_eq!(topic.partitions.keys().copied().collect::<Vec<i32>>(), [0, 1, 2]);
        assert!(topic.partitions.values().all(|partition| partition.leader == 1 && partition.isr == [1]));
    }

    #[test]
    fn row_50_what_kafka_refuses_is_refused() {
        let controller = with_topics(&["a"]);
        let cases = [
            (wanted("a", 1, None), CreatePartitionsError::Unchanged(1)),
            (wanted("a", 0, None), CreatePartitionsError::Fewer { topic: "a".into(), current: 1, wanted: 0 }),
            (wanted("nope", 2, None), CreatePartitionsError::UnknownTopic("nope".into())),
            (wanted("a", 20_000, None), CreatePartitionsError::TooMany),
            (wanted("a", 2, Some(vec![vec![7]])), AssignmentError::UnknownBroker(7).into()),
            (wanted("a", 3, Some(vec![vec![1]])), AssignmentError::Count { wanted: 2, given: 1 }.into()),
            (wanted("a", 2, Some(vec![vec![]])), AssignmentError::Empty.into()),
            (wanted("a", 2, Some(vec![vec![1, 1]])), AssignmentError::Twice(1).into()),
        ];
        for (wanted, error) in cases {
            let decision = controller.create_partitions(std::slice::from_ref(&wanted), false);
            assert_eq!((decision.reply, decision.records), (vec![Err(error)], vec![]), "{wanted:?}");
        }
        let twice = controller.create_partitions(&[wanted("a", 2, None), wanted("a", 3, None)], false);
        assert!(twice.reply.iter().all(|result| *result == Err(CreatePartitionsError::Duplicate)));
        assert!(twice.records.is_empty());
    }

    #[test]
    fn validating_writes_nothing() {
        let decision = with_topics(&["a"]).create_partitions(&[wanted("a", 2, None)], true);
        assert_eq!((decision.reply, decision.records), (vec![Ok(2)], vec![]));
    }
}
