//! Records in: the only way an image changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use mainstem_kafka_wire::metadata_records::{
    BrokerRegistrationChangeRecord, ClearElrRecord, ClientQuotaRecord, ConfigRecord, MetadataRecord,
    PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, RegisterBrokerRecord, TopicRecord,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use super::cluster::{ClusterImage, ProducerIds};
use super::delta::ImageDelta;
use super::error::ReplayError;
use super::parts::{BrokerRegistration, ConfigResource, QuotaEntity};
use super::topics::{PartitionImage, TopicImage};

impl ClusterImage {
    /// The image that a snapshot's records make. The snapshot holds everything up to and including `offset` (its file
    /// is named by the offset after that one), written in `epoch`.
    pub fn from_snapshot<'a>(
        records: impl IntoIterator<Item = MetadataRecord<'a>>,
        offset: Offset,
        epoch: LeaderEpoch,
    ) -> Result<ClusterImage, ReplayError> {
        let (mut image, mut delta) = (ClusterImage::default(), ImageDelta::default());
        for record in records {
            let next = image.offset.plus(1);
            image.replay(&record, next, epoch, &mut delta)?;
        }
        (image.offset, image.epoch) = (offset, epoch);
        Ok(image)
    }

    /// Applies the record that the log holds at `offset`, in a batch of `epoch`, and notes in `delta` what it changed.
    ///
    /// Offsets must grow; gaps are fine (control records are not replayed). After an error the image is as before.
    pub fn replay(
        &mut self,
        record: &MetadataRecord<'_>,
        offset: Offset,
        epoch: LeaderEpoch,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        if offset <= self.offset {
            return Err(ReplayError::Replayed { offset, applied: self.offset });
        }
        match (record, &mut self.transaction) {
            (MetadataRecord::BeginTransaction(_), Some(_)) => return Err(ReplayError::NestedTransaction { offset }),
            (MetadataRecord::BeginTransaction(_), pending @ None) => *pending = Some(Arc::default()),
            (MetadataRecord::EndTransaction(_) | MetadataRecord::AbortTransaction(_), None) => {
                return Err(ReplayError::NoTransaction { offset });
            }
            (MetadataRecord::EndTransaction(_), Some(pending)) => {
                let pending = Arc::clone(pending);
                self.commit_transaction(&pending, delta)?;
            }
            (MetadataRecord::AbortTransaction(_), pending) => *pending = None,
            (record, Some(pending)) => Arc::make_mut(pending).push((record.clone().into_owned(), offset)),
            (record, None) => self.apply(record, offset, delta)?,
        }
        self.offset = offset;
        self.epoch = epoch;
        Ok(())
    }

    fn commit_transaction(
        &mut self,
        pending: &[(MetadataRecord<'static>, Offset)],
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        // All or nothing: the changes go to copies first. A clone of an image costs a few reference counts.
        let (mut image, mut changes) = (self.clone(), delta.clone());
        image.transaction = None;
        for (record, offset) in pending {
            image.apply(record, *offset, &mut changes)?;
        }
        (*self, *delta) = (image, changes);
        Ok(())
    }

    fn apply(&mut self, record: &MetadataRecord<'_>, at: Offset, delta: &mut ImageDelta) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::Topic(record) => return self.topic_created(record, at, delta),
            MetadataRecord::Partition(record) => return self.partition_created(record, at, delta),
            MetadataRecord::PartitionChange(record) => return self.partition_changed(record, at, delta),
            MetadataRecord::RemoveTopic(record) => return self.topic_removed(record.topic_id, at, delta),
            MetadataRecord::ClearElr(record) => self.clear_eligible(record, delta),
            MetadataRecord::Config(record) => self.config_set(record, delta),
            MetadataRecord::FeatureLevel(record) => {
                delta.features_changed = true;
                let features = Arc::make_mut(&mut self.features);
                match record.feature_level {
                    0 => features.remove(record.name.as_ref()),
                    level => features.insert(record.name.to_string(), level),
                };
            }
            MetadataRecord::ProducerIds(record) => {
                delta.producer_ids_changed = true;
                self.producer_ids = Some(producer_ids(record));
            }
            MetadataRecord::NoOp(_) => {}
            MetadataRecord::ZkMigrationState(record) => self.zk_migration_state = Some(record.zk_migration_state),
            MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => {}
            other => return self.apply_node(other, at, delta),
        }
        Ok(())
    }

    /// Brokers and controllers.
    fn apply_node(
        &mut self,
        record: &MetadataRecord<'_>,
        at: Offset,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                delta.brokers_changed.insert(record.broker_id);
                let mut record: RegisterBrokerRecord<'static> = record.clone().into_owned();
                // A set, which Kafka writes in any order.
                record.features.sort_by(|one, other| one.name.cmp(&other.name));
                let id = record.broker_id;
                Arc::make_mut(&mut self.brokers).insert(id, Arc::new(BrokerRegistration { record }));
            }
            MetadataRecord::UnregisterBroker(record) => {
                self.broker_mut(record.broker_id, record.broker_epoch, at, delta)?;
                Arc::make_mut(&mut self.brokers).remove(&record.broker_id);
            }
            MetadataRecord::FenceBroker(record) => {
                self.broker_mut(record.id, record.epoch, at, delta)?.record.fenced = true;
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.broker_mut(record.id, record.epoch, at, delta)?.record.fenced = false;
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                change_registration(self.broker_mut(record.broker_id, record.broker_epoch, at, delta)?, record);
            }
            MetadataRecord::RegisterController(record) => {
                let mut record = record.clone().into_owned();
                record.features.sort_by(|one, other| one.name.cmp(&other.name));
                Arc::make_mut(&mut self.controllers).insert(record.controller_id, Arc::new(record));
            }
            MetadataRecord::UnregisterController(record) => {
                Arc::make_mut(&mut self.controllers).remove(&record.controller_id);
            }
            other => self.apply_security(other, delta),
        }
        Ok(())
    }

    /// Users, ACLs, quotas, tokens.
    fn apply_security(&mut self, record: &MetadataRecord<'_>, delta: &mut ImageDelta) {
        delta.security_changed = true;
        match record {
            MetadataRecord::AccessControlEntry(record) => {
                Arc::make_mut(&mut self.acls).insert(record.id, record.clone().into_owned());
            }
            MetadataRecord::RemoveAccessControlEntry(record) => {
                Arc::make_mut(&mut self.acls).remove(&record.id);
            }
            MetadataRecord::UserScramCredential(record) => {
                let key = (record.mechanism, record.name.to_string());
                Arc::make_mut(&mut self.scram).insert(key, record.clone().into_owned());
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                Arc::make_mut(&mut self.scram).remove(&(record.mechanism, record.name.to_string()));
            }
            MetadataRecord::DelegationToken(record) => {
                Arc::make_mut(&mut self.tokens).insert(record.token_id.to_string(), record.clone().into_owned());
            }
            MetadataRecord::RemoveDelegationToken(record) => {
                Arc::make_mut(&mut self.tokens).remove(record.token_id.as_ref());
            }
            MetadataRecord::ClientQuota(record) => self.quota_set(record),
            _ => {}
        }
    }

    fn topic_created(
        &mut self,
        record: &TopicRecord<'_>,
        offset: Offset,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        if let Some(existing) = self.topic_id(&record.name) {
            return Err(ReplayError::TopicExists { offset, name: record.name.to_string(), existing });
        }
        if let Some(topic) = self.topics.get(&record.topic_id) {
            let existing = topic.id;
            return Err(ReplayError::TopicExists { offset, name: topic.name.to_string(), existing });
        }
        let name: Arc<str> = record.name.as_ref().into();
        let topic = TopicImage { name: Arc::clone(&name), id: record.topic_id, partitions: BTreeMap::new() };
        Arc::make_mut(&mut self.topics).insert(record.topic_id, Arc::new(topic));
        Arc::make_mut(&mut self.topic_ids).insert(name, record.topic_id);
        delta.topics_created.insert(record.topic_id);
        Ok(())
    }

    fn topic_removed(&mut self, id: TopicId, offset: Offset, delta: &mut ImageDelta) -> Result<(), ReplayError> {
        let Some(topic) = Arc::make_mut(&mut self.topics).remove(&id) else {
            return Err(ReplayError::UnknownTopic { offset, topic_id: id });
        };
        Arc::make_mut(&mut self.topic_ids).remove(&topic.name);
        // Settings go with their topic: the log has no records that take them back one by one.
        let resource = ConfigResource::topic(&*topic.name);
        if self.configs.contains_key(&resource) {
            Arc::make_mut(&mut self.configs).remove(&resource);
        }
        delta.configs_changed.remove(&resource);
        delta.topic_deleted(id, &topic.name);
        Ok(())
    }

    fn partition_created(
        &mut self,
        record: &PartitionRecord,
        offset: Offset,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id, offset)?;
        topic.partitions.insert(record.partition_id, PartitionImage::from_record(record));
        delta.partitions_changed.insert((record.topic_id, PartitionIndex(record.partition_id)));
        Ok(())
    }

    fn partition_changed(
        &mut self,
        record: &PartitionChangeRecord,
        offset: Offset,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        let (topic_id, partition) = (record.topic_id, record.partition_id);
        let topic = self.topic_mut(topic_id, offset)?;
        let Some(image) = topic.partitions.get_mut(&partition) else {
            return Err(ReplayError::UnknownPartition { offset, topic_id, partition });
        };
        image.change(record);
        delta.partitions_changed.insert((topic_id, PartitionIndex(partition)));
        Ok(())
    }

    /// For one topic, or with an empty name for all.
    fn clear_eligible(&mut self, record: &ClearElrRecord<'_>, delta: &mut ImageDelta) {
        let chosen = |topic: &TopicImage| record.topic_name.is_empty() || *topic.name == *record.topic_name;
        let holds = |partition: &PartitionImage| {
            !partition.eligible_leader_replicas.is_empty() || !partition.last_known_eligible.is_empty()
        };
        let touched: Vec<TopicId> = self
            .topics
            .values()
            .filter(|topic| chosen(topic) && topic.partitions.values().any(holds))
            .map(|topic| topic.id)
            .collect();
        let topics = Arc::make_mut(&mut self.topics);
        for id in touched {
            let Some(topic) = topics.get_mut(&id) else { continue };
            for (number, partition) in &mut Arc::make_mut(topic).partitions {
                if holds(partition) {
                    partition.eligible_leader_replicas.clear();
                    partition.last_known_eligible.clear();
                    delta.partitions_changed.insert((id, PartitionIndex(*number)));
                }
            }
        }
    }

    fn config_set(&mut self, record: &ConfigRecord<'_>, delta: &mut ImageDelta) {
        let resource = ConfigResource { kind: record.resource_type, name: record.resource_name.to_string() };
        let configs = Arc::make_mut(&mut self.configs);
        match (&record.value, configs.entry(resource.clone())) {
            (Some(value), entry) => {
                let values = Arc::make_mut(entry.or_default());
                values.insert(record.name.to_string(), value.to_string());
            }
            (None, Entry::Occupied(mut entry)) => {
                let values = Arc::make_mut(entry.get_mut());
                values.remove(record.name.as_ref());
                if values.is_empty() {
                    entry.remove();
                }
            }
            (None, Entry::Vacant(_)) => {}
        }
        delta.configs_changed.insert(resource);
    }

    fn quota_set(&mut self, record: &ClientQuotaRecord<'_>) {
        let pair = |item: &mainstem_kafka_wire::metadata_records::client_quota_record::EntityData<'_>| {
            (item.entity_type.to_string(), item.entity_name.as_ref().map(|name| name.to_string()))
        };
        let mut entity: Vec<(String, Option<String>)> = record.entity.iter().map(pair).collect();
        entity.sort();
        let quotas = Arc::make_mut(&mut self.quotas);
        let entity = QuotaEntity(entity);
        if !record.remove {
            quotas.entry(entity).or_default().insert(record.key.to_string(), record.value);
        } else if let Some(values) = quotas.get_mut(&entity) {
            values.remove(record.key.as_ref());
            if values.is_empty() {
                quotas.remove(&entity);
            }
        }
    }

    fn topic_mut(&mut self, topic_id: TopicId, offset: Offset) -> Result<&mut TopicImage, ReplayError> {
        match Arc::make_mut(&mut self.topics).get_mut(&topic_id) {
            Some(topic) => Ok(Arc::make_mut(topic)),
            None => Err(ReplayError::UnknownTopic { offset, topic_id }),
        }
    }

    fn broker_mut(
        &mut self,
        broker_id: i32,
        epoch: i64,
        offset: Offset,
        delta: &mut ImageDelta,
    ) -> Result<&mut BrokerRegistration, ReplayError> {
        let Some(broker) = Arc::make_mut(&mut self.brokers).get_mut(&broker_id) else {
            return Err(ReplayError::UnknownBroker { offset, broker_id });
        };
        if broker.epoch() != epoch {
            return Err(ReplayError::BrokerEpoch { offset, broker_id, registered: broker.epoch(), given: epoch });
        }
        delta.brokers_changed.insert(broker_id);
        Ok(Arc::make_mut(broker))
    }
}

fn producer_ids(record: &ProducerIdsRecord) -> ProducerIds {
    ProducerIds { next: record.next_producer_id, broker_id: record.broker_id, broker_epoch: record.broker_epoch }
}

/// 1 turns a flag on, -1 turns `fenced` off, 0 leaves it.
fn change_registration(broker: &mut BrokerRegistration, record: &BrokerRegistrationChangeRecord) {
    match record.fenced {
        1 => broker.record.fenced = true,
        -1 => broker.record.fenced = false,
        _ => {}
    }
    if record.in_controlled_shutdown == 1 {
        broker.record.in_controlled_shutdown = true;
    }
    if !record.log_dirs.is_empty() {
        broker.record.log_dirs.clone_from(&record.log_dirs);
    }
    if let Some(cordoned) = &record.cordoned_log_dirs {
        broker.record.cordoned_log_dirs = Some(cordoned.clone());
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
