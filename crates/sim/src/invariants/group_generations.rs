//! Generations of a group ascend, and within one each partition has at most one owner.

use std::collections::BTreeMap;

use mainstem_types::LeaderEpoch;

use super::Invariant;
use crate::fact::Fact;

#[derive(Debug, Default)]
pub struct GroupGenerations {
    /// The newest coordinator that answered, and the generation it was at.
    served: Option<(LeaderEpoch, i32)>,
    owners: BTreeMap<(i32, i32), String>,
}

impl Invariant for GroupGenerations {
    fn name(&self) -> &'static str {
        "generations ascend, and a partition has one owner in each"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::SyncServed { epoch, generation } => {
                let (known_epoch, known) = self.served.unwrap_or((LeaderEpoch::NONE, -1));
                // A former coordinator that does not know of its successor may still answer.
                if *epoch >= known_epoch {
                    if *generation < known {
                        return Err(format!(
                            "generation {generation} is served in epoch {epoch} after {known} in epoch {known_epoch}"
                        ));
                    }
                    self.served = Some((*epoch, *generation));
                }
                Ok(())
            }
            Fact::Owns { generation, member, partitions } => {
                for partition in partitions {
                    let owner = self.owners.entry((*generation, *partition)).or_insert_with(|| member.clone());
                    if owner != member {
                        return Err(format!(
                            "partition {partition} belongs to {owner} and to {member} in generation {generation}"
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
