//! The state of a classic group and its small, local changes. Nothing here answers a request or sets a timer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use mainstem_types::TimestampMs;

use super::member::{Member, MemberCounts, Protocol};
use super::state::GroupState;
use super::subscription::subscribed_topics;
use crate::{Blob, GroupError, GroupMetadata, JoinedGroup, JoinedMember, StoredMember};

/// The protocol type of the stock consumers, the only one whose bytes are looked into.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// The first rebalance of an empty group waits `delay_ms`, again and again while members come, `remaining_ms` at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InitialDelay {
    pub(crate) delay_ms: i32,
    pub(crate) remaining_ms: i32,
}

/// A classic group.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    pub(crate) id: Arc<str>,
    state: GroupState,
    previous_state: GroupState,
    pub(crate) state_timestamp: Option<TimestampMs>,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol: Option<Arc<str>>,
    pub(crate) leader: Option<Arc<str>>,
    pub(crate) members: IndexMap<Arc<str>, Member>,
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Members that were told their id and have not joined with it yet.
    pub(crate) pending_join: BTreeSet<Arc<str>>,
    /// Members of the generation that have not synced yet.
    pub(crate) pending_sync: BTreeSet<Arc<str>>,
    /// `None`: not known, or not a consumer group.
    subscribed_topics: Option<BTreeSet<String>>,
    pub(crate) new_member_added: bool,
    pub(crate) initial_delay: Option<InitialDelay>,
    counts: MemberCounts,
}

impl ClassicGroup {
    pub(crate) fn new(id: Arc<str>, now: TimestampMs) -> ClassicGroup {
        ClassicGroup {
            id,
            state: GroupState::Empty,
            previous_state: GroupState::Dead,
            state_timestamp: Some(now),
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: IndexMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            subscribed_topics: None,
            new_member_added: false,
            initial_delay: None,
            counts: MemberCounts::default(),
        }
    }

    /// The group that a commit without group management stands for: empty, without a protocol type, of unknown age.
    pub(crate) fn simple(id: Arc<str>) -> ClassicGroup {
        ClassicGroup { state_timestamp: None, ..ClassicGroup::new(id, TimestampMs::NONE) }
    }

    /// The group as a GroupMetadata record tells it.
    pub(crate) fn from_metadata(id: Arc<str>, value: &GroupMetadata) -> ClassicGroup {
        let mut group = ClassicGroup::simple(id);
        group.generation = value.generation;
        group.protocol_type = (!value.protocol_type.is_empty()).then(|| value.protocol_type.clone());
        group.protocol = value.protocol.clone();
        group.leader = value.leader.clone();
        group.state_timestamp = (value.state_timestamp != TimestampMs::NONE).then_some(value.state_timestamp);
        if !value.members.is_empty() {
            group.state = GroupState::Stable;
        }
        for stored in &value.members {
            let protocol = value.protocol.clone().unwrap_or_default();
            group.add(Member {
                id: stored.member_id.clone(),
                instance_id: stored.instance_id.clone(),
                client_id: stored.client_id.clone(),
                client_host: stored.client_host.clone(),
                rebalance_timeout_ms: stored.rebalance_timeout_ms,
                session_timeout_ms: stored.session_timeout_ms,
                protocols: vec![(protocol, stored.subscription.clone())],
                assignment: stored.assignment.clone(),
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
            });
        }
        group.refresh_subscribed_topics();
        group
    }

    /// The record of the current generation.
    pub(crate) fn to_metadata(&self) -> GroupMetadata {
        let protocol = self.protocol.clone();
        let members = self.members.values().map(|member| StoredMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol.as_deref().unwrap_or_default()),
            assignment: member.assignment.clone(),
        });
        GroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_timestamp.unwrap_or(TimestampMs::NONE),
            members: members.collect(),
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn is_initial_rebalance(&self) -> bool {
        self.state == GroupState::PreparingRebalance && self.previous_state == GroupState::Empty
    }

    pub(crate) fn can_rebalance(&self) -> bool {
        matches!(self.state, GroupState::Stable | GroupState::CompletingRebalance | GroupState::Empty)
    }

    /// True while no record has these members: they join, or wait for their assignments.
    pub(crate) fn is_between_generations(&self) -> bool {
        matches!(self.state, GroupState::PreparingRebalance | GroupState::CompletingRebalance)
    }

    pub(crate) fn transition_to(&mut self, state: GroupState, now: TimestampMs) {
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp = Some(now);
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    pub(crate) fn static_member_id(&self, instance_id: &str) -> Option<&Arc<str>> {
        self.static_members.get(instance_id)
    }

    pub(crate) fn has_all_members_joined(&self) -> bool {
        self.members.len() == self.counts.awaiting_join && self.pending_join.is_empty()
    }

    pub(crate) fn awaiting_join_count(&self) -> usize {
        self.counts.awaiting_join
    }

    pub(crate) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// The longest of the members' rebalance timeouts.
    pub(crate) fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(|m| m.rebalance_timeout_ms).max().unwrap_or(0).max(0) as u64
    }

    /// Adds a member, or puts one with the same id in its place. The first one names protocol type and leader.
    pub(crate) fn add(&mut self, member: Member) {
        self.remove(&member.id.clone());
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member.id.clone());
        }
        self.leader.get_or_insert_with(|| member.id.clone());
        self.counts.add(&member);
        self.members.insert(member.id.clone(), member);
    }

    /// Removes a member wherever its id is kept. The caller has answered what it had parked.
    pub(crate) fn remove(&mut self, member_id: &str) -> Option<Member> {
        self.pending_join.remove(member_id);
        self.pending_sync.remove(member_id);
        let member = self.members.shift_remove(member_id)?;
        self.counts.subtract(&member);
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }

    /// Changes a member through `change`, keeping the counts right.
    pub(crate) fn change_member<T>(&mut self, member_id: &str, change: impl FnOnce(&mut Member) -> T) -> Option<T> {
        let member = self.members.get_mut(member_id)?;
        self.counts.subtract(member);
        let result = change(member);
        self.counts.add(member);
        Some(result)
    }

    /// Gives a static member a new id, in its place; leader and outstanding sync follow.
    pub(crate) fn rename_static_member(&mut self, old_id: &str, new_id: Arc<str>) {
        let Some(index) = self.members.get_index_of(old_id) else { return };
        let Some((_, mut member)) = self.members.shift_remove_index(index) else { return };
        member.id = new_id.clone();
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        self.members.shift_insert(index, new_id.clone(), member);
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(new_id);
        }
    }

    /// If the leader has not rejoined, the first member that has becomes leader. False: no member has rejoined.
    pub(crate) fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id));
        if leader.is_some_and(|member| member.awaiting_join.is_some()) {
            return true;
        }
        let joined = self.members.values().find(|m| m.awaiting_join.is_some()).map(|m| m.id.clone());
        let elected = joined.is_some();
        self.leader = joined.or(self.leader.take());
        elected
    }

    /// Begins the next generation: Empty without members, else CompletingRebalance with the protocol most vote for.
    pub(crate) fn begin_next_generation(&mut self, now: TimestampMs) {
        self.generation = self.generation.wrapping_add(1).max(0);
        self.initial_delay = None;
        self.new_member_added = false;
        self.pending_sync.clear();
        self.protocol = self.select_protocol();
        self.refresh_subscribed_topics();
        let empty = self.members.is_empty();
        self.transition_to(if empty { GroupState::Empty } else { GroupState::CompletingRebalance }, now);
    }

    /// The protocol that all members offer and most prefer; of equals the one voted for first.
    pub(crate) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: IndexMap<&Arc<str>, usize> = IndexMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().map(|(name, _)| name).find(|name| self.is_offered_by_all(name));
            if let Some(name) = vote {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes.iter().find(|(_, count)| **count == most).map(|(name, _)| (*name).clone())
    }

    fn is_offered_by_all(&self, protocol: &str) -> bool {
        self.counts.offering(protocol) == self.members.len()
    }

    /// True if a member with this type and these protocols fits in. An empty group takes any.
    pub(crate) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.is_offered_by_all(name))
    }

    /// The member exists and owns the instance id, if one is given.
    pub(crate) fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(GroupError::UnknownMemberId),
                Some(owner) if &**owner != member_id => return Err(GroupError::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }

    /// True if the members read the topic, or may: a consumer group whose subscriptions cannot be read.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed_topics.as_ref().map_or(self.uses_consumer_protocol(), |topics| topics.contains(topic))
    }

    pub(crate) fn knows_subscribed_topics(&self) -> bool {
        self.subscribed_topics.is_some()
    }

    fn refresh_subscribed_topics(&mut self) {
        self.subscribed_topics = match &self.protocol {
            _ if !self.uses_consumer_protocol() => None,
            _ if self.members.is_empty() => Some(BTreeSet::new()),
            None => None,
            Some(protocol) => self.members.values().try_fold(BTreeSet::new(), |mut topics, member| {
                topics.extend(subscribed_topics(&member.metadata(protocol))?);
                Some(topics)
            }),
        };
    }

    /// A member's answer to a join of the current generation; the leader's has the members.
    pub(crate) fn joined(&self, member_id: &Arc<str>) -> JoinedGroup {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = if self.is_leader(member_id) { self.members.values().collect() } else { Vec::new() };
        JoinedGroup {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: member_id.clone(),
            members: members
                .into_iter()
                .map(|member: &Member| JoinedMember {
                    member_id: member.id.clone(),
                    instance_id: member.instance_id.clone(),
                    metadata: member.metadata(protocol),
                })
                .collect(),
        }
    }

    pub(crate) fn clear_assignments(&mut self) {
        for member in self.members.values_mut() {
            member.assignment = Blob::default();
        }
    }
}
