//! `log start ≤ last stable offset ≤ high watermark ≤ log end`, and the high watermark of a replica goes back
//! only with a cut.

use std::collections::BTreeMap;

use mainstem_types::{Offset, TopicPartition};

use super::Invariant;
use crate::fact::Fact;

#[derive(Debug, Default)]
pub struct PositionOrder {
    watermarks: BTreeMap<(i32, TopicPartition), Offset>,
}

impl Invariant for PositionOrder {
    fn name(&self) -> &'static str {
        "log start ≤ last stable offset ≤ high watermark ≤ log end"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Positions { node, partition, positions } => {
                positions.check().map_err(|error| format!("{partition} on broker {node}: {error}"))?;
                let known = self.watermarks.entry((*node, partition.clone())).or_default();
                if positions.high_watermark < *known {
                    return Err(format!(
                        "{partition} on broker {node}: the high watermark went back from {known} to {}",
                        positions.high_watermark
                    ));
                }
                *known = positions.high_watermark;
                Ok(())
            }
            // A process knows only what its checkpoint says.
            Fact::Recovered { node, partition, .. } => {
                self.watermarks.remove(&(*node, partition.clone()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
