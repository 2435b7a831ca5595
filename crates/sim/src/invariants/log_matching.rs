//! Two logs that have a batch of the same epoch at the same offset have the same batch there; epochs ascend
//! along a log.

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use super::Invariant;
use crate::fact::{BatchFact, Fact};

#[derive(Debug, Default)]
pub struct LogMatching {
    batches: BTreeMap<(TopicPartition, LeaderEpoch, Offset), BatchFact>,
    ends: BTreeMap<(i32, TopicPartition), BTreeMap<Offset, LeaderEpoch>>,
}

impl Invariant for LogMatching {
    fn name(&self) -> &'static str {
        "the same epoch and offset is the same batch"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Stored { node, partition, batch } => {
                let known = self.batches.entry((partition.clone(), batch.epoch, batch.base)).or_insert(*batch);
                if known != batch {
                    return Err(format!("{partition}: broker {node} stores {batch:?}, another has {known:?}"));
                }
                let log = self.ends.entry((*node, partition.clone())).or_default();
                let last = log.range(..batch.base).next_back();
                if last.is_some_and(|(_, epoch)| *epoch > batch.epoch) {
                    return Err(format!("{partition}: broker {node} stores {batch:?} behind a later epoch {last:?}"));
                }
                log.insert(batch.base, batch.epoch);
                Ok(())
            }
            Fact::Truncated { node, partition, to } => {
                if let Some(log) = self.ends.get_mut(&(*node, partition.clone())) {
                    log.split_off(to);
                }
                Ok(())
            }
            Fact::Recovered { node, partition, end, .. } => {
                if let Some(log) = self.ends.get_mut(&(*node, partition.clone())) {
                    log.split_off(end);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
