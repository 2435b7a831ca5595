//! Fills the sections from parsed properties.

use std::collections::BTreeMap;

use super::durability;
use super::listeners::invalid;
use super::sections::{
    CleanerConfig, ConnectionConfig, FetchConfig, GroupConfig, LogConfig, MetadataLogConfig, OffsetsConfig,
    ProducerStateConfig, ThreadConfig, TopicCreationConfig,
};
use super::topic_config::{Layout, TopicConfig, Values};
use super::{ConfigError, ConfigValue};

pub(super) fn connections(values: &Values) -> Result<ConnectionConfig, ConfigError> {
    let key = "max.connections.per.ip.overrides";
    let text = values.text(key);
    let mut max_per_ip_overrides = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let read = pair.rsplit_once(':').and_then(|(host, count)| Some((host.to_string(), count.trim().parse().ok()?)));
        let Some((host, count)) = read else {
            return Err(invalid(key, text, "each item is address:count"));
        };
        max_per_ip_overrides.insert(host, count);
    }
    Ok(ConnectionConfig {
        max_idle_ms: values.long("connections.max.idle.ms"),
        max: values.int("max.connections"),
        max_per_ip: values.int("max.connections.per.ip"),
        max_per_ip_overrides,
        request_max_bytes: values.int("socket.request.max.bytes"),
        listen_backlog: values.int("socket.listen.backlog.size"),
        receive_buffer_bytes: values.int("socket.receive.buffer.bytes"),
        send_buffer_bytes: values.int("socket.send.buffer.bytes"),
        queued_max_requests: values.int("queued.max.requests"),
        queued_max_request_bytes: values.long("queued.max.request.bytes"),
        output_max_bytes: values.long("mainstem.connection.output.max.bytes"),
        requests_max: values.int("mainstem.connection.requests.max"),
        buffer_max_bytes: values.long("mainstem.buffer.max.bytes"),
        grace_ms: values.long("mainstem.grace.ms"),
    })
}

pub(super) fn threads(values: &Values, network_set: bool) -> ThreadConfig {
    ThreadConfig {
        network: network_set.then(|| values.int("num.network.threads")),
        io: values.int("num.io.threads"),
        background: values.int("background.threads"),
        recovery: values.int("num.recovery.threads.per.data.dir"),
        flush: values.int("mainstem.flush.threads"),
    }
}

pub(super) fn log(values: &Values) -> Result<LogConfig, ConfigError> {
    let dirs = if values.0.contains_key("log.dirs") { values.list("log.dirs") } else { values.list("log.dir") };
    if dirs.len() > 1 {
        return Err(invalid("log.dirs", &dirs.join(","), "one data folder is supported"));
    }
    let named =
        matches!(values.0.get("log.dirs"), Some(ConfigValue::List(_))) || values.list("log.dir") != ["/tmp/kafka-logs"];
    Ok(LogConfig {
        data_dir: dirs.first().filter(|_| named).cloned(),
        topic_defaults: TopicConfig::kafka_defaults()?,
        retention_check_interval_ms: values.long("log.retention.check.interval.ms"),
        initial_task_delay_ms: values.long("log.initial.task.delay.ms"),
        flush_checkpoint_interval_ms: values.int("log.flush.offset.checkpoint.interval.ms"),
        start_checkpoint_interval_ms: values.int("log.flush.start.offset.checkpoint.interval.ms"),
        high_watermark_checkpoint_interval_ms: values.long("replica.high.watermark.checkpoint.interval.ms"),
        commit_log_delete_hours: values
            .list("mainstem.commitlog.delete.hours")
            .iter()
            .filter_map(|hour| hour.parse().ok())
            .collect(),
        commit_log_force_percent: values.int("mainstem.commitlog.disk.used.force.percent"),
        commit_log_max_percent: values.int("mainstem.commitlog.disk.used.max.percent"),
        commit_log_file_bytes: values.long("mainstem.commitlog.file.bytes"),
        shared_groups: values.int("mainstem.shared.groups"),
        memory_forced: values.flag(durability::FORCE),
        disk_reserve_bytes: values.long("mainstem.disk.reserve"),
    })
}

pub(super) fn cleaner(values: &Values) -> CleanerConfig {
    CleanerConfig {
        enable: values.flag("log.cleaner.enable"),
        threads: values.int("log.cleaner.threads"),
        backoff_ms: values.long("log.cleaner.backoff.ms"),
        dedupe_buffer_bytes: values.long("log.cleaner.dedupe.buffer.size"),
        load_factor: values.real("log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes: values.int("log.cleaner.io.buffer.size"),
        io_max_bytes_per_second: values.real("log.cleaner.io.max.bytes.per.second"),
    }
}

pub(super) fn metadata_log(values: &Values) -> MetadataLogConfig {
    MetadataLogConfig {
        segment_bytes: values.int("metadata.log.segment.bytes"),
        segment_ms: values.long("metadata.log.segment.ms"),
        max_record_bytes_between_snapshots: values.long("metadata.log.max.record.bytes.between.snapshots"),
        max_snapshot_interval_ms: values.long("metadata.log.max.snapshot.interval.ms"),
    }
}

pub(super) fn topics(values: &Values) -> TopicCreationConfig {
    TopicCreationConfig {
        num_partitions: values.int("num.partitions"),
        replication_factor: values.int("default.replication.factor"),
        auto_create: values.flag("auto.create.topics.enable"),
        delete_enable: values.flag("delete.topic.enable"),
        layout: Layout::of(values.text("mainstem.layout")),
    }
}

pub(super) fn fetch(values: &Values) -> FetchConfig {
    FetchConfig {
        max_bytes: values.int("fetch.max.bytes"),
        session_slots: values.int("max.incremental.fetch.session.cache.slots"),
        described_partitions_max: values.int("max.request.partition.size.limit"),
    }
}

pub(super) fn groups(values: &Values) -> GroupConfig {
    GroupConfig {
        min_session_timeout_ms: values.int("group.min.session.timeout.ms"),
        max_session_timeout_ms: values.int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms: values.int("group.initial.rebalance.delay.ms"),
        max_size: values.int("group.max.size"),
    }
}

pub(super) fn offsets(values: &Values) -> OffsetsConfig {
    OffsetsConfig {
        metadata_max_bytes: values.int("offset.metadata.max.bytes"),
        retention_ms: values.long("offsets.retention.minutes") * 60_000,
        retention_check_interval_ms: values.long("offsets.retention.check.interval.ms"),
        commit_timeout_ms: values.int("offsets.commit.timeout.ms"),
        topic_partitions: values.int("offsets.topic.num.partitions"),
        topic_replication_factor: values.int("offsets.topic.replication.factor"),
        topic_segment_bytes: values.int("offsets.topic.segment.bytes"),
    }
}

pub(super) fn producer_state(values: &Values) -> ProducerStateConfig {
    ProducerStateConfig {
        expiration_ms: values.int("producer.id.expiration.ms"),
        expiration_check_interval_ms: values.int("producer.id.expiration.check.interval.ms"),
    }
}
