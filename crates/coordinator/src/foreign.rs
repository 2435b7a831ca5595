//! Groups of kinds that are not served here: KIP-848 consumer groups, share groups, streams groups.
//!
//! Their records stay in the log untouched. Kept of them are the keys, so that the group can be listed, its members end
//! with their session, and all of it can be removed when the group is empty and a classic member takes over.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::group_type::{ForeignKey, GroupType};
use crate::offsets::ExpiryBase;
use crate::{GroupError, OffsetsRecord};

/// A group that is known by the keys of its live records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignGroup {
    pub(crate) group_type: GroupType,
    keys: BTreeSet<ForeignKey>,
}

impl ForeignGroup {
    pub(crate) fn new(group_type: GroupType) -> ForeignGroup {
        ForeignGroup { group_type, keys: BTreeSet::new() }
    }

    /// Applies a record; false: the group has no record left.
    pub(crate) fn apply(&mut self, key: ForeignKey, present: bool) -> bool {
        if present {
            self.keys.insert(key);
        } else {
            self.keys.remove(&key);
        }
        !self.keys.is_empty()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<str>> {
        self.keys.iter().filter(|key| key.makes_member()).filter_map(|key| key.member.as_ref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members().next().is_none()
    }

    /// An empty group may be taken over by classic members; a share group keeps state elsewhere and may not.
    pub(crate) fn may_become_classic(&self) -> bool {
        self.is_empty() && self.group_type != GroupType::Share
    }

    /// Tombstones for everything, or for what one member has.
    pub(crate) fn tombstones(&self, member: Option<&str>) -> Vec<OffsetsRecord> {
        let asked = |key: &&ForeignKey| member.is_none() || key.member.as_deref() == member;
        self.keys.iter().filter(asked).map(|key| OffsetsRecord::ForeignTombstone { key: key.bytes.clone() }).collect()
    }

    pub(crate) fn validate_commit(&self, generation: i32) -> Result<(), GroupError> {
        match self.group_type {
            GroupType::Share => Err(GroupError::GroupIdNotFound),
            _ if generation < 0 && self.is_empty() => Ok(()),
            _ => Err(GroupError::UnknownMemberId),
        }
    }

    /// Which topics the members read is not known, so nothing expires while there are any.
    pub(crate) fn expiry_base(&self) -> Option<ExpiryBase> {
        self.is_empty().then_some(ExpiryBase::Commit)
    }
}
