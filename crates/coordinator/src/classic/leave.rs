//! LeaveGroup: members that go, and static members that an administrator removes.

use std::sync::Arc;

use super::context::Context;
use super::group::ClassicGroup;
use super::state::GroupState;
use crate::{GroupError, LeaveGroupRequest, LeavingMember, LeftMember};

impl ClassicGroup {
    /// Removes the members; one rebalance follows for all of them.
    pub(crate) fn leave(&mut self, ctx: &mut Context<'_>, request: &LeaveGroupRequest<'_>) -> Vec<LeftMember> {
        let left: Vec<LeftMember> = request
            .members
            .iter()
            .map(|member| LeftMember {
                member_id: member.member_id.to_owned(),
                instance_id: member.instance_id.map(str::to_owned),
                result: self.leave_one(ctx, member),
            })
            .collect();
        if left.iter().any(|member| member.result.is_ok()) {
            match self.state() {
                GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(ctx),
                GroupState::PreparingRebalance => self.maybe_complete_join(ctx),
                GroupState::Empty | GroupState::Dead => {}
            }
        }
        left
    }

    fn leave_one(&mut self, ctx: &mut Context<'_>, leaving: &LeavingMember<'_>) -> Result<(), GroupError> {
        let member_id: Arc<str> = if leaving.member_id.is_empty() {
            let owner = leaving.instance_id.and_then(|instance_id| self.static_member_id(instance_id));
            owner.ok_or(GroupError::UnknownMemberId)?.clone()
        } else {
            if !self.pending_join.contains(leaving.member_id) {
                self.validate_member(leaving.member_id, leaving.instance_id)?;
            }
            leaving.member_id.into()
        };
        // A parked join is told that the member is unknown: if the client is alive after all, it joins again.
        self.drop_member(ctx, &member_id, &GroupError::UnknownMemberId);
        Ok(())
    }
}
