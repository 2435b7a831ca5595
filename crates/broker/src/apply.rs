//! Applies a changed image to what this node serves: takes on and deletes logs, elects leaders, exchanges settings.
//!
//! This runs on the controller thread, after the records are durable and before their reply leaves. A client that was
//! told that a topic exists can therefore write to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mainstem_metadata::config::{BrokerConfig, TopicConfig};
use mainstem_metadata::image::{ClusterImage, ConfigResource, ImageDelta, TopicImage};
use mainstem_store::{LogConfig, TopicLog};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, LeaderEpoch, PartitionIndex, TopicId, TopicPartition};

use crate::group_unit::{GroupUnit, follow_units};
use crate::node_state::NodeState;
use crate::partition::{Partition, PartitionStart};
use crate::partition_groups::{grouped_partition, placement};
use crate::settings::log_config;
use crate::topics::{Topic, TopicMap, own_partitions};

impl NodeState {
    /// Makes the node follow the image.
    pub(crate) fn follow(&self, image: &ClusterImage, delta: &ImageDelta) {
        let everything = self.follow_broker_settings(image, delta);
        let mut topics = TopicMap::clone(&self.topics.load());
        self.delete_topics(&mut topics, delta);
        let mut touched: BTreeSet<TopicId> = delta.topics_created.clone();
        touched.extend(delta.partitions_changed.iter().map(|(id, _)| *id));
        let changed = delta.configs_changed.iter().filter(|resource| resource.kind == ConfigResource::TOPIC);
        touched.extend(changed.filter_map(|resource| image.topic_id(&resource.name)));
        if everything {
            touched.extend(image.topics().map(|topic| topic.id));
        }
        let mut units = self.create_missing(image, &mut topics, &touched);
        for id in &touched {
            units.extend(self.follow_topic(image, &mut topics, *id));
        }
        // All partitions of a group take its role together.
        follow_units(image, units);
        self.topics.store(Arc::new(topics));
        // Last: a partition that the metadata shows can be written and read.
        self.image.store(Arc::new(image.clone()));
        if !delta.topics_deleted.is_empty() {
            let names: Vec<&str> = delta.topics_deleted.values().map(String::as_str).collect();
            if names.contains(&CONSUMER_OFFSETS_TOPIC) {
                self.consumer_groups.topic_deleted();
            }
            self.consumer_groups.topics_deleted(&names);
        }
        let offsets_topic = image.topic_id(CONSUMER_OFFSETS_TOPIC);
        if offsets_topic.is_some_and(|id| touched.contains(&id)) {
            self.follow_offsets_topic(image);
        }
    }

    /// Coordinators live where their partitions are led: each is loaded or ended as the image says. Epochs that are
    /// known already change nothing.
    pub(crate) fn follow_offsets_topic(&self, image: &ClusterImage) {
        let topics = self.topics.load();
        let Some(topic) = image.topic(CONSUMER_OFFSETS_TOPIC) else { return };
        let served = topics.by_id(topic.id);
        self.consumer_groups.topic_has(topic.partitions.len() as i32);
        for (index, state) in &topic.partitions {
            let (index, epoch) = (PartitionIndex(*index), LeaderEpoch(state.leader_epoch));
            match served.and_then(|served| served.partition(index)).filter(|_| state.leader == self.node.0) {
                Some(partition) => self.consumer_groups.partition_elected(partition, epoch),
                // Its log could not be created yet. The same epoch loads it as soon as it exists.
                None if state.leader == self.node.0 => self.consumer_groups.partition_resigned(index, None),
                None => self.consumer_groups.partition_resigned(index, Some(epoch)),
            }
        }
    }

    /// Whether settings of the broker changed, which are defaults of all topics.
    fn follow_broker_settings(&self, image: &ClusterImage, delta: &ImageDelta) -> bool {
        let own = ConfigResource::broker(self.node.0);
        let shared = ConfigResource::cluster_default();
        if !delta.configs_changed.contains(&own) && !delta.configs_changed.contains(&shared) {
            return false;
        }
        match self.config.load().with_dynamic(image.configs(&shared), image.configs(&own)) {
            Ok(config) => {
                let config = Arc::new(config);
                self.config.store(Arc::clone(&config));
                // After the new settings are there: see `Broker::watch_config`.
                if let Some(watcher) = self.config_watcher.get() {
                    watcher(&config);
                }
            }
            // Checked before it was recorded; a folder from elsewhere may hold what this broker does not take.
            Err(error) => tracing::warn!("cannot apply settings in the metadata: {error}"),
        }
        true
    }

    pub(crate) fn topic_config(&self, image: &ClusterImage, name: &str, broker: &BrokerConfig) -> Arc<TopicConfig> {
        let mut resolved = TopicConfig::resolve(image.topic_configs(name), broker).unwrap_or_else(|error| {
            tracing::warn!("topic {name}: cannot apply its settings: {error}");
            broker.log.topic_defaults.clone()
        });
        resolved.durability = resolved.durability.applied_to(name, broker);
        Arc::new(resolved)
    }

    fn delete_topics(&self, topics: &mut TopicMap, delta: &ImageDelta) {
        let gone: Vec<_> = delta.topics_deleted.keys().filter_map(|id| topics.remove(*id)).collect();
        let all = gone.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (&**topic, partition)));
        self.delete_partitions(&all.collect::<Vec<_>>());
    }

    /// Deletes the logs of partitions that nobody finds any more.
    fn delete_partitions(&self, gone: &[(&Topic, &Arc<Partition>)]) {
        if gone.is_empty() {
            return;
        }
        let delay = |topic: &Topic| Duration::from_millis(topic.config.file_delete_delay_ms.max(0) as u64);
        let (own, groups): (Vec<_>, Vec<_>) =
            gone.iter().partition(|(_, partition)| partition.log().as_group_partition().is_none());
        let logs = own.iter().map(|(topic, partition)| (partition.log(), delay(topic)));
        let mut deleted = self.folder.delete_own_logs(&logs.collect::<Vec<_>>());
        let logs = groups.iter().filter_map(|(_, partition)| partition.log().as_group_partition().cloned());
        deleted.extend(self.folder.delete_group_partitions(&logs.collect::<Vec<_>>()));
        for ((_, partition), deleted) in own.iter().chain(&groups).zip(deleted) {
            // After the log was closed: a woken waiter finds that it is gone.
            partition.was_deleted();
            if let Err(error) = deleted {
                tracing::error!("{}-{}: cannot delete its folder: {error}", partition.topic, partition.index);
            }
        }
    }

    /// The logs of partitions that this node holds and does not have yet. One that cannot be created is reported and
    /// not served; the others are. Gives the units that have to follow.
    fn create_missing(
        &self,
        image: &ClusterImage,
        topics: &mut TopicMap,
        touched: &BTreeSet<TopicId>,
    ) -> Vec<Arc<GroupUnit>> {
        let broker = self.config.load();
        let mut wanted = Vec::new();
        let mut places = Vec::new();
        let mut made: BTreeMap<TopicId, Vec<Arc<Partition>>> = BTreeMap::new();
        for topic in touched.iter().filter_map(|id| image.topic_by_id(*id)) {
            let known = topics.by_id(topic.id);
            let config = self.topic_config(image, &topic.name, &broker);
            let placement = placement(&config, &broker);
            let config = Arc::new(log_config(&config, &broker));
            for (index, _) in own_partitions(topic, self.node) {
                if known.is_some_and(|known| known.partition(PartitionIndex(index)).is_some()) {
                    continue;
                }
                if let Some(placement) = placement {
                    let one = grouped_partition(&topic.name, topic.id, index, &config, placement);
                    match self.folder.group_partition(&one) {
                        Ok(log) => made.entry(topic.id).or_default().extend(self.partition(topic, index, log)),
                        Err(error) => tracing::error!("{}-{index} is not served: {error}", topic.name),
                    }
                    continue;
                }
                let name = TopicPartition::new(Arc::clone(&topic.name), PartitionIndex(index));
                wanted.push((name, topic.id, Arc::clone(&config)));
                places.push((topic, index));
            }
        }
        let logs = self.new_logs(&wanted, |_| false).unwrap_or_else(|error| {
            tracing::error!("cannot create {} partitions: {error}", wanted.len());
            Vec::new()
        });
        for (log, (topic, index)) in logs.into_iter().zip(places) {
            match log {
                Ok(log) => made.entry(topic.id).or_default().extend(self.partition(topic, index, log)),
                Err(error) => tracing::error!("{}-{index} is not served: {error}", topic.name),
            }
        }
        let add = |(id, partitions)| self.add_partitions(image, topics, id, partitions, &broker);
        made.into_iter().flat_map(add).collect()
    }

    fn add_partitions(
        &self,
        image: &ClusterImage,
        topics: &mut TopicMap,
        id: TopicId,
        new: Vec<Arc<Partition>>,
        broker: &BrokerConfig,
    ) -> Vec<Arc<GroupUnit>> {
        let Some(topic) = image.topic_by_id(id) else { return Vec::new() };
        let mut partitions = topics.by_id(id).map(|known| known.partitions.clone()).unwrap_or_default();
        let config = self.topic_config(image, &topic.name, broker);
        let units = self.begin_roles(topic, &new, &config);
        partitions.extend(new);
        partitions.sort_by_key(|partition| partition.index);
        topics.insert(Arc::new(Topic { name: Arc::clone(&topic.name), id, partitions, config }));
        units
    }

    /// `None`: the group of its log is not open any more.
    pub(crate) fn partition(&self, topic: &TopicImage, index: i32, log: impl Into<TopicLog>) -> Option<Arc<Partition>> {
        let log: TopicLog = log.into();
        let unit = match log.as_group_partition() {
            Some(in_group) => match self.group_units.of(in_group, &self.folder, self.node) {
                None => {
                    tracing::error!("{} is not served: its group {} has left", log.partition(), log.folder().display());
                    return None;
                }
                unit => unit,
            },
            None => None,
        };
        let start = PartitionStart {
            topic: Arc::clone(&topic.name),
            topic_id: topic.id,
            index: PartitionIndex(index),
            node: self.node,
            // Records above it are committed again by the in-sync set: with one replica at its election.
            high_watermark: self.folder.high_watermark(log.partition()),
            space: self.space.clone(),
        };
        Some(Partition::new(log, start, unit))
    }

    /// Gives new partitions of a topic their roles, with what these depend on. Gives the units that have to follow.
    #[must_use = "units have to follow"]
    pub(crate) fn begin_roles(
        &self,
        topic: &TopicImage,
        partitions: &[Arc<Partition>],
        config: &TopicConfig,
    ) -> Vec<Arc<GroupUnit>> {
        partitions.iter().for_each(|partition| partition.set_min_in_sync(config.min_insync_replicas));
        self.follow_partitions(topic, partitions)
    }

    fn follow_partitions(&self, topic: &TopicImage, partitions: &[Arc<Partition>]) -> Vec<Arc<GroupUnit>> {
        let follow =
            |partition: &Arc<Partition>| partition.follow(topic.partitions.get(&partition.index.0)?, self.node);
        partitions.iter().filter_map(follow).collect()
    }

    /// Deletes this node's replicas of partitions that the metadata has given to others alone.
    fn leave_partitions(&self, image: &ClusterImage, topics: &mut TopicMap, id: TopicId) {
        let (Some(now), Some(served)) = (image.topic_by_id(id), topics.by_id(id).cloned()) else { return };
        let is_ours = |partition: &Arc<Partition>| {
            now.partitions.get(&partition.index.0).is_none_or(|state| state.replicas.contains(&self.node.0))
        };
        let (kept, gone): (Vec<_>, Vec<_>) = served.partitions.iter().cloned().partition(is_ours);
        if gone.is_empty() {
            return;
        }
        let (name, config) = (Arc::clone(&served.name), Arc::clone(&served.config));
        topics.insert(Arc::new(Topic { name, id, partitions: kept, config }));
        // Later look-ups do not find them.
        self.topics.store(Arc::new(topics.clone()));
        self.delete_partitions(&gone.iter().map(|partition| (&*served, partition)).collect::<Vec<_>>());
    }

    /// Leaders and settings of a topic that is served already.
    fn follow_topic(&self, image: &ClusterImage, topics: &mut TopicMap, id: TopicId) -> Vec<Arc<GroupUnit>> {
        self.leave_partitions(image, topics, id);
        let (Some(now), Some(served)) = (image.topic_by_id(id), topics.by_id(id)) else { return Vec::new() };
        let units = self.follow_partitions(now, &served.partitions);
        let broker = self.config.load();
        let config = self.topic_config(image, &now.name, &broker);
        // Some of it comes from the broker's own settings.
        let log: Arc<LogConfig> = Arc::new(log_config(&config, &broker));
        for partition in served.partitions.iter().filter(|partition| *partition.log().config() != *log) {
            partition.set_config(Arc::clone(&log));
        }
        if *config == *served.config {
            return units;
        }
        served.partitions.iter().for_each(|partition| partition.set_min_in_sync(config.min_insync_replicas));
        let topic = Topic { name: Arc::clone(&served.name), id, partitions: served.partitions.clone(), config };
        topics.insert(Arc::new(topic));
        units
    }
}
