//! The settings that a topic has on a broker: the topic's overrides first, then the broker's defaults.

use std::collections::BTreeMap;

use super::ConfigError;
use super::broker_config::BrokerConfig;
use super::durability::{DURABILITY, Durability, is_never_in_memory, not_forced, refused};
use super::table::topic_config_definition;
use super::topic_config::{CLEANUP_POLICY, Layout, NO_COMPACTION, TopicConfig};

impl TopicConfig {
    /// What a topic with these overrides has on a broker with this configuration.
    pub fn resolve(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<TopicConfig, ConfigError> {
        if overrides.is_empty() {
            return Ok(broker.log.topic_defaults.clone());
        }
        let resolved = Self::from_values(|definition| match overrides.get(definition.name) {
            Some(text) => Some(text.clone()),
            None => broker.topic_default(definition),
        })?;
        // A default that says compact came after the topic, and cannot be meant for it: its records stay.
        let can_compact = resolved.layout == Layout::Partition || overrides.contains_key(CLEANUP_POLICY);
        Ok(TopicConfig { cleanup_compact: resolved.cleanup_compact && can_compact, ..resolved })
    }

    /// Checks overrides of a topic as CreateTopics and IncrementalAlterConfigs must: known keys, valid values, no
    /// contradiction.
    pub fn validate(
        topic: &str,
        overrides: &BTreeMap<String, String>,
        broker: &BrokerConfig,
    ) -> Result<TopicConfig, ConfigError> {
        for (key, value) in overrides {
            let unknown = || ConfigError::UnknownTopicKey { key: key.clone() };
            topic_config_definition(key).ok_or_else(unknown)?.parse(value)?;
        }
        let resolved = Self::resolve(overrides, broker)?;
        if resolved.min_compaction_lag_ms > resolved.max_compaction_lag_ms {
            return Err(ConfigError::Conflict {
                key: "min.compaction.lag.ms".to_string(),
                value: resolved.min_compaction_lag_ms.to_string(),
                reason: format!("it is more than max.compaction.lag.ms ({})", resolved.max_compaction_lag_ms),
            });
        }
        if resolved.cleanup_compact && resolved.layout != Layout::Partition {
            return Err(ConfigError::Conflict {
                key: CLEANUP_POLICY.to_string(),
                value: "compact".to_string(),
                reason: NO_COMPACTION.to_string(),
            });
        }
        check_durability(topic, overrides, broker)?;
        if overrides.get("remote.storage.enable").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
            return Err(ConfigError::Conflict {
                key: "remote.storage.enable".to_string(),
                value: "true".to_string(),
                reason: "this broker has no remote storage".to_string(),
            });
        }
        Ok(resolved)
    }
}

impl Durability {
    /// The durability of a topic whose setting is this one. Where `memory` is not allowed, `os` applies, whatever the
    /// settings say.
    pub fn applied_to(self, topic: &str, broker: &BrokerConfig) -> Durability {
        match self {
            Durability::Memory if !broker.log.memory_forced || is_never_in_memory(topic) => Durability::Os,
            asked => asked,
        }
    }
}

/// Whether a topic may have this durability.
fn check_durability(
    topic: &str,
    overrides: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<(), ConfigError> {
    match overrides.get(DURABILITY).map(|value| value.trim()) {
        Some("memory") if is_never_in_memory(topic) => Err(refused(format!("{topic} belongs to the broker itself"))),
        Some("memory") if !broker.log.memory_forced => Err(refused(not_forced())),
        _ => Ok(()),
    }
}
