//! A committed offset is not lost after its answer, and what was shown is not taken back.

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, TopicPartition};

use super::Invariant;
use crate::OFFSETS_TOPIC;
use crate::fact::Fact;
use crate::message::Address;

#[derive(Debug, Default)]
pub struct GroupOffsets {
    /// The largest value that was acknowledged or shown, by partition. Members commit ascending values.
    known: BTreeMap<i32, i64>,
    /// What was known when a question was asked.
    asked: BTreeMap<(Address, u64), (i32, i64)>,
    newest_coordinator: LeaderEpoch,
}

fn is_offsets(partition: &TopicPartition) -> bool {
    &*partition.topic == OFFSETS_TOPIC
}

impl Invariant for GroupOffsets {
    fn name(&self) -> &'static str {
        "committed offsets are never lost and never go back"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::LeaderBegan { partition, epoch, .. } if is_offsets(partition) => {
                self.newest_coordinator = self.newest_coordinator.max(*epoch);
                Ok(())
            }
            Fact::OffsetKept { partition, value } => {
                let known = self.known.entry(*partition).or_insert(-1);
                *known = (*known).max(*value);
                Ok(())
            }
            Fact::OffsetAsked { client, request, partition } => {
                let known = self.known.get(partition).copied().unwrap_or(-1);
                self.asked.insert((*client, *request), (*partition, known));
                Ok(())
            }
            Fact::OffsetServed { client, request, epoch, value } => {
                let Some((partition, least)) = self.asked.get(&(*client, *request)).copied() else { return Ok(()) };
                // A former coordinator that does not know of its successor may answer what was true in its time.
                if *epoch < self.newest_coordinator {
                    return Ok(());
                }
                if *value < least {
                    return Err(format!(
                        "partition {partition}: offset {value} is served to {client} in epoch {epoch}, {least} was known before"
                    ));
                }
                let known = self.known.entry(partition).or_insert(-1);
                *known = (*known).max(*value);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
