//! Expiry of offsets, and of groups that have nothing left.
//!
//! The retention (`offsets.retention.minutes`) counts from the moment the group became empty, not from the commit.
//! Offsets of a group with members stay. The exception is a topic that a stable consumer group no longer reads.

use std::ops::Bound;
use std::sync::Arc;

use mainstem_types::TimestampMs;

use crate::shard::GroupView;
use crate::timers::TimerKey;
use crate::{CoordinatorOutcome, GroupShard, MAX_TOMBSTONES_PER_OUTCOME, Now, OffsetsRecord};

impl GroupShard {
    /// One sweep, or the next part of one that had too many records for one outcome.
    pub(crate) fn expire_offsets(&mut self, now: Now) -> CoordinatorOutcome {
        let mut outcome = CoordinatorOutcome::default();
        let mut unfinished = None;
        let from = self.expiry_cursor.take().map_or(Bound::Unbounded, Bound::Included);
        for (group_id, _) in self.stored.groups().range::<Arc<str>, _>((from, Bound::Unbounded)) {
            let Some(group) = self.group(group_id) else { continue };
            if !self.expire_group(group_id, &group, now.wall, &mut outcome) {
                unfinished = Some(group_id.clone());
                break;
            }
        }
        let again_ms = if unfinished.is_some() { 1 } else { self.config.offsets_retention_check_interval_ms.max(1) };
        self.timers.schedule(TimerKey::OffsetExpiry, now.after_ms(again_ms));
        self.expiry_cursor = unfinished;
        outcome
    }

    /// False: the outcome is full, and the group is not done.
    fn expire_group(
        &self,
        group_id: &Arc<str>,
        group: &GroupView<'_>,
        now: TimestampMs,
        outcome: &mut CoordinatorOutcome,
    ) -> bool {
        let base = group.expiry_base();
        let mut nothing_left = !self.stored.offsets.has_open_transactions(group_id);
        for (topic, partition, offset) in self.stored.offsets.of_group(group_id) {
            let expired = base.is_some_and(|base| base.is_expired(offset, now, self.config.offsets_retention_ms));
            let held = group.is_subscribed_to(topic) || self.stored.offsets.is_pending(group_id, topic, partition);
            if !expired || held {
                nothing_left = false;
                continue;
            }
            if outcome.records.len() >= MAX_TOMBSTONES_PER_OUTCOME {
                return false;
            }
            outcome.records.push(OffsetsRecord::offset_tombstone(group_id, topic, partition));
        }
        if nothing_left && group.is_abandoned() {
            let tombstones = group.tombstones(group_id);
            if outcome.records.len() + tombstones.len() > MAX_TOMBSTONES_PER_OUTCOME && !outcome.records.is_empty() {
                return false;
            }
            outcome.records.extend(tombstones);
        }
        true
    }
}
