//! All topic settings of Kafka 4.4, and ours.

use super::definition::ConfigKind::{Boolean, Double, Int, List, Long, String as Text};
use super::definition::Validator::{
    Any, AtLeast, Between, BetweenOr, BetweenReal, EachOneOf, OneOf, ThrottledReplicas,
};
use super::definition::{ConfigDefinition, ConfigKind, Effect, Synonym, UpdateMode, Validator};

/// The table, sorted by name.
pub fn topic_config_definitions() -> &'static [ConfigDefinition] {
    TOPIC_CONFIGS
}

/// One row of the table.
pub fn topic_config_definition(name: &str) -> Option<&'static ConfigDefinition> {
    TOPIC_CONFIGS.binary_search_by(|row| row.name.cmp(name)).ok().map(|index| &TOPIC_CONFIGS[index])
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

const fn same(name: &'static str) -> Synonym {
    Synonym { name, multiplier: 1 }
}

const fn times(name: &'static str, multiplier: i64) -> Synonym {
    Synonym { name, multiplier }
}

const fn row(
    name: &'static str,
    kind: ConfigKind,
    default: Option<&'static str>,
    validator: Validator,
    effect: Effect,
) -> ConfigDefinition {
    let (internal, update_mode) = (default.is_none(), UpdateMode::ClusterWide);
    let (synonyms, documentation) = (&[], "");
    ConfigDefinition { name, kind, default, validator, update_mode, synonyms, effect, internal, documentation }
}

impl ConfigDefinition {
    const fn falls_back_to(self, synonyms: &'static [Synonym]) -> ConfigDefinition {
        ConfigDefinition { synonyms, ..self }
    }

    /// Not shown in descriptions.
    pub(super) const fn unseen(self) -> ConfigDefinition {
        ConfigDefinition { internal: true, ..self }
    }

    pub(super) const fn says(self, documentation: &'static str) -> ConfigDefinition {
        ConfigDefinition { documentation, ..self }
    }
}

const TOPIC_CONFIGS: &[ConfigDefinition] = &[
    row("cleanup.policy", List, Some("delete"), EachOneOf(&["compact", "delete"]), Effect::Works)
        .falls_back_to(&[same("log.cleanup.policy")])
        .says("delete drops old segments, compact keeps the newest record of each key, an empty list keeps all."),
    row("compression.gzip.level", Int, Some("-1"), BetweenOr(1, 9, -1), Effect::Works)
        .falls_back_to(&[same("compression.gzip.level")])
        .says("Level used when the broker recompresses with gzip."),
    row("compression.lz4.level", Int, Some("9"), Between(1, 17), Effect::None)
        .falls_back_to(&[same("compression.lz4.level")])
        .says("Level used when the broker recompresses with lz4."),
    row(
        "compression.type",
        Text,
        Some("producer"),
        OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        Effect::Works,
    )
    .falls_back_to(&[same("compression.type")])
    .says("How batches are stored; producer: as they were sent, else the broker recompresses."),
    row("compression.zstd.level", Int, Some("3"), Between(-131072, 22), Effect::Works)
        .falls_back_to(&[same("compression.zstd.level")])
        .says("Level used when the broker recompresses with zstd."),
    row("delete.retention.ms", Long, Some("86400000"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.cleaner.delete.retention.ms")])
        .says("How long compaction keeps a tombstone, so that a reader that began before can still see it."),
    row("errors.deadletterqueue.group.enable", Boolean, Some("false"), Any, Effect::None)
        .says("Whether share groups may write undeliverable records into this topic."),
    row("file.delete.delay.ms", Long, Some("60000"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.segment.delete.delay.ms")])
        .says("How long the files of a dropped segment stay before they are removed."),
    row("flush.messages", Long, Some("9223372036854775807"), AtLeast(1), Effect::Works)
        .falls_back_to(&[same("log.flush.interval.messages")])
        .says("Force the log to the disk after this many records."),
    row("flush.ms", Long, Some("9223372036854775807"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")])
        .says("Force the log to the disk when the oldest unforced record is this old."),
    row("follower.replication.throttled.replicas", List, Some(""), ThrottledReplicas, Effect::None)
        .says("Follower replicas whose replication is throttled, as partition:broker pairs or *."),
    row("index.interval.bytes", Int, Some("4096"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.index.interval.bytes")])
        .says("An index entry is written each time this many bytes were appended."),
    row("internal.segment.bytes", Int, None, Any, Effect::None)
        .says("A segment size below the allowed minimum, for tests of Kafka itself."),
    row("leader.replication.throttled.replicas", List, Some(""), ThrottledReplicas, Effect::None)
        .says("Leader replicas whose replication is throttled, as partition:broker pairs or *."),
    row("local.retention.bytes", Long, Some("-2"), AtLeast(-2), Effect::None)
        .falls_back_to(&[same("log.local.retention.bytes")])
        .says("Bytes to keep locally once segments are in remote storage; -2 means retention.bytes."),
    row("local.retention.ms", Long, Some("-2"), AtLeast(-2), Effect::None)
        .falls_back_to(&[same("log.local.retention.ms")])
        .says("How long to keep segments locally once they are in remote storage; -2 means retention.ms."),
    row("mainstem.durability", Text, Some("os"), OneOf(&["os", "disk", "memory"]), Effect::Works)
        .falls_back_to(&[same("mainstem.durability")])
        .says("A record counts as stored: os, in the page cache (survives a killed process); disk, after fdatasync; memory, in the broker's memory (a killed process loses up to 10 ms and 256 KiB of acknowledged records of each log; refused with one replica unless mainstem.memory.force is set, and never applied to topics of the broker itself)."),
    row("mainstem.groups", Int, Some("1"), Between(1, 1024), Effect::Works)
        .says("With mainstem.layout=topic: into how many commit logs the partitions go. A partition stays where it is."),
    row("mainstem.key.index", Text, Some("headers"), OneOf(&["none", "headers", "all"]), Effect::Works)
        .falls_back_to(&[same("mainstem.key.index")])
        .says("With mainstem.layout=topic or shared, which records can be looked up by key: headers, by the headers KEYS and UNIQ_KEY; all, by their own keys, too; none."),
    row("mainstem.layout", Text, Some("partition"), OneOf(&["partition", "topic", "shared"]), Effect::Works)
        .says("Where records lie: partition, files of each partition as Kafka has them; topic, a few commit logs of the topic; shared, the broker's common commit logs. Fixed when the topic is created."),
    row("max.compaction.lag.ms", Long, Some("9223372036854775807"), AtLeast(1), Effect::Works)
        .falls_back_to(&[same("log.cleaner.max.compaction.lag.ms")])
        .says("A record is compacted at the latest after this time."),
    row("max.decompressed.message.bytes", Int, Some("2147483639"), Between(1, 2147483639), Effect::None)
        .falls_back_to(&[same("max.decompressed.message.bytes")])
        .says("The largest size that a batch may have once it is decompressed."),
    row("max.message.bytes", Int, Some("1048588"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("message.max.bytes")])
        .says("The largest batch that is accepted, header included, as it is stored (compressed)."),
    row("message.timestamp.after.max.ms", Long, Some("3600000"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.message.timestamp.after.max.ms")])
        .says("How far a timestamp set by the producer may lie in the future."),
    row("message.timestamp.before.max.ms", Long, Some("9223372036854775807"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.message.timestamp.before.max.ms")])
        .says("How far a timestamp set by the producer may lie in the past."),
    row("message.timestamp.type", Text, Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Effect::Works)
        .falls_back_to(&[same("log.message.timestamp.type")])
        .says("Whether a record bears the time of its creation or of its append."),
    row("min.cleanable.dirty.ratio", Double, Some("0.5"), BetweenReal(0.0, 1.0), Effect::Works)
        .falls_back_to(&[same("log.cleaner.min.cleanable.ratio")])
        .says("The share of uncompacted bytes in a log from which on compaction starts."),
    row("min.compaction.lag.ms", Long, Some("0"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.cleaner.min.compaction.lag.ms")])
        .says("A record is not compacted before this time."),
    row("min.insync.replicas", Int, Some("1"), AtLeast(1), Effect::Works)
        .falls_back_to(&[same("min.insync.replicas")])
        .says("How many replicas must be in sync for an append with acks=all."),
    row("preallocate", Boolean, Some("false"), Any, Effect::None).falls_back_to(&[same("log.preallocate")]).says(
        "Whether a new segment file gets its full size at once. Mainstem always reserves space in growing steps.",
    ),
    row("remote.copy.lag.bytes", Long, Some("-1"), AtLeast(-1), Effect::None)
        .falls_back_to(&[same("log.remote.copy.lag.bytes")])
        .says("How many bytes a segment trails before it is copied to remote storage."),
    row("remote.copy.lag.ms", Long, Some("0"), AtLeast(-1), Effect::None)
        .falls_back_to(&[same("log.remote.copy.lag.ms")])
        .says("How long a segment waits before it is copied to remote storage."),
    row("remote.log.copy.disable", Boolean, Some("false"), Any, Effect::None)
        .says("Whether copying to remote storage is off while what is there stays readable."),
    row("remote.log.delete.on.disable", Boolean, Some("false"), Any, Effect::None)
        .says("Whether turning remote storage off deletes what is there."),
    row("remote.storage.enable", Boolean, Some("false"), Any, Effect::None)
        .says("Whether segments are copied to remote storage. Mainstem has none yet."),
    row("retention.bytes", Long, Some("-1"), Any, Effect::Works)
        .falls_back_to(&[same("log.retention.bytes")])
        .says("How many bytes a partition keeps before its oldest segments are dropped; -1 is without limit."),
    row("retention.ms", Long, Some("604800000"), AtLeast(-1), Effect::Works)
        .falls_back_to(&[
            same("log.retention.ms"),
            times("log.retention.minutes", MINUTE_MS),
            times("log.retention.hours", HOUR_MS),
        ])
        .says("How long records are kept before their segment is dropped; -1 is for ever."),
    row("segment.bytes", Int, Some("1073741824"), AtLeast(1048576), Effect::Works)
        .falls_back_to(&[same("log.segment.bytes")])
        .says("The size at which a new segment file begins."),
    row("segment.index.bytes", Int, Some("10485760"), AtLeast(4), Effect::Works)
        .falls_back_to(&[same("log.index.size.max.bytes")])
        .says("The largest size of an index file; reaching it begins a new segment."),
    row("segment.jitter.ms", Long, Some("0"), AtLeast(0), Effect::Works)
        .falls_back_to(&[same("log.roll.jitter.ms"), times("log.roll.jitter.hours", HOUR_MS)])
        .says("At most this is taken off segment.ms at random, so that segments do not all roll at once."),
    row("segment.ms", Long, Some("604800000"), AtLeast(1), Effect::Works)
        .falls_back_to(&[same("log.roll.ms"), times("log.roll.hours", HOUR_MS)])
        .says("The age at which a new segment begins even if it is not full."),
    row("unclean.leader.election.enable", Boolean, Some("false"), Any, Effect::None)
        .falls_back_to(&[same("unclean.leader.election.enable")])
        .says("Whether a replica that is not in sync may lead, at the price of losing records."),
];

#[cfg(test)]
mod tests {
    use super::super::broker_config_definition;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_are_valid() {
        assert!(TOPIC_CONFIGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for row in TOPIC_CONFIGS {
            if let Some(default) = row.default {
                assert!(row.parse(default).is_ok(), "{}", row.name);
            }
        }
    }

    #[test]
    fn all_of_kafka_s_names_are_there() {
        let visible = TOPIC_CONFIGS.iter().filter(|row| !row.internal).count();
        assert_eq!(visible, 37 + 4, "37 of Kafka 4.4 and four of ours");
    }

    #[test]
    fn a_synonym_is_a_server_property_with_the_same_default() {
        for row in TOPIC_CONFIGS {
            for synonym in row.synonyms {
                let server = broker_config_definition(synonym.name);
                assert!(server.is_some(), "{} has the unknown synonym {}", row.name, synonym.name);
                let default = server.and_then(|row| row.default);
                if synonym.multiplier == 1 && default.is_some() {
                    assert_eq!(default, row.default, "{}", row.name);
                }
            }
        }
    }
}
