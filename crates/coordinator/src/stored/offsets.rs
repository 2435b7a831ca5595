//! The offsets of all groups of a shard.
//!
//! Offsets of open transactions are pending: nobody sees them until the transaction's end marker commits them. Of a
//! transactional and a plain commit of one partition the later *record* counts, whenever the marker comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstem_types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId};

use super::difference_of;
use super::uncommitted::Uncommitted;

/// An offset as a group committed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: Offset,
    /// As the client sent it; -1 if it did not.
    pub leader_epoch: LeaderEpoch,
    pub metadata: Arc<str>,
    pub commit_timestamp: TimestampMs,
    /// Set by clients of OffsetCommit v2-4 that ask for a retention of their own.
    pub expire_timestamp: Option<TimestampMs>,
    /// [`TopicId::ZERO`]: not known.
    pub topic_id: TopicId,
}

/// An offset and the record that told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    value: CommittedOffset,
    record_offset: Offset,
}

/// Group, topic, partition.
pub(super) type Place = (Arc<str>, Arc<str>, i32);
type TopicOffsets = BTreeMap<Arc<str>, BTreeMap<i32, Stored>>;
type GroupOffsets = BTreeMap<Arc<str>, TopicOffsets>;

/// The offsets of all groups. Offsets of open transactions are kept apart. Empty maps are removed at once. Unless a
/// name says `committed`, all records count, committed or not.
#[derive(Debug, Default, Clone)]
pub(crate) struct OffsetStore {
    plain: GroupOffsets,
    plain_before: Uncommitted<Place, Stored>,
    pending: BTreeMap<ProducerId, GroupOffsets>,
    pending_before: Uncommitted<(Place, ProducerId), Stored>,
    /// The producers with pending offsets, by group.
    open_transactions: BTreeMap<Arc<str>, BTreeSet<ProducerId>>,
}

impl OffsetStore {
    pub(crate) fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        Some(&find(&self.plain, group, topic, partition)?.value)
    }

    /// The offset that the committed records tell of.
    pub(crate) fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        if self.plain_before.is_empty() {
            return self.get(group, topic, partition);
        }
        match self.plain_before.committed(&(group.into(), topic.into(), partition)) {
            Some(before) => Some(&before?.value),
            None => self.get(group, topic, partition),
        }
    }

    /// The offsets of a group: topic, partition, offset.
    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.plain.get(group).into_iter().flatten().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, stored)| (topic, *partition, &stored.value))
        })
    }

    /// The partitions of a group for which the committed records have an offset, plain or pending, in order.
    pub(crate) fn committed_partitions_of(&self, group: &str) -> BTreeSet<(Arc<str>, i32)> {
        let mut all: BTreeSet<(Arc<str>, i32)> =
            self.of_group(group).map(|(topic, partition, _)| (topic.clone(), partition)).collect();
        if !self.plain_before.is_empty() {
            let first = (group.into(), "".into(), i32::MIN);
            let changed = self.plain_before.from(&first).take_while(|((of, ..), _)| &**of == group);
            for ((_, topic, partition), before) in changed {
                let place = (topic.clone(), *partition);
                if before.is_some() {
                    all.insert(place)
                } else {
                    all.remove(&place)
                };
            }
        }
        all
    }

    /// True if an open transaction holds an offset of this partition.
    pub(crate) fn is_pending(&self, group: &str, topic: &str, partition: i32) -> bool {
        self.pending_of(group, topic, partition).next().is_some()
    }

    /// True if by the committed records an open transaction holds an offset of this partition.
    pub(crate) fn is_pending_committed(&self, group: &str, topic: &str, partition: i32) -> bool {
        if self.pending_before.is_empty() {
            return self.is_pending(group, topic, partition);
        }
        let place: Place = (group.into(), topic.into(), partition);
        let known = |producer| self.pending_before.committed(&(place.clone(), producer)).is_none_or(|b| b.is_some());
        let first = (place.clone(), ProducerId(i64::MIN));
        self.pending_of(group, topic, partition).any(known)
            || self.pending_before.from(&first).take_while(|((of, _), _)| *of == place).any(|(_, b)| b.is_some())
    }

    fn pending_of<'a>(
        &'a self,
        group: &'a str,
        topic: &'a str,
        partition: i32,
    ) -> impl Iterator<Item = ProducerId> + use<'a> {
        let producers = self.open_transactions.get(group).into_iter().flatten().copied();
        producers.filter(move |producer| {
            self.pending.get(producer).is_some_and(|groups| find(groups, group, topic, partition).is_some())
        })
    }

    pub(crate) fn has_open_transactions(&self, group: &str) -> bool {
        self.open_transactions.contains_key(group)
    }

    /// Topic and partition of everything that is kept for a group, pending or not; each once, in order.
    pub(crate) fn partitions_of(&self, group: &str) -> BTreeSet<(Arc<str>, i32)> {
        let of = |groups: &GroupOffsets| -> Vec<(Arc<str>, i32)> {
            let topics = groups.get(group).into_iter().flatten();
            topics.flat_map(|(topic, parts)| parts.keys().map(|p| (topic.clone(), *p))).collect()
        };
        let mut all: BTreeSet<_> = of(&self.plain).into_iter().collect();
        for producer in self.open_transactions.get(group).into_iter().flatten() {
            all.extend(self.pending.get(producer).map(of).unwrap_or_default());
        }
        all
    }

    /// Groups with anything kept, plain or pending.
    pub(crate) fn groups(&self) -> BTreeSet<Arc<str>> {
        self.plain.keys().chain(self.open_transactions.keys()).cloned().collect()
    }

    /// Applies the commit record at `at`. With a producer it stays pending until the end marker.
    pub(super) fn put(
        &mut self,
        at: Offset,
        uncommitted: bool,
        producer: Option<ProducerId>,
        place: &Place,
        value: CommittedOffset,
    ) {
        let stored = Stored { value, record_offset: at };
        match producer {
            None => self.set_plain(at, uncommitted, place, Some(stored)),
            Some(producer) => self.set_pending(at, uncommitted, producer, place, Some(stored)),
        }
    }

    /// Applies the tombstone at `at`: the offset is gone, and so are pending ones of the same partition.
    pub(super) fn remove(&mut self, at: Offset, uncommitted: bool, place: &Place) {
        self.set_plain(at, uncommitted, place, None);
        let (group, topic, partition) = place;
        let producers: Vec<ProducerId> = self.pending_of(group, topic, *partition).collect();
        for producer in producers {
            self.set_pending(at, uncommitted, producer, place, None);
        }
    }

    /// Applies a transaction's end marker.
    pub(super) fn end_transaction(&mut self, at: Offset, uncommitted: bool, producer: ProducerId, committed: bool) {
        let Some(groups) = self.pending.remove(&producer) else { return };
        for (group, topics) in groups {
            self.close_transaction(&group, producer);
            for (topic, partitions) in topics {
                for (partition, stored) in partitions {
                    let place = (group.clone(), topic.clone(), partition);
                    let newest = find(&self.plain, &group, &topic, partition).map(|known| known.record_offset);
                    let counts = committed && newest.is_none_or(|known| stored.record_offset > known);
                    if uncommitted {
                        self.pending_before.keep(at, (place.clone(), producer), Some(stored.clone()));
                    }
                    if counts {
                        self.set_plain(at, uncommitted, &place, Some(stored));
                    }
                }
            }
        }
    }

    pub(super) fn commit(&mut self, end: Offset) {
        self.plain_before.commit(end);
        self.pending_before.commit(end);
    }

    fn set_plain(&mut self, at: Offset, uncommitted: bool, place: &Place, value: Option<Stored>) {
        let before = replace(&mut self.plain, place, value);
        if uncommitted {
            self.plain_before.keep(at, place.clone(), before);
        }
    }

    fn set_pending(
        &mut self,
        at: Offset,
        uncommitted: bool,
        producer: ProducerId,
        place: &Place,
        value: Option<Stored>,
    ) {
        let groups = self.pending.entry(producer).or_default();
        let before = replace(groups, place, value);
        let open = groups.contains_key(&place.0);
        if groups.is_empty() {
            self.pending.remove(&producer);
        }
        if open {
            self.open_transactions.entry(place.0.clone()).or_default().insert(producer);
        } else {
            self.close_transaction(&place.0, producer);
        }
        if uncommitted {
            self.pending_before.keep(at, (place.clone(), producer), before);
        }
    }

    fn close_transaction(&mut self, group: &Arc<str>, producer: ProducerId) {
        if let Some(producers) = self.open_transactions.get_mut(group) {
            producers.remove(&producer);
            if producers.is_empty() {
                self.open_transactions.remove(group);
            }
        }
    }

    pub(super) fn difference(&self, other: &OffsetStore) -> Option<String> {
        difference_of("offset", &flat(&self.plain), &flat(&other.plain))
            .or_else(|| difference_of("pending offset", &flat_pending(&self.pending), &flat_pending(&other.pending)))
            .or_else(|| difference_of("transactions of group", &self.open_transactions, &other.open_transactions))
    }

    pub(super) fn committed_difference(&self, replayed: &OffsetStore) -> Option<String> {
        let plain = as_committed(flat(&self.plain), &self.plain_before);
        let pending = as_committed(flat_pending(&self.pending), &self.pending_before);
        difference_of("shown offset", &plain, &flat(&replayed.plain))
            .or_else(|| difference_of("shown pending offset", &pending, &flat_pending(&replayed.pending)))
    }
}

fn as_committed<'a, K: Ord + Clone, V>(
    mut newest: BTreeMap<K, &'a V>,
    before: &'a Uncommitted<K, V>,
) -> BTreeMap<K, &'a V> {
    for (key, before) in before.iter() {
        match before {
            Some(before) => newest.insert(key.clone(), before),
            None => newest.remove(key),
        };
    }
    newest
}

fn flat(groups: &GroupOffsets) -> BTreeMap<Place, &Stored> {
    let mut all = BTreeMap::new();
    for (group, topics) in groups {
        for (topic, partitions) in topics {
            all.extend(partitions.iter().map(|(p, stored)| ((group.clone(), topic.clone(), *p), stored)));
        }
    }
    all
}

fn flat_pending(pending: &BTreeMap<ProducerId, GroupOffsets>) -> BTreeMap<(Place, ProducerId), &Stored> {
    let mut all = BTreeMap::new();
    for (producer, groups) in pending {
        all.extend(flat(groups).into_iter().map(|(place, stored)| ((place, *producer), stored)));
    }
    all
}

fn find<'a>(groups: &'a GroupOffsets, group: &str, topic: &str, partition: i32) -> Option<&'a Stored> {
    groups.get(group)?.get(topic)?.get(&partition)
}

/// Sets or removes one offset. Gives the offset that was there.
fn replace(groups: &mut GroupOffsets, (group, topic, partition): &Place, value: Option<Stored>) -> Option<Stored> {
    if let Some(value) = value {
        let topics = groups.entry(group.clone()).or_default();
        return topics.entry(topic.clone()).or_default().insert(*partition, value);
    }
    let topics = groups.get_mut(group)?;
    let partitions = topics.get_mut(topic)?;
    let before = partitions.remove(partition);
    if partitions.is_empty() {
        topics.remove(topic);
    }
    if topics.is_empty() {
        groups.remove(group);
    }
    before
}
