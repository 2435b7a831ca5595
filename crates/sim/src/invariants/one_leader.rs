//! An epoch has one leader, and epochs ascend on every node.

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, TopicPartition};

use super::Invariant;
use crate::fact::Fact;

#[derive(Debug, Default)]
pub struct OneLeader {
    leaders: BTreeMap<(TopicPartition, LeaderEpoch), i32>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one leader in an epoch"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::LeaderBegan { node, partition, epoch, .. } = fact else { return Ok(()) };
        let leader = self.leaders.entry((partition.clone(), *epoch)).or_insert(*node);
        match leader == node {
            true => Ok(()),
            false => Err(format!("{partition}: brokers {leader} and {node} both lead in epoch {epoch}")),
        }
    }
}
