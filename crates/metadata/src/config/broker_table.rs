//! The server properties that are read into typed sections, and the look-up over all of them. The few that nothing acts on
//! yet are `accepted` like those of the other tables.

use std::sync::OnceLock;

use super::definition::ConfigKind::{Boolean, Int, List, Long, Short, String as Text};
use super::definition::UpdateMode::{ClusterWide, PerBroker, ReadOnly};
use super::definition::Validator::{Any, AtLeast, Between, BetweenOr, EachOneOf, OneOf};
use super::definition::{ConfigDefinition, ConfigKind, Effect, UpdateMode, Validator};
use super::{accepted_coordinators, accepted_other, accepted_security, cleaner_table};

/// All server properties, sorted by name: Kafka 4.4's and ours.
pub fn broker_config_definitions() -> &'static [ConfigDefinition] {
    static ALL: OnceLock<Vec<ConfigDefinition>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<ConfigDefinition> = [
            MEANT,
            accepted_coordinators::ACCEPTED,
            accepted_other::ACCEPTED,
            accepted_security::ACCEPTED,
            cleaner_table::CLEANER,
        ]
        .concat();
        all.sort_by_key(|row| row.name);
        all
    })
}

/// One row of the table.
pub fn broker_config_definition(name: &str) -> Option<&'static ConfigDefinition> {
    let all = broker_config_definitions();
    all.binary_search_by(|row| row.name.cmp(name)).ok().map(|index| &all[index])
}

const HOURS: &[&str] = &[
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "23",
];

const ACCEPTED: &str = "Accepted because Kafka has it. Mainstem does nothing with it.";

/// A property of Kafka without a meaning here.
pub(super) const fn accepted(
    name: &'static str,
    kind: ConfigKind,
    default: Option<&'static str>,
    validator: Validator,
    update_mode: UpdateMode,
) -> ConfigDefinition {
    ConfigDefinition { effect: Effect::None, ..row(name, kind, default, validator, update_mode).says(ACCEPTED) }
}

/// The same, and not shown in descriptions.
pub(super) const fn hidden(
    name: &'static str,
    kind: ConfigKind,
    default: Option<&'static str>,
    validator: Validator,
    update_mode: UpdateMode,
) -> ConfigDefinition {
    ConfigDefinition { internal: true, ..accepted(name, kind, default, validator, update_mode) }
}

pub(super) const fn row(
    name: &'static str,
    kind: ConfigKind,
    default: Option<&'static str>,
    validator: Validator,
    update_mode: UpdateMode,
) -> ConfigDefinition {
    let (synonyms, effect, internal, documentation) = (&[], Effect::Works, false, "");
    ConfigDefinition { name, kind, default, validator, update_mode, synonyms, effect, internal, documentation }
}

const MEANT: &[ConfigDefinition] = &[
    row("advertised.listeners", List, None, Any, ReadOnly)
        .says("The addresses that clients are told to connect to, as NAME://host:port; default: what listeners says."),
    row("auto.create.topics.enable", Boolean, Some("true"), Any, ReadOnly)
        .says("Whether asking for the metadata of an unknown topic may create it."),
    accepted("background.threads", Int, Some("10"), AtLeast(1), ClusterWide),
    row("broker.id", Int, Some("-1"), Any, ReadOnly).says("The older name of node.id."),
    row("broker.rack", Text, None, Any, ReadOnly).says("Where this node stands; told to clients."),
    row("compression.gzip.level", Int, Some("-1"), BetweenOr(1, 9, -1), ClusterWide)
        .says("Default of the topic setting of this name."),
    accepted("compression.lz4.level", Int, Some("9"), Between(1, 17), ClusterWide),
    row(
        "compression.type",
        Text,
        Some("producer"),
        OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        ClusterWide,
    )
    .says("Default of the topic setting of this name."),
    row("compression.zstd.level", Int, Some("3"), Between(-131072, 22), ClusterWide)
        .says("Default of the topic setting of this name."),
    row("connections.max.idle.ms", Long, Some("600000"), Any, ReadOnly)
        .says("A connection without requests for this long is closed."),
    row("controller.listener.names", List, Some(""), Any, ReadOnly)
        .says("Listeners that only controllers of Kafka use. Mainstem does not open them."),
    row("default.replication.factor", Int, Some("1"), Any, ReadOnly)
        .says("How many replicas a topic gets that does not say how many it wants."),
    row("delete.topic.enable", Boolean, Some("true"), Any, ReadOnly).says("Whether topics can be deleted."),
    row("fetch.max.bytes", Int, Some("57671680"), AtLeast(1024), ReadOnly)
        .says("The most bytes that one fetch answer carries."),
    row("group.initial.rebalance.delay.ms", Int, Some("3000"), Any, ReadOnly)
        .says("How long the first rebalance of an empty group waits for more members."),
    row("group.max.session.timeout.ms", Int, Some("1800000"), Any, ReadOnly)
        .says("The longest session timeout that a member may ask for."),
    row("group.max.size", Int, Some("2147483647"), AtLeast(1), ReadOnly).says("How many members a group may have."),
    row("group.min.session.timeout.ms", Int, Some("6000"), Any, ReadOnly)
        .says("The shortest session timeout that a member may ask for."),
    row(
        "listener.security.protocol.map",
        Text,
        Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
        Any,
        PerBroker,
    )
    .says("Which security protocol each listener name stands for. Mainstem serves PLAINTEXT."),
    row("listeners", List, Some("PLAINTEXT://:9092"), Any, PerBroker)
        .says("The addresses to listen on, as NAME://host:port."),
    row("log.cleanup.policy", List, Some("delete"), EachOneOf(&["compact", "delete"]), ClusterWide)
        .says("Default of the topic setting cleanup.policy."),
    row("log.dir", List, Some("/tmp/kafka-logs"), Any, ReadOnly).says("The data folder, if log.dirs is not given."),
    row("log.dirs", List, None, Any, ReadOnly).says("The data folder. Mainstem takes one."),
    row("log.flush.interval.messages", Long, Some("9223372036854775807"), AtLeast(1), ClusterWide)
        .says("Default of the topic setting flush.messages."),
    row("log.flush.interval.ms", Long, None, Any, ClusterWide).says("Default of the topic setting flush.ms."),
    row("log.flush.offset.checkpoint.interval.ms", Int, Some("60000"), AtLeast(0), ReadOnly)
        .says("How often the position up to which logs are on the disk is written down."),
    row("log.flush.scheduler.interval.ms", Long, Some("9223372036854775807"), Any, ReadOnly)
        .says("Default of the topic setting flush.ms, if log.flush.interval.ms is not given."),
    accepted("log.flush.start.offset.checkpoint.interval.ms", Int, Some("60000"), AtLeast(0), ReadOnly),
    row("log.index.interval.bytes", Int, Some("4096"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting index.interval.bytes."),
    row("log.index.size.max.bytes", Int, Some("10485760"), AtLeast(4), ClusterWide)
        .says("Default of the topic setting segment.index.bytes."),
    row("log.initial.task.delay.ms", Long, Some("30000"), AtLeast(0), ReadOnly)
        .says("How long after the start the periodic work on logs begins.")
        .unseen(),
    row("log.message.timestamp.after.max.ms", Long, Some("3600000"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting message.timestamp.after.max.ms."),
    row("log.message.timestamp.before.max.ms", Long, Some("9223372036854775807"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting message.timestamp.before.max.ms."),
    row("log.message.timestamp.type", Text, Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), ClusterWide)
        .says("Default of the topic setting message.timestamp.type."),
    accepted("log.preallocate", Boolean, Some("false"), Any, ClusterWide),
    row("log.retention.bytes", Long, Some("-1"), Any, ClusterWide)
        .says("Default of the topic setting retention.bytes."),
    row("log.retention.check.interval.ms", Long, Some("300000"), AtLeast(1), ReadOnly)
        .says("How often logs are checked for segments to drop."),
    row("log.retention.hours", Int, Some("168"), Any, ReadOnly)
        .says("Default of the topic setting retention.ms, in hours; the minutes and the milliseconds form come first."),
    row("log.retention.minutes", Int, None, Any, ReadOnly)
        .says("Default of the topic setting retention.ms, in minutes; the milliseconds form comes first."),
    row("log.retention.ms", Long, None, Any, ClusterWide).says("Default of the topic setting retention.ms."),
    row("log.roll.hours", Int, Some("168"), AtLeast(1), ReadOnly)
        .says("Default of the topic setting segment.ms, in hours; the milliseconds form comes first."),
    row("log.roll.jitter.hours", Int, Some("0"), AtLeast(0), ReadOnly)
        .says("Default of the topic setting segment.jitter.ms, in hours; the milliseconds form comes first."),
    row("log.roll.jitter.ms", Long, None, Any, ClusterWide).says("Default of the topic setting segment.jitter.ms."),
    row("log.roll.ms", Long, None, Any, ClusterWide).says("Default of the topic setting segment.ms."),
    row("log.segment.bytes", Int, Some("1073741824"), AtLeast(1048576), ClusterWide)
        .says("Default of the topic setting segment.bytes."),
    row("log.segment.delete.delay.ms", Long, Some("60000"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting file.delete.delay.ms."),
    row("mainstem.buffer.max.bytes", Long, Some("268435456"), AtLeast(1048576), ReadOnly)
        .says("Bytes of requests above 64 KiB that may be in flight over all connections."),
    row("mainstem.commitlog.delete.hours", List, Some(""), EachOneOf(HOURS), ReadOnly)
        .says("Hours of the day, UTC, in which old commit log files are deleted; none: at any time."),
    row("mainstem.commitlog.disk.used.force.percent", Int, Some("100"), Between(1, 100), ReadOnly)
        .says("Past this use of the disk the oldest commit log files are deleted, whatever retention says; 100: never."),
    row("mainstem.commitlog.disk.used.max.percent", Int, Some("75"), Between(1, 100), ReadOnly)
        .says("Past this use of the disk old commit log files are deleted at any hour."),
    row("mainstem.commitlog.file.bytes", Long, Some("1073741824"), Between(1048576, 4294967295), ReadOnly)
        .says("Size of a commit log file, of topics with mainstem.layout=topic or shared. A batch is smaller."),
    row("mainstem.connection.output.max.bytes", Long, Some("16777216"), AtLeast(65536), ReadOnly)
        .says("Answers of one connection that may wait to be sent; past it the connection is not read."),
    row("mainstem.connection.requests.max", Int, Some("64"), AtLeast(1), ReadOnly)
        .says("Requests of one connection that may be under way; past it the connection is not read."),
    row("mainstem.disk.reserve", Long, Some("-1"), AtLeast(-1), ReadOnly)
        .says("Free bytes of the disk below which no records are taken from producers; -1: 5 % of the disk, at most 1 GiB."),
    row("mainstem.durability", Text, Some("os"), OneOf(&["os", "disk", "memory"]), ClusterWide)
        .says("Default of the topic setting of this name."),
    row("mainstem.flush.threads", Int, Some("2"), Between(1, 256), ReadOnly)
        .says("Threads that force logs to the disk."),
    row("mainstem.grace.ms", Long, Some("10000"), AtLeast(0), ReadOnly)
        .says("How long an orderly stop waits for requests under way."),
    row("mainstem.key.index", Text, Some("headers"), OneOf(&["none", "headers", "all"]), ClusterWide)
        .says("Default of the topic setting of this name."),
    row("mainstem.layout", Text, Some("partition"), OneOf(&["partition", "topic", "shared"]), ReadOnly)
        .says("The layout of new topics that name none. Compacted topics have partition."),
    row("mainstem.memory.force", Boolean, Some("false"), Any, ReadOnly)
        .says("Allows mainstem.durability=memory with one replica: a killed broker then loses up to 10 ms and 256 KiB of acknowledged records of each log."),
    row("mainstem.shared.groups", Int, Some("0"), Between(0, 1024), ReadOnly)
        .says("Common commit logs for topics with mainstem.layout=shared; 0: one for each core. A partition stays where it is."),
    row("max.connections", Int, Some("2147483647"), AtLeast(0), ClusterWide)
        .says("How many connections this node takes."),
    row("max.connections.per.ip", Int, Some("2147483647"), AtLeast(0), ClusterWide)
        .says("How many connections this node takes from one address."),
    row("max.connections.per.ip.overrides", Text, Some(""), Any, ClusterWide)
        .says("Other limits for single addresses, as address:count pairs."),
    accepted("max.decompressed.message.bytes", Int, Some("2147483639"), Between(1, 2147483639), ClusterWide),
    row("max.incremental.fetch.session.cache.slots", Int, Some("1000"), AtLeast(0), ReadOnly)
        .says("How many incremental fetch sessions are kept."),
    row("max.request.partition.size.limit", Int, Some("2000"), AtLeast(1), ReadOnly)
        .says("The most partitions that one DescribeTopicPartitions answer carries."),
    row("message.max.bytes", Int, Some("1048588"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting max.message.bytes."),
    row("metadata.log.max.record.bytes.between.snapshots", Long, Some("20971520"), AtLeast(1), ReadOnly)
        .says("A snapshot of the metadata is written when this many bytes of records came since the last one."),
    row("metadata.log.max.snapshot.interval.ms", Long, Some("3600000"), AtLeast(0), ReadOnly).says(
        "A snapshot of the metadata is written at the latest after this time, if anything changed; 0 turns this off.",
    ),
    row("metadata.log.segment.bytes", Int, Some("1073741824"), AtLeast(8388608), ReadOnly)
        .says("The size of a segment of the metadata log."),
    row("metadata.log.segment.ms", Long, Some("604800000"), AtLeast(1), ReadOnly)
        .says("The age at which a new segment of the metadata log is begun."),
    row("min.insync.replicas", Int, Some("1"), AtLeast(1), ClusterWide)
        .says("Default of the topic setting of this name."),
    row("node.id", Int, Some("1"), AtLeast(0), ReadOnly).says("The number of this node."),
    row("num.io.threads", Int, Some("8"), AtLeast(1), ClusterWide)
        .says("Threads for work that may wait for the disk, such as looking up offsets by time."),
    row("num.network.threads", Int, Some("3"), AtLeast(1), ClusterWide)
        .says("Reactors that serve connections. Not given: one a core."),
    row("num.partitions", Int, Some("1"), AtLeast(1), ReadOnly)
        .says("How many partitions a topic gets that does not say how many it wants."),
    row("num.recovery.threads.per.data.dir", Int, Some("2"), AtLeast(1), ClusterWide)
        .says("Threads that check logs at start after an unclean stop."),
    row("offset.metadata.max.bytes", Int, Some("4096"), Any, ReadOnly)
        .says("The longest text that a committed offset may carry."),
    accepted("offsets.commit.timeout.ms", Int, Some("5000"), AtLeast(1), ReadOnly),
    row("offsets.retention.check.interval.ms", Long, Some("600000"), AtLeast(1), ReadOnly)
        .says("How often committed offsets are checked for being too old."),
    row("offsets.retention.minutes", Int, Some("10080"), AtLeast(1), ReadOnly)
        .says("How long the offsets of an empty group are kept."),
    row("offsets.topic.num.partitions", Int, Some("50"), AtLeast(1), ReadOnly)
        .says("Partitions of __consumer_offsets."),
    row("offsets.topic.replication.factor", Short, Some("3"), AtLeast(1), ReadOnly)
        .says("Replicas of __consumer_offsets; at most as many as there are nodes."),
    row("offsets.topic.segment.bytes", Int, Some("104857600"), AtLeast(1_048_576), ReadOnly)
        .says("The size of a segment of __consumer_offsets."),
    row("process.roles", List, Some("broker,controller"), EachOneOf(&["broker", "controller"]), ReadOnly)
        .says("The roles of this node. Mainstem is always broker and controller."),
    row("producer.id.expiration.check.interval.ms", Int, Some("600000"), AtLeast(1), ReadOnly)
        .says("How often the state of idle producers is checked.")
        .unseen(),
    row("producer.id.expiration.ms", Int, Some("86400000"), AtLeast(1), ClusterWide)
        .says("The state of a producer that wrote nothing for this long is forgotten."),
    row("queued.max.request.bytes", Long, Some("-1"), Any, ReadOnly)
        .says("Takes the place of mainstem.buffer.max.bytes where it is above 0."),
    accepted("queued.max.requests", Int, Some("500"), AtLeast(1), ReadOnly),
    accepted("replica.high.watermark.checkpoint.interval.ms", Long, Some("5000"), Any, ReadOnly),
    row("socket.listen.backlog.size", Int, Some("50"), AtLeast(1), ReadOnly)
        .says("How many connections may wait to be accepted."),
    row("socket.receive.buffer.bytes", Int, Some("102400"), Any, ReadOnly)
        .says("Receive buffer of a socket; -1: what the system chooses."),
    row("socket.request.max.bytes", Int, Some("104857600"), AtLeast(1), ReadOnly)
        .says("A request larger than this closes its connection."),
    row("socket.send.buffer.bytes", Int, Some("102400"), Any, ReadOnly)
        .says("Send buffer of a socket; -1: what the system chooses."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_valid() {
        let all = broker_config_definitions();
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
        for row in all {
            if let Some(default) = row.default {
                assert!(row.parse(default).is_ok(), "{}", row.name);
            }
        }
    }

    #[test]
    fn all_of_kafka_s_properties_are_known() {
        let kafka = broker_config_definitions().iter().filter(|row| !row.name.starts_with("mainstem."));
        // Three of them are rates of replication, which Kafka takes while it runs only.
        assert_eq!(kafka.count(), 379 + 3);
    }
}
