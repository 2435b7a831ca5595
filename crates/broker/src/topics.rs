//! The topics that this node serves, readable without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_metadata::config::TopicConfig;
use mainstem_metadata::image::{PartitionImage, TopicImage};
use mainstem_types::{NodeId, PartitionIndex, TopicId, is_internal_topic};

use crate::partition::Partition;

/// One topic with its partitions. A change makes a new value. Holders of the old value see the topic as it was.
pub struct Topic {
    pub name: Arc<str>,
    pub id: TopicId,
    /// By index, ascending. One whose log could not be opened is missing.
    pub partitions: Vec<Arc<Partition>>,
    pub config: Arc<TopicConfig>,
}

impl Topic {
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<Partition>> {
        let place = usize::try_from(index.0).ok()?;
        // Nearly always partition `i` is at place `i`.
        let at_place = self.partitions.get(place).filter(|partition| partition.index == index);
        at_place.or_else(|| self.partitions.iter().find(|partition| partition.index == index))
    }

    /// Topics that belong to the broker itself.
    pub fn is_internal(&self) -> bool {
        is_internal_topic(&self.name)
    }
}

/// All topics, by name and by id.
#[derive(Default, Clone)]
pub struct TopicMap {
    by_name: HashMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<TopicId, Arc<Topic>>,
}

impl TopicMap {
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn insert(&mut self, topic: Arc<Topic>) {
        self.by_id.insert(topic.id, Arc::clone(&topic));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    pub(crate) fn remove(&mut self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        // A topic that was made again under the name stays.
        if self.by_name.get(&topic.name).is_some_and(|current| current.id == id) {
            self.by_name.remove(&topic.name);
        }
        Some(topic)
    }
}

/// The partitions of a topic that this node holds. On one node these are all of them, numbered from 0 without gaps.
pub(crate) fn own_partitions(topic: &TopicImage, node: NodeId) -> impl Iterator<Item = (i32, &PartitionImage)> {
    topic
        .partitions
        .iter()
        .filter(move |(_, partition)| partition.replicas.contains(&node.0))
        .map(|(index, p)| (*index, p))
}
