//! Takes back the change of a group's live state when its record could not be appended. The stored state has not
//! changed. The answers of the outcome fail as well, see `Reply::after`.

use std::sync::Arc;

use super::context::Context;
use super::group::{ClassicGroup, GroupState};
use super::member::Member;

/// How to take back one change of an outcome.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The group did not exist, or was an empty one of another kind.
    GroupCreated {
        group: Arc<str>,
    },
    /// The leader's assignment made the group stable.
    GenerationCompleted {
        group: Arc<str>,
    },
    StaticMemberReplaced(Box<ReplacedStaticMember>),
}

/// A static member that came back under a new id.
#[derive(Debug)]
pub(crate) struct ReplacedStaticMember {
    pub(crate) group: Arc<str>,
    pub(crate) new_id: Arc<str>,
    pub(crate) old_member: Member,
}

impl PartialEq for Undo {
    /// Outcomes are compared by what they ask for; how they are taken back follows from it.
    fn eq(&self, other: &Undo) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Undo {}

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
