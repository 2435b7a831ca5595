//! The settings of one log, under the names of Kafka's topic configs.

use mainstem_record::{Codec, TimestampType};

/// When an append counts as done (`mainstem.durability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// In the page cache: survives a killed process, not a power cut. Kafka's way.
    #[default]
    Os,
    /// After `fdatasync`, combined over everything that waits.
    Disk,
    /// In the memory of this process, which is written to the page cache soon afterwards: a killed process loses the
    /// newest records.
    Memory,
}

/// Under which keys records can be looked up (`mainstem.key.index`). In layout `partition` there is an index with `All`
/// alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyIndexing {
    None,
    /// The words of the record header `KEYS`, and the record header `UNIQ_KEY`: RocketMQ's.
    #[default]
    Headers,
    /// The records' own keys too, where they are text.
    All,
}

/// How the broker treats the codec of a batch (`compression.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// The batch stays as the producer sent it.
    #[default]
    Producer,
    /// Batches in another codec are compressed again; `level` is the codec's own scale, `None` its default.
    Fixed { codec: Codec, level: Option<i32> },
}

/// Settings of a log. One value is shared by the partitions of a topic; it can be exchanged while the log is in use.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is rolled before it would pass this size. At most `i32::MAX`.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment is rolled when the newest record is this much younger than the first one.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: up to this much is taken off `segment_ms`, at random for each segment.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: a segment is rolled when its offset index would pass this size.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`
    pub index_interval_bytes: u32,
    /// `max.message.bytes`: of a whole batch, compressed, header included.
    pub max_message_bytes: u32,
    /// `message.timestamp.type`
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub timestamp_after_max_ms: i64,
    /// `compression.type` with `compression.*.level`
    pub compression: Compression,
    /// `cleanup.policy` contains `delete`: retention by time and size applies.
    pub cleanup_delete: bool,
    /// `cleanup.policy` contains `compact`: every record needs a key.
    pub cleanup_compact: bool,
    /// `delete.retention.ms`: how long compaction keeps tombstones and markers of which nothing is left.
    pub delete_retention_ms: i64,
    /// `min.cleanable.dirty.ratio`
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: records are not compacted before this age.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: records are compacted soon after this age; `i64::MAX`: whenever the ratio asks for it.
    pub max_compaction_lag_ms: i64,
    /// `retention.ms`; below 0: for ever.
    pub retention_ms: i64,
    /// `retention.bytes`; below 0: any size.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: i64,
    /// `flush.messages`: so many records are never acknowledged without a sync. The batch that reaches the count waits
    /// for it.
    pub flush_messages: i64,
    /// `flush.ms`: ask for a sync when the oldest record that is not durable is this old. See
    /// [`crate::PartitionLog::flush_if_due`].
    pub flush_ms: i64,
    /// `mainstem.durability`
    pub durability: Durability,
    /// `mainstem.key.index`
    pub key_indexing: KeyIndexing,
    /// `preallocate`
    pub preallocate: bool,
    /// `producer.id.expiration.ms`, a setting of the broker.
    pub producer_id_expiration_ms: i64,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl LogConfig {
    /// How old the first record of the active segment gets before the segment is rolled. A compacted topic's at most
    /// `max.compaction.lag.ms`, because an active segment is not compacted.
    pub fn segment_age_max_ms(&self) -> i64 {
        match self.cleanup_compact && self.max_compaction_lag_ms > 0 {
            true => self.segment_ms.min(self.max_compaction_lag_ms),
            false => self.segment_ms,
        }
    }
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        LogConfig {
            segment_bytes: 1024 * 1024 * 1024,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 * 1024 * 1024,
            index_interval_bytes: 4096,
            max_message_bytes: 1024 * 1024 + 12,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 60 * 60 * 1000,
            compression: Compression::Producer,
            cleanup_delete: true,
            cleanup_compact: false,
            delete_retention_ms: DAY_MS,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            retention_ms: 7 * DAY_MS,
            retention_bytes: -1,
            file_delete_delay_ms: 60_000,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            durability: Durability::Os,
            key_indexing: KeyIndexing::Headers,
            preallocate: false,
            producer_id_expiration_ms: DAY_MS,
        }
    }
}
