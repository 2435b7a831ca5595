//! What DescribeConfigs shows: each key with its value, where the value comes from, and what it would fall back to.
//!
//! One rule differs from Kafka on purpose: when a topic's time comes from a server property in minutes or hours that
//! the operator has set, the entry says so. Kafka shows such a value as a default.

use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::definition::{ConfigDefinition, ConfigKind, UpdateMode};
use super::durability::{DURABILITY, Durability};
use super::table::{broker_config_definition, broker_config_definitions, topic_config_definitions};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    DynamicTopic,
    /// Set for this broker while running.
    DynamicBroker,
    /// Set for all brokers while running.
    DynamicDefaultBroker,
    /// From the configuration file.
    StaticBroker,
    Default,
}

impl ConfigSource {
    /// The number in DescribeConfigs.
    pub fn kafka_id(self) -> i8 {
        match self {
            ConfigSource::DynamicTopic => 1,
            ConfigSource::DynamicBroker => 2,
            ConfigSource::DynamicDefaultBroker => 3,
            ConfigSource::StaticBroker => 4,
            ConfigSource::Default => 5,
        }
    }
}

/// One thing a value could come from. The first of a list is what applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    pub name: &'static str,
    /// Null for a secret.
    pub value: Option<String>,
    pub source: ConfigSource,
}

/// One key of a resource, as DescribeConfigs shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: &'static str,
    /// Null for a secret, and where nothing is set and there is no default.
    pub value: Option<String>,
    pub source: ConfigSource,
    pub synonyms: Vec<ConfigSynonym>,
    pub kind: ConfigKind,
    pub read_only: bool,
    pub sensitive: bool,
    pub documentation: &'static str,
}

/// All settings of a topic with these overrides, sorted by name. A durability that is set and may not apply is not
/// shown as the value.
pub fn topic_config_entries(
    topic: &str,
    overrides: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Vec<ConfigEntry> {
    let visible = topic_config_definitions().iter().filter(|definition| !definition.internal);
    let entry = |definition: &'static ConfigDefinition| {
        let mut entry = topic_entry(definition, overrides.get(definition.name), broker);
        if entry.name == DURABILITY {
            entry.value = entry.value.map(|value| applied_durability(&value, topic, broker));
        }
        entry
    };
    visible.map(entry).collect()
}

fn applied_durability(value: &str, topic: &str, broker: &BrokerConfig) -> String {
    Durability::of(value.trim()).applied_to(topic, broker).name().to_string()
}

/// All server properties as this broker has them, sorted by name.
pub fn broker_config_entries(broker: &BrokerConfig) -> Vec<ConfigEntry> {
    let visible = broker_config_definitions().iter().filter(|definition| !definition.internal);
    let entry = |definition: &'static ConfigDefinition| {
        let mut synonyms = broker_synonyms(definition.name, time_family(definition.name), broker);
        // What stands before the first value of this very name is not shown, as in Kafka.
        let first = synonyms.iter().position(|synonym| synonym.name == definition.name).unwrap_or(synonyms.len());
        synonyms.drain(..first);
        let value = broker.value(definition.name).map(str::to_string);
        finish(definition, value, synonyms, definition.update_mode == UpdateMode::ReadOnly)
    };
    visible.map(entry).collect()
}

/// The settings of all brokers that were set while running (resource name ""): only those, as in Kafka.
pub fn cluster_default_config_entries(cluster_wide: &BTreeMap<String, String>) -> Vec<ConfigEntry> {
    let entry = |(name, value): (&String, &String)| {
        let definition = broker_config_definition(name)?;
        let source = ConfigSource::DynamicDefaultBroker;
        let synonyms = vec![ConfigSynonym { name: definition.name, value: Some(value.clone()), source }];
        Some(finish(definition, Some(value.clone()), synonyms, definition.update_mode == UpdateMode::ReadOnly))
    };
    cluster_wide.iter().filter_map(entry).collect()
}

fn topic_entry(definition: &'static ConfigDefinition, own: Option<&String>, broker: &BrokerConfig) -> ConfigEntry {
    let names: Vec<&'static str> = definition.synonyms.iter().map(|synonym| synonym.name).collect();
    let mut synonyms = names.first().map(|first| broker_synonyms(first, &names, broker)).unwrap_or_default();
    let value = match own {
        Some(value) => {
            let source = ConfigSource::DynamicTopic;
            synonyms.insert(0, ConfigSynonym { name: definition.name, value: Some(value.clone()), source });
            Some(value.clone())
        }
        None => broker.topic_default(definition),
    };
    finish(definition, value, synonyms, false)
}

fn finish(
    definition: &'static ConfigDefinition,
    value: Option<String>,
    mut synonyms: Vec<ConfigSynonym>,
    read_only: bool,
) -> ConfigEntry {
    let sensitive = definition.kind.is_sensitive();
    if sensitive {
        synonyms.iter_mut().for_each(|synonym| synonym.value = None);
    }
    ConfigEntry {
        name: definition.name,
        value: value.filter(|_| !sensitive),
        source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
        synonyms,
        kind: definition.kind,
        read_only,
        sensitive,
        documentation: definition.documentation,
    }
}

/// Layer by layer, within a layer in the order of the names. Leading defaults of other names are dropped, as in Kafka.
fn broker_synonyms(primary: &str, names: &[&'static str], broker: &BrokerConfig) -> Vec<ConfigSynonym> {
    let layers = [
        (ConfigSource::DynamicBroker, &broker.own),
        (ConfigSource::DynamicDefaultBroker, &broker.cluster_wide),
        (ConfigSource::StaticBroker, &broker.fixed),
    ];
    let mut synonyms = Vec::new();
    for (source, layer) in layers {
        let set = names.iter().filter_map(|name| layer.get(*name).map(|value| (*name, value.clone())));
        synonyms.extend(set.map(|(name, value)| ConfigSynonym { name, value: Some(value), source }));
    }
    for name in names {
        if let Some(value) = broker_config_definition(name).and_then(kafka_default) {
            synonyms.push(ConfigSynonym { name, value: Some(value.to_string()), source: ConfigSource::Default });
        }
    }
    let kept = synonyms.iter().position(|s| s.name == primary || s.source != ConfigSource::Default);
    kept.map(|first| synonyms.split_off(first)).unwrap_or_default()
}

/// These have no default in Kafka: a file must name them. Here they have one, which is not shown as Kafka's.
fn kafka_default(definition: &ConfigDefinition) -> Option<&'static str> {
    match definition.name {
        "node.id" | "process.roles" | "controller.listener.names" => None,
        _ => definition.default,
    }
}

/// Properties that say the same in different units, the strongest first.
fn time_family(name: &'static str) -> &'static [&'static str] {
    const FAMILIES: [&[&str]; 4] = [
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ];
    if let Some(family) = FAMILIES.iter().find(|family| family.contains(&name)) {
        return family;
    }
    broker_config_definition(name).map_or(&[], |definition| std::slice::from_ref(&definition.name))
}

#[cfg(test)]
#[path = "effective_tests.rs"]
mod tests;
