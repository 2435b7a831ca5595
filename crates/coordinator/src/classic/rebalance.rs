//! The phases of a rebalance, shared by all operations: prepare, complete the join phase, expire what did not come.

use std::sync::Arc;

use super::context::Context;
use super::group::{ClassicGroup, InitialDelay};
use super::state::GroupState;
use crate::timers::{TimerKey, Timers};
use crate::{GroupError, OffsetsRecord, Reply, SyncedGroup};

impl ClassicGroup {
    /// Begins a rebalance if the state allows it, else looks whether the current one is complete.
    pub(crate) fn rebalance_or_complete_join(&mut self, ctx: &mut Context<'_>) {
        if self.can_rebalance() {
            self.prepare_rebalance(ctx);
        } else {
            self.maybe_complete_join(ctx);
        }
    }

    /// Asks all members to join again. The first rebalance of an empty group waits for more members to come.
    pub(crate) fn prepare_rebalance(&mut self, ctx: &mut Context<'_>) {
        if self.state() == GroupState::CompletingRebalance {
            self.clear_assignments();
            self.propagate_assignment(ctx, Some(&GroupError::RebalanceInProgress));
        }
        self.pending_sync.clear();
        ctx.timers.cancel(&TimerKey::Sync { group: self.id.clone() });

        let initial = self.state() == GroupState::Empty;
        self.transition_to(GroupState::PreparingRebalance, ctx.now.wall);
        if initial {
            let delay_ms = ctx.config.initial_rebalance_delay_ms.max(0);
            let longest_ms = i32::try_from(self.rebalance_timeout_ms()).unwrap_or(i32::MAX);
            self.wait_for_more_members(ctx, InitialDelay { delay_ms, remaining_ms: (longest_ms - delay_ms).max(0) });
        } else if self.has_all_members_joined() {
            self.complete_join(ctx);
        } else {
            ctx.schedule(TimerKey::Join { group: self.id.clone() }, self.rebalance_timeout_ms());
        }
    }

    fn wait_for_more_members(&mut self, ctx: &mut Context<'_>, delay: InitialDelay) {
        self.initial_delay = Some(delay);
        ctx.schedule(TimerKey::Join { group: self.id.clone() }, delay.delay_ms.max(0) as u64);
    }

    /// The join timer fired: the initial delay is extended if members came meanwhile, else the join phase is over.
    pub(crate) fn join_timer_fired(&mut self, ctx: &mut Context<'_>) {
        if self.state() != GroupState::PreparingRebalance {
            return;
        }
        match self.initial_delay {
            Some(delay) if self.new_member_added && delay.remaining_ms > 0 => {
                self.new_member_added = false;
                let next = InitialDelay {
                    delay_ms: ctx.config.initial_rebalance_delay_ms.clamp(0, delay.remaining_ms),
                    remaining_ms: (delay.remaining_ms - delay.delay_ms).max(0),
                };
                self.wait_for_more_members(ctx, next);
            }
            _ => self.complete_join(ctx),
        }
    }

    /// Completes the join phase if all members are there. An initial rebalance always waits for its timer.
    pub(crate) fn maybe_complete_join(&mut self, ctx: &mut Context<'_>) {
        let preparing = self.state() == GroupState::PreparingRebalance;
        if preparing && !self.is_initial_rebalance() && self.has_all_members_joined() {
            self.complete_join(ctx);
        }
    }

    /// Ends the join phase: drops dynamic members that did not join, then begins the next generation.
    pub(crate) fn complete_join(&mut self, ctx: &mut Context<'_>) {
        ctx.timers.cancel(&TimerKey::Join { group: self.id.clone() });
        let absent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|m| m.awaiting_join.is_none() && !m.is_static())
            .map(|m| m.id.clone())
            .collect();
        for member_id in absent {
            self.drop_member(ctx, &member_id, &GroupError::UnknownMemberId);
        }

        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Only static members are left and none rejoined: wait until they do, or until their sessions end.
            let again_ms = self.rebalance_timeout_ms().max(1);
            ctx.schedule(TimerKey::Join { group: self.id.clone() }, again_ms);
            return;
        }
        self.begin_next_generation(ctx.now.wall);
        if self.state() == GroupState::Empty {
            // If this record is lost, the previous generation comes back after a restart, and times out again.
            ctx.outcome.records.push(OffsetsRecord::group_metadata(&self.id, Some(self.to_metadata())));
            return;
        }
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in &member_ids {
            self.answer_join(ctx, member_id);
            self.renew_session(ctx, member_id);
            self.pending_sync.insert(member_id.clone());
        }
        ctx.schedule(TimerKey::Sync { group: self.id.clone() }, self.rebalance_timeout_ms());
    }

    /// Answers a member's parked join with the current generation.
    fn answer_join(&mut self, ctx: &mut Context<'_>, member_id: &Arc<str>) {
        let token = self.change_member(member_id, |member| {
            member.is_new = false;
            member.awaiting_join.take()
        });
        if let Some(token) = token.flatten() {
            ctx.reply(token, Reply::Join(Ok(self.joined(member_id))));
        }
    }

    /// Answers all parked syncs, and starts the sessions of those members: a session that ended meanwhile was ignored.
    pub(crate) fn propagate_assignment(&mut self, ctx: &mut Context<'_>, error: Option<&GroupError>) {
        let (protocol_type, protocol_name) = (self.protocol_type.clone(), self.protocol.clone());
        for member in self.members.values_mut() {
            let Some(token) = member.awaiting_sync.take() else { continue };
            let reply = match error {
                Some(error) => Err(error.clone()),
                None => Ok(SyncedGroup {
                    protocol_type: protocol_type.clone(),
                    protocol_name: protocol_name.clone(),
                    assignment: member.assignment.clone(),
                }),
            };
            ctx.reply(token, Reply::Sync(reply));
            ctx.schedule_session(&self.id, &member.id, member.session_timeout_ms.max(0) as u64);
        }
    }

    pub(crate) fn renew_session(&self, ctx: &mut Context<'_>, member_id: &str) {
        if let Some(member) = self.members.get(member_id) {
            ctx.schedule_session(&self.id, &member.id, member.session_timeout_ms.max(0) as u64);
        }
    }

    /// Takes a member (pending or not) out of the group, its session and its parked requests with it.
    pub(crate) fn drop_member(&mut self, ctx: &mut Context<'_>, member_id: &Arc<str>, error: &GroupError) {
        ctx.cancel_session(&self.id, member_id);
        if let Some(mut member) = self.remove(member_id) {
            ctx.refuse_parked(&mut member, error);
        }
    }

    /// A session ended. Members with a parked request are alive; a new member's parked join itself may expire.
    pub(crate) fn session_expired(&mut self, ctx: &mut Context<'_>, member_id: &Arc<str>) {
        let pending = self.pending_join.contains(member_id);
        let alive = self.members.get(member_id).is_some_and(|member| member.has_satisfied_heartbeat());
        if alive || !(pending || self.members.contains_key(member_id)) {
            return;
        }
        self.drop_member(ctx, member_id, &GroupError::UnknownMemberId);
        match self.state() {
            GroupState::Stable | GroupState::CompletingRebalance if !pending => self.prepare_rebalance(ctx),
            GroupState::PreparingRebalance if self.has_all_members_joined() => self.complete_join(ctx),
            _ => {}
        }
    }

    /// Members that joined the generation but did not sync within the rebalance timeout are dropped.
    pub(crate) fn sync_timer_fired(&mut self, ctx: &mut Context<'_>) {
        let syncing = matches!(self.state(), GroupState::CompletingRebalance | GroupState::Stable);
        if !syncing || self.pending_sync.is_empty() {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            self.drop_member(ctx, &member_id, &GroupError::UnknownMemberId);
        }
        self.prepare_rebalance(ctx);
    }

    /// The group was read from the log: its members have a session from now on. One that is too large by now
    /// rebalances, so that some members are refused after they could commit.
    pub(crate) fn loaded(&mut self, ctx: &mut Context<'_>) {
        for member_id in self.members.keys() {
            self.renew_session(ctx, member_id);
        }
        if self.members.len() > ctx.config.max_group_size {
            self.prepare_rebalance(ctx);
        }
    }

    /// Ends everything parked, for a shard that goes away.
    pub(crate) fn refuse_all_parked(&mut self, ctx: &mut Context<'_>, error: &GroupError) {
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            self.change_member(&member_id, |member| ctx.refuse_parked(member, error));
        }
    }

    /// Cancels every timer of the group, for a group that goes away.
    pub(crate) fn cancel_timers(&self, timers: &mut Timers) {
        for member_id in self.members.keys().chain(&self.pending_join) {
            timers.cancel(&TimerKey::Session { group: self.id.clone(), member: member_id.clone() });
        }
        timers.cancel(&TimerKey::Join { group: self.id.clone() });
        timers.cancel(&TimerKey::Sync { group: self.id.clone() });
    }
}
