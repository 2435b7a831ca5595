//! Turns configured settings into the settings of the log and the coordinator.

use mainstem_coordinator::GroupConfig;
use mainstem_metadata::config::{BrokerConfig, CompressionType, Durability, KeyIndex, TimestampType, TopicConfig};
use mainstem_record::Codec;
use mainstem_store::{Compression, KeyIndexing, LogConfig};

pub(crate) fn log_config(topic: &TopicConfig, broker: &BrokerConfig) -> LogConfig {
    LogConfig {
        segment_bytes: topic.segment_bytes.max(0) as u32,
        segment_ms: topic.segment_ms,
        segment_jitter_ms: topic.segment_jitter_ms,
        segment_index_bytes: topic.segment_index_bytes.max(0) as u32,
        index_interval_bytes: topic.index_interval_bytes.max(0) as u32,
        max_message_bytes: topic.max_message_bytes.max(0) as u32,
        timestamp_type: match topic.timestamp_type {
            TimestampType::CreateTime => mainstem_record::TimestampType::CreateTime,
            TimestampType::LogAppendTime => mainstem_record::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: topic.timestamp_before_max_ms,
        timestamp_after_max_ms: topic.timestamp_after_max_ms,
        compression: compression(topic),
        cleanup_delete: topic.cleanup_delete,
        cleanup_compact: topic.cleanup_compact,
        delete_retention_ms: topic.delete_retention_ms,
        min_cleanable_dirty_ratio: topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        retention_ms: topic.retention_ms.unwrap_or(-1),
        retention_bytes: topic.retention_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        file_delete_delay_ms: topic.file_delete_delay_ms,
        flush_messages: topic.flush_messages,
        flush_ms: topic.flush_ms,
        durability: match topic.durability {
            Durability::Os => mainstem_store::Durability::Os,
            Durability::Disk => mainstem_store::Durability::Disk,
            Durability::Memory => mainstem_store::Durability::Memory,
        },
        key_indexing: match topic.key_index {
            KeyIndex::None => KeyIndexing::None,
            KeyIndex::Headers => KeyIndexing::Headers,
            KeyIndex::All => KeyIndexing::All,
        },
        preallocate: topic.preallocate,
        producer_id_expiration_ms: i64::from(broker.producer_state.expiration_ms),
    }
}

fn compression(topic: &TopicConfig) -> Compression {
    let (codec, level) = match topic.compression_type {
        CompressionType::Producer => return Compression::Producer,
        CompressionType::Uncompressed => (Codec::None, None),
        CompressionType::Gzip => (Codec::Gzip, Some(topic.compression_gzip_level).filter(|level| *level >= 0)),
        CompressionType::Snappy => (Codec::Snappy, None),
        CompressionType::Lz4 => (Codec::Lz4, Some(topic.compression_lz4_level)),
        CompressionType::Zstd => (Codec::Zstd, Some(topic.compression_zstd_level)),
    };
    Compression::Fixed { codec, level }
}

pub(crate) fn group_config(broker: &BrokerConfig) -> GroupConfig {
    GroupConfig {
        min_session_timeout_ms: broker.groups.min_session_timeout_ms,
        max_session_timeout_ms: broker.groups.max_session_timeout_ms,
        initial_rebalance_delay_ms: broker.groups.initial_rebalance_delay_ms,
        max_group_size: usize::try_from(broker.groups.max_size).unwrap_or(usize::MAX),
        offsets_retention_ms: broker.offsets.retention_ms,
        offsets_retention_check_interval_ms: broker.offsets.retention_check_interval_ms.max(0) as u64,
        max_offset_metadata: broker.offsets.metadata_max_bytes.max(0) as usize,
        ..GroupConfig::default()
    }
}
