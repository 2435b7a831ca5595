//! A record that was acknowledged with `acks=all` is in the log of every later leader, at its offset.

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use super::Invariant;
use crate::fact::{BatchFact, Fact};

#[derive(Debug, Default)]
pub struct Acknowledged {
    records: BTreeMap<TopicPartition, BTreeMap<Offset, u32>>,
    newest: BTreeMap<TopicPartition, LeaderEpoch>,
}

impl Invariant for Acknowledged {
    fn name(&self) -> &'static str {
        "acknowledged records are in every later leader's log"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Acknowledged { partition, base, crc, all: true } => {
                let records = self.records.entry(partition.clone()).or_default();
                match records.insert(*base, *crc) {
                    Some(other) if other != *crc => Err(format!("{partition}: offset {base} was acknowledged twice")),
                    _ => Ok(()),
                }
            }
            Fact::LeaderBegan { node, partition, epoch, log, end } => {
                let newest = self.newest.entry(partition.clone()).or_insert(*epoch);
                if epoch < newest {
                    // It learns late that it was elected, and its epoch is over: nobody can commit in it any more.
                    return Ok(());
                }
                *newest = *epoch;
                let start = log.first().map_or(*end, |batch| batch.base);
                let at: BTreeMap<Offset, &BatchFact> = log.iter().map(|batch| (batch.base, batch)).collect();
                let Some(records) = self.records.get(partition) else { return Ok(()) };
                // What lies below the log start was deleted on purpose.
                for (base, crc) in records.range(start..) {
                    if at.get(base).is_none_or(|batch| batch.crc != *crc) {
                        return Err(format!(
                            "{partition}: broker {node} leads in epoch {epoch} without the acknowledged batch at offset \
                             {base}; its log ends at {end}"
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
