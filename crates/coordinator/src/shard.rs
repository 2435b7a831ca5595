//! The groups and offsets of one partition of `__consumer_offsets`: its state, replay, timers, and what happens to an
//! outcome's records. The operations themselves are in `shard/membership`, `offsets` and `admin`.

mod membership;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstem_types::{Offset, ProducerId};

use crate::classic::{ClassicGroup, Context, Undo};
use crate::foreign::{ForeignGroup, ForeignKey};
use crate::offsets::{ExpiryBase, OffsetStore};
use crate::records::FoundRecord;
use crate::timers::{TimerKey, Timers};
use crate::{
    AppendFailure, CommittedOffset, GroupConfig, GroupError, GroupMetadata, GroupType, Now, OffsetsRecord, Outcome,
    RecordError, Reply, ReplyToken,
};

/// A group of whatever kind.
#[derive(Debug)]
pub(crate) enum Group {
    Classic(Box<ClassicGroup>),
    Foreign(ForeignGroup),
}

impl Group {
    /// From when the retention of the group's offsets counts; `None`: they do not expire now.
    pub(crate) fn expiry_base(&self) -> Option<ExpiryBase> {
        match self {
            Group::Classic(group) => group.expiry_base(),
            Group::Foreign(group) => group.expiry_base(),
        }
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Group::Classic(group) => group.is_subscribed_to(topic),
            Group::Foreign(group) => !group.is_empty(),
        }
    }

    /// True if the group may go once it has no offsets. Share groups keep state elsewhere and stay.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Group::Classic(group) => group.is_abandoned(),
            Group::Foreign(group) => group.is_empty() && group.group_type != GroupType::Share,
        }
    }

    /// The records that remove the group, its offsets apart.
    pub(crate) fn tombstones(&self, group_id: &Arc<str>) -> Vec<OffsetsRecord> {
        match self {
            Group::Classic(_) => vec![OffsetsRecord::group_metadata(group_id, None)],
            Group::Foreign(group) => group.tombstones(None),
        }
    }
}

/// The coordinator of the groups of one partition of `__consumer_offsets`. See the crate's documentation for the loop
/// around it. Until [`GroupShard::loaded`] it answers COORDINATOR_LOAD_IN_PROGRESS.
#[derive(Debug)]
pub struct GroupShard {
    pub(crate) config: GroupConfig,
    pub(crate) groups: BTreeMap<Arc<str>, Group>,
    pub(crate) offsets: OffsetStore,
    pub(crate) timers: Timers,
    /// Where the next part of a sweep begins.
    pub(crate) expiry_cursor: Option<Arc<str>>,
    loaded: bool,
    applied: Option<Offset>,
}

impl GroupShard {
    pub fn new(config: GroupConfig) -> GroupShard {
        GroupShard {
            config,
            groups: BTreeMap::new(),
            offsets: OffsetStore::default(),
            timers: Timers::default(),
            expiry_cursor: None,
            loaded: false,
            applied: None,
        }
    }

    /// Other settings, from now on; timers that run keep their deadline.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// The offset of the last record that the state includes.
    pub fn applied(&self) -> Option<Offset> {
        self.applied
    }

    /// Applies a record of the log, in the order of the log, before [`GroupShard::loaded`]. `producer`: of the batch, if
    /// it is a transactional one. Records of unknown kinds are skipped.
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
        match FoundRecord::decode(key, value)? {
            FoundRecord::OffsetCommit { group, topic, partition, value } => {
                self.apply_offset(offset, producer, &group, (&topic, partition), value);
            }
            FoundRecord::GroupMetadata { group, value } => self.apply_group(&group, value.as_ref()),
            FoundRecord::Foreign { group, group_type, key, present } => {
                self.apply_foreign(&group, group_type, key, present);
            }
            FoundRecord::Unknown => {}
        }
        self.applied = Some(offset);
        Ok(())
    }

    /// Applies the end marker (control batch) of a transaction.
    pub fn replay_end_transaction(&mut self, offset: Offset, producer: ProducerId, committed: bool) {
        self.offsets.end_transaction(producer, committed);
        self.applied = Some(offset);
    }

    /// The log has been replayed: sessions start, and requests are served from now on.
    pub fn loaded(&mut self, now: Now) -> Outcome {
        let mut outcome = Outcome::default();
        let GroupShard { config, groups, timers, .. } = self;
        for (group_id, group) in groups.iter_mut() {
            let mut ctx = Context { config, timers, now, outcome: &mut outcome };
            match group {
                Group::Classic(group) => group.loaded(&mut ctx),
                Group::Foreign(group) => {
                    for member in group.members() {
                        let key = TimerKey::ForeignMember { group: group_id.clone(), member: member.clone() };
                        ctx.schedule(key, ctx.config.foreign_session_timeout_ms);
                    }
                }
            }
        }
        self.loaded = true;
        let first_sweep_ms = self.config.offsets_retention_check_interval_ms.max(1);
        self.timers.schedule(TimerKey::OffsetExpiry, now.after_ms(first_sweep_ms));
        outcome
    }

    /// The outcome's records are in the log, the first at `base_offset`. To be called before any other operation.
    pub fn appended(&mut self, records: &[OffsetsRecord], base_offset: Offset) {
        let mut offset = base_offset;
        for record in records {
            match record {
                OffsetsRecord::OffsetCommit { group, topic, partition, value } => {
                    self.apply_offset(offset, None, group, (topic, partition.0), value.clone());
                }
                // The group is in this state already, and further: it has members that wait.
                OffsetsRecord::GroupMetadata { value: Some(_), .. } => {}
                OffsetsRecord::GroupMetadata { group, value: None } => self.apply_group(group, None),
                OffsetsRecord::ForeignTombstone { key } => {
                    if let Ok(FoundRecord::Foreign { group, group_type, key, present }) = FoundRecord::decode(key, None)
                    {
                        self.apply_foreign(&group, group_type, key, present);
                    }
                }
            }
            self.applied = Some(offset);
            offset = offset.plus(1);
        }
    }

    /// The outcome's records could not be appended: its changes are taken back, its promises become errors. The outcome
    /// that comes back is handled like any other. To be called before any other operation.
    pub fn append_failed(&mut self, failed: Outcome, failure: AppendFailure, now: Now) -> Outcome {
        let replies = failed.replies.into_iter().map(|(token, reply)| (token, reply.after(failure))).collect();
        let mut outcome = Outcome { replies, ..Outcome::default() };
        for undo in failed.undo.into_iter().rev() {
            match undo {
                Undo::GenerationCompleted { group } => {
                    self.on_classic(&group, now, &mut outcome, |group, ctx| group.undo_generation(ctx));
                }
                Undo::StaticMemberReplaced(replaced) => {
                    let group = replaced.group.clone();
                    self.on_classic(&group, now, &mut outcome, |group, ctx| group.undo_static_member(ctx, *replaced));
                }
                Undo::GroupCreated { group, replaced } => {
                    let error = failure.as_group_error();
                    self.on_classic(&group, now, &mut outcome, |group, ctx| {
                        group.refuse_all_parked(ctx, &error);
                        group.cancel_timers(ctx.timers);
                    });
                    self.groups.remove(&group);
                    if let Some(replaced) = replaced {
                        self.groups.insert(group, Group::Foreign(replaced));
                    }
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
    pub fn poll_timer(&mut self, now: Now) -> Option<Outcome> {
        let key = self.timers.pop_due(now.monotonic)?;
        let mut outcome = Outcome::default();
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
                if let Some(Group::Foreign(known)) = self.groups.get(&group) {
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
        let mut outcome = Outcome::default();
        let GroupShard { config, groups, timers, .. } = self;
        for group in groups.values_mut() {
            if let Group::Classic(group) = group {
                let mut ctx = Context { config, timers, now, outcome: &mut outcome };
                group.refuse_all_parked(&mut ctx, &GroupError::NotCoordinator);
            }
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
        outcome: &mut Outcome,
        operation: impl FnOnce(&mut ClassicGroup, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else { return None };
        let mut ctx = Context { config: &self.config, timers: &mut self.timers, now, outcome };
        Some(operation(group, &mut ctx))
    }

    /// The group's name, shared with the group if it exists.
    pub(crate) fn group_key(&self, group_id: &str) -> Arc<str> {
        self.groups.get_key_value(group_id).map_or_else(|| group_id.into(), |(key, _)| key.clone())
    }

    fn apply_offset(
        &mut self,
        offset: Offset,
        producer: Option<ProducerId>,
        group: &Arc<str>,
        (topic, partition): (&Arc<str>, i32),
        value: Option<CommittedOffset>,
    ) {
        match value {
            None => self.offsets.remove(group, topic, partition),
            Some(value) => {
                self.groups
                    .entry(group.clone())
                    .or_insert_with(|| Group::Classic(Box::new(ClassicGroup::simple(group.clone()))));
                self.offsets.put(producer, (group, topic, partition), value, offset);
            }
        }
    }

    fn apply_group(&mut self, group_id: &Arc<str>, value: Option<&GroupMetadata>) {
        match value {
            None => {
                if let Some(Group::Classic(group)) = self.groups.get(group_id) {
                    group.cancel_timers(&mut self.timers);
                    self.groups.remove(group_id);
                }
            }
            Some(value) => {
                let group = ClassicGroup::from_metadata(group_id.clone(), value);
                self.groups.insert(group_id.clone(), Group::Classic(Box::new(group)));
            }
        }
    }

    fn apply_foreign(&mut self, group_id: &Arc<str>, group_type: GroupType, key: ForeignKey, present: bool) {
        match self.groups.get_mut(group_id) {
            Some(Group::Foreign(group)) if group.group_type == group_type => {
                if !group.apply(key, present) {
                    self.groups.remove(group_id);
                }
            }
            // The tombstones of what was here before.
            _ if !present => {}
            _ => {
                let mut group = ForeignGroup::new(group_type);
                group.apply(key, present);
                self.groups.insert(group_id.clone(), Group::Foreign(group));
            }
        }
    }
}
