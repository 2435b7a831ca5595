use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn parse(pairs: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    BrokerConfig::parse(&map(pairs))
}

#[test]
fn an_empty_file_gives_kafka_s_defaults() {
    let config = parse(&[]).unwrap();
    assert_eq!(config.node_id, 1);
    assert_eq!(config.connections.max_idle_ms, 600_000);
    assert_eq!(config.connections.request_max_bytes, 104_857_600);
    assert_eq!(config.groups.initial_rebalance_delay_ms, 3000);
    assert_eq!(config.groups.min_session_timeout_ms, 6000);
    assert_eq!(config.offsets.retention_ms, 7 * 24 * 3_600_000);
    assert_eq!(config.threads.network, None);
    assert_eq!(config.log.data_dir, None);
    assert!(config.topics.auto_create && config.topics.delete_enable);
    assert_eq!(config.warnings, vec![]);
}

#[test]
fn the_file_of_a_one_node_kafka_is_accepted() {
    let config = parse(&[
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.quorum.voters", "1@127.0.0.1:9093"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"),
        ("advertised.listeners", "PLAINTEXT://broker.example:9092"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        ("controller.listener.names", "CONTROLLER"),
        ("log.dirs", "/var/lib/kafka"),
        ("num.network.threads", "3"),
    ])
    .unwrap();
    let listeners: Vec<String> = config.listeners.iter().map(|listener| listener.to_string()).collect();
    assert_eq!(listeners, ["PLAINTEXT://127.0.0.1:9092"]);
    assert_eq!(config.advertised_listeners[0].host, "broker.example");
    assert_eq!(config.log.data_dir.as_deref(), Some("/var/lib/kafka"));
    assert_eq!(config.threads.network, Some(3));
    assert_eq!(
        config.warnings,
        vec![
            ConfigWarning::NoEffect {
                key: "controller.quorum.voters".into(),
                reason: "the node is its own controller and the only replica",
            },
            ConfigWarning::ControllerListener { name: "CONTROLLER".into() },
        ]
    );
}

#[test]
fn what_is_wrong_is_refused_with_key_value_and_reason() {
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("log.segment.byte", "1")], "Unknown server property: log.segment.byte (did you mean log.segment.bytes?)"),
        (&[("NODE.ID", "1")], "Unknown server property: NODE.ID (did you mean node.id?)"),
        (&[("num_partitions", "1")], "Unknown server property: num_partitions (did you mean num.partitions?)"),
        (&[("num.partitions", "0")], "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (
            &[("group.min.session.timeout.ms", "9"), ("group.max.session.timeout.ms", "8")],
            "Invalid value 9 for configuration group.min.session.timeout.ms: it is more than \
             group.max.session.timeout.ms (8)",
        ),
        (
            &[("log.retention.ms", "0")],
            "Invalid value 0 for configuration log.retention.ms: it must be -1 (for ever) or at least 1",
        ),
        (
            &[("node.id", "1"), ("broker.id", "2")],
            "Invalid value 1 for configuration node.id: node.id and broker.id are two names of one property and must \
             agree",
        ),
        (&[("log.dirs", "/a,/b")], "Invalid value /a,/b for configuration log.dirs: one data folder is supported"),
        (
            &[("advertised.listeners", "PLAINTEXT://0.0.0.0:1")],
            "Invalid value PLAINTEXT://0.0.0.0:1 for configuration advertised.listeners: clients cannot connect to \
             \"every interface\": give a host name or an address",
        ),
    ];
    for (pairs, message) in cases {
        assert_eq!(parse(pairs).unwrap_err().to_string(), message);
    }
    assert!(parse(&[("listeners", "SSL://127.0.0.1:9093")]).is_err());
    assert!(parse(&[("listeners", "")]).is_err());
    assert!(parse(&[("process.roles", "controller")]).is_err());
}

#[test]
fn overrides_for_single_addresses_are_read() {
    let config = parse(&[("max.connections.per.ip.overrides", "127.0.0.1:5, ::1:7")]).unwrap();
    assert_eq!(config.connections.max_per_ip_overrides, BTreeMap::from([("127.0.0.1".into(), 5), ("::1".into(), 7)]));
    assert!(parse(&[("max.connections.per.ip.overrides", "x")]).is_err());
}

#[test]
fn dynamic_changes_come_over_the_file_and_the_broker_over_the_cluster() {
    let file = parse(&[("message.max.bytes", "1"), ("log.retention.hours", "1")]).unwrap();
    let config = file.with_dynamic(&map(&[("message.max.bytes", "2"), ("log.retention.ms", "3")]), &map(&[])).unwrap();
    assert_eq!(config.log.topic_defaults.max_message_bytes, 2);
    assert_eq!(config.log.topic_defaults.retention_ms, Some(3));
    let config = config.with_dynamic(&map(&[]), &map(&[("message.max.bytes", "4")])).unwrap();
    assert_eq!(config.log.topic_defaults.max_message_bytes, 4);
    assert_eq!(config.log.topic_defaults.retention_ms, Some(3_600_000));
}

#[test]
fn what_cannot_be_set_while_running_is_passed_over_when_a_folder_has_it() {
    let file = parse(&[]).unwrap();
    let odd = map(&[("nope", "1"), ("num.partitions", "9"), ("ssl.protocol", "x"), ("message.max.bytes", "2")]);
    let config = file.with_dynamic(&odd, &map(&[("nope", "1")])).unwrap();
    assert_eq!((config.topics.num_partitions, config.log.topic_defaults.max_message_bytes), (1, 2));
    assert_eq!(config.value("ssl.protocol"), Some("TLSv1.3"));
}

#[test]
fn only_dynamic_properties_change_while_running() {
    let check = |key, value, one| BrokerConfig::check_dynamic(key, value, one);
    assert_eq!(check("message.max.bytes", Some("5"), false), Ok(()));
    assert_eq!(check("message.max.bytes", None, true), Ok(()));
    assert!(matches!(check("message.max.bytes", Some("x"), true), Err(ConfigError::InvalidValue { .. })));
    assert!(matches!(check("num.partitions", Some("5"), false), Err(ConfigError::ReadOnly { .. })));
    assert!(matches!(check("listeners", Some("5"), false), Err(ConfigError::PerBrokerOnly { .. })));
    assert!(matches!(check("nope", Some("5"), false), Err(ConfigError::UnknownBrokerKey { .. })));
}

#[test]
fn what_is_advertised_after_binding_stays_through_changes() {
    let mut config = parse(&[
        ("listeners", "PLAINTEXT://127.0.0.1:0,B://[::1]:0"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"),
    ])
    .unwrap();
    let mut told = config.advertised_listeners.clone();
    (told[0].port, told[1].port) = (7, 8);
    config.advertise(told.clone());
    let config = config.with_dynamic(&map(&[("num.io.threads", "2")]), &map(&[])).unwrap();
    assert_eq!(config.advertised_listeners, told);
    assert_eq!(config.value("advertised.listeners"), Some("PLAINTEXT://127.0.0.1:7,B://[::1]:8"));
}
