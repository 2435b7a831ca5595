//! What the records of a shard's log say: groups and offsets.
//!
//! A function of the log: [`Stored::replay`] is the only way it changes, live and at the start. Two states are kept in
//! one: what all records say, on which operations decide, and what the committed ones say, which is shown
//! (`committed_…`).

mod offsets;
mod uncommitted;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use mainstem_types::{Offset, ProducerId};

use crate::classic::ClassicGroup;
use crate::foreign::ForeignGroup;
use crate::group_type::ForeignKey;
use crate::records::FoundRecord;
use crate::{GroupMetadata, GroupType};

pub use offsets::CommittedOffset;
pub(crate) use offsets::OffsetStore;
use uncommitted::Uncommitted;

/// A group as its records tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredGroup {
    /// Committed offsets alone: of consumers without group management.
    Simple,
    Classic(Box<GroupMetadata>),
    Foreign(ForeignGroup),
}

impl StoredGroup {
    pub(crate) fn is_classic(&self) -> bool {
        matches!(self, StoredGroup::Simple | StoredGroup::Classic(_))
    }

    /// The classic group that the records tell of; `None`: it is of another kind.
    pub(crate) fn to_classic(&self, group_id: &Arc<str>) -> Option<ClassicGroup> {
        match self {
            StoredGroup::Simple => Some(ClassicGroup::simple(group_id.clone())),
            StoredGroup::Classic(metadata) => Some(ClassicGroup::from_metadata(group_id.clone(), metadata)),
            StoredGroup::Foreign(_) => None,
        }
    }

    /// The generation of a classic group; a simple one is in its first.
    pub(crate) fn generation(&self) -> i32 {
        match self {
            StoredGroup::Classic(metadata) => metadata.generation,
            StoredGroup::Simple | StoredGroup::Foreign(_) => 0,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    groups: BTreeMap<Arc<str>, StoredGroup>,
    groups_before: Uncommitted<Arc<str>, StoredGroup>,
    pub(crate) offsets: OffsetStore,
    /// The offset after the last record.
    end: Offset,
    committed_end: Offset,
}

impl Stored {
    /// Applies the record at `offset`. `producer`: of its batch, if it is a transactional one.
    pub(crate) fn replay(&mut self, offset: Offset, producer: Option<ProducerId>, record: FoundRecord) {
        self.end = offset.plus(1);
        let uncommitted = offset >= self.committed_end;
        match record {
            FoundRecord::OffsetCommit { group, topic, partition, value: None } => {
                self.offsets.remove(offset, uncommitted, &(group, topic, partition));
            }
            FoundRecord::OffsetCommit { group, topic, partition, value: Some(value) } => {
                if !self.groups.contains_key(&group) {
                    self.set_group(offset, &group, Some(StoredGroup::Simple));
                }
                self.offsets.put(offset, uncommitted, producer, &(group, topic, partition), value);
            }
            FoundRecord::GroupMetadata { group, value: Some(value) } => {
                self.set_group(offset, &group, Some(StoredGroup::Classic(Box::new(value))));
            }
            FoundRecord::GroupMetadata { group, value: None } => {
                if self.groups.get(&group).is_some_and(StoredGroup::is_classic) {
                    self.set_group(offset, &group, None);
                }
            }
            FoundRecord::Foreign { group, group_type, key, present } => {
                self.replay_foreign(offset, &group, group_type, key, present);
            }
            FoundRecord::Unknown => {}
        }
    }

    fn replay_foreign(
        &mut self,
        offset: Offset,
        group_id: &Arc<str>,
        group_type: GroupType,
        key: ForeignKey,
        present: bool,
    ) {
        let committed = offset < self.committed_end;
        let mut group = match self.groups.get_mut(group_id) {
            Some(StoredGroup::Foreign(group)) if group.group_type == group_type => {
                // At the start such a group may come with very many records: nobody is shown those before it.
                if committed && present {
                    group.apply(key, present);
                    return;
                }
                group.clone()
            }
            // The tombstones of earlier records.
            _ if !present => return,
            _ => ForeignGroup::new(group_type),
        };
        let any_left = group.apply(key, present);
        self.set_group(offset, group_id, any_left.then_some(StoredGroup::Foreign(group)));
    }

    fn set_group(&mut self, offset: Offset, group_id: &Arc<str>, value: Option<StoredGroup>) {
        let before = match value {
            Some(value) => self.groups.insert(group_id.clone(), value),
            None => self.groups.remove(group_id),
        };
        if offset >= self.committed_end {
            self.groups_before.keep(offset, group_id.clone(), before);
        }
    }

    /// Applies the end marker (control batch) of a transaction.
    pub(crate) fn replay_end_transaction(&mut self, offset: Offset, producer: ProducerId, committed: bool) {
        self.end = offset.plus(1);
        self.offsets.end_transaction(offset, offset >= self.committed_end, producer, committed);
    }

    /// Everything below `end` is committed. Never goes back.
    pub(crate) fn commit(&mut self, end: Offset) {
        if end > self.committed_end {
            self.committed_end = end;
            self.groups_before.commit(end);
            self.offsets.commit(end);
        }
    }

    /// The offset after the last record, unless it is committed.
    pub(crate) fn uncommitted_end(&self) -> Option<Offset> {
        (self.end > self.committed_end).then_some(self.end)
    }

    pub(crate) fn applied(&self) -> Option<Offset> {
        (self.end > Offset(0)).then(|| self.end.plus(-1))
    }

    pub(crate) fn group(&self, group_id: &str) -> Option<&StoredGroup> {
        self.groups.get(group_id)
    }

    pub(crate) fn groups(&self) -> &BTreeMap<Arc<str>, StoredGroup> {
        &self.groups
    }

    /// The name of a group that is stored, shared.
    pub(crate) fn shared_name(&self, group_id: &str) -> Option<Arc<str>> {
        self.groups.get_key_value(group_id).map(|(name, _)| name.clone())
    }

    pub(crate) fn committed_group(&self, group_id: &str) -> Option<&StoredGroup> {
        if self.groups_before.is_empty() {
            return self.groups.get(group_id);
        }
        self.groups_before.committed(&group_id.into()).unwrap_or_else(|| self.groups.get(group_id))
    }

    /// All groups that the committed records tell of, in the order of their names.
    pub(crate) fn committed_groups(&self) -> BTreeMap<&Arc<str>, &StoredGroup> {
        let mut groups: BTreeMap<_, _> = self.groups.iter().collect();
        for (group_id, before) in self.groups_before.iter() {
            match before {
                Some(before) => groups.insert(group_id, before),
                None => groups.remove(group_id),
            };
        }
        groups
    }

    /// Whether the newest record of the group is committed.
    pub(crate) fn is_settled(&self, group_id: &str) -> bool {
        self.groups_before.is_empty() || self.groups_before.committed(&group_id.into()).is_none()
    }

    /// How this state of all records differs from `other`, which was made in another way from the same ones.
    pub(crate) fn difference(&self, other: &Stored) -> Option<String> {
        difference_of("group", &self.groups_of_substance(), &other.groups_of_substance())
            .or_else(|| self.offsets.difference(&other.offsets))
    }

    /// All groups, except simple ones whose offsets are gone: they stay until they are swept, and a replay of a
    /// compacted log never hears of them.
    fn groups_of_substance(&self) -> BTreeMap<&Arc<str>, &StoredGroup> {
        let with_offsets = self.offsets.groups();
        let mut groups: BTreeMap<_, _> = self.groups.iter().collect();
        groups.retain(|name, group| **group != StoredGroup::Simple || with_offsets.contains(*name));
        groups
    }

    /// How the state that readers see differs from `replayed`, which knows only committed records.
    pub(crate) fn committed_difference(&self, replayed: &Stored) -> Option<String> {
        difference_of("shown group", &self.committed_groups(), &replayed.groups.iter().collect())
            .or_else(|| self.offsets.committed_difference(&replayed.offsets))
    }
}

/// The first key whose values differ, with both.
fn difference_of<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    here: &BTreeMap<K, V>,
    there: &BTreeMap<K, V>,
) -> Option<String> {
    let mut keys = here.keys().chain(there.keys());
    let differs = keys.find(|key| here.get(key) != there.get(key))?;
    Some(format!("{what} {differs:?}: {:?}, by a replay {:?}", here.get(differs), there.get(differs)))
}
