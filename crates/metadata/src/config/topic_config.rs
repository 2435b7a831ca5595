//! The settings of one topic, resolved and typed.

use std::collections::BTreeMap;

use super::definition::ConfigValue;
use super::durability::{DURABILITY, Durability};
use super::table::topic_config_definitions;
use super::{ConfigDefinition, ConfigError};

/// `mainstem.layout`: where the records of a topic lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Files of each partition, as Kafka has them.
    #[default]
    Partition,
    /// A few commit logs of the topic's own (`mainstem.groups`).
    Topic,
    /// The broker's common commit logs.
    Shared,
}

impl Layout {
    pub(crate) fn of(name: &str) -> Layout {
        match name {
            "topic" => Layout::Topic,
            "shared" => Layout::Shared,
            _ => Layout::Partition,
        }
    }

    /// As the setting names it.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Partition => "partition",
            Layout::Topic => "topic",
            Layout::Shared => "shared",
        }
    }
}

/// `compression.type`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompressionType {
    /// As the producer sent it.
    #[default]
    Producer,
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// `message.timestamp.type`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampType {
    #[default]
    CreateTime,
    LogAppendTime,
}

/// `mainstem.key.index`: under which keys the records of layouts `topic` and `shared` can be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyIndex {
    None,
    /// The record headers `KEYS` and `UNIQ_KEY`.
    #[default]
    Headers,
    /// The records' own keys, too.
    All,
}

/// All settings of one topic that Mainstem acts on. Times in milliseconds; `i64::MAX` is "never" where Kafka says so.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy` contains `delete`.
    pub cleanup_delete: bool,
    /// `cleanup.policy` contains `compact`.
    pub cleanup_compact: bool,
    pub compression_type: CompressionType,
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_zstd_level: i32,
    pub delete_retention_ms: i64,
    /// The wanted durability; see [`Durability::applied_to`].
    pub durability: Durability,
    pub file_delete_delay_ms: i64,
    /// `flush.messages`; `i64::MAX`: never for the count.
    pub flush_messages: i64,
    /// `flush.ms`; `i64::MAX`: never for the age.
    pub flush_ms: i64,
    /// `mainstem.groups`
    pub groups: i32,
    pub index_interval_bytes: i32,
    pub key_index: KeyIndex,
    pub layout: Layout,
    pub max_compaction_lag_ms: i64,
    pub max_decompressed_message_bytes: i32,
    pub max_message_bytes: i32,
    pub timestamp_after_max_ms: i64,
    pub timestamp_before_max_ms: i64,
    pub timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    /// `retention.bytes`; `None`: without limit (a negative value).
    pub retention_bytes: Option<u64>,
    /// `retention.ms`; `None`: for ever (-1).
    pub retention_ms: Option<i64>,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
}

pub(crate) const CLEANUP_POLICY: &str = "cleanup.policy";
pub(crate) const NO_COMPACTION: &str = "compaction exists with mainstem.layout=partition only";

impl TopicConfig {
    /// Kafka's defaults, with nothing set anywhere.
    pub fn kafka_defaults() -> Result<TopicConfig, ConfigError> {
        Self::from_values(|definition| definition.default.map(str::to_string))
    }

    pub(super) fn from_values(
        value_of: impl Fn(&ConfigDefinition) -> Option<String>,
    ) -> Result<TopicConfig, ConfigError> {
        let mut values = BTreeMap::new();
        for definition in topic_config_definitions() {
            if let Some(text) = value_of(definition) {
                values.insert(definition.name, definition.parse(&text)?);
            }
        }
        Ok(Self::from_parsed(&Values(values)))
    }

    fn from_parsed(values: &Values) -> TopicConfig {
        let policy = values.list(CLEANUP_POLICY);
        TopicConfig {
            cleanup_delete: policy.iter().any(|item| item == "delete"),
            cleanup_compact: policy.iter().any(|item| item == "compact"),
            compression_type: compression(values.text("compression.type")),
            compression_gzip_level: values.int("compression.gzip.level"),
            compression_lz4_level: values.int("compression.lz4.level"),
            compression_zstd_level: values.int("compression.zstd.level"),
            delete_retention_ms: values.long("delete.retention.ms"),
            durability: Durability::of(values.text(DURABILITY)),
            file_delete_delay_ms: values.long("file.delete.delay.ms"),
            flush_messages: values.long("flush.messages"),
            flush_ms: values.long("flush.ms"),
            groups: values.int("mainstem.groups"),
            index_interval_bytes: values.int("index.interval.bytes"),
            key_index: match values.text("mainstem.key.index") {
                "none" => KeyIndex::None,
                "all" => KeyIndex::All,
                _ => KeyIndex::Headers,
            },
            layout: Layout::of(values.text("mainstem.layout")),
            max_compaction_lag_ms: values.long("max.compaction.lag.ms"),
            max_decompressed_message_bytes: values.int("max.decompressed.message.bytes"),
            max_message_bytes: values.int("max.message.bytes"),
            timestamp_after_max_ms: values.long("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: values.long("message.timestamp.before.max.ms"),
            timestamp_type: match values.text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_cleanable_dirty_ratio: values.real("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: values.long("min.compaction.lag.ms"),
            min_insync_replicas: values.int("min.insync.replicas"),
            preallocate: values.flag("preallocate"),
            retention_bytes: u64::try_from(values.long("retention.bytes")).ok(),
            retention_ms: Some(values.long("retention.ms")).filter(|value| *value >= 0),
            segment_bytes: values.int("segment.bytes"),
            segment_index_bytes: values.int("segment.index.bytes"),
            segment_jitter_ms: values.long("segment.jitter.ms"),
            segment_ms: values.long("segment.ms"),
        }
    }
}

fn compression(text: &str) -> CompressionType {
    match text {
        "uncompressed" => CompressionType::Uncompressed,
        "gzip" => CompressionType::Gzip,
        "snappy" => CompressionType::Snappy,
        "lz4" => CompressionType::Lz4,
        "zstd" => CompressionType::Zstd,
        _ => CompressionType::Producer,
    }
}

/// Values that were parsed by their definitions, so each has the type its key has.
pub(super) struct Values(pub BTreeMap<&'static str, ConfigValue>);

impl Values {
    pub fn long(&self, key: &str) -> i64 {
        match self.0.get(key) {
            Some(ConfigValue::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// For keys of type INT and SHORT: parsing has checked that the value fits.
    pub fn int(&self, key: &str) -> i32 {
        i32::try_from(self.long(key)).unwrap_or(i32::MAX)
    }

    pub fn real(&self, key: &str) -> f64 {
        match self.0.get(key) {
            Some(ConfigValue::Double(value)) => *value,
            _ => 0.0,
        }
    }

    pub fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&ConfigValue::Boolean(true))
    }

    pub fn text(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(ConfigValue::Text(text)) => text,
            _ => "",
        }
    }

    pub fn list(&self, key: &str) -> &[String] {
        match self.0.get(key) {
            Some(ConfigValue::List(items)) => items,
            _ => &[],
        }
    }
}

#[cfg(test)]
#[path = "topic_config_tests.rs"]
mod tests;
