//! The image and its look-ups.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_kafka_wire::metadata_records::{
    AccessControlEntryRecord, DelegationTokenRecord, MetadataRecord, RegisterControllerRecord,
    UserScramCredentialRecord,
};
use mainstem_types::{LeaderEpoch, Offset, TopicId};

use super::features::{ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, MetadataVersion};
use super::parts::{BrokerRegistration, ConfigResource, QuotaEntity};
use super::topics::{PartitionImage, TopicImage};

/// Which producer ids were given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIds {
    /// The first id of the next block.
    pub next: i64,
    /// The broker that took the last block, with its epoch then.
    pub broker_id: i32,
    pub broker_epoch: i64,
}

/// Everything that the metadata log says, as of one offset. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterImage {
    /// The last record that was replayed; [`Offset::NONE`] before the first.
    pub offset: Offset,
    /// The epoch of its batch.
    pub epoch: LeaderEpoch,
    pub(super) features: Arc<BTreeMap<String, i16>>,
    pub(super) brokers: Arc<BTreeMap<i32, Arc<BrokerRegistration>>>,
    pub(super) controllers: Arc<BTreeMap<i32, Arc<RegisterControllerRecord<'static>>>>,
    pub(super) topics: Arc<BTreeMap<TopicId, Arc<TopicImage>>>,
    pub(super) topic_ids: Arc<BTreeMap<Arc<str>, TopicId>>,
    pub(super) configs: Arc<BTreeMap<ConfigResource, Arc<BTreeMap<String, String>>>>,
    pub(super) quotas: Arc<BTreeMap<QuotaEntity, BTreeMap<String, f64>>>,
    pub(super) producer_ids: Option<ProducerIds>,
    pub(super) acls: Arc<BTreeMap<TopicId, AccessControlEntryRecord<'static>>>,
    pub(super) scram: Arc<BTreeMap<(i8, String), UserScramCredentialRecord<'static>>>,
    pub(super) tokens: Arc<BTreeMap<String, DelegationTokenRecord<'static>>>,
    pub(super) zk_migration_state: Option<i8>,
    /// Records of a transaction that has begun and not ended, with their offsets.
    pub(super) transaction: Option<Arc<Vec<(MetadataRecord<'static>, Offset)>>>,
    pub(super) no_configs: Arc<BTreeMap<String, String>>,
}

impl Default for ClusterImage {
    fn default() -> Self {
        ClusterImage {
            offset: Offset::NONE,
            epoch: LeaderEpoch::NONE,
            features: Arc::default(),
            brokers: Arc::default(),
            controllers: Arc::default(),
            topics: Arc::default(),
            topic_ids: Arc::default(),
            configs: Arc::default(),
            quotas: Arc::default(),
            producer_ids: None,
            acls: Arc::default(),
            scram: Arc::default(),
            tokens: Arc::default(),
            zk_migration_state: None,
            transaction: None,
            no_configs: Arc::default(),
        }
    }
}

impl ClusterImage {
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topic_ids.get(name).and_then(|id| self.topics.get(id))
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(&id)
    }

    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topic_ids.get(name).copied()
    }

    /// Sorted by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topic_ids.values().filter_map(|id| self.topics.get(id))
    }

    /// Sorted by name, from this name on: for answers in pages.
    pub fn topics_from<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<TopicImage>> {
        let from = std::ops::Bound::Included(name);
        let range = self.topic_ids.range::<str, _>((from, std::ops::Bound::Unbounded));
        range.filter_map(|(_, id)| self.topics.get(id))
    }

    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    pub fn partition(&self, topic: TopicId, partition: i32) -> Option<&PartitionImage> {
        self.topics.get(&topic).and_then(|topic| topic.partitions.get(&partition))
    }

    /// The settings of a resource; empty when nothing is set.
    pub fn configs(&self, resource: &ConfigResource) -> &Arc<BTreeMap<String, String>> {
        self.configs.get(resource).unwrap_or(&self.no_configs)
    }

    pub fn topic_configs(&self, name: &str) -> &Arc<BTreeMap<String, String>> {
        self.configs(&ConfigResource::topic(name))
    }

    /// Everything for which something is set.
    pub fn config_resources(&self) -> impl Iterator<Item = &ConfigResource> {
        self.configs.keys()
    }

    pub fn broker(&self, id: i32) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values()
    }

    /// Those that take part.
    pub fn active_brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| broker.is_active())
    }

    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// The level of `metadata.version`; the least one while nothing is finalized.
    pub fn metadata_version(&self) -> MetadataVersion {
        self.features.get(METADATA_VERSION).map_or(MetadataVersion::MINIMUM, |level| MetadataVersion(*level))
    }

    /// Whether a fresh cluster was set up in this log.
    pub fn is_bootstrapped(&self) -> bool {
        self.features.contains_key(METADATA_VERSION)
    }

    pub fn has_eligible_leader_replicas(&self) -> bool {
        self.metadata_version().has_eligible_leader_replicas()
            && self.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION).is_some_and(|level| *level > 0)
    }

    /// `None` before the first block was taken.
    pub fn producer_ids(&self) -> Option<ProducerIds> {
        self.producer_ids
    }

    /// A transaction has begun and not ended. At a start this means that its writer has died.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    pub fn acls(&self) -> impl Iterator<Item = &AccessControlEntryRecord<'static>> {
        self.acls.values()
    }

    pub fn scram_credentials(&self) -> impl Iterator<Item = &UserScramCredentialRecord<'static>> {
        self.scram.values()
    }

    pub fn client_quotas(&self) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<String, f64>)> {
        self.quotas.iter()
    }

    pub fn delegation_tokens(&self) -> impl Iterator<Item = &DelegationTokenRecord<'static>> {
        self.tokens.values()
    }
}
