//! The groups and offsets of one partition of `__consumer_offsets`: its state, replay, timers, and what happens to an
//! outcome's records. The operations themselves are in `shard/membership`, `offsets` and `admin`.
//!
//! ```text
//! stored   what the records of the log say; only `replay` changes it      survives a restart
//! live     members, their parked requests, the phase of a rebalance       lost with the shard, rebuilt from `stored`
//! ```

mod membership;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mainstem_types::{Offset, ProducerId};

use crate::classic::{ClassicGroup, Context, Undo};
use crate::records::FoundRecord;
use crate::stored::{Stored, StoredGroup};
use crate::timers::{TimerKey, Timers};
use crate::{
    AppendFailure, CoordinatorOutcome, GroupConfig, GroupError, Now, OffsetsRecord, RecordError, Reply, ReplyToken,
};

pub(crate) use view::GroupView;

/// The coordinator of the groups of one partition of `__consumer_offsets`. See the crate's documentation for the loop
/// around it. Until [`GroupShard::loaded`] it answers COORDINATOR_LOAD_IN_PROGRESS.
#[derive(Debug)]
pub struct GroupShard {
    pub(crate) config: GroupConfig,
    pub(crate) stored: Stored,
    /// Classic groups that have, or had, members since the shard was loaded. Each is stored as well.
    pub(crate) live: BTreeMap<Arc<str>, ClassicGroup>,
    pub(crate) timers: Timers,
    /// Where the next part of a sweep begins.
    pub(crate) expiry_cursor: Option<Arc<str>>,
    loaded: bool,
}

impl GroupShard {
    pub fn new(config: GroupConfig) -> GroupShard {
        GroupShard {
            config,
            stored: Stored::default(),
            live: BTreeMap::new(),
            timers: Timers::default(),
            expiry_cursor: None,
            loaded: false,
        }
    }

    /// Other settings, from now on; timers that run keep their deadline.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// The offset of the last record that the state includes.
    pub fn applied(&self) -> Option<Offset> {
        self.stored.applied()
    }

    /// All records below `end` are committed: readers are shown what they say. An older `end` changes nothing.
    pub fn committed(&mut self, end: Offset) {
        self.stored.commit(end);
    }

    /// The condition of every answer: it may leave when all records below this offset are committed; `None`: at once.
    /// As in Kafka's coordinator an answer waits for all that was written before it, its own records or not: what it
    /// says may stand on them.
    pub fn answers_wait_for(&self) -> Option<Offset> {
        self.stored.uncommitted_end().filter(|_| self.loaded)
    }

    /// Applies a record of the log, in the order of the log, before [`GroupShard::loaded`]. `producer`: of the batch,
    /// if it is a transactional one. Records of unknown kinds are skipped.
    ///
    /// # Errors
    /// The record cannot be read; the state is as before.
    pub fn replay(
        &mut self,
        offset: Offset,
        producer: Option<ProducerId>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        self.stored.replay(offset, producer, FoundRecord::decode(key, value)?);
        Ok(())
    }

    /// Applies the end marker (control batch) of a transaction.
    pub fn replay_end_transaction(&mut self, offset: Offset, producer: ProducerId, committed: bool) {
        self.stored.replay_end_transaction(offset, producer, committed);
    }

    /// The log has been replayed: sessions start, and requests are served from now on.
    pub fn loaded(&mut self, now: Now) -> CoordinatorOutcome {
        let mut outcome = CoordinatorOutcome::default();
        let GroupShard { config, stored, live, timers, .. } = self;
        for (group_id, group) in stored.groups() {
            let mut ctx = Context { config, timers, now, outcome: &mut outcome };
            match group {
                StoredGroup::Classic(metadata) if !metadata.members.is_empty() => {
                    let mut group = ClassicGroup::from_metadata(group_id.clone(), metadata);
                    group.loaded(&mut ctx);
                    live.insert(group_id.clone(), group);
                }
                StoredGroup::Foreign(group) => {
                    for member in group.members() {
                        let key = TimerKey::ForeignMember { group: group_id.clone(), member: member.clone() };
                        ctx.schedule(key, ctx.config.foreign_session_timeout_ms);
                    }
                }
                // Nobody has a session in it: made when somebody comes.
                StoredGroup::Classic(_) | StoredGroup::Simple => {}
            }
        }
        self.loaded = true;
        let first_sweep_ms = self.config.offsets_retention_check_interval_ms.max(1);
        self.timers.schedule(TimerKey::OffsetExpiry, now.after_ms(first_sweep_ms));
        outcome
    }

    /// The outcome's records are in the log, the first at `base_offset`: they are replayed, as at a start. To be called
    /// before any other operation.
    pub fn appended(&mut self, records: Vec<OffsetsRecord>, base_offset: Offset) {
        let mut offset = base_offset;
        let mut removed = BTreeSet::new();
        for record in records {
            let record = FoundRecord::from(record);
            if let FoundRecord::GroupMetadata { group, value: None } = &record {
                removed.insert(group.clone());
            }
            self.stored.replay(offset, None, record);
            offset = offset.plus(1);
        }
        for group_id in removed {
            // Another record of the batch may have made it anew.
            if !self.stored.group(&group_id).is_some_and(StoredGroup::is_classic)
                && let Some(group) = self.live.remove(&group_id)
            {
                group.cancel_timers(&mut self.timers);
            }
        }
    }

    /// The outcome's records could not be appended: its changes are taken back, its promises become errors. The outcome
    /// that comes back is handled like any other. To be called before any other operation.
    pub fn append_failed(
        &mut self,
        failed: CoordinatorOutcome,
        failure: AppendFailure,
        now: Now,
    ) -> CoordinatorOutcome {
        let replies = failed.replies.into_iter().map(|(token, reply)| (token, reply.after(failure))).collect();
        let mut outcome = CoordinatorOutcome { replies, ..CoordinatorOutcome::default() };
        for undo in failed.undo.into_iter().rev() {
            match undo {
                Undo::GenerationCompleted { group } => {
                    self.on_classic(&group, now, &mut outcome, |group, ctx| group.undo_generation(ctx));
                }
                Undo::StaticMemberReplaced(replaced) => {
                    let group = replaced.group.clone();
                    self.on_classic(&group, now, &mut outcome, |group, ctx| group.undo_static_member(ctx, *replaced));
                }
                Undo::GroupCreated { group } => {
                    let error = failure.as_group_error();
                    self.on_classic(&group, now, &mut outcome, |group, ctx| {
                        group.refuse_all_parked(ctx, &error);
                        group.cancel_timers(ctx.timers);
                    });
                    self.live.remove(&group);
                }
            }
        }
        outcome
    }

    /// When [`GroupShard::poll_timer`] should be called next, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next_deadline()
    }

    /// Fires the earliest timer that is due; `None`: none is.
    pub fn poll_timer(&mut self, now: Now) -> Option<CoordinatorOutcome> {
        let key = self.timers.pop_due(now.monotonic)?;
        let mut outcome = CoordinatorOutcome::default();
        match key {
            TimerKey::Session { group, member } => {
                self.on_classic(&group, now, &mut outcome, |group, ctx| group.session_expired(ctx, &member));
            }
            TimerKey::Join { group } => {
                self.on_classic(&group, now, &mut outcome, |group, ctx| group.join_timer_fired(ctx));
            }
            TimerKey::Sync { group } => {
                self.on_classic(&group, now, &mut outcome, |group, ctx| group.sync_timer_fired(ctx));
            }
            TimerKey::ForeignMember { group, member } => {
                if let Some(StoredGroup::Foreign(known)) = self.stored.group(&group) {
                    outcome.records = known.tombstones(Some(&member));
                }
                if !outcome.records.is_empty() {
                    // Once more, in case they cannot be appended.
                    let again = now.after_ms(self.config.foreign_session_timeout_ms.max(1));
                    self.timers.schedule(TimerKey::ForeignMember { group, member }, again);
                }
            }
            TimerKey::OffsetExpiry => outcome = self.expire_offsets(now),
        }
        Some(outcome)
    }

    /// Ends the shard: every parked request is answered NOT_COORDINATOR, and nothing is kept.
    pub fn unload(&mut self, now: Now) -> Vec<(ReplyToken, Reply)> {
        let mut outcome = CoordinatorOutcome::default();
        let GroupShard { config, live, timers, .. } = self;
        for group in live.values_mut() {
            let mut ctx = Context { config, timers, now, outcome: &mut outcome };
            group.refuse_all_parked(&mut ctx, &GroupError::NotCoordinator);
        }
        *self = GroupShard::new(self.config.clone());
        outcome.replies
    }

    pub(crate) fn check_loaded(&self) -> Result<(), GroupError> {
        if self.loaded { Ok(()) } else { Err(GroupError::CoordinatorLoadInProgress) }
    }

    /// Runs `operation` on a classic group; `None` if there is none of this name.
    pub(crate) fn on_classic<T>(
        &mut self,
        group_id: &str,
        now: Now,
        outcome: &mut CoordinatorOutcome,
        operation: impl FnOnce(&mut ClassicGroup, &mut Context<'_>) -> T,
    ) -> Option<T> {
        if !self.live.contains_key(group_id) {
            let (name, stored) = self.stored.groups().get_key_value(group_id)?;
            self.live.insert(name.clone(), stored.to_classic(name)?);
        }
        let group = self.live.get_mut(group_id)?;
        let mut ctx = Context { config: &self.config, timers: &mut self.timers, now, outcome };
        Some(operation(group, &mut ctx))
    }

    /// The group's name, shared with the group if it exists.
    pub(crate) fn group_key(&self, group_id: &str) -> Arc<str> {
        self.stored.shared_name(group_id).unwrap_or_else(|| group_id.into())
    }

    /// How the state differs from `replayed`, into which the same log was replayed; `None`: not at all. Of the live
    /// part nothing is compared.
    pub fn difference(&self, replayed: &GroupShard) -> Option<String> {
        self.stored.difference(&replayed.stored)
    }

    /// How what readers are shown differs from `replayed`, into which the committed part of the log was replayed.
    pub fn committed_difference(&self, replayed: &GroupShard) -> Option<String> {
        self.stored.committed_difference(&replayed.stored)
    }
}
