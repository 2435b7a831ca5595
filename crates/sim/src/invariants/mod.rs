//! One rule a file. Every fact is shown to every rule.

mod acknowledged;
mod client_watermark;
mod committed;
mod group_generations;
mod group_offsets;
mod in_sync_set;
mod live_is_replay;
mod log_matching;
mod metadata_replay;
mod one_leader;
mod positions;
mod recovery;

use crate::fact::Fact;

/// A rule over the facts of a run.
pub trait Invariant: std::fmt::Debug {
    /// The name under which a violation is reported.
    fn name(&self) -> &'static str;

    /// # Errors
    /// What was violated, with the values.
    fn observe(&mut self, fact: &Fact) -> Result<(), String>;
}

/// All rules, with nothing seen.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(acknowledged::Acknowledged::default()),
        Box::new(client_watermark::ClientWatermark::default()),
        Box::new(committed::Committed::default()),
        Box::new(group_generations::GroupGenerations::default()),
        Box::new(group_offsets::GroupOffsets::default()),
        Box::new(in_sync_set::InSyncSet::default()),
        Box::new(live_is_replay::LiveIsReplay),
        Box::new(log_matching::LogMatching::default()),
        Box::new(metadata_replay::MetadataReplay::default()),
        Box::new(one_leader::OneLeader::default()),
        Box::new(positions::PositionOrder::default()),
        Box::new(recovery::Recovery),
    ]
}
