//! UpdateFeatures: the levels that the cluster works at.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mainstem_kafka_wire::metadata_records::{ClearElrRecord, ConfigRecord, FeatureLevelRecord, MetadataRecord};

use mainstem_types::NodeId;

use super::{Controller, Decision};
use crate::config::BrokerConfig;
use crate::image::{
    ConfigResource, ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, MetadataVersion, SUPPORTED_FEATURES,
};

const MIN_IN_SYNC: &str = "min.insync.replicas";
const ELIGIBLE_REPLICAS_SINCE: i16 = MetadataVersion::ELIGIBLE_LEADER_REPLICAS;
const NEEDS_DOWNGRADE: &str =
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.";

/// What a client allows with a new level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeKind {
    /// Kafka's number 1: the level does not fall.
    Upgrade,
    /// 2: the level may fall if nothing of the metadata is lost.
    SafeDowngrade,
    /// 3: the level may fall.
    UnsafeDowngrade,
}

impl UpgradeKind {
    /// From Kafka's number.
    pub fn from_kafka_id(id: i8) -> Option<Self> {
        Some(match id {
            1 => UpgradeKind::Upgrade,
            2 => UpgradeKind::SafeDowngrade,
            3 => UpgradeKind::UnsafeDowngrade,
            _ => return None,
        })
    }
}

/// One feature and the level that it shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    pub name: String,
    pub level: i16,
    /// Nothing: the client named a kind that there is not.
    pub kind: Option<UpgradeKind>,
}

/// Why no level is changed. Kafka: INVALID_UPDATE_VERSION (95).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateFeaturesError {
    #[error("Invalid update version {level} for feature {name}. {reason}")]
    Update { name: String, level: i16, reason: String },
    #[error("Unsupported metadata.version downgrade from {from} to {to}. {reason}")]
    MetadataVersion { from: i16, to: i16, reason: &'static str },
}

impl Controller {
    /// All updates or none. Of a feature that is named more than once the last update counts.
    pub fn update_features(
        &self,
        updates: &[FeatureUpdate],
        validate_only: bool,
        broker: &BrokerConfig,
    ) -> Decision<Result<(), UpdateFeaturesError>> {
        let wanted: BTreeMap<&str, &FeatureUpdate> =
            updates.iter().map(|update| (update.name.as_str(), update)).collect();
        for update in wanted.values() {
            if let Err(error) = self.check_update(update, &wanted, NodeId(broker.node_id)) {
                return Decision { records: Vec::new(), reply: Err(error) };
            }
        }
        let changed = wanted.values().filter(|update| self.level(&update.name) != update.level);
        let records = changed.flat_map(|update| self.level_records(update, broker)).collect();
        Decision { records: if validate_only { Vec::new() } else { records }, reply: Ok(()) }
    }

    fn level(&self, name: &str) -> i16 {
        match name {
            METADATA_VERSION => self.image.metadata_version().0,
            _ => self.image.features().get(name).copied().unwrap_or(0),
        }
    }

    fn check_update(
        &self,
        update: &FeatureUpdate,
        wanted: &BTreeMap<&str, &FeatureUpdate>,
        node: NodeId,
    ) -> Result<(), UpdateFeaturesError> {
        let refused = |reason: String| {
            Err(UpdateFeaturesError::Update { name: update.name.clone(), level: update.level, reason })
        };
        let (level, current) = (update.level, self.level(&update.name));
        let Some(kind) = update.kind else {
            return refused("The controller does not support the given upgrade type.".to_owned());
        };
        if level < 0 {
            return refused("A feature version cannot be less than 0.".to_owned());
        }
        match SUPPORTED_FEATURES.iter().find(|feature| feature.name == update.name) {
            None if level > 0 && level != current || current == 0 => {
                return refused(format!("Local controller {node} does not support this feature."));
            }
            Some(range) if !(range.min..=range.max).contains(&level) => {
                return refused(format!("Local controller {node} only supports versions {}-{}", range.min, range.max));
            }
            // What another broker left in the folder can stay as it is, or be put to rest.
            None | Some(_) => {}
        }
        if level < current && kind == UpgradeKind::Upgrade {
            return refused(NEEDS_DOWNGRADE.to_owned());
        }
        if level > current && kind != UpgradeKind::Upgrade {
            return refused("Can't downgrade to a newer version.".to_owned());
        }
        if update.name == METADATA_VERSION {
            return check_metadata_version(current, level, kind);
        }
        let version = wanted.get(METADATA_VERSION).map_or(self.level(METADATA_VERSION), |other| other.level);
        if level > 0 && !MetadataVersion(version).has_eligible_leader_replicas() {
            return refused(format!("It depends on {METADATA_VERSION} at level {ELIGIBLE_REPLICAS_SINCE} or higher."));
        }
        Ok(())
    }

    /// The new level, and what has to change with it.
    fn level_records(&self, update: &FeatureUpdate, broker: &BrokerConfig) -> Vec<MetadataRecord<'static>> {
        let mut records = Vec::new();
        if update.name == ELIGIBLE_LEADER_REPLICAS_VERSION {
            if update.level > 0 {
                records.extend(self.one_min_in_sync(broker));
            } else {
                // Nobody is eligible any more for having been in sync.
                records.push(ClearElrRecord::default().into());
            }
        }
        let name = Cow::Owned(update.name.clone());
        records.push(FeatureLevelRecord { name, feature_level: update.level }.into());
        records
    }

    /// With eligible replicas one `min.insync.replicas` holds for all brokers.
    fn one_min_in_sync(&self, broker: &BrokerConfig) -> Vec<MetadataRecord<'static>> {
        let record = |resource: &ConfigResource, value: Option<String>| ConfigRecord {
            resource_type: resource.kind,
            resource_name: Cow::Owned(resource.name.clone()),
            name: Cow::Borrowed(MIN_IN_SYNC),
            value: value.map(Cow::Owned),
        };
        let shared = ConfigResource::cluster_default();
        let is_set = |resource: &&ConfigResource| {
            resource.kind == ConfigResource::BROKER && self.image.configs(resource).contains_key(MIN_IN_SYNC)
        };
        let own = self.image.config_resources().filter(is_set).filter(|resource| **resource != shared);
        let mut records: Vec<MetadataRecord<'static>> = own.map(|resource| record(resource, None).into()).collect();
        if !is_set(&&shared) {
            let value = broker.log.topic_defaults.min_insync_replicas.to_string();
            records.push(record(&shared, Some(value)).into());
        }
        records
    }
}

/// A lower level must still have room for everything that a higher one has written.
fn check_metadata_version(from: i16, to: i16, kind: UpgradeKind) -> Result<(), UpdateFeaturesError> {
    let loses = (to + 1..=from).any(|level| MetadataVersion(level).changed_records());
    let reason = match kind {
        _ if !loses => return Ok(()),
        UpgradeKind::UnsafeDowngrade => "Unsafe metadata downgrade is not supported in this version.",
        _ => "Refusing to perform the requested downgrade because it might delete metadata information.",
    };
    Err(UpdateFeaturesError::MetadataVersion { from, to, reason })
}

#[cfg(test)]
#[path = "features_tests.rs"]
mod tests;
