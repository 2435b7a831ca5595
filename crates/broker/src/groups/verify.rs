//! Groups and offsets in memory against a replay of their journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstem_coordinator::{
    DescribedGroup, FetchedTopic, GroupConfig, GroupError, GroupShard, GroupState, Now, OffsetFetchRequest,
};

use super::load::replayed;
use super::shard::Shard;

/// One line for each group that a replay shows differently.
pub(super) fn verify(shard: &Shard, config: &GroupConfig, now: Now) -> Vec<String> {
    let log = shard.partition().log();
    let name = log.partition();
    shard.with(|live| {
        let mut again = match replayed(log, config.clone()) {
            Ok(again) => again,
            Err(error) => return vec![format!("{name}: {error}")],
        };
        // What it asks for belongs to the live one.
        let _ = again.loaded(now);
        let groups: BTreeSet<Arc<str>> = names(live).into_iter().chain(names(&again)).collect();
        groups
            .iter()
            .filter_map(|group| difference(live, &again, group))
            .map(|what| format!("{name}: {what}"))
            .collect()
    })
}

fn names(machine: &GroupShard) -> Vec<Arc<str>> {
    let listed = machine.list_groups(&[], &[]).unwrap_or_default();
    listed.into_iter().map(|group| group.group_id).collect()
}

fn difference(live: &GroupShard, again: &GroupShard, group: &str) -> Option<String> {
    let (here, there) = (offsets(live, group), offsets(again, group));
    if here != there {
        return Some(format!("group {group}: offsets {here:?}, by a replay {there:?}"));
    }
    // Between generations the members are in memory alone.
    let here = settled(live, group)?;
    let there = again.describe_group(group);
    (there.as_ref() != Ok(&here)).then(|| format!("group {group}: {here:?}, by a replay {there:?}"))
}

fn settled(live: &GroupShard, group: &str) -> Option<DescribedGroup> {
    let described = live.describe_group(group).ok()?;
    matches!(described.state, GroupState::Stable | GroupState::Empty).then_some(described)
}

fn offsets(machine: &GroupShard, group_id: &str) -> Result<Vec<FetchedTopic>, GroupError> {
    let all = OffsetFetchRequest { group_id, member_id: None, member_epoch: -1, topics: None, require_stable: false };
    machine.offset_fetch(&all)
}
