use super::super::BrokerConfig;
use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn broker(pairs: &[(&str, &str)]) -> BrokerConfig {
    BrokerConfig::parse(&map(pairs)).unwrap()
}

#[test]
fn with_nothing_set_a_topic_has_kafka_s_defaults() {
    let config = TopicConfig::resolve(&map(&[]), &broker(&[])).unwrap();
    assert_eq!(config, TopicConfig::kafka_defaults().unwrap());
    assert_eq!(config.retention_ms, Some(604_800_000));
    assert_eq!(config.retention_bytes, None);
    assert_eq!(config.segment_bytes, 1 << 30);
    assert_eq!(config.max_message_bytes, 1_048_588);
    assert_eq!((config.flush_ms, config.flush_messages), (i64::MAX, i64::MAX));
    assert!(config.cleanup_delete && !config.cleanup_compact);
    assert_eq!(config.durability, Durability::Os);
    assert_eq!(config.segment_ms, 604_800_000);
}

#[test]
fn of_the_time_synonyms_the_finest_one_that_is_set_decides() {
    type Case = (&'static [(&'static str, &'static str)], Option<i64>);
    let cases: [Case; 6] = [
        (&[("log.retention.hours", "2")], Some(7_200_000)),
        (&[("log.retention.hours", "2"), ("log.retention.minutes", "3")], Some(180_000)),
        (&[("log.retention.minutes", "3"), ("log.retention.ms", "4")], Some(4)),
        (&[("log.retention.ms", "-1"), ("log.retention.hours", "1")], None),
        (&[("log.retention.hours", "-1")], None),
        (&[], Some(604_800_000)),
    ];
    for (server, expected) in cases {
        assert_eq!(TopicConfig::resolve(&map(&[]), &broker(server)).unwrap().retention_ms, expected, "{server:?}");
    }
}

#[test]
fn an_override_wins_over_the_server() {
    let server =
        broker(&[("log.retention.ms", "7"), ("mainstem.durability", "disk"), ("log.segment.bytes", "2097152")]);
    let config = TopicConfig::resolve(&map(&[("retention.ms", "9"), ("cleanup.policy", "compact,delete")]), &server);
    let config = config.unwrap();
    assert_eq!(config.retention_ms, Some(9));
    assert_eq!(config.segment_bytes, 2_097_152);
    assert_eq!(config.durability, Durability::Disk);
    assert!(config.cleanup_compact && config.cleanup_delete);
}

#[test]
fn compaction_is_not_inherited_where_it_does_not_exist() {
    let policy = |layout: &str, default: &str| {
        let config = TopicConfig::validate(
            "t",
            &map(&[("mainstem.layout", layout)]),
            &broker(&[("log.cleanup.policy", default)]),
        );
        config.map(|config| (config.cleanup_compact, config.cleanup_delete)).unwrap()
    };
    assert_eq!(policy("partition", "compact"), (true, false));
    assert_eq!(policy("shared", "compact"), (false, false), "kept for ever, as a compacted topic is by time and size");
    assert_eq!(policy("topic", "compact,delete"), (false, true));
    let own = map(&[("mainstem.layout", "shared"), ("cleanup.policy", "compact")]);
    assert!(TopicConfig::validate("t", &own, &broker(&[])).unwrap_err().to_string().contains(NO_COMPACTION));
}

#[test]
fn row_47_kafka_s_keys_are_accepted_and_others_refused() {
    let server = broker(&[]);
    let streams = [
        ("segment.bytes", "52428800"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", "-1"),
        ("cleanup.policy", "compact,delete"),
        ("min.compaction.lag.ms", "5"),
        ("remote.storage.enable", "false"),
        ("leader.replication.throttled.replicas", "*"),
    ];
    TopicConfig::validate("t", &map(&streams), &server).unwrap();
    let unknown = TopicConfig::validate("t", &map(&[("segment.byte", "1")]), &server).unwrap_err();
    assert_eq!(unknown.to_string(), "Unknown topic config name: segment.byte");
    let lag = map(&[("min.compaction.lag.ms", "7"), ("max.compaction.lag.ms", "6")]);
    assert!(matches!(TopicConfig::validate("t", &lag, &server), Err(ConfigError::Conflict { .. })));
    assert!(TopicConfig::validate("t", &map(&[("segment.bytes", "1000")]), &server).is_err());
    assert!(TopicConfig::validate("t", &map(&[("remote.storage.enable", "true")]), &server).is_err());
}
