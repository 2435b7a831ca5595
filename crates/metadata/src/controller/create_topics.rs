//! CreateTopics: any number of topics, one batch of records.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use mainstem_kafka_wire::metadata_records::{ConfigRecord, MetadataRecord, TopicRecord};
use mainstem_types::{CLUSTER_METADATA_TOPIC, CONSUMER_OFFSETS_TOPIC, TopicId, TopicNameError, validate_topic_name};

use super::configs::LAYOUT;
use super::group_epochs::GroupEpochs;
use super::{AssignmentError, Controller, Decision, MAX_PARTITIONS_PER_REQUEST};
use crate::config::{
    BrokerConfig, CLEANUP_POLICY, ConfigEntry, ConfigError, Layout, NO_COMPACTION, TopicConfig, topic_config_entries,
};
use crate::image::ConfigResource;

/// A requested topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    /// -1: `num.partitions`.
    pub partitions: i32,
    /// -1: `default.replication.factor`.
    pub replication_factor: i16,
    /// Partition and its brokers. When given, both counts are -1.
    pub assignments: Vec<(i32, Vec<i32>)>,
    pub configs: Vec<(String, Option<String>)>,
}

impl NewTopic {
    /// With the broker's defaults for everything.
    pub fn named(name: impl Into<String>) -> Self {
        NewTopic {
            name: name.into(),
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// A topic that was created, or would be.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedTopic {
    pub id: TopicId,
    pub partitions: i32,
    pub replication_factor: i16,
    /// All settings, as DescribeConfigs would show them.
    pub configs: Vec<ConfigEntry>,
}

/// Why a topic is not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateTopicError {
    /// Kafka: INVALID_TOPIC_EXCEPTION (17).
    #[error("Topic name is invalid: {0}")]
    Name(#[from] TopicNameError),
    /// Kafka: INVALID_TOPIC_EXCEPTION (17). `.` and `_` are the same in metric names.
    #[error("Topic '{name}' collides with existing topic: {existing}")]
    Collision { name: String, existing: String },
    /// Kafka: TOPIC_ALREADY_EXISTS (36).
    #[error("Topic '{0}' already exists.")]
    Exists(String),
    /// Kafka: INVALID_REQUEST (42).
    #[error("Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.")]
    Prohibited,
    /// Kafka: INVALID_REQUEST (42).
    #[error("Found multiple entries for this topic.")]
    Duplicate,
    /// Kafka: INVALID_REQUEST (42).
    #[error("A manual partition assignment was specified, but {0} was not set to -1.")]
    CountBesideAssignment(&'static str),
    /// Kafka: INVALID_PARTITIONS (37).
    #[error("Number of partitions was set to an invalid non-positive value.")]
    Partitions,
    /// Kafka: INVALID_REPLICATION_FACTOR (38).
    #[error("Replication factor must be larger than 0, or -1 to use the default value.")]
    ReplicationFactor,
    /// Kafka: INVALID_REPLICATION_FACTOR (38).
    #[error(
        "Unable to replicate the partition {wanted} time(s): The target replication factor of {wanted} cannot be \
         reached because only {brokers} broker(s) are registered or some brokers have all their log directories \
         cordoned."
    )]
    TooFewBrokers { wanted: i16, brokers: usize },
    /// Kafka: INVALID_REPLICA_ASSIGNMENT (39).
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// Kafka: INVALID_CONFIG (40).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Kafka: POLICY_VIOLATION (44).
    #[error("Excessively large number of partitions per request: the limit is {MAX_PARTITIONS_PER_REQUEST}.")]
    TooManyPartitions,
}

/// `__consumer_offsets` as Kafka creates it; its replicas are limited to the brokers there are.
pub fn offsets_topic(broker: &BrokerConfig, active_brokers: usize) -> NewTopic {
    let wanted = usize::try_from(broker.offsets.topic_replication_factor).unwrap_or(1);
    let set = |key: &str, value: String| (key.to_string(), Some(value));
    NewTopic {
        name: CONSUMER_OFFSETS_TOPIC.to_string(),
        partitions: broker.offsets.topic_partitions,
        replication_factor: i16::try_from(wanted.min(active_brokers).max(1)).unwrap_or(1),
        assignments: Vec::new(),
        configs: vec![
            set("compression.type", "producer".to_string()),
            set(CLEANUP_POLICY, "compact".to_string()),
            set("segment.bytes", broker.offsets.topic_segment_bytes.to_string()),
        ],
    }
}

/// The parts that the topics of one request share.
struct Request<'c> {
    collisions: Collisions,
    partitions_left: usize,
    epochs: GroupEpochs<'c>,
}

/// Names in which `.` became `_`, with the name that has them.
struct Collisions(HashMap<String, String>);

impl Controller {
    /// One result a topic, in the order of the request. The records of all good topics form one batch; with
    /// `validate_only` there are none. `new_id` draws a random id for each topic.
    pub fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
        broker: &BrokerConfig,
        new_id: &mut dyn FnMut() -> TopicId,
    ) -> Decision<Vec<Result<CreatedTopic, CreateTopicError>>> {
        let mut records = Vec::new();
        let mut reply = Vec::with_capacity(topics.len());
        let mut named: HashMap<&str, usize> = HashMap::new();
        topics.iter().for_each(|topic| *named.entry(&topic.name).or_default() += 1);
        let (collisions, epochs) = (self.collisions(topics), GroupEpochs::new(self));
        let mut request = Request { collisions, partitions_left: MAX_PARTITIONS_PER_REQUEST, epochs };
        for (index, topic) in topics.iter().enumerate() {
            let result = if named.get(topic.name.as_str()).is_some_and(|count| *count > 1) {
                Err(CreateTopicError::Duplicate)
            } else {
                self.create_topic(topic, index, broker, &mut request, new_id)
            };
            reply.push(result.map(|(created, mut its_records)| {
                records.append(&mut its_records);
                created
            }));
        }
        if validate_only {
            records.clear();
        }
        Decision { records, reply }
    }

    fn create_topic(
        &self,
        topic: &NewTopic,
        index: usize,
        broker: &BrokerConfig,
        request: &mut Request<'_>,
        new_id: &mut dyn FnMut() -> TopicId,
    ) -> Result<(CreatedTopic, Vec<MetadataRecord<'static>>), CreateTopicError> {
        self.check_name(&topic.name, &request.collisions)?;
        let mut overrides = overrides(topic)?;
        fix_layout(&topic.name, &mut overrides, broker)?;
        let config = TopicConfig::validate(&topic.name, &overrides, broker)?;
        check_inherited_policy(&overrides, &config, broker)?;
        let replicas = self.replicas(topic, index, broker, request.partitions_left)?;
        request.partitions_left -= replicas.len();
        request.collisions.add(&topic.name);

        let id = new_id();
        let mut records = vec![TopicRecord { name: Cow::Owned(topic.name.clone()), topic_id: id }.into()];
        records.extend(overrides.iter().map(|(key, value)| config_record(&topic.name, key, value)));
        let replication_factor = replicas.first().map_or(0, Vec::len);
        let created = CreatedTopic {
            id,
            partitions: i32::try_from(replicas.len()).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
            configs: topic_config_entries(&topic.name, &overrides, broker),
        };
        records.extend((0..).zip(replicas).map(|(number, replicas)| {
            let mut record = self.partition_record(id, number, replicas);
            if config.layout != Layout::Partition {
                record.leader_epoch = request.epochs.of(record.leader);
            }
            record.into()
        }));
        Ok((created, records))
    }

    fn check_name(&self, name: &str, collisions: &Collisions) -> Result<(), CreateTopicError> {
        if name == CLUSTER_METADATA_TOPIC {
            return Err(CreateTopicError::Prohibited);
        }
        validate_topic_name(name)?;
        if self.image.topic(name).is_some() {
            return Err(CreateTopicError::Exists(name.to_string()));
        }
        match collisions.with(name) {
            Some(existing) => Err(CreateTopicError::Collision { name: name.to_string(), existing: existing.clone() }),
            None => Ok(()),
        }
    }

    /// The replicas of each partition, from 0 on.
    fn replicas(
        &self,
        topic: &NewTopic,
        index: usize,
        broker: &BrokerConfig,
        partitions_left: usize,
    ) -> Result<Vec<Vec<i32>>, CreateTopicError> {
        if !topic.assignments.is_empty() {
            return self.named_replicas(topic, partitions_left);
        }
        let factor = match topic.replication_factor {
            -1 => i16::try_from(broker.topics.replication_factor).unwrap_or(i16::MAX),
            factor if factor > 0 => factor,
            _ => return Err(CreateTopicError::ReplicationFactor),
        };
        let partitions = match topic.partitions {
            -1 => broker.topics.num_partitions,
            partitions if partitions > 0 => partitions,
            _ => return Err(CreateTopicError::Partitions),
        };
        if usize::try_from(partitions).is_ok_and(|count| count > partitions_left) {
            return Err(CreateTopicError::TooManyPartitions);
        }
        let brokers = self.image.active_brokers().count();
        let too_few = || CreateTopicError::TooFewBrokers { wanted: factor, brokers };
        let count = usize::try_from(factor).unwrap_or(0);
        let first = self.image.topic_count() + index;
        (0..partitions).map(|number| self.place(first, number, count).ok_or_else(too_few)).collect()
    }

    fn named_replicas(&self, topic: &NewTopic, partitions_left: usize) -> Result<Vec<Vec<i32>>, CreateTopicError> {
        if topic.replication_factor != -1 {
            return Err(CreateTopicError::CountBesideAssignment("replication factor"));
        }
        if topic.partitions != -1 {
            return Err(CreateTopicError::CountBesideAssignment("numPartitions"));
        }
        if topic.assignments.len() > partitions_left {
            return Err(CreateTopicError::TooManyPartitions);
        }
        let mut sorted: Vec<&(i32, Vec<i32>)> = topic.assignments.iter().collect();
        sorted.sort_by_key(|(number, _)| *number);
        let mut replicas: Vec<Vec<i32>> = Vec::with_capacity(sorted.len());
        for (expected, (number, brokers)) in (0..).zip(sorted) {
            self.check_assignment(brokers, replicas.first().map(Vec::len))?;
            if *number != expected {
                return Err(AssignmentError::NotConsecutive.into());
            }
            replicas.push(brokers.clone());
        }
        Ok(replicas)
    }

    /// Only built when a wanted name can collide: it looks at all topics once for the whole request.
    fn collisions(&self, topics: &[NewTopic]) -> Collisions {
        let mut collisions = Collisions(HashMap::new());
        if topics.iter().any(|topic| can_collide(&topic.name)) {
            self.image.topics().for_each(|topic| collisions.add(&topic.name));
        }
        collisions
    }
}

impl Collisions {
    fn add(&mut self, name: &str) {
        if can_collide(name) {
            self.0.insert(name.replace('.', "_"), name.to_string());
        }
    }

    fn with(&self, name: &str) -> Option<&String> {
        if can_collide(name) { self.0.get(&name.replace('.', "_")) } else { None }
    }
}

fn can_collide(name: &str) -> bool {
    name.contains(['.', '_'])
}

fn overrides(topic: &NewTopic) -> Result<BTreeMap<String, String>, ConfigError> {
    let value = |(key, value): &(String, Option<String>)| match value {
        Some(value) => Ok((key.clone(), value.clone())),
        None => Err(ConfigError::NullValue { key: key.clone() }),
    };
    topic.configs.iter().map(value).collect()
}

/// Stores the layout that the broker gives to a topic that names none. It stays when the broker's default changes.
/// Compaction exists in one layout only.
fn fix_layout(topic: &str, overrides: &mut BTreeMap<String, String>, broker: &BrokerConfig) -> Result<(), ConfigError> {
    let layout = broker.topics.layout;
    if layout == Layout::Partition || overrides.contains_key(LAYOUT) {
        return Ok(());
    }
    if !TopicConfig::validate(topic, overrides, broker)?.cleanup_compact {
        overrides.insert(LAYOUT.to_string(), layout.name().to_string());
    }
    Ok(())
}

/// Nobody is to wait for a compaction that the broker's default promises.
fn check_inherited_policy(
    overrides: &BTreeMap<String, String>,
    config: &TopicConfig,
    broker: &BrokerConfig,
) -> Result<(), ConfigError> {
    let inherits = !overrides.contains_key(CLEANUP_POLICY) && broker.log.topic_defaults.cleanup_compact;
    if !inherits || config.layout == Layout::Partition {
        return Ok(());
    }
    let reason =
        format!("it is the brokers' default, and {NO_COMPACTION}: give the topic a {CLEANUP_POLICY} of its own");
    Err(ConfigError::Conflict { key: CLEANUP_POLICY.to_string(), value: "compact".to_string(), reason })
}

pub(super) fn config_record(topic: &str, key: &str, value: &str) -> MetadataRecord<'static> {
    MetadataRecord::Config(ConfigRecord {
        resource_type: ConfigResource::TOPIC,
        resource_name: Cow::Owned(topic.to_string()),
        name: Cow::Owned(key.to_string()),
        value: Some(Cow::Owned(value.to_string())),
    })
}

#[cfg(test)]
#[path = "create_topics_tests.rs"]
mod tests;
