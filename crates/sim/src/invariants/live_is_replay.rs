//! The live state of a coordinator is what a replay of its log gives, and readers see what a replay of the
//! committed part gives.

use super::Invariant;
use crate::fact::Fact;

#[derive(Debug)]
pub struct LiveIsReplay;

impl Invariant for LiveIsReplay {
    fn name(&self) -> &'static str {
        "the live state of groups is a replay of their log"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Groups { node, difference: Some(difference) } => {
                Err(format!("the coordinator on broker {node} and a replay of its log differ: {difference}"))
            }
            _ => Ok(()),
        }
    }
}
