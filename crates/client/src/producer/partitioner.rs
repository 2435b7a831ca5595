//! Which partition a record goes to when its sender does not say: by its key, as Kafka's Java client does, or, without
//! a key, to one partition until a batch is full and then to another.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_types::PartitionIndex;

use crate::metadata::Topic;

/// Kafka's variant of MurmurHash2: 32 bits, its own seed, little-endian words.
pub(crate) fn murmur2(bytes: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MIX);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MIX) ^ mixed.wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    (hash ^ hash >> 15) as i32
}

/// The partition of a key: the same in every client that does as Java's does.
pub(crate) fn partition_of_key(key: &[u8], partitions: usize) -> PartitionIndex {
    let positive = murmur2(key) & i32::MAX;
    PartitionIndex(positive % partitions.max(1) as i32)
}

/// Where records without a key go at the moment, by topic.
#[derive(Debug, Default)]
pub(crate) struct Sticky {
    topics: HashMap<Arc<str>, Current>,
    turns: u32,
}

#[derive(Debug)]
struct Current {
    partition: PartitionIndex,
    bytes: usize,
}

impl Sticky {
    /// Counts `size` bytes against the partition at hand and moves on once it got `batch_size`. Partitions without a
    /// leader are passed over while there are others.
    pub(crate) fn partition(&mut self, topic: &Topic, size: usize, batch_size: usize) -> PartitionIndex {
        let leads = |index: PartitionIndex| topic.partition(index).is_some_and(|one| one.leader.is_some());
        let current = self.topics.get_mut(&topic.name);
        if let Some(current) = current.filter(|one| one.bytes < batch_size && leads(one.partition)) {
            current.bytes += size;
            return current.partition;
        }
        let last = self.topics.get(&topic.name).map(|one| one.partition);
        let led: Vec<_> = topic.partitions.iter().map(|one| one.index).filter(|index| leads(*index)).collect();
        let choice = if led.is_empty() { topic.partitions.iter().map(|one| one.index).collect() } else { led };
        let partition = self.another(&choice, last);
        self.topics.insert(topic.name.clone(), Current { partition, bytes: size });
        partition
    }

    /// Any of them but the last one, spread evenly: the turn count, mixed.
    fn another(&mut self, choice: &[PartitionIndex], last: Option<PartitionIndex>) -> PartitionIndex {
        let others: Vec<_> = choice.iter().copied().filter(|one| Some(*one) != last).collect();
        let choice = if others.is_empty() { choice } else { &others };
        if self.turns == 0 {
            // Where to begin differs from client to client.
            self.turns = std::process::id();
        }
        self.turns = self.turns.wrapping_add(1);
        let mixed = murmur2(&self.turns.to_le_bytes()) as u32;
        choice.get(mixed as usize % choice.len().max(1)).copied().unwrap_or(PartitionIndex(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Partition;
    use mainstem_types::{LeaderEpoch, NodeId, TopicId};

    fn topic(leaders: &[bool]) -> Topic {
        let partitions = leaders.iter().enumerate().map(|(i, led)| Partition {
            index: PartitionIndex(i as i32),
            leader: led.then_some(NodeId(1)),
            leader_epoch: LeaderEpoch(0),
            replicas: Vec::new(),
            in_sync: Vec::new(),
            offline: Vec::new(),
        });
        Topic { name: "t".into(), id: TopicId::ZERO, is_internal: false, partitions: partitions.collect() }
    }

    #[test]
    fn hashes_are_kafka_s() {
        // From Kafka's own UtilsTest.testMurmur2.
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_key_always_goes_to_the_same_partition() {
        assert_eq!(partition_of_key(b"21", 10), PartitionIndex((-973_932_308 & i32::MAX) % 10));
        assert_eq!(partition_of_key(b"anything", 1), PartitionIndex(0));
    }

    #[test]
    fn keyless_records_stick_until_a_batch_is_full() {
        let topic = topic(&[true; 4]);
        let mut sticky = Sticky::default();
        let first = sticky.partition(&topic, 60, 100);
        assert_eq!(sticky.partition(&topic, 60, 100), first);
        let second = sticky.partition(&topic, 60, 100);
        assert_ne!(second, first);
        assert_eq!(sticky.partition(&topic, 60, 100), second);
    }

    #[test]
    fn every_partition_gets_its_turn_and_leaderless_ones_none() {
        let topic = topic(&[true, false, true, true]);
        let mut sticky = Sticky::default();
        let mut seen = [0; 4];
        for _ in 0..300 {
            seen[sticky.partition(&topic, 100, 100).0 as usize] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!(seen[0] > 50 && seen[2] > 50 && seen[3] > 50, "{seen:?}");
    }

    #[test]
    fn one_leaderless_partition_is_better_than_none() {
        assert_eq!(Sticky::default().partition(&topic(&[false]), 1, 1), PartitionIndex(0));
    }
}
