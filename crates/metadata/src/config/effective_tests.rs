use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn shown(entry: &ConfigEntry) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or("null".to_string());
    let synonyms: Vec<String> =
        entry.synonyms.iter().map(|s| format!("{:?}:{}={}", s.source, s.name, value(&s.value))).collect();
    format!("{}={} {:?} [{}]", entry.name, value(&entry.value), entry.source, synonyms.join(", "))
}

fn topic(overrides: &[(&str, &str)], broker: &BrokerConfig, name: &str) -> String {
    let entries = topic_config_entries("t", &map(overrides), broker);
    shown(entries.iter().find(|entry| entry.name == name).unwrap())
}

#[test]
fn row_48_defaults_are_shown_as_defaults_the_way_kafka_shows_them() {
    let broker = BrokerConfig::parse(&map(&[])).unwrap();
    let cases = [
        "cleanup.policy=delete Default [Default:log.cleanup.policy=delete]",
        "flush.ms=9223372036854775807 Default []",
        "segment.ms=604800000 Default []",
        "retention.ms=604800000 Default []",
        "segment.bytes=1073741824 Default [Default:log.segment.bytes=1073741824]",
        "remote.storage.enable=false Default []",
        "mainstem.durability=os Default [Default:mainstem.durability=os]",
        "mainstem.key.index=headers Default [Default:mainstem.key.index=headers]",
        "mainstem.layout=partition Default []",
        "leader.replication.throttled.replicas= Default []",
    ];
    for expected in cases {
        assert_eq!(topic(&[], &broker, expected.split_once('=').unwrap().0), expected);
    }
    let entries = topic_config_entries("t", &map(&[]), &broker);
    assert_eq!(entries.len(), 41);
    assert!(entries.iter().all(|entry| !entry.read_only && !entry.sensitive && !entry.documentation.is_empty()));
}

#[test]
fn row_48_a_value_shows_all_it_could_fall_back_to() {
    let file = BrokerConfig::parse(&map(&[("log.retention.hours", "2")])).unwrap();
    let broker = file.with_dynamic(&map(&[("log.retention.ms", "5000000")]), &map(&[])).unwrap();
    assert_eq!(
        topic(&[("retention.ms", "1000000")], &broker, "retention.ms"),
        "retention.ms=1000000 DynamicTopic [DynamicTopic:retention.ms=1000000, \
         DynamicDefaultBroker:log.retention.ms=5000000, StaticBroker:log.retention.hours=2, \
         Default:log.retention.hours=168]"
    );
    assert_eq!(
        topic(&[], &broker, "retention.ms"),
        "retention.ms=5000000 DynamicDefaultBroker [DynamicDefaultBroker:log.retention.ms=5000000, \
         StaticBroker:log.retention.hours=2, Default:log.retention.hours=168]"
    );
    assert_eq!(
        topic(&[], &file, "retention.ms"),
        "retention.ms=7200000 StaticBroker [StaticBroker:log.retention.hours=2, Default:log.retention.hours=168]"
    );
}

#[test]
fn server_properties_show_layer_mode_and_no_secrets() {
    let file = BrokerConfig::parse(&map(&[("ssl.key.password", "hunter2"), ("node.id", "7")])).unwrap();
    let broker = file.with_dynamic(&map(&[("message.max.bytes", "9")]), &map(&[("message.max.bytes", "8")])).unwrap();
    let entries = broker_config_entries(&broker);
    let entry = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(
        shown(entry("message.max.bytes")),
        "message.max.bytes=8 DynamicBroker [DynamicBroker:message.max.bytes=8, \
         DynamicDefaultBroker:message.max.bytes=9, Default:message.max.bytes=1048588]"
    );
    assert_eq!(shown(entry("broker.id")), "broker.id=7 StaticBroker [StaticBroker:broker.id=7, Default:broker.id=-1]");
    let secret = entry("ssl.key.password");
    assert_eq!(shown(secret), "ssl.key.password=null StaticBroker [StaticBroker:ssl.key.password=null]");
    assert!(secret.sensitive);
    assert!(entry("node.id").read_only && !entry("message.max.bytes").read_only);
    assert!(!entries.iter().any(|entry| entry.name == "unstable.api.versions.enable"), "internal ones are not shown");
}

#[test]
fn cluster_defaults_show_only_what_is_set() {
    let entries = cluster_default_config_entries(&map(&[("log.retention.ms", "5")]));
    assert_eq!(entries.len(), 1);
    let expected = "log.retention.ms=5 DynamicDefaultBroker [DynamicDefaultBroker:log.retention.ms=5]";
    assert_eq!(shown(&entries[0]), expected);
}
