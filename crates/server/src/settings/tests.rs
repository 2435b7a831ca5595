use super::*;

const KEYS: [&str; 4] = ["log.dirs", "num.io.threads", "listeners", "mainstem.durability"];

fn collect(arguments: Arguments, environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::collect(&arguments, environment, KEYS)
}

fn entries(parsed: Result<Vec<Entry>, FileError>) -> Vec<(String, String, usize)> {
    let mut entries: Vec<_> = parsed.unwrap().into_iter().map(|entry| (entry.key, entry.value, entry.line)).collect();
    entries.sort_by_key(|entry| entry.2);
    entries
}

fn expect(expected: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
    expected.iter().map(|(key, value, line)| ((*key).to_owned(), (*value).to_owned(), *line)).collect()
}

#[test]
fn toml_keys_are_flat_quoted_dotted_or_tables() {
    let text = "node.id = 7\n\"log.segment.bytes\" = 0x1_000\nlisteners = [\"A://h:1\", \"B://[::1]:2\"]\n\n[log.retention]\nhours = -1\nx.y = 'text'\n[log]\ncleaner.ratio = 0.5\npreallocate = true\n";
    let expected = [
        ("node.id", "7", 1),
        ("log.segment.bytes", "4096", 2),
        ("listeners", "A://h:1,B://[::1]:2", 3),
        ("log.retention.hours", "-1", 6),
        ("log.retention.x.y", "text", 7),
        ("log.cleaner.ratio", "0.5", 9),
        ("log.preallocate", "true", 10),
    ];
    assert_eq!(entries(toml_file::parse(text)), expect(&expected));
}

#[test]
fn errors_in_toml_name_the_line() {
    let line_of = |text: &str| match toml_file::parse(text).unwrap_err() {
        FileError::Syntax { line, .. } => line,
        FileError::Twice { .. } => panic!("twice"),
    };
    assert_eq!(line_of("a = 1\nb = \n"), 2);
    assert_eq!(line_of("a = 1\n\nb = 1979-05-27\n"), 3);
    assert_eq!(line_of("a = [1,\n [2]]\n"), 1);
    assert_eq!(line_of("a = 99999999999999999999\n"), 1);
    let twice = toml_file::parse("a.b = 1\nc = 2\n\"a.b\" = 3\n").unwrap_err();
    assert_eq!(twice, FileError::Twice { key: "a.b".to_owned(), line: 3, first: 1 });
}

#[test]
fn properties_are_read_as_java_reads_them() {
    let text = "# comment\n! comment\n\nnode.id=1\n  log.dirs = /var/data  \nlisteners:PLAINTEXT://h:1,\\\n   B://h:2\nempty=\nblank value\nkey\\ with\\=signs=a\\tb\\u0041\npath=C:\\\\\nlast";
    let expected = [
        ("node.id", "1", 4),
        ("log.dirs", "/var/data", 5),
        ("listeners", "PLAINTEXT://h:1,B://h:2", 6),
        ("empty", "", 8),
        ("blank", "value", 9),
        ("key with=signs", "a\tbA", 10),
        ("path", "C:\\", 11),
        ("last", "", 12),
    ];
    assert_eq!(entries(properties_file::parse(text)), expect(&expected));
}

#[test]
fn odd_properties_files_are_read_as_java_reads_them() {
    type Case = (&'static str, &'static [(&'static str, &'static str, usize)]);
    let cases: [Case; 12] = [
        ("a=1\rb=2\r\nc=3", &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]),
        ("a=1\\\r\n  2\\\n\\\n3\nb=4", &[("a", "123", 1), ("b", "4", 5)]),
        ("a=1\\\n#2\n# comment \\\nb=3", &[("a", "1#2", 1), ("b", "3", 4)]),
        ("a=1\\\n\nb=2", &[("a", "1", 1), ("b", "2", 3)]),
        ("a=1\\", &[("a", "1", 1)]),
        ("a=\\\\\nb=\\\\\\\nx", &[("a", "\\", 1), ("b", "\\x", 2)]),
        ("\u{c}\ta \t:= b", &[("a", "= b", 1)]),
        ("a\u{a0}b=c\u{2003}d", &[("a\u{a0}b", "c\u{2003}d", 1)]),
        ("=v\n:\nk", &[("", "v", 1), ("", "", 2), ("k", "", 3)]),
        ("a=1\na:2\na 3", &[("a", "1", 1), ("a", "2", 2), ("a", "3", 3)]),
        ("a=\\u00e9\\uD83D\\uDE00\\u0041x\\q\\#\\!\\:", &[("a", "é\u{1f600}Axq#!:", 1)]),
        ("! \\u12\n#\\\na=1", &[("a", "1", 3)]),
    ];
    for (text, expected) in cases {
        assert_eq!(entries(properties_file::parse(text)), expect(expected), "{text:?}");
    }
    for wrong in ["a=1\nb=\\u12", "a=1\nb=\\u+123", "a=1\nb=\\uD83D", "a=1\nb\\uD83D\\u0041", "a=1\nb=\\uéé12"] {
        assert!(matches!(properties_file::parse(wrong), Err(FileError::Syntax { line: 2, .. })), "{wrong:?}");
    }
}

#[test]
fn a_properties_file_is_utf_8_or_else_latin_1() {
    assert_eq!(properties_file::text("\u{feff}# né\na=é".into()), "# né\na=é");
    assert_eq!(properties_file::text(b"# n\xe9\na=\xe9".to_vec()), "# né\na=é");
    assert_eq!(properties_file::text(Vec::new()), "");
}

#[test]
fn the_command_line_beats_the_environment_and_that_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "\"log.dirs\" = \"file\"\n\"num.io.threads\" = 1\n\"mainstem.durability\" = \"os\"\n")
        .unwrap();
    let arguments = Arguments {
        config: Some(path.clone()),
        data_dir: Some("line".to_owned()),
        listen: Some("[::1]:9".to_owned()),
        set: vec!["log.dirs=set".to_owned(), "x.y = 1=2".to_owned()],
    };
    let environment = [
        ("MAINSTEM_LOG_DIRS", "variable"),
        ("MAINSTEM_NUM_IO_THREADS", "2"),
        ("PATH", "/bin"),
        ("MAINSTEM_LOG", "debug"),
    ];
    let settings = collect(arguments, &environment).unwrap();
    let value = |key: &str| settings.get(key).map(|setting| (setting.value.as_str(), setting.source.to_string()));
    assert_eq!(value("log.dirs"), Some(("line", "command line, --data-dir".to_owned())));
    assert_eq!(value("num.io.threads"), Some(("2", "environment variable MAINSTEM_NUM_IO_THREADS".to_owned())));
    assert_eq!(value("mainstem.durability"), Some(("os", format!("{} line 3", path.display()))));
    assert_eq!(value("listeners"), Some(("PLAINTEXT://[::1]:9", "command line, --listen".to_owned())));
    assert_eq!(value("x.y"), Some(("1=2", "command line, --set".to_owned())));
    assert_eq!(settings.properties().len(), 5);
}

#[test]
fn variables_that_name_no_setting_are_refused_except_those_of_kubernetes() {
    let links = [
        ("MAINSTEM_SERVICE_HOST", "10.0.0.1"),
        ("MAINSTEM_PORT", "tcp://10.0.0.1:9092"),
        ("MAINSTEM_PORT_9092_TCP", "x"),
    ];
    assert_eq!(collect(Arguments::default(), &links).unwrap(), Settings::default());
    let short = collect(Arguments::default(), &[("MAINSTEM_DURABILITY", "disk")]).unwrap();
    let long = collect(Arguments::default(), &[("MAINSTEM_MAINSTEM_DURABILITY", "disk")]).unwrap();
    assert_eq!(short.properties(), long.properties());
    let error = collect(Arguments::default(), &[("MAINSTEM_LOG_DIR_S", "x")]).unwrap_err();
    assert!(error.to_string().starts_with("MAINSTEM_LOG_DIR_S "), "{error}");
    let error = collect(Arguments::default(), &[("MAINSTEM_NUM_PARTITION", "2")]).unwrap_err();
    assert!(error.to_string().contains("did you mean MAINSTEM_NUM_PARTITIONS?"), "{error}");
}

#[test]
fn what_is_wrong_with_arguments_is_said() {
    let set = collect(Arguments { set: vec!["novalue".to_owned()], ..Arguments::default() }, &[]).unwrap_err();
    assert_eq!(set.to_string(), "--set novalue: it must be --set key=value");
    let kind = collect(Arguments { config: Some("a.yaml".into()), ..Arguments::default() }, &[]).unwrap_err();
    assert!(matches!(kind, SettingsError::Read { .. }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.properties");
    std::fs::write(&path, "a=1\na=2\n").unwrap();
    let settings = collect(Arguments { config: Some(path), ..Arguments::default() }, &[]).unwrap();
    assert_eq!(settings.get("a").unwrap().value, "2");
}

#[test]
fn a_refusal_says_where_the_value_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "\n\"num.partitions\" = 0\n").unwrap();
    let settings = collect(Arguments { config: Some(path.clone()), ..Arguments::default() }, &[]).unwrap();
    let message = read_config(&settings).unwrap_err().to_string();
    let place = format!("({} line 2)", path.display());
    assert!(message.contains("num.partitions") && message.ends_with(&place), "{message}");
    let settings =
        collect(Arguments { set: vec!["log.segment.byte=1".to_owned()], ..Arguments::default() }, &[]).unwrap();
    let message = read_config(&settings).unwrap_err().to_string();
    assert!(message.contains("log.segment.byte") && message.ends_with("(command line, --set)"), "{message}");
}

/// What a file of this name and text gives, with the warnings that speak of unknown keys.
fn read_file(name: &str, text: &str, set: &[&str]) -> Result<(BrokerConfig, Vec<String>), ConfigRefused> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let set = set.iter().map(|pair| (*pair).to_owned()).collect();
    let settings = collect(Arguments { config: Some(path), set, ..Arguments::default() }, &[]).unwrap();
    let config = read_config(&settings)?;
    let is_unknown = |warning: &&ConfigWarning| matches!(warning, ConfigWarning::Unknown { .. });
    let said = config.warnings.iter().filter(is_unknown).map(ToString::to_string).collect();
    Ok((config, said))
}

#[test]
fn a_key_that_nobody_knows_is_a_warning_in_kafka_s_file_and_an_error_elsewhere() {
    let (config, said) =
        read_file("server.properties", "node.id=7\nsuper.users=User:a\nlog.retention.hour=1\n", &[]).unwrap();
    assert_eq!((config.node_id, config.value("super.users")), (7, None));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("log.retention.hour is a setting of neither Kafka nor Mainstem, and is ignored"));
    assert!(said[0].contains("did you mean log.retention.hours?") && said[0].ends_with("server.properties line 3)"));
    assert!(said[1].starts_with("super.users ") && !said[1].contains("did you mean") && !said[1].contains("User:a"));

    let toml = read_file("server.toml", "\"log.retention.hour\" = 1\n", &[]).unwrap_err().to_string();
    assert!(toml.contains("did you mean log.retention.hours?") && toml.ends_with("server.toml line 1)"), "{toml}");
    let line = read_file("server.properties", "super.users=User:a\n", &["super.users=User:b"]).unwrap_err().to_string();
    assert_eq!(line, "Unknown server property: super.users (command line, --set)");
    let value = read_file("server.properties", "super.users=a\nnum.partitions=none\n", &[]).unwrap_err().to_string();
    assert!(value.contains("num.partitions") && value.ends_with("server.properties line 2)"), "{value}");
}

/// Keys as they stand in the files of people, by who made the file.
const FILES: [(&str, &[&str], &str); 6] = [
    (
        "Kafka 4, one node",
        &[],
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
         listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n\
         advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
         num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\n\
         socket.request.max.bytes=104857600\nlog.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n\
         num.recovery.threads.per.data.dir=1\noffsets.topic.replication.factor=1\n\
         share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\nlog.retention.hours=168\n\
         log.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n",
    ),
    (
        "Kafka 2 and 3, with ZooKeeper",
        &[
            "inter.broker.protocol.version",
            "log.message.format.version",
            "port",
            "zookeeper.connect",
            "zookeeper.connection.timeout.ms",
        ],
        "broker.id=0\nport=9092\nlisteners=PLAINTEXT://:9092\nlog.dirs=/tmp/kafka-logs\nnum.partitions=1\n\
         zookeeper.connect=localhost:2181/kafka\nzookeeper.connection.timeout.ms=18000\n\
         group.initial.rebalance.delay.ms=0\ninter.broker.protocol.version=3.4\nlog.message.format.version=3.0\n",
    ),
    (
        "an authorizer, JAAS and a metrics reporter",
        &["allow.everyone.if.no.acl.found", "ranger.plugin.kafka.policy.rest.url", "super.users"],
        "node.id=1\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:admin;User:CN=ops,O=example\nallow.everyone.if.no.acl.found=false\n\
         sasl.enabled.mechanisms=PLAIN\n\
         listener.name.plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n\
         \u{20}  username=\"admin\" \\\n   password=\"secret\";\n\
         kafka.metrics.reporters=com.example.Reporter\nkafka.metrics.polling.interval.secs=10\n\
         ranger.plugin.kafka.policy.rest.url=http://ranger:6080\n",
    ),
    (
        "Confluent",
        &[
            "confluent.balancer.enable",
            "confluent.license.topic.replication.factor",
            "confluent.metadata.server.listeners",
            "confluent.metrics.reporter.bootstrap.servers",
            "confluent.support.customer.id",
            "confluent.support.metrics.enable",
        ],
        "broker.id=0\nlog.dirs=/var/lib/kafka\nconfluent.support.metrics.enable=true\n\
         confluent.support.customer.id=anonymous\nconfluent.license.topic.replication.factor=1\n\
         confluent.metadata.server.listeners=http://0.0.0.0:8090\nconfluent.balancer.enable=false\n\
         metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter\n\
         confluent.metrics.reporter.bootstrap.servers=localhost:9092\n",
    ),
    (
        "Strimzi",
        &["client.quota.callback.static.produce", "config.providers.strimzienv.class", "strimzi.authorization.url"],
        "node.id=0\nprocess.roles=broker,controller\nconfig.providers=strimzienv\n\
         config.providers.strimzienv.class=io.strimzi.kafka.EnvVarConfigProvider\n\
         listener.security.protocol.map=CONTROLPLANE-9090:SSL,PLAIN-9092:PLAINTEXT\n\
         listeners=PLAIN-9092://0.0.0.0:9092,CONTROLPLANE-9090://0.0.0.0:9090\n\
         controller.listener.names=CONTROLPLANE-9090\nadvertised.listeners=PLAIN-9092://my-cluster-0.svc:9092\n\
         listener.name.controlplane-9090.ssl.keystore.location=/tmp/kafka/cluster.keystore.p12\n\
         sasl.enabled.mechanisms=\nlog.dirs=/var/lib/kafka/data-0/kafka-log0\n\
         client.quota.callback.static.produce=1000000\nstrimzi.authorization.url=http://opa:8181\n",
    ),
    (
        "Bitnami and Cruise Control",
        &[
            "cruise.control.metrics.topic.auto.create",
            "max.partition.fetch.bytes",
            "max.request.size",
            "replication.factor",
            "schema.registry.url",
        ],
        "# Licensed\n\nlisteners=CLIENT://:9092,CONTROLLER://:9093\nadvertised.listeners=CLIENT://:9092\n\
         listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT\nnode.id=0\nprocess.roles=controller,broker\n\
         controller.listener.names=CONTROLLER\ncontroller.quorum.voters=0@kafka-0:9093\ninter.broker.listener.name=CLIENT\n\
         log.dir=/bitnami/kafka/data\nmax.partition.fetch.bytes=1048576\nmax.request.size=1048576\n\
         cruise.control.metrics.topic.auto.create=true\nreplication.factor=1\nschema.registry.url=http://registry\n",
    ),
];

#[test]
fn the_files_of_people_start_the_broker_and_what_nobody_knows_is_named() {
    for (whose, unknown, text) in FILES {
        let (_, said) = read_file("server.properties", text, &[]).unwrap_or_else(|error| panic!("{whose}: {error}"));
        let named: Vec<&str> = said.iter().filter_map(|warning| warning.split(' ').next()).collect();
        assert_eq!(named, unknown, "{whose}");
        assert!(!said.iter().any(|warning| warning.contains("secret")), "{said:?}");
    }
}
