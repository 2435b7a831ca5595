//! The end of a partition that clients are told never goes back, from one leader to the next (KIP-207).

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use super::Invariant;
use crate::fact::Fact;
use crate::message::Address;

#[derive(Debug, Default)]
pub struct ClientWatermark {
    /// By client: answers of one client arrive in the order in which it asked only from one leader.
    seen: BTreeMap<(Address, TopicPartition), (LeaderEpoch, Offset)>,
}

impl Invariant for ClientWatermark {
    fn name(&self) -> &'static str {
        "the end that clients see never goes back"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Read { client, partition, epoch, latest: Some(latest), .. } = fact else { return Ok(()) };
        let (known_epoch, known) =
            self.seen.entry((*client, partition.clone())).or_insert((LeaderEpoch::NONE, Offset::ZERO));
        // Answers of one leader may overtake each other, and a client drops those of former leaders.
        if epoch > known_epoch {
            if latest < known {
                return Err(format!(
                    "{partition}: {client} was told {known} in epoch {known_epoch} and {latest} in epoch {epoch}"
                ));
            }
            *known_epoch = *epoch;
        }
        if epoch == known_epoch {
            *known = (*known).max(*latest);
        }
        Ok(())
    }
}
