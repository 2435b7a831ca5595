//! Groups of kinds that are not served here: KIP-848 consumer groups, share groups, streams groups.
//!
//! Their records stay in the log untouched. Kept of them are the keys, so that the group can be listed, its members end
//! with their session, and all of it can be removed when the group is empty and a classic member takes over.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::offsets::ExpiryBase;
use crate::{Blob, GroupError, OffsetsRecord};

/// The kinds of groups, by Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupType {
    Classic,
    Consumer,
    Share,
    Streams,
}

impl GroupType {
    pub fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
            GroupType::Share => "share",
            GroupType::Streams => "streams",
        }
    }

    /// The group type that records of this key kind belong to; `None` for kinds that are not known.
    pub(crate) fn of_record_kind(kind: i16) -> Option<GroupType> {
        match kind {
            3..=8 | 16 => Some(GroupType::Consumer),
            9..=15 => Some(GroupType::Share),
            17..=23 => Some(GroupType::Streams),
            _ => None,
        }
    }
}

impl fmt::Display for GroupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The key of one record. Ordered as the records must be removed for Kafka to accept the tombstones: what a member
/// has, then the members, then the group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForeignKey {
    rank: u8,
    pub(crate) member: Option<Arc<str>>,
    pub(crate) kind: i16,
    pub(crate) bytes: Blob,
}

/// The kinds of keys that name a member.
pub(crate) fn names_member(kind: i16) -> bool {
    matches!(kind, 5 | 7 | 8 | 10 | 13 | 14 | 19 | 21 | 22)
}

impl ForeignKey {
    pub(crate) fn new(kind: i16, member: Option<Arc<str>>, bytes: &[u8]) -> ForeignKey {
        let rank = match kind {
            8 | 14 | 22 => 0,
            7 | 13 | 21 => 1,
            6 | 12 | 20 => 2,
            5 | 10 | 19 => 3,
            3 | 11 | 17 => 5,
            _ => 4,
        };
        ForeignKey { rank, member, kind, bytes: bytes.into() }
    }

    /// The record that makes a client a member.
    fn makes_member(&self) -> bool {
        matches!(self.kind, 5 | 10 | 19)
    }
}

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
