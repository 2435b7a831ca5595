//! The offsets of all groups of a shard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstem_types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId};

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

/// A committed offset and the record that told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    value: CommittedOffset,
    record_offset: Offset,
}

type TopicOffsets = BTreeMap<Arc<str>, BTreeMap<i32, Stored>>;
type GroupOffsets = BTreeMap<Arc<str>, TopicOffsets>;

/// The offsets of all groups, those of open transactions apart. Empty maps are removed at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetStore {
    committed: GroupOffsets,
    pending: BTreeMap<ProducerId, GroupOffsets>,
    /// The producers with pending offsets, by group.
    open_transactions: BTreeMap<Arc<str>, BTreeSet<ProducerId>>,
}

impl OffsetStore {
    pub(crate) fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        Some(&find(&self.committed, group, topic, partition)?.value)
    }

    /// The committed offsets of a group: topic, partition, offset.
    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.committed.get(group).into_iter().flatten().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, stored)| (topic, *partition, &stored.value))
        })
    }

    /// True if an open transaction holds an offset of this partition.
    pub(crate) fn is_pending(&self, group: &str, topic: &str, partition: i32) -> bool {
        let producers = self.open_transactions.get(group);
        producers.into_iter().flatten().any(|producer| {
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
        let mut all: BTreeSet<_> = of(&self.committed).into_iter().collect();
        for producer in self.open_transactions.get(group).into_iter().flatten() {
            all.extend(self.pending.get(producer).map(of).unwrap_or_default());
        }
        all
    }

    /// Groups with anything kept, committed or pending.
    pub(crate) fn groups(&self) -> BTreeSet<Arc<str>> {
        self.committed.keys().chain(self.open_transactions.keys()).cloned().collect()
    }

    /// Applies a commit record. With a producer it stays pending until the end marker.
    pub(crate) fn put(
        &mut self,
        producer: Option<ProducerId>,
        (group, topic, partition): (&Arc<str>, &Arc<str>, i32),
        value: CommittedOffset,
        record_offset: Offset,
    ) {
        let groups = match producer {
            None => &mut self.committed,
            Some(producer) => {
                self.open_transactions.entry(group.clone()).or_default().insert(producer);
                self.pending.entry(producer).or_default()
            }
        };
        insert(groups, group, topic, partition, Stored { value, record_offset });
    }

    /// Applies a tombstone: the offset is gone, and so are pending ones of the same partition.
    pub(crate) fn remove(&mut self, group: &str, topic: &str, partition: i32) {
        remove(&mut self.committed, group, topic, partition);
        let Some(producers) = self.open_transactions.get_mut(group) else { return };
        producers.retain(|producer| {
            let Some(groups) = self.pending.get_mut(producer) else { return false };
            remove(groups, group, topic, partition);
            let open = groups.contains_key(group);
            if groups.is_empty() {
                self.pending.remove(producer);
            }
            open
        });
        if producers.is_empty() {
            self.open_transactions.remove(group);
        }
    }

    /// Applies a transaction's end marker.
    pub(crate) fn end_transaction(&mut self, producer: ProducerId, committed: bool) {
        let Some(groups) = self.pending.remove(&producer) else { return };
        for (group, topics) in groups {
            if let Some(producers) = self.open_transactions.get_mut(&group) {
                producers.remove(&producer);
                if producers.is_empty() {
                    self.open_transactions.remove(&group);
                }
            }
            if !committed {
                continue;
            }
            for (topic, partitions) in topics {
                for (partition, stored) in partitions {
                    let newest = find(&self.committed, &group, &topic, partition).map(|known| known.record_offset);
                    if newest.is_none_or(|known| stored.record_offset > known) {
                        insert(&mut self.committed, &group, &topic, partition, stored);
                    }
                }
            }
        }
    }
}

fn find<'a>(groups: &'a GroupOffsets, group: &str, topic: &str, partition: i32) -> Option<&'a Stored> {
    groups.get(group)?.get(topic)?.get(&partition)
}

fn insert(groups: &mut GroupOffsets, group: &Arc<str>, topic: &Arc<str>, partition: i32, stored: Stored) {
    groups.entry(group.clone()).or_default().entry(topic.clone()).or_default().insert(partition, stored);
}

fn remove(groups: &mut GroupOffsets, group: &str, topic: &str, partition: i32) {
    let Some(topics) = groups.get_mut(group) else { return };
    if let Some(partitions) = topics.get_mut(topic) {
        partitions.remove(&partition);
        if partitions.is_empty() {
            topics.remove(topic);
        }
    }
    if topics.is_empty() {
        groups.remove(group);
    }
}
