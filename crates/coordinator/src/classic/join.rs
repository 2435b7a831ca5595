//! JoinGroup: new members, returning members, static members that come back under a new id.

use std::sync::Arc;

use super::context::Context;
use super::group::ClassicGroup;
use super::member::{Member, Protocol, copy_protocols};
use super::state::GroupState;
use super::undo::{ReplacedStaticMember, Undo};
use crate::{Blob, GroupError, JoinGroupRequest, OffsetsRecord, Reply, ReplyToken};

impl ClassicGroup {
    /// Handles a join. The answer may come at once, or be parked until the join phase ends.
    pub(crate) fn join(&mut self, ctx: &mut Context<'_>, token: ReplyToken, request: &JoinGroupRequest<'_>) {
        if !self.accepts_joining(request.member_id, ctx.config.max_group_size) {
            self.drop_member(ctx, &request.member_id.into(), &GroupError::GroupMaxSizeReached);
            ctx.refuse_join(token, GroupError::GroupMaxSizeReached);
            self.maybe_complete_join(ctx);
            return;
        }
        let protocols = copy_protocols(&request.protocols);
        if !self.supports(request.protocol_type, &protocols) {
            ctx.refuse_join(token, GroupError::InconsistentGroupProtocol);
        } else if request.member_id.is_empty() {
            self.join_new(ctx, token, request, protocols);
        } else if self.pending_join.contains(request.member_id) && request.instance_id.is_none() {
            self.add_and_rebalance(ctx, token, request, request.member_id.into(), protocols);
        } else {
            self.join_existing(ctx, token, request, protocols);
        }
    }

    /// While members join, the waiting ones count, so that the last of too many are refused. Afterwards all members
    /// count.
    fn accepts_joining(&self, member_id: &str, max_group_size: usize) -> bool {
        let member = self.members.get(member_id);
        match self.state() {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                member.is_some_and(|m| m.awaiting_join.is_some()) || self.awaiting_join_count() < max_group_size
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                member.is_some() || self.members.len() < max_group_size
            }
        }
    }

    fn join_new(
        &mut self,
        ctx: &mut Context<'_>,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        protocols: Vec<Protocol>,
    ) {
        let new_id: Arc<str> = new_member_id(request).into();
        match request.instance_id.map(|instance_id| self.static_member_id(instance_id).cloned()) {
            Some(Some(old_id)) => self.replace_static_member(ctx, token, request, (old_id, new_id), protocols),
            None if request.requires_known_member_id => {
                self.pending_join.insert(new_id.clone());
                ctx.schedule_session(&self.id, &new_id, request.session_timeout_ms.max(0) as u64);
                ctx.refuse_join(token, GroupError::MemberIdRequired { member_id: new_id.to_string() });
            }
            _ => self.add_and_rebalance(ctx, token, request, new_id, protocols),
        }
    }

    fn add_and_rebalance(
        &mut self,
        ctx: &mut Context<'_>,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        member_id: Arc<str>,
        protocols: Vec<Protocol>,
    ) {
        if self.is_initial_rebalance() {
            self.new_member_added = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.into());
        }
        self.add(Member {
            id: member_id.clone(),
            instance_id: request.instance_id.map(Into::into),
            client_id: request.client_id.into(),
            client_host: request.client_host.into(),
            rebalance_timeout_ms: rebalance_timeout_ms(request),
            session_timeout_ms: request.session_timeout_ms,
            protocols,
            assignment: Blob::default(),
            awaiting_join: Some(token),
            awaiting_sync: None,
            is_new: true,
        });
        // A new member cannot heartbeat while its join is parked, and a client that gave up and joins again would leave
        // a defunct member each time: so the parked join itself has a limit.
        ctx.schedule_session(&self.id, &member_id, ctx.config.new_member_join_timeout_ms);
        self.rebalance_or_complete_join(ctx);
    }

    fn join_existing(
        &mut self,
        ctx: &mut Context<'_>,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        protocols: Vec<Protocol>,
    ) {
        if let Err(error) = self.validate_member(request.member_id, request.instance_id) {
            ctx.refuse_join(token, error);
            return;
        }
        let Some(member) = self.members.get(request.member_id) else { return };
        let member_id = member.id.clone();
        let unchanged = member.matches(&protocols);
        match self.state() {
            // The member may have missed the answer of this generation: it gets it again.
            GroupState::CompletingRebalance if unchanged => {
                ctx.reply(token, Reply::Join(Ok(self.joined(&member_id))));
            }
            // A leader joins again because something changed that its metadata does not show, for example a topic.
            GroupState::Stable if unchanged && !self.is_leader(&member_id) => {
                ctx.reply(token, Reply::Join(Ok(self.joined(&member_id))));
            }
            GroupState::PreparingRebalance | GroupState::CompletingRebalance | GroupState::Stable => {
                self.update_member(ctx, token, request, &member_id, protocols);
                self.rebalance_or_complete_join(ctx);
            }
            GroupState::Empty | GroupState::Dead => ctx.refuse_join(token, GroupError::UnknownMemberId),
        }
    }

    /// Takes over what the request says of the member, and parks the request. An older parked join of the same member
    /// is answered: the client has moved on.
    fn update_member(
        &mut self,
        ctx: &mut Context<'_>,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        member_id: &str,
        protocols: Vec<Protocol>,
    ) {
        let superseded = self.change_member(member_id, |member| {
            member.protocols = protocols;
            member.rebalance_timeout_ms = rebalance_timeout_ms(request);
            member.session_timeout_ms = request.session_timeout_ms;
            member.awaiting_join.replace(token)
        });
        if let Some(old_token) = superseded.flatten() {
            ctx.refuse_join(old_token, GroupError::RebalanceInProgress);
        }
    }

    /// A static member came back without its id: it gets a new one, and a client that still uses the old one is fenced.
    /// In a stable group whose protocol stays the same this is not a rebalance (KIP-345, KIP-814).
    fn replace_static_member(
        &mut self,
        ctx: &mut Context<'_>,
        token: ReplyToken,
        request: &JoinGroupRequest<'_>,
        (old_id, new_id): (Arc<str>, Arc<str>),
        protocols: Vec<Protocol>,
    ) {
        let old_leader = self.leader.clone();
        self.change_member(&old_id, |member| {
            member.is_new = false;
            ctx.refuse_parked(member, &GroupError::FencedInstanceId);
        });
        let Some(old_member) = self.members.get(&old_id).cloned() else { return };
        self.rename_static_member(&old_id, new_id.clone());
        ctx.cancel_session(&self.id, &old_id);
        self.update_member(ctx, token, request, &new_id, protocols);
        self.renew_session(ctx, &new_id);

        match self.state() {
            GroupState::Stable if self.select_protocol() == self.protocol => {
                self.change_member(&new_id, |member| member.awaiting_join.take());
                let mut answer = self.joined(&new_id);
                if request.supports_skipping_assignment {
                    answer.skip_assignment = self.is_leader(&new_id);
                } else {
                    // Older clients would assign again if they saw that they lead: they are told of the old leader.
                    answer.leader = old_leader.unwrap_or_default();
                    answer.members.clear();
                }
                ctx.reply(token, Reply::Join(Ok(answer)));
                ctx.outcome.records.push(OffsetsRecord::group_metadata(&self.id, Some(self.to_metadata())));
                let replaced = ReplacedStaticMember { group: self.id.clone(), new_id, old_member };
                ctx.outcome.undo.push(Undo::StaticMemberReplaced(Box::new(replaced)));
            }
            GroupState::Stable => self.rebalance_or_complete_join(ctx),
            // The leader may be assigning to the old id just now.
            GroupState::CompletingRebalance => self.prepare_rebalance(ctx),
            _ => self.maybe_complete_join(ctx),
        }
    }
}

fn rebalance_timeout_ms(request: &JoinGroupRequest<'_>) -> i32 {
    if request.rebalance_timeout_ms < 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms }
}

/// `<client id or instance id>-<uuid>`, the uuid a random one (RFC 9562, version 4) of the caller's bytes.
fn new_member_id(request: &JoinGroupRequest<'_>) -> String {
    let mut uuid = request.member_uuid;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    let mut id = request.instance_id.unwrap_or(request.client_id).to_owned();
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            id.push('-');
        }
        id.push_str(&format!("{byte:02x}"));
    }
    id
}
