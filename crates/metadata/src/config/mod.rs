//! Every configuration key: Kafka's topic settings, Kafka's server properties, and ours, each in one table
//! (`table.rs`).
//!
//! A topic setting has the value of the topic, else what the server properties it is a synonym of say, else the
//! default. A server property has the value set while running for this broker, else the one set for the cluster, else
//! the one of the configuration file, else the default. Keys are case-sensitive.

mod broker_config;
mod definition;
mod durability;
mod effective;
mod error;
mod listeners;
mod nearest;
mod section_values;
mod sections;
mod table;
mod topic_config;
mod topic_resolution;
mod without_effect;

pub use broker_config::{BrokerConfig, ConfigWarning};
pub use definition::{ConfigDefinition, ConfigKind, ConfigValue, Effect, Synonym, UpdateMode, Validator};
pub use durability::Durability;
pub use effective::{
    ConfigEntry, ConfigSource, ConfigSynonym, broker_config_entries, cluster_default_config_entries,
    topic_config_entries,
};
pub use error::ConfigError;
pub use listeners::{Listener, SecurityProtocol};
pub use nearest::nearest_setting;
pub use sections::{
    CleanerConfig, ConnectionConfig, FetchConfig, GroupConfig, LogConfig, MetadataLogConfig, OffsetsConfig,
    ProducerStateConfig, ThreadConfig, TopicCreationConfig,
};
pub use table::{
    broker_config_definition, broker_config_definitions, topic_config_definition, topic_config_definitions,
};
pub(crate) use topic_config::{CLEANUP_POLICY, NO_COMPACTION};
pub use topic_config::{CompressionType, KeyIndex, Layout, TimestampType, TopicConfig};

pub use without_effect::reason_without_effect;
