//! Takes back the change of a group's live state when its record could not be appended. The stored state has not
//! changed. The answers of the outcome fail as well, see `Reply::after`.

use super::context::Context;
use super::group::ClassicGroup;
use super::state::GroupState;
use super::undo::ReplacedStaticMember;

impl ClassicGroup {
    /// The assignment is not stored: no member may act on it, and all members join again.
    pub(crate) fn undo_generation(&mut self, ctx: &mut Context<'_>) {
        if self.state() == GroupState::Stable {
            self.transition_to(GroupState::CompletingRebalance, ctx.now.wall);
            self.prepare_rebalance(ctx);
        }
    }

    /// The new id is not stored: the member keeps the old one, with what it offered before.
    pub(crate) fn undo_static_member(&mut self, ctx: &mut Context<'_>, replaced: ReplacedStaticMember) {
        let ReplacedStaticMember { new_id, old_member, .. } = replaced;
        ctx.cancel_session(&self.id, &new_id);
        self.rename_static_member(&new_id, old_member.id.clone());
        self.change_member(&old_member.id, |member| {
            member.protocols.clone_from(&old_member.protocols);
            member.rebalance_timeout_ms = old_member.rebalance_timeout_ms;
            member.session_timeout_ms = old_member.session_timeout_ms;
        });
        self.renew_session(ctx, &old_member.id);
    }
}
