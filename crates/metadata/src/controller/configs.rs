//! IncrementalAlterConfigs (KIP-339) and AlterConfigs, for topics, brokers and the cluster default.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use mainstem_kafka_wire::metadata_records::{ClearElrRecord, ConfigRecord, MetadataRecord};
use mainstem_types::{TopicNameError, validate_topic_name};

use super::{Controller, Decision};
use crate::config::{
    BrokerConfig, ConfigDefinition, ConfigError, ConfigKind, TopicConfig, broker_config_definition,
    topic_config_definition,
};
use crate::image::ConfigResource;

pub(super) const LAYOUT: &str = "mainstem.layout";
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// What to do with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterConfigOperation {
    /// Kafka's number 0.
    Set,
    /// 1: back to the default.
    Delete,
    /// 2: add the values that a list does not have yet.
    Append,
    /// 3: take out of a list.
    Subtract,
}

impl AlterConfigOperation {
    /// From Kafka's number.
    pub fn from_kafka_id(id: i8) -> Option<Self> {
        Some(match id {
            0 => AlterConfigOperation::Set,
            1 => AlterConfigOperation::Delete,
            2 => AlterConfigOperation::Append,
            3 => AlterConfigOperation::Subtract,
            _ => return None,
        })
    }
}

/// One change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterConfigOp {
    pub key: String,
    pub operation: AlterConfigOperation,
    pub value: Option<String>,
}

/// The changes to one resource: all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigAlteration {
    pub resource: ConfigResource,
    pub operations: Vec<AlterConfigOp>,
}

/// All that is to be set for one resource: what is not named goes back to what it falls back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigReplacement {
    pub resource: ConfigResource,
    pub values: Vec<(String, Option<String>)>,
}

/// Why a resource is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlterConfigError {
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION (3).
    #[error("The topic '{0}' does not exist.")]
    UnknownTopic(String),
    /// Kafka: INVALID_TOPIC_EXCEPTION (17).
    #[error("Topic name is invalid: {0}")]
    TopicName(#[from] TopicNameError),
    /// Kafka: INVALID_REQUEST (42).
    #[error("Default topic resources are not allowed.")]
    DefaultTopic,
    /// Kafka: INVALID_REQUEST (42).
    #[error("Unknown broker '{0}': name a registered broker's number, or nothing for all brokers")]
    UnknownBroker(String),
    /// Kafka: INVALID_REQUEST (42). Broker loggers, client metrics and groups have no settings here.
    #[error("cannot change resources of kind {0}")]
    UnsupportedResource(i8),
    /// Kafka: INVALID_REQUEST (42).
    #[error("the request names the resource more than once")]
    DuplicateResource,
    /// Kafka: INVALID_REQUEST (42).
    #[error("Error due to duplicate config keys: {0}")]
    DuplicateKey(String),
    /// Kafka: INVALID_REQUEST (42).
    #[error("Null value not supported for : {0}")]
    NullValue(String),
    /// Kafka: INVALID_CONFIG (40).
    #[error("Can't {operation} to key {key} because its type is not LIST.")]
    NotAList { key: String, operation: &'static str },
    /// Kafka: INVALID_CONFIG (40).
    #[error("{level}-level min.insync.replicas cannot be {what} while ELR is enabled.")]
    MinInSync { level: &'static str, what: &'static str },
    /// Kafka: INVALID_REQUEST (42). A server property that cannot change while running.
    #[error("Cannot update these configs dynamically: [{0}]")]
    ReadOnly(String),
    /// Kafka: INVALID_REQUEST (42).
    #[error("Cannot update these configs at default cluster level, broker id must be specified: [{0}]")]
    PerBrokerOnly(String),
    /// Kafka: INVALID_REQUEST (42). A server property's value is wrong, or the key is unknown.
    #[error("{0}")]
    BrokerValue(ConfigError),
    /// Kafka: INVALID_CONFIG (40). A topic setting's value is wrong, or the key is unknown.
    #[error(transparent)]
    TopicValue(#[from] ConfigError),
}

impl Controller {
    /// One result a resource, in the order of the request; all changes form one batch. A change to what is already so
    /// writes nothing. `broker` is the configuration of this node, against which results are checked.
    pub fn incremental_alter_configs(
        &self,
        alterations: &[ConfigAlteration],
        validate_only: bool,
        broker: &BrokerConfig,
    ) -> Decision<Vec<Result<(), AlterConfigError>>> {
        let mut records = Vec::new();
        let mut reply = Vec::with_capacity(alterations.len());
        let mut seen = BTreeSet::new();
        let again = alterations.iter().filter(|alteration| !seen.insert(&alteration.resource));
        let named_twice: BTreeSet<&ConfigResource> = again.map(|alteration| &alteration.resource).collect();
        for alteration in alterations {
            let result = if named_twice.contains(&alteration.resource) {
                Err(AlterConfigError::DuplicateResource)
            } else {
                self.alter(alteration, broker)
            };
            reply.push(result.map(|mut changes| records.append(&mut changes)));
        }
        if validate_only {
            records.clear();
        }
        Decision { records, reply }
    }

    /// As [`incremental_alter_configs`](Self::incremental_alter_configs), with the whole of what is to be set for each
    /// resource.
    pub fn replace_configs(
        &self,
        replacements: &[ConfigReplacement],
        validate_only: bool,
        broker: &BrokerConfig,
    ) -> Decision<Vec<Result<(), AlterConfigError>>> {
        let alterations: Vec<_> = replacements.iter().map(|replacement| self.alteration(replacement)).collect();
        self.incremental_alter_configs(&alterations, validate_only, broker)
    }

    /// What has to change so that only these values are set.
    fn alteration(&self, replacement: &ConfigReplacement) -> ConfigAlteration {
        // The layout of a topic cannot change: a request that does not name the layout leaves it as it is.
        let named = |key: &String| key == LAYOUT || replacement.values.iter().any(|(name, _)| name == key);
        let set = replacement.values.iter().map(|(key, value)| AlterConfigOp {
            key: key.clone(),
            operation: AlterConfigOperation::Set,
            value: value.clone(),
        });
        let current = self.image.configs(&replacement.resource);
        let gone = current.keys().filter(|key| !named(key)).map(|key| AlterConfigOp {
            key: key.clone(),
            operation: AlterConfigOperation::Delete,
            value: None,
        });
        ConfigAlteration { resource: replacement.resource.clone(), operations: set.chain(gone).collect() }
    }

    fn alter(
        &self,
        alteration: &ConfigAlteration,
        broker: &BrokerConfig,
    ) -> Result<Vec<MetadataRecord<'static>>, AlterConfigError> {
        let resource = &alteration.resource;
        self.check_resource(resource)?;
        check_config_operations(&alteration.operations)?;
        let current = self.image.configs(resource);
        let mut values: BTreeMap<String, String> = current.as_ref().clone();
        let mut changed: BTreeSet<&str> = BTreeSet::new();
        for operation in &alteration.operations {
            let key = operation.key.as_str();
            let old = values.get(key).cloned();
            let new = new_value(resource, operation, old.as_deref())?;
            self.check_min_in_sync(resource, key, new.as_deref())?;
            if new != old {
                changed.insert(key);
            }
            match new {
                Some(value) => values.insert(key.to_string(), value),
                None => values.remove(key),
            };
        }
        match resource.kind {
            ConfigResource::TOPIC => check_topic_values(&resource.name, current.as_ref(), &values, broker)?,
            _ => self.check_broker_values(resource, &alteration.operations, &values, broker)?,
        }
        let record = |key: &&str| change_record(resource, key, values.get(*key));
        let mut records: Vec<MetadataRecord<'static>> = changed.iter().map(record).collect();
        if changed.contains(MIN_IN_SYNC) && self.image.has_eligible_leader_replicas() {
            // The eligible replicas were chosen by the old minimum.
            let topic = if resource.kind == ConfigResource::TOPIC { resource.name.clone() } else { String::new() };
            records.push(ClearElrRecord { topic_name: Cow::Owned(topic) }.into());
        }
        Ok(records)
    }

    fn check_resource(&self, resource: &ConfigResource) -> Result<(), AlterConfigError> {
        match resource.kind {
            ConfigResource::TOPIC if resource.name.is_empty() => Err(AlterConfigError::DefaultTopic),
            ConfigResource::TOPIC => {
                validate_topic_name(&resource.name)?;
                match self.image.topic(&resource.name) {
                    Some(_) => Ok(()),
                    None => Err(AlterConfigError::UnknownTopic(resource.name.clone())),
                }
            }
            ConfigResource::BROKER if resource.name.is_empty() => Ok(()),
            ConfigResource::BROKER => {
                let known = resource.name.parse().is_ok_and(|id| self.image.broker(id).is_some());
                if known { Ok(()) } else { Err(AlterConfigError::UnknownBroker(resource.name.clone())) }
            }
            kind => Err(AlterConfigError::UnsupportedResource(kind)),
        }
    }

    /// With eligible leader replicas, one minimum holds for all brokers, and there always is one.
    fn check_min_in_sync(
        &self,
        resource: &ConfigResource,
        key: &str,
        new: Option<&str>,
    ) -> Result<(), AlterConfigError> {
        if key != MIN_IN_SYNC || resource.kind != ConfigResource::BROKER || !self.image.has_eligible_leader_replicas() {
            return Ok(());
        }
        if !resource.name.is_empty() {
            return Err(AlterConfigError::MinInSync { level: "Broker", what: "altered" });
        }
        match new {
            None => Err(AlterConfigError::MinInSync { level: "Cluster", what: "removed" }),
            Some(_) => Ok(()),
        }
    }

    fn check_broker_values(
        &self,
        resource: &ConfigResource,
        operations: &[AlterConfigOp],
        values: &BTreeMap<String, String>,
        broker: &BrokerConfig,
    ) -> Result<(), AlterConfigError> {
        for operation in operations {
            let (key, value) = (operation.key.as_str(), values.get(&operation.key).map(String::as_str));
            BrokerConfig::check_dynamic(key, value, !resource.name.is_empty()).map_err(broker_error)?;
            broker.check_change(key, value).map_err(broker_error)?;
        }
        // Together with everything else that is set, so that related limits are checked too.
        let cluster_default = self.image.configs(&ConfigResource::cluster_default());
        let nothing = BTreeMap::new();
        let own = self.image.configs(&ConfigResource::broker(broker.node_id));
        let result = match resource.name.as_str() {
            "" => broker.with_dynamic(values, own),
            name if name == broker.node_id.to_string() => broker.with_dynamic(cluster_default, values),
            _ => broker.with_dynamic(&nothing, values),
        };
        result.map(|_| ()).map_err(broker_error)
    }
}

fn broker_error(error: ConfigError) -> AlterConfigError {
    match error {
        ConfigError::ReadOnly { key } => AlterConfigError::ReadOnly(key),
        ConfigError::PerBrokerOnly { key } => AlterConfigError::PerBrokerOnly(key),
        other => AlterConfigError::BrokerValue(other),
    }
}

/// No key twice, no value missing.
pub fn check_config_operations(operations: &[AlterConfigOp]) -> Result<(), AlterConfigError> {
    let mut seen = BTreeSet::new();
    for operation in operations {
        if !seen.insert(operation.key.as_str()) {
            return Err(AlterConfigError::DuplicateKey(operation.key.clone()));
        }
        if operation.value.is_none() && operation.operation != AlterConfigOperation::Delete {
            return Err(AlterConfigError::NullValue(operation.key.clone()));
        }
    }
    Ok(())
}

fn check_topic_values(
    topic: &str,
    current: &BTreeMap<String, String>,
    values: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<(), AlterConfigError> {
    let new = TopicConfig::validate(topic, values, broker).map_err(AlterConfigError::TopicValue)?;
    // What an older broker took is no reason to refuse a better value.
    let fixed = TopicConfig::resolve(current, broker).map_or(new.layout, |old| old.layout);
    if new.layout != fixed {
        let value = values.get(LAYOUT).cloned().unwrap_or_else(|| "partition".to_string());
        let reason =
            "the layout is fixed when a topic is created; create another topic and copy the records".to_string();
        return Err(AlterConfigError::TopicValue(ConfigError::Conflict { key: LAYOUT.to_string(), value, reason }));
    }
    Ok(())
}

/// The value of the key after the operation; `None`: nothing is set.
fn new_value(
    resource: &ConfigResource,
    operation: &AlterConfigOp,
    old: Option<&str>,
) -> Result<Option<String>, AlterConfigError> {
    let definition = definition(resource, &operation.key);
    let verb = match operation.operation {
        AlterConfigOperation::Delete => return Ok(None),
        AlterConfigOperation::Set => return Ok(operation.value.clone()),
        AlterConfigOperation::Append => "APPEND",
        AlterConfigOperation::Subtract => "SUBTRACT",
    };
    let Some(definition) = definition.filter(|definition| definition.kind == ConfigKind::List) else {
        return Err(AlterConfigError::NotAList { key: operation.key.clone(), operation: verb });
    };
    let split = |text: &str| -> Vec<String> {
        text.split(',').map(|item| item.trim().to_string()).filter(|item| !item.is_empty()).collect()
    };
    let mut items = split(old.or(definition.default).unwrap_or_default());
    let given = match operation.value.as_deref().unwrap_or_default() {
        // Kafka takes it for one empty item.
        "" => vec![String::new()],
        given => split(given),
    };
    let before = items.clone();
    if operation.operation == AlterConfigOperation::Append {
        for item in given {
            if !items.contains(&item) {
                items.push(item);
            }
        }
    } else {
        items.retain(|item| !given.contains(item));
    }
    // A list that stays as it was stays unset if it was.
    if items == before { Ok(old.map(str::to_string)) } else { Ok(Some(items.join(","))) }
}

fn definition(resource: &ConfigResource, key: &str) -> Option<&'static ConfigDefinition> {
    if resource.kind == ConfigResource::TOPIC { topic_config_definition(key) } else { broker_config_definition(key) }
}

fn change_record(resource: &ConfigResource, key: &str, value: Option<&String>) -> MetadataRecord<'static> {
    MetadataRecord::Config(ConfigRecord {
        resource_type: resource.kind,
        resource_name: Cow::Owned(resource.name.clone()),
        name: Cow::Owned(key.to_string()),
        value: value.map(|value| Cow::Owned(value.clone())),
    })
}

#[cfg(test)]
#[path = "configs_tests.rs"]
mod tests;
