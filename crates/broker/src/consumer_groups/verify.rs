//! Groups and offsets in memory against a replay of their journal.

use mainstem_coordinator::GroupConfig;

use super::load::replayed;
use super::shard::Shard;

/// The first difference between a shard and a replay of its log.
pub(super) fn verify(shard: &Shard, config: &GroupConfig) -> Option<String> {
    let log = shard.partition().log();
    let found = shard.with(|live| match replayed(log, config.clone()) {
        Ok(again) => live.difference(&again),
        Err(error) => Some(error.to_string()),
    });
    found.flatten().map(|what| format!("{}: {what}", log.partition()))
}
