//! What an operation on a group may touch besides the group.

use std::sync::Arc;

use super::member::Member;
use crate::timers::{TimerKey, Timers};
use crate::{CoordinatorOutcome, GroupConfig, GroupError, Now, Reply, ReplyToken};

/// The surroundings of one operation on one group.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a GroupConfig,
    pub(crate) timers: &'a mut Timers,
    pub(crate) now: Now,
    pub(crate) outcome: &'a mut CoordinatorOutcome,
}

impl Context<'_> {
    pub(crate) fn reply(&mut self, token: ReplyToken, reply: Reply) {
        self.outcome.replies.push((token, reply));
    }

    pub(crate) fn refuse_join(&mut self, token: ReplyToken, error: GroupError) {
        self.reply(token, Reply::Join(Err(error)));
    }

    pub(crate) fn refuse_sync(&mut self, token: ReplyToken, error: GroupError) {
        self.reply(token, Reply::Sync(Err(error)));
    }

    /// Answers the member's parked requests, because the member is about to go.
    pub(crate) fn refuse_parked(&mut self, member: &mut Member, error: &GroupError) {
        if let Some(token) = member.awaiting_join.take() {
            self.refuse_join(token, error.clone());
        }
        if let Some(token) = member.awaiting_sync.take() {
            self.refuse_sync(token, error.clone());
        }
    }

    pub(crate) fn schedule(&mut self, key: TimerKey, delay_ms: u64) {
        self.timers.schedule(key, self.now.after_ms(delay_ms));
    }

    /// Restarts a member's session.
    pub(crate) fn schedule_session(&mut self, group: &Arc<str>, member: &Arc<str>, timeout_ms: u64) {
        self.schedule(TimerKey::Session { group: group.clone(), member: member.clone() }, timeout_ms);
    }

    pub(crate) fn cancel_session(&mut self, group: &Arc<str>, member: &Arc<str>) {
        self.timers.cancel(&TimerKey::Session { group: group.clone(), member: member.clone() });
    }
}
