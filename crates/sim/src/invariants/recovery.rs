//! A log that is opened again has what it promised: with `os` everything that was appended, with `disk` what
//! was synced.

use super::Invariant;
use crate::fact::Fact;

#[derive(Debug)]
pub struct Recovery;

impl Invariant for Recovery {
    fn name(&self) -> &'static str {
        "a restart keeps what the durability promises"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Recovered { node, partition, end, known, .. } if end < known => {
                Err(format!("{partition}: broker {node} finds its log up to {end}, it had promised {known}"))
            }
            _ => Ok(()),
        }
    }
}
