//! What a classic group says of itself: DescribeGroups, the rules of its offsets' expiry, the checks of other APIs.

use super::group::ClassicGroup;
use super::state::GroupState;
use crate::offsets::ExpiryBase;
use crate::{Blob, DescribedGroup, DescribedMember, GroupError, OffsetCommitRequest};

impl ClassicGroup {
    /// The state that is shown while the record that it stands on is not committed (`settled` is false).
    pub(crate) fn shown_state(&self, settled: bool) -> GroupState {
        match self.state() {
            GroupState::Stable if !settled => GroupState::CompletingRebalance,
            GroupState::Empty if !settled => GroupState::PreparingRebalance,
            state => state,
        }
    }

    /// `settled`: the newest record of the group is committed. If not, its assignments are not shown.
    pub(crate) fn describe(&self, settled: bool) -> DescribedGroup {
        let state = self.shown_state(settled);
        // While the group rebalances there is no protocol whose metadata could be shown.
        let protocol = self.protocol.clone().filter(|_| state == GroupState::Stable);
        let members = self.members.values().map(|member| DescribedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.as_deref().map(|name| member.metadata(name)).unwrap_or_default(),
            assignment: if settled { member.assignment.clone() } else { Blob::default() },
        });
        DescribedGroup {
            state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            members: members.collect(),
            protocol_name: protocol.unwrap_or_default(),
        }
    }

    /// Members of the current generation may commit offsets, and anybody while the group is empty.
    pub(crate) fn validate_commit(&self, request: &OffsetCommitRequest<'_>) -> Result<(), GroupError> {
        let empty = self.state() == GroupState::Empty;
        if request.generation < 0 && empty {
            return Ok(());
        }
        if request.generation >= 0 || !request.member_id.is_empty() || request.instance_id.is_some() {
            self.validate_member(request.member_id, request.instance_id)?;
            if request.generation != self.generation {
                return Err(GroupError::IllegalGeneration);
            }
        } else if !empty {
            return Err(GroupError::UnknownMemberId);
        }
        if self.state() == GroupState::CompletingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    pub(crate) fn validate_delete(&self) -> Result<(), GroupError> {
        if self.state() == GroupState::Empty { Ok(()) } else { Err(GroupError::NonEmptyGroup) }
    }

    /// Single offsets of a group with members may be deleted only if it can be seen which topics the members read.
    pub(crate) fn validate_offset_delete(&self) -> Result<(), GroupError> {
        let allowed = self.state() == GroupState::Empty || self.uses_consumer_protocol();
        if allowed { Ok(()) } else { Err(GroupError::NonEmptyGroup) }
    }

    /// From when the retention of an offset counts; `None`: none of the group's offsets expires now.
    pub(crate) fn expiry_base(&self) -> Option<ExpiryBase> {
        if self.protocol_type.is_none() {
            return Some(ExpiryBase::Commit);
        }
        match self.state() {
            GroupState::Empty => Some(self.state_timestamp.map_or(ExpiryBase::Commit, ExpiryBase::Since)),
            GroupState::Stable if self.uses_consumer_protocol() && self.knows_subscribed_topics() => {
                Some(ExpiryBase::Commit)
            }
            _ => None,
        }
    }

    /// True if nothing speaks for keeping the group once it has no offsets.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state() == GroupState::Empty && self.pending_join.is_empty()
    }
}
