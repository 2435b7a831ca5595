//! The server properties that have a meaning, typed and in groups, so that each part of the broker takes only its own.

use std::collections::BTreeMap;

use super::topic_config::{Layout, TopicConfig};

/// Connections and their limits.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionConfig {
    /// `connections.max.idle.ms`; 0 or less: never closed for idleness.
    pub max_idle_ms: i64,
    /// `max.connections`
    pub max: i32,
    /// `max.connections.per.ip`
    pub max_per_ip: i32,
    /// `max.connections.per.ip.overrides`: address or host name to limit.
    pub max_per_ip_overrides: BTreeMap<String, i32>,
    /// `socket.request.max.bytes`
    pub request_max_bytes: i32,
    /// `socket.listen.backlog.size`
    pub listen_backlog: i32,
    /// `socket.receive.buffer.bytes`; -1: the system's choice.
    pub receive_buffer_bytes: i32,
    /// `socket.send.buffer.bytes`; -1: the system's choice.
    pub send_buffer_bytes: i32,
    /// `queued.max.requests`
    pub queued_max_requests: i32,
    /// `queued.max.request.bytes`; -1: `buffer_max_bytes` decides.
    pub queued_max_request_bytes: i64,
    /// `mainstem.connection.output.max.bytes`
    pub output_max_bytes: i64,
    /// `mainstem.connection.requests.max`
    pub requests_max: i32,
    /// `mainstem.buffer.max.bytes`
    pub buffer_max_bytes: i64,
    /// `mainstem.grace.ms`
    pub grace_ms: i64,
}

/// How many threads do what.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadConfig {
    /// `num.network.threads`; `None` when it is not set: one reactor a core.
    pub network: Option<i32>,
    /// `num.io.threads`
    pub io: i32,
    /// `background.threads`
    pub background: i32,
    /// `num.recovery.threads.per.data.dir`
    pub recovery: i32,
    /// `mainstem.flush.threads`
    pub flush: i32,
}

/// The log manager's settings beside those of each topic.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `log.dirs`, else `log.dir`; `None` when neither is set.
    pub data_dir: Option<String>,
    /// What a topic has that sets nothing itself.
    pub topic_defaults: TopicConfig,
    /// `log.retention.check.interval.ms`
    pub retention_check_interval_ms: i64,
    /// `log.initial.task.delay.ms`
    pub initial_task_delay_ms: i64,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub flush_checkpoint_interval_ms: i32,
    /// `log.flush.start.offset.checkpoint.interval.ms`
    pub start_checkpoint_interval_ms: i32,
    /// `replica.high.watermark.checkpoint.interval.ms`
    pub high_watermark_checkpoint_interval_ms: i64,
    /// `mainstem.commitlog.delete.hours`: of the day, UTC; none: any.
    pub commit_log_delete_hours: Vec<u8>,
    /// `mainstem.commitlog.disk.used.force.percent`; 100: never.
    pub commit_log_force_percent: i32,
    /// `mainstem.commitlog.disk.used.max.percent`
    pub commit_log_max_percent: i32,
    /// `mainstem.commitlog.file.bytes`
    pub commit_log_file_bytes: i64,
    /// `mainstem.shared.groups`; 0: one for each core.
    pub shared_groups: i32,
    /// `mainstem.memory.force`
    pub memory_forced: bool,
    /// `mainstem.disk.reserve`; -1: as large as the disk suggests.
    pub disk_reserve_bytes: i64,
}

/// Compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanerConfig {
    /// `log.cleaner.enable`
    pub enable: bool,
    /// `log.cleaner.threads`
    pub threads: i32,
    /// `log.cleaner.backoff.ms`
    pub backoff_ms: i64,
    /// `log.cleaner.dedupe.buffer.size`: of all threads together.
    pub dedupe_buffer_bytes: i64,
    /// `log.cleaner.io.buffer.load.factor`
    pub load_factor: f64,
    /// `log.cleaner.io.buffer.size`: of all threads together.
    pub io_buffer_bytes: i32,
    /// `log.cleaner.io.max.bytes.per.second`: of all threads together.
    pub io_max_bytes_per_second: f64,
}

/// The metadata log and its snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataLogConfig {
    /// `metadata.log.segment.bytes`
    pub segment_bytes: i32,
    /// `metadata.log.segment.ms`
    pub segment_ms: i64,
    /// `metadata.log.max.record.bytes.between.snapshots`
    pub max_record_bytes_between_snapshots: i64,
    /// `metadata.log.max.snapshot.interval.ms`; 0: no snapshot for age alone.
    pub max_snapshot_interval_ms: i64,
}

/// What new topics get, and whether topics may come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicCreationConfig {
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub replication_factor: i32,
    /// `auto.create.topics.enable`
    pub auto_create: bool,
    /// `delete.topic.enable`
    pub delete_enable: bool,
    /// `mainstem.layout`
    pub layout: Layout,
}

/// Fetching.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchConfig {
    /// `fetch.max.bytes`
    pub max_bytes: i32,
    /// `max.incremental.fetch.session.cache.slots`
    pub session_slots: i32,
    /// `max.request.partition.size.limit`
    pub described_partitions_max: i32,
}

/// Consumer groups of the classic protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: i32,
}

/// Committed offsets and the topic that holds them.
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetsConfig {
    /// `offset.metadata.max.bytes`
    pub metadata_max_bytes: i32,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub retention_check_interval_ms: i64,
    /// `offsets.commit.timeout.ms`
    pub commit_timeout_ms: i32,
    /// `offsets.topic.num.partitions`
    pub topic_partitions: i32,
    /// `offsets.topic.replication.factor`
    pub topic_replication_factor: i32,
    /// `offsets.topic.segment.bytes`
    pub topic_segment_bytes: i32,
}

/// State of idempotent producers.
#[derive(Debug, Clone, PartialEq)]
pub struct ProducerStateConfig {
    /// `producer.id.expiration.ms`
    pub expiration_ms: i32,
    /// `producer.id.expiration.check.interval.ms`
    pub expiration_check_interval_ms: i32,
}
