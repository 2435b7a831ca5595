//! The kinds of groups, and the keys of records of kinds that are not served here.

use std::fmt;
use std::sync::Arc;

use crate::Blob;

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
    pub(crate) fn makes_member(&self) -> bool {
        matches!(self.kind, 5 | 10 | 19)
    }
}
