//! A group of any kind, as operations and readers see it: the live group, or one made from the stored records.

use std::sync::Arc;

use crate::classic::ClassicGroup;
use crate::foreign::ForeignGroup;
use crate::offsets::ExpiryBase;
use crate::stored::StoredGroup;
use crate::{DescribedGroup, GroupShard, GroupState, GroupType, ListedGroup, OffsetsRecord};

#[derive(Debug)]
pub(crate) enum GroupView<'a> {
    Live(&'a ClassicGroup),
    Stored(Box<ClassicGroup>),
    Foreign(&'a ForeignGroup),
}

impl<'a> GroupView<'a> {
    fn of_stored(group_id: &Arc<str>, stored: &'a StoredGroup) -> GroupView<'a> {
        match (stored, stored.to_classic(group_id)) {
            (StoredGroup::Foreign(group), _) => GroupView::Foreign(group),
            (_, group) => GroupView::Stored(Box::new(group.unwrap_or_else(|| ClassicGroup::simple(group_id.clone())))),
        }
    }

    /// From when the retention of the group's offsets counts; `None`: they do not expire now.
    pub(crate) fn expiry_base(&self) -> Option<ExpiryBase> {
        match self {
            GroupView::Live(group) => group.expiry_base(),
            GroupView::Stored(group) => group.expiry_base(),
            GroupView::Foreign(group) => group.expiry_base(),
        }
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            GroupView::Live(group) => group.is_subscribed_to(topic),
            GroupView::Stored(group) => group.is_subscribed_to(topic),
            GroupView::Foreign(group) => !group.is_empty(),
        }
    }

    /// True if the group may go once it has no offsets. Share groups keep state elsewhere and stay.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            GroupView::Live(group) => group.is_abandoned(),
            GroupView::Stored(group) => group.is_abandoned(),
            GroupView::Foreign(group) => group.is_empty() && group.group_type != GroupType::Share,
        }
    }

    /// The records that remove the group, its offsets apart.
    pub(crate) fn tombstones(&self, group_id: &Arc<str>) -> Vec<OffsetsRecord> {
        match self {
            GroupView::Live(_) | GroupView::Stored(_) => vec![OffsetsRecord::group_metadata(group_id, None)],
            GroupView::Foreign(group) => group.tombstones(None),
        }
    }
}

/// A group for readers.
pub(crate) struct ShownGroup<'a> {
    group: GroupView<'a>,
    /// Whether the newest record of the group is committed. If not, its generation is still being completed, and nobody
    /// is shown an assignment.
    settled: bool,
}

impl ShownGroup<'_> {
    pub(crate) fn describe(&self) -> Option<DescribedGroup> {
        match &self.group {
            GroupView::Live(group) => Some(group.describe(self.settled)),
            GroupView::Stored(group) => Some(group.describe(true)),
            GroupView::Foreign(_) => None,
        }
    }

    pub(crate) fn list(&self, group_id: &Arc<str>) -> ListedGroup {
        let (protocol_type, state, group_type) = match &self.group {
            GroupView::Live(group) => {
                (group.protocol_type.clone(), group.shown_state(self.settled), GroupType::Classic)
            }
            GroupView::Stored(group) => (group.protocol_type.clone(), group.state(), GroupType::Classic),
            GroupView::Foreign(group) => {
                let state = if group.is_empty() { GroupState::Empty } else { GroupState::Stable };
                (Some(group.group_type.name().into()), state, group.group_type)
            }
        };
        ListedGroup { group_id: group_id.clone(), protocol_type: protocol_type.unwrap_or_default(), state, group_type }
    }
}

impl GroupShard {
    /// The group as it is by all records, committed or not: what operations decide on.
    pub(crate) fn group(&self, group_id: &str) -> Option<GroupView<'_>> {
        if let Some(group) = self.live.get(group_id) {
            return Some(GroupView::Live(group));
        }
        let (name, stored) = self.stored.groups().get_key_value(group_id)?;
        Some(GroupView::of_stored(name, stored))
    }

    /// The group as the committed records describe it, with its live members. A record that repeats the committed
    /// generation (a static member under a new id) is not shown before it is committed, either.
    pub(crate) fn shown<'a>(&'a self, group_id: &Arc<str>, committed: &'a StoredGroup) -> ShownGroup<'a> {
        let settled = self.stored.is_settled(group_id);
        let live = self.live.get(group_id).filter(|_| committed.is_classic());
        let group = match live {
            Some(live) if settled || live.is_between_generations() || committed.generation() != live.generation => {
                GroupView::Live(live)
            }
            _ => GroupView::of_stored(group_id, committed),
        };
        ShownGroup { group, settled }
    }
}
