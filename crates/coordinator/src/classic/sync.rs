//! SyncGroup: the leader brings the assignment, everybody gets its own. And Heartbeat.

use std::collections::HashMap;

use super::context::Context;
use super::group::ClassicGroup;
use super::state::GroupState;
use super::undo::Undo;
use crate::timers::TimerKey;
use crate::{Blob, GroupError, HeartbeatRequest, OffsetsRecord, Reply, ReplyToken, SyncGroupRequest, SyncedGroup};

impl ClassicGroup {
    pub(crate) fn sync(&mut self, ctx: &mut Context<'_>, token: ReplyToken, request: &SyncGroupRequest<'_>) {
        if let Err(error) = self.validate_sync(request) {
            ctx.refuse_sync(token, error);
            return;
        }
        match self.state() {
            GroupState::CompletingRebalance => {
                let parked = self.members.get_mut(request.member_id).map(|m| m.awaiting_sync.replace(token));
                if let Some(superseded) = parked.flatten() {
                    ctx.refuse_sync(superseded, GroupError::RebalanceInProgress);
                }
                self.synced(ctx, request.member_id);
                if self.is_leader(request.member_id) {
                    self.complete_sync(ctx, request);
                }
            }
            GroupState::Stable => {
                self.synced(ctx, request.member_id);
                let assignment = self.members.get(request.member_id).map(|m| m.assignment.clone());
                let answer = SyncedGroup {
                    protocol_type: self.protocol_type.clone(),
                    protocol_name: self.protocol.clone(),
                    assignment: assignment.unwrap_or_default(),
                };
                ctx.reply(token, Reply::Sync(Ok(answer)));
            }
            GroupState::PreparingRebalance => ctx.refuse_sync(token, GroupError::RebalanceInProgress),
            GroupState::Empty | GroupState::Dead => ctx.refuse_sync(token, GroupError::UnknownMemberId),
        }
    }

    fn validate_sync(&self, request: &SyncGroupRequest<'_>) -> Result<(), GroupError> {
        if self.state() == GroupState::Empty {
            return Err(GroupError::UnknownMemberId);
        }
        self.validate_member(request.member_id, request.instance_id)?;
        if request.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        let differs = |asked: Option<&str>, ours: Option<&str>| asked.is_some() && asked != ours;
        if differs(request.protocol_type, self.protocol_type.as_deref())
            || differs(request.protocol_name, self.protocol.as_deref())
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// A member has synced; after the last one the group waits for no member.
    fn synced(&mut self, ctx: &mut Context<'_>, member_id: &str) {
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            ctx.timers.cancel(&TimerKey::Sync { group: self.id.clone() });
        }
    }

    /// The leader's assignment makes the generation complete. Members that it forgot get empty bytes.
    fn complete_sync(&mut self, ctx: &mut Context<'_>, request: &SyncGroupRequest<'_>) {
        let assignments: HashMap<&str, &[u8]> = request.assignments.iter().copied().collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.get(&*member.id).map(|bytes| Blob::from(*bytes)).unwrap_or_default();
        }
        // The record's timestamp is that of the state in which it is written, as in Kafka.
        ctx.outcome.records.push(OffsetsRecord::group_metadata(&self.id, Some(self.to_metadata())));
        self.transition_to(GroupState::Stable, ctx.now.wall);
        self.propagate_assignment(ctx, None);
        ctx.outcome.undo.push(Undo::GenerationCompleted { group: self.id.clone() });
    }

    pub(crate) fn heartbeat(
        &mut self,
        ctx: &mut Context<'_>,
        request: &HeartbeatRequest<'_>,
    ) -> Result<(), GroupError> {
        self.validate_member(request.member_id, request.instance_id)?;
        if request.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        match self.state() {
            GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMemberId),
            GroupState::PreparingRebalance => {
                self.renew_session(ctx, request.member_id);
                Err(GroupError::RebalanceInProgress)
            }
            // Consumers heartbeat as soon as their join was answered, before the sync.
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.renew_session(ctx, request.member_id);
                Ok(())
            }
        }
    }
}
