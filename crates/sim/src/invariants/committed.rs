//! What was committed once stays what it is: on every node, at the same offset, for ever; and no batch of an
//! idempotent producer is committed twice.

use std::collections::BTreeMap;

use mainstem_types::{Offset, TopicPartition};

use super::Invariant;
use crate::fact::{BatchFact, Fact};

#[derive(Debug, Default)]
pub struct Committed {
    partitions: BTreeMap<TopicPartition, Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    by_offset: BTreeMap<Offset, BatchFact>,
    by_crc: BTreeMap<u32, Offset>,
}

impl Ledger {
    fn see(&mut self, who: &str, partition: &TopicPartition, batch: &BatchFact, may_add: bool) -> Result<(), String> {
        match self.by_offset.get(&batch.base) {
            Some(known) if known == batch => Ok(()),
            Some(known) => Err(format!("{partition}: {who} has {batch:?} where {known:?} is committed")),
            None if !may_add => Err(format!("{partition}: {who} has {batch:?}, which is not committed")),
            None => {
                let before = self.by_offset.range(..batch.base).next_back().map(|(_, known)| known.last);
                if before.is_some_and(|last| last >= batch.base) {
                    return Err(format!("{partition}: {who} has {batch:?} inside what is committed"));
                }
                if batch.idempotent
                    && let Some(other) = self.by_crc.insert(batch.crc, batch.base)
                {
                    return Err(format!("{partition}: the batch at {other} is committed again at {}", batch.base));
                }
                self.by_offset.insert(batch.base, *batch);
                Ok(())
            }
        }
    }
}

impl Invariant for Committed {
    fn name(&self) -> &'static str {
        "committed records are never lost, changed, reordered or repeated"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let (partition, batches, who, may_add) = match fact {
            Fact::Committed { node, partition, batches, .. } => (partition, batches, format!("broker {node}"), true),
            Fact::Read { client, partition, batches, .. } => (partition, batches, client.to_string(), false),
            _ => return Ok(()),
        };
        let ledger = self.partitions.entry(partition.clone()).or_default();
        batches.iter().try_for_each(|batch| ledger.see(&who, partition, batch, may_add))
    }
}
