//! JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the checks before the group itself decides.

use std::sync::Arc;

use super::GroupView;
use crate::classic::{ClassicGroup, Context, Undo};
use crate::stored::StoredGroup;
use crate::{
    CoordinatorOutcome, GroupError, GroupShard, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, LeftMember, Now,
    OffsetsRecord, Reply, ReplyToken, SyncGroupRequest,
};

impl GroupShard {
    /// Handles JoinGroup. The answer comes with this outcome or, once all members have joined, with a later one.
    pub fn join_group(&mut self, token: ReplyToken, request: &JoinGroupRequest<'_>, now: Now) -> CoordinatorOutcome {
        let mut outcome = CoordinatorOutcome::default();
        if let Err(error) = self.validate_join(request) {
            return CoordinatorOutcome::reply(token, Reply::Join(Err(error)));
        }
        if self.on_classic(request.group_id, now, &mut outcome, |group, ctx| group.join(ctx, token, request)).is_none()
        {
            self.join_new_group(token, request, now, &mut outcome);
        }
        outcome
    }

    fn validate_join(&self, request: &JoinGroupRequest<'_>) -> Result<(), GroupError> {
        self.check_group(request.group_id)?;
        let sessions = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !sessions.contains(&request.session_timeout_ms) {
            return Err(GroupError::InvalidSessionTimeout);
        }
        match self.group(request.group_id) {
            Some(GroupView::Live(_) | GroupView::Stored(_)) => return Ok(()),
            Some(GroupView::Foreign(group)) if !group.may_become_classic() => {
                return Err(GroupError::InconsistentGroupProtocol);
            }
            _ if !request.member_id.is_empty() => return Err(GroupError::UnknownMemberId),
            _ => {}
        }
        let offers_something = !request.protocol_type.is_empty() && !request.protocols.is_empty();
        if offers_something { Ok(()) } else { Err(GroupError::InconsistentGroupProtocol) }
    }

    /// Creates the group, in the place of an empty one of another kind if there is one, and joins it.
    fn join_new_group(
        &mut self,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        now: Now,
        outcome: &mut CoordinatorOutcome,
    ) {
        let group_id: Arc<str> = request.group_id.into();
        let mut group = ClassicGroup::new(group_id.clone(), now.wall);
        if let Some(StoredGroup::Foreign(replaced)) = self.stored.group(&group_id) {
            outcome.records.extend(replaced.tombstones(None));
        }
        outcome.records.push(OffsetsRecord::group_metadata(&group_id, Some(group.to_metadata())));
        outcome.undo.push(Undo::GroupCreated { group: group_id.clone() });
        let mut ctx = Context { config: &self.config, timers: &mut self.timers, now, outcome };
        group.join(&mut ctx, token, request);
        self.live.insert(group_id, group);
    }

    /// Handles SyncGroup. The answer comes with this outcome or, once the leader has synced, with a later one.
    pub fn sync_group(&mut self, token: ReplyToken, request: &SyncGroupRequest<'_>, now: Now) -> CoordinatorOutcome {
        let mut outcome = CoordinatorOutcome::default();
        let handled = self.check_group(request.group_id).and_then(|()| {
            self.on_classic(request.group_id, now, &mut outcome, |group, ctx| group.sync(ctx, token, request))
                .ok_or(GroupError::UnknownMemberId)
        });
        if let Err(error) = handled {
            // While the log is read, an error that makes the member join again: its generation may be a lost one.
            let loading = error == GroupError::CoordinatorLoadInProgress;
            let error = if loading { GroupError::RebalanceInProgress } else { error };
            outcome.replies.push((token, Reply::Sync(Err(error))));
        }
        outcome
    }

    /// Handles Heartbeat; always answered at once. While the log is read, members are left in peace.
    pub fn heartbeat(&mut self, request: &HeartbeatRequest<'_>, now: Now) -> Result<(), GroupError> {
        match self.check_group(request.group_id) {
            Err(GroupError::CoordinatorLoadInProgress) => return Ok(()),
            checked => checked?,
        }
        let mut unused = CoordinatorOutcome::default();
        self.on_classic(request.group_id, now, &mut unused, |group, ctx| group.heartbeat(ctx, request))
            .unwrap_or(Err(GroupError::UnknownMemberId))
    }

    /// Handles LeaveGroup. Each member has a result of its own. In v0-2 the only member's result is the answer.
    pub fn leave_group(&mut self, token: ReplyToken, request: &LeaveGroupRequest<'_>, now: Now) -> CoordinatorOutcome {
        let mut outcome = CoordinatorOutcome::default();
        let reply = self.check_group(request.group_id).map(|()| {
            self.on_classic(request.group_id, now, &mut outcome, |group, ctx| group.leave(ctx, request))
                .unwrap_or_else(|| nobody_left(request))
        });
        outcome.replies.push((token, Reply::Leave(reply)));
        outcome
    }

    fn check_group(&self, group_id: &str) -> Result<(), GroupError> {
        if group_id.is_empty() {
            return Err(GroupError::InvalidGroupId);
        }
        self.check_loaded()
    }
}

fn nobody_left(request: &LeaveGroupRequest<'_>) -> Vec<LeftMember> {
    request
        .members
        .iter()
        .map(|member| LeftMember {
            member_id: member.member_id.to_owned(),
            instance_id: member.instance_id.map(str::to_owned),
            result: Err(GroupError::UnknownMemberId),
        })
        .collect()
}
