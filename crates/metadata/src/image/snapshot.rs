//! Records out: an image as the records that make it, in the order of Kafka's snapshots.

use std::borrow::Cow;

use mainstem_kafka_wire::metadata_records::client_quota_record::EntityData;
use mainstem_kafka_wire::metadata_records::{
    ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, MetadataRecord, ProducerIdsRecord, TopicRecord,
    ZkMigrationStateRecord,
};

use super::cluster::ClusterImage;
use super::features::METADATA_VERSION;

impl ClusterImage {
    /// Features (the metadata version first), nodes, topics, settings, quotas, producer ids, ACLs, users, tokens.
    ///
    /// Not possible within a transaction ([`ClusterImage::in_transaction`]): its records are not part of any snapshot.
    pub fn to_records(&self) -> Vec<MetadataRecord<'static>> {
        let mut records = Vec::new();
        self.feature_records(&mut records);
        for broker in self.brokers.values() {
            records.push(broker.record.clone().into());
        }
        for controller in self.controllers.values() {
            records.push(MetadataRecord::RegisterController(controller.as_ref().clone()));
        }
        self.topic_records(&mut records);
        self.config_records(&mut records);
        self.quota_records(&mut records);
        if let Some(ids) = self.producer_ids {
            let record = ProducerIdsRecord {
                broker_id: ids.broker_id,
                broker_epoch: ids.broker_epoch,
                next_producer_id: ids.next,
            };
            records.push(record.into());
        }
        records.extend(self.acls.values().map(|acl| MetadataRecord::AccessControlEntry(acl.clone())));
        records.extend(self.scram.values().map(|user| MetadataRecord::UserScramCredential(user.clone())));
        records.extend(self.tokens.values().map(|token| MetadataRecord::DelegationToken(token.clone())));
        records
    }

    fn feature_records(&self, records: &mut Vec<MetadataRecord<'static>>) {
        let is_version = |name: &str| name == METADATA_VERSION;
        let first = self.features.iter().filter(|(name, _)| is_version(name));
        let rest = self.features.iter().filter(|(name, _)| !is_version(name));
        for (name, level) in first.chain(rest) {
            let record = FeatureLevelRecord { name: Cow::Owned(name.clone()), feature_level: *level };
            records.push(record.into());
        }
        if let Some(zk_migration_state) = self.zk_migration_state {
            records.push(ZkMigrationStateRecord { zk_migration_state }.into());
        }
    }

    fn topic_records(&self, records: &mut Vec<MetadataRecord<'static>>) {
        let level = self.metadata_version();
        let (directories, eligible) = (level.has_directories(), level.has_eligible_leader_replicas());
        for topic in self.topics.values() {
            let record = TopicRecord { name: Cow::Owned(topic.name.to_string()), topic_id: topic.id };
            records.push(record.into());
            for (number, partition) in &topic.partitions {
                records.push(partition.to_record(topic.id, *number, directories, eligible).into());
            }
        }
    }

    fn config_records(&self, records: &mut Vec<MetadataRecord<'static>>) {
        for (resource, values) in self.configs.iter() {
            for (name, value) in values.iter() {
                let record = ConfigRecord {
                    resource_type: resource.kind,
                    resource_name: Cow::Owned(resource.name.clone()),
                    name: Cow::Owned(name.clone()),
                    value: Some(Cow::Owned(value.clone())),
                };
                records.push(record.into());
            }
        }
    }

    fn quota_records(&self, records: &mut Vec<MetadataRecord<'static>>) {
        for (entity, values) in self.quotas.iter() {
            for (key, value) in values {
                let item = |(kind, name): &(String, Option<String>)| EntityData {
                    entity_type: Cow::Owned(kind.clone()),
                    entity_name: name.clone().map(Cow::Owned),
                };
                let record = ClientQuotaRecord {
                    entity: entity.0.iter().map(item).collect(),
                    key: Cow::Owned(key.clone()),
                    value: *value,
                    remove: false,
                };
                records.push(record.into());
            }
        }
    }
}
