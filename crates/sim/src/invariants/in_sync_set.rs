//! Each member of an in-sync set that the controller has granted has everything that is committed: any of them may
//! become the leader next.

use std::collections::{BTreeMap, BTreeSet};

use mainstem_metadata::image::ClusterImage;
use mainstem_types::{Offset, PartitionIndex, TopicPartition};

use super::Invariant;
use crate::fact::{BatchFact, Fact};
use crate::message::Address;

#[derive(Debug, Default)]
pub struct InSyncSet {
    partitions: BTreeMap<TopicPartition, Known>,
}

/// What is known of a partition.
#[derive(Debug, Default)]
struct Known {
    /// As the controller has granted it.
    members: BTreeSet<i32>,
    /// The log of each node.
    logs: BTreeMap<i32, BTreeMap<Offset, BatchFact>>,
    committed: BTreeMap<Offset, BatchFact>,
    /// What lies below was deleted on purpose, somewhere at least.
    log_start: Offset,
}

impl Known {
    fn cut(&mut self, node: i32, to: Offset) {
        self.logs.entry(node).or_default().retain(|_, batch| batch.last < to);
    }

    /// Whether a member has these committed batches.
    fn check<'b>(
        &self,
        partition: &TopicPartition,
        member: i32,
        batches: impl Iterator<Item = &'b BatchFact>,
    ) -> Result<(), String> {
        let log = self.logs.get(&member);
        let has = |batch: &BatchFact| log.is_some_and(|log| log.get(&batch.base) == Some(batch));
        match batches.filter(|batch| batch.base >= self.log_start).find(|batch| !has(batch)) {
            Some(missing) => Err(format!(
                "{partition}: broker {member} is in the in-sync set {:?} and does not have {missing:?}, which is committed",
                self.members
            )),
            None => Ok(()),
        }
    }

    fn granted(&mut self, partition: &TopicPartition, members: BTreeSet<i32>) -> Result<(), String> {
        let before = std::mem::replace(&mut self.members, members);
        let joined = self.members.difference(&before);
        joined.copied().try_for_each(|member| self.check(partition, member, self.committed.values()))
    }
}

impl InSyncSet {
    fn known(&mut self, partition: &TopicPartition) -> &mut Known {
        self.partitions.entry(partition.clone()).or_default()
    }

    fn granted(&mut self, image: &ClusterImage) -> Result<(), String> {
        for topic in image.topics() {
            for (number, partition) in &topic.partitions {
                let name = TopicPartition::new(&*topic.name, PartitionIndex(*number));
                let members = partition.isr.iter().copied().collect();
                self.known(&name).granted(&name, members)?;
            }
        }
        Ok(())
    }
}

impl Invariant for InSyncSet {
    fn name(&self) -> &'static str {
        "each member of the in-sync set has everything that is committed"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Stored { node, partition, batch } => {
                let log = self.known(partition).logs.entry(*node).or_default();
                log.insert(batch.base, *batch);
            }
            Fact::Truncated { node, partition, to } => self.known(partition).cut(*node, *to),
            Fact::Recovered { node, partition, log, .. } => {
                let log = log.iter().map(|batch| (batch.base, *batch)).collect();
                self.known(partition).logs.insert(*node, log);
            }
            Fact::Positions { partition, positions, .. } => {
                let known = self.known(partition);
                known.log_start = known.log_start.max(positions.log_start);
            }
            Fact::Committed { partition, batches, .. } => {
                let known = self.known(partition);
                known.committed.extend(batches.iter().map(|batch| (batch.base, *batch)));
                return known.members.iter().try_for_each(|member| known.check(partition, *member, batches.iter()));
            }
            Fact::Image { node: Address::Controller, image } => return self.granted(image),
            _ => {}
        }
        Ok(())
    }
}
