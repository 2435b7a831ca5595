//! The shards of this node: one for each partition of the offsets topic that the node leads.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use mainstem_coordinator::partition_for_group;
use mainstem_types::{LeaderEpoch, PartitionIndex};
use parking_lot::Mutex;

use super::shard::Shard;
use crate::partition::Partition;

/// Read by every request without a lock, exchanged as a whole.
#[derive(Default, Clone)]
struct Led {
    /// Partitions of the offsets topic, led here or not; 0: it does not exist.
    partition_count: i32,
    shards: BTreeMap<PartitionIndex, Arc<Shard>>,
}

#[derive(Default)]
pub(super) struct Shards {
    led: ArcSwap<Led>,
    /// The newest epoch that was heard of each partition, led here or not; taken for each change.
    epochs: Mutex<BTreeMap<PartitionIndex, LeaderEpoch>>,
}

/// What an election asks for.
#[derive(Default)]
pub(super) struct Elected {
    pub to_load: Option<Arc<Shard>>,
    pub replaced: Option<Arc<Shard>>,
}

impl Shards {
    pub fn topic_has(&self, partition_count: i32) {
        let _changing = self.epochs.lock();
        self.change(|led| led.partition_count = partition_count);
    }

    pub fn is_known(&self) -> bool {
        self.led.load().partition_count > 0
    }

    pub fn of_group(&self, group_id: &str) -> Option<Arc<Shard>> {
        let led = self.led.load();
        led.shards.get(&partition_for_group(group_id, led.partition_count)).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Shard>> {
        self.led.load().shards.values().cloned().collect()
    }

    /// The node leads `partition` from `epoch` on. A shard that serves it already goes on: nobody else has written
    /// meanwhile.
    pub fn elected(
        &self,
        index: PartitionIndex,
        epoch: LeaderEpoch,
        partition: &Arc<Partition>,
        new: impl FnOnce() -> Arc<Shard>,
    ) -> Elected {
        let mut epochs = self.epochs.lock();
        let known = self.led.load().shards.get(&index).cloned();
        let same_log = known.as_ref().is_none_or(|shard| Arc::ptr_eq(shard.partition(), partition));
        if same_log && epochs.get(&index).is_some_and(|newest| epoch <= *newest) {
            return Elected::default();
        }
        epochs.insert(index, epoch);
        if known.as_ref().is_some_and(|shard| same_log && !shard.is_unreadable()) {
            return Elected::default();
        }
        let shard = new();
        self.change(|led| drop(led.shards.insert(index, Arc::clone(&shard))));
        Elected { to_load: Some(shard), replaced: known }
    }

    /// Another node leads from `epoch` on, or nobody any more. Gives the shard that ends.
    pub fn resigned(&self, index: PartitionIndex, epoch: Option<LeaderEpoch>) -> Option<Arc<Shard>> {
        let mut epochs = self.epochs.lock();
        match epoch {
            Some(epoch) if epochs.get(&index).is_some_and(|newest| epoch <= *newest) => return None,
            Some(epoch) => drop(epochs.insert(index, epoch)),
            None => drop(epochs.remove(&index)),
        }
        let mut ended = None;
        self.change(|led| ended = led.shards.remove(&index));
        ended
    }

    /// The topic is gone.
    pub fn clear(&self) -> Vec<Arc<Shard>> {
        let mut epochs = self.epochs.lock();
        epochs.clear();
        let led = self.led.swap(Arc::default());
        led.shards.values().cloned().collect()
    }

    /// The caller holds `epochs`.
    fn change(&self, change: impl FnOnce(&mut Led)) {
        let mut led = Led::clone(&self.led.load());
        change(&mut led);
        self.led.store(Arc::new(led));
    }
}
