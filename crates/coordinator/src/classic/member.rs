//! One member of a classic group.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::{Blob, JoinProtocol, ReplyToken};

/// A protocol that a member offers.
pub(crate) type Protocol = (Arc<str>, Blob);

/// A member of a classic group. At most one join and one sync of it are parked at a time.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) session_timeout_ms: i32,
    /// In the member's order of preference; names are unique.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Blob,
    pub(crate) awaiting_join: Option<ReplyToken>,
    pub(crate) awaiting_sync: Option<ReplyToken>,
    /// From its first join until the generation is complete: it does not know its id and cannot heartbeat.
    pub(crate) is_new: bool,
}

impl Member {
    pub(crate) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    /// The metadata that the member offers for `protocol`; empty if it does not offer it.
    pub(crate) fn metadata(&self, protocol: &str) -> Blob {
        self.protocols.iter().find(|(name, _)| &**name == protocol).map(|(_, blob)| blob.clone()).unwrap_or_default()
    }

    /// True if the member offers exactly `protocols`, order and bytes included.
    pub(crate) fn matches(&self, protocols: &[Protocol]) -> bool {
        self.protocols == protocols
    }

    /// A member whose request is parked needs no heartbeat, unless it is new: then the parked join itself may expire.
    pub(crate) fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }
}

/// Copies protocols out of a request. Of two with one name the first counts.
pub(crate) fn copy_protocols(protocols: &[JoinProtocol<'_>]) -> Vec<Protocol> {
    let mut seen = HashSet::new();
    protocols.iter().filter(|p| seen.insert(p.name)).map(|p| (p.name.into(), p.metadata.into())).collect()
}

/// Counts over all members of a group, so that a join costs the same in small and large groups.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberCounts {
    offering: HashMap<Arc<str>, usize>,
    pub(crate) awaiting_join: usize,
}

impl MemberCounts {
    /// How many members offer the protocol.
    pub(crate) fn offering(&self, protocol: &str) -> usize {
        self.offering.get(protocol).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, member: &Member) {
        for (name, _) in &member.protocols {
            *self.offering.entry(name.clone()).or_default() += 1;
        }
        self.awaiting_join += usize::from(member.awaiting_join.is_some());
    }

    pub(crate) fn subtract(&mut self, member: &Member) {
        for (name, _) in &member.protocols {
            if let Some(count) = self.offering.get_mut(name) {
                *count -= 1;
            }
            if self.offering(name) == 0 {
                self.offering.remove(name);
            }
        }
        self.awaiting_join -= usize::from(member.awaiting_join.is_some());
    }
}
