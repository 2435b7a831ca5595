//! What changed between two images, for the broker to act on.

use std::collections::{BTreeMap, BTreeSet};

use mainstem_types::{PartitionIndex, TopicId};

use super::parts::ConfigResource;

/// Collects what replayed records changed. Empty it by taking it: `std::mem::take`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageDelta {
    pub topics_created: BTreeSet<TopicId>,
    /// With the names they had. A topic that came and went within one delta is in neither set.
    pub topics_deleted: BTreeMap<TopicId, String>,
    /// New partitions and those whose leader, epoch, replicas or in-sync set changed.
    pub partitions_changed: BTreeSet<(TopicId, PartitionIndex)>,
    pub configs_changed: BTreeSet<ConfigResource>,
    /// Registered, unregistered, fenced or unfenced.
    pub brokers_changed: BTreeSet<i32>,
    pub features_changed: bool,
    pub producer_ids_changed: bool,
    /// Users, ACLs, quotas, delegation tokens.
    pub security_changed: bool,
}

impl ImageDelta {
    pub fn is_empty(&self) -> bool {
        *self == ImageDelta::default()
    }

    pub(super) fn topic_deleted(&mut self, id: TopicId, name: &str) {
        self.partitions_changed.retain(|(topic, _)| *topic != id);
        if !self.topics_created.remove(&id) {
            self.topics_deleted.insert(id, name.to_string());
        }
    }
}
