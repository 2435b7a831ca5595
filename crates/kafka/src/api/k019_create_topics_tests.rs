use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};
use mainstem_kafka_wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig};

use super::*;
use crate::test_support::TestDoor;

fn topic(name: &str) -> CreatableTopic<'_> {
    CreatableTopic { name: Cow::Borrowed(name), num_partitions: 1, replication_factor: 1, ..Default::default() }
}

fn create<'r>(kafka: &TestDoor, version: i16, topics: Vec<CreatableTopic<'_>>) -> Vec<CreatableTopicResult<'r>> {
    let request = CreateTopicsRequest { topics, ..Default::default() };
    kafka.call::<_, CreateTopicsResponse<'static>>(version, &request).topics
}

fn one<'r>(kafka: &TestDoor, topic: CreatableTopic<'_>) -> CreatableTopicResult<'r> {
    let mut results = create(kafka, 7, vec![topic]);
    assert_eq!(results.len(), 1);
    results.remove(0)
}

fn config<'c>(name: &'c str, value: Option<&'c str>) -> CreatableTopicConfig<'c> {
    CreatableTopicConfig { name: Cow::Borrowed(name), value: value.map(Cow::Borrowed) }
}

#[test]
fn row_46_minus_one_takes_the_brokers_defaults() {
    let kafka = TestDoor::start(&[("num.partitions", "3")]);
    let created = one(&kafka, CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic("a") });
    assert_eq!((created.error_code, created.error_message), (0, None));
    assert_eq!((created.num_partitions, created.replication_factor), (3, 1));
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().partitions.len(), 3);
}

#[test]
fn row_46_counts_of_zero_or_below_minus_one_are_refused() {
    let kafka = TestDoor::any();
    for partitions in [0, -2, i32::MIN] {
        let refused = one(&kafka, CreatableTopic { num_partitions: partitions, ..topic("row-46-counts") });
        assert_eq!(refused.error_code, ErrorCode::INVALID_PARTITIONS.0, "{partitions} partitions");
        assert_eq!((refused.num_partitions, refused.replication_factor), (-1, -1));
        assert_eq!(refused.configs, Some(Vec::new()));
    }
    for factor in [0, -2, i16::MIN] {
        let refused = one(&kafka, CreatableTopic { replication_factor: factor, ..topic("row-46-counts") });
        assert_eq!(refused.error_code, ErrorCode::INVALID_REPLICATION_FACTOR.0, "{factor} replicas");
    }
}

#[test]
fn row_46_more_replicas_than_brokers_is_an_invalid_replication_factor() {
    let refused = one(&TestDoor::any(), CreatableTopic { replication_factor: 2, ..topic("row-46-replicas") });
    assert_eq!(refused.error_code, ErrorCode::INVALID_REPLICATION_FACTOR.0);
    assert!(refused.error_message.unwrap().contains("only 1 broker(s)"));
}

#[test]
fn row_46_assignments_need_both_counts_unset() {
    let kafka = TestDoor::any();
    let place = |partition_index, broker_ids: &[i32]| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
    };
    let assigned = |partitions, factor, assignments| {
        let name = kafka.fresh("row-46-assigned");
        let topic =
            CreatableTopic { num_partitions: partitions, replication_factor: factor, assignments, ..topic(&name) };
        let result: CreatableTopicResult<'static> = one(&kafka, topic);
        (ErrorCode(result.error_code), result.num_partitions)
    };
    assert_eq!(assigned(1, -1, vec![place(0, &[1])]), (ErrorCode::INVALID_REQUEST, -1));
    assert_eq!(assigned(-1, 1, vec![place(0, &[1])]), (ErrorCode::INVALID_REQUEST, -1));
    let bad = [vec![place(0, &[1, 1])], vec![place(0, &[7])], vec![place(1, &[1])], vec![place(0, &[])]];
    for assignments in bad {
        let shown = format!("{assignments:?}");
        assert_eq!(assigned(-1, -1, assignments), (ErrorCode::INVALID_REPLICA_ASSIGNMENT, -1), "{shown}");
    }
    assert_eq!(assigned(-1, -1, vec![place(1, &[1]), place(0, &[1])]), (ErrorCode::NONE, 2));
}

#[test]
fn row_46_a_topic_that_is_named_twice_is_refused_and_the_others_are_created() {
    let kafka = TestDoor::any();
    let (twice, other) = (kafka.fresh("row-46-twice"), kafka.fresh("row-46-other"));
    let results = create(&kafka, 7, vec![topic(&twice), topic(&other), topic(&twice)]);
    for result in &results {
        let expected = if result.name == other { ErrorCode::NONE } else { ErrorCode::INVALID_REQUEST };
        assert_eq!(ErrorCode(result.error_code), expected, "{}", result.name);
    }
    assert!(results.iter().any(|result| result.name == other) && results.iter().any(|result| result.name == twice));
}

#[test]
fn row_46_a_topic_that_exists_is_refused() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-46-exists");
    kafka.create(&name, 1);
    let refused = one(&kafka, topic(&name));
    assert_eq!(refused.error_code, ErrorCode::TOPIC_ALREADY_EXISTS.0);
    assert_eq!(refused.error_message.as_deref(), Some(format!("Topic '{name}' already exists.").as_str()));
}

#[test]
fn row_46_validating_checks_everything_and_creates_nothing() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-46-validate");
    let request = |topics| CreateTopicsRequest { topics, validate_only: true, ..Default::default() };
    for _ in 0..2 {
        let response: CreateTopicsResponse<'static> = kafka.call(7, &request(vec![topic(&name)]));
        assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 1));
    }
    let bad = CreatableTopic { num_partitions: 0, ..topic(&name) };
    let response: CreateTopicsResponse<'static> = kafka.call(7, &request(vec![bad]));
    assert_eq!(response.topics[0].error_code, ErrorCode::INVALID_PARTITIONS.0);
}

#[test]
fn row_46_answers_show_settings_from_version_5_and_ids_from_version_7() {
    let kafka = TestDoor::any();
    for version in API.min_version..=API.max_version {
        let name = kafka.fresh(&format!("row-46-version-{version}"));
        let wanted = CreatableTopic { configs: vec![config("retention.ms", Some("1234"))], ..topic(&name) };
        let created = create(&kafka, version, vec![wanted]).remove(0);
        assert_eq!((created.name.as_ref(), created.error_code), (name.as_str(), 0), "version {version}");
        assert_eq!(!created.topic_id.is_zero(), version >= 7, "version {version}");
        let configs = created.configs.unwrap_or_default();
        let shown = |key: &str| configs.iter().find(|entry| entry.name == key).cloned();
        if version < 5 {
            assert_eq!((configs.len(), created.num_partitions), (0, -1));
            continue;
        }
        assert_eq!((created.num_partitions, created.replication_factor), (1, 1));
        let own = shown("retention.ms").unwrap();
        assert_eq!(
            (own.value.as_deref(), own.config_source, own.read_only, own.is_sensitive),
            (Some("1234"), 1, false, false)
        );
        let default = shown("cleanup.policy").unwrap();
        assert_eq!((default.value.as_deref(), default.config_source), (Some("delete"), 5));
    }
}

#[test]
fn row_47_kafkas_topic_settings_are_accepted_and_others_refused() {
    let kafka = TestDoor::any();
    let create = |configs: Vec<CreatableTopicConfig<'static>>| {
        let value = configs[0].value.as_deref().unwrap_or_default();
        let name = kafka.fresh(&format!("row-47-{}-{}", configs[0].name, value.replace(',', "-")));
        let result: CreatableTopicResult<'static> = one(&kafka, CreatableTopic { configs, ..topic(&name) });
        ErrorCode(result.error_code)
    };
    let accepted = [
        ("segment.bytes", "1048576"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", "-1"),
        ("cleanup.policy", "compact,delete"),
        ("min.compaction.lag.ms", "10"),
        ("compression.type", "zstd"),
        ("unclean.leader.election.enable", "true"),
    ];
    for (key, value) in accepted {
        assert_eq!(create(vec![config(key, Some(value))]), ErrorCode::NONE, "{key}");
    }
    let refused = [("no.such.key", "1"), ("retention.ms", "soon"), ("segment.bytes", "0"), ("cleanup.policy", "shred")];
    for (key, value) in refused {
        assert_eq!(create(vec![config(key, Some(value))]), ErrorCode::INVALID_CONFIG, "{key}={value}");
    }
    assert_eq!(create(vec![config("retention.ms", None)]), ErrorCode::INVALID_CONFIG, "null");
}

#[test]
fn row_42_names_that_kafka_does_not_take_are_invalid() {
    let kafka = TestDoor::any();
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "a/b", "ä", &long] {
        let refused = one(&kafka, topic(name));
        assert_eq!(refused.error_code, ErrorCode::INVALID_TOPIC_EXCEPTION.0, "{name:?}");
    }
    let longest = kafka.fresh("l");
    let longest = format!("{longest}{}", "x".repeat(249 - longest.len()));
    assert_eq!(one(&kafka, topic(&longest)).error_code, 0);
}

#[test]
fn row_42_dots_and_underscores_collide() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row.42.collision");
    kafka.create(&name, 1);
    let refused = one(&kafka, topic(&name.replace('.', "_")));
    assert_eq!(refused.error_code, ErrorCode::INVALID_TOPIC_EXCEPTION.0);
}

#[test]
fn a_topic_that_was_acknowledged_exists_after_a_crash() {
    let kafka = TestDoor::start(&[]);
    let id = kafka.create_with("kept", 2, &[("retention.ms", "77")]);
    let left = kafka.here().fs.crash(CrashPolicy::Nothing);
    let again = TestDoor::start_on(left, &[]);
    let topics = again.broker().topics();
    let topic = topics.by_name("kept").unwrap();
    assert_eq!((topic.id, topic.partitions.len(), topic.config.retention_ms), (id, 2, Some(77)));
}

#[test]
fn nothing_is_acknowledged_after_the_metadata_log_failed() {
    let kafka = TestDoor::start(&[]);
    kafka.create("before", 1);
    let path_contains = Some("__cluster_metadata".to_owned());
    let fault = Fault { kind: Some(OpKind::Sync), path_contains, nth: 1, and_later: false, action: FaultAction::Io };
    kafka.here().fs.plan_fault(fault);
    for name in ["lost", "later"] {
        let refused = one(&kafka, topic(name));
        assert_eq!(refused.error_code, ErrorCode::KAFKA_STORAGE_ERROR.0, "{name}");
        assert!(refused.error_message.is_some());
        assert!(kafka.broker().topics().by_name(name).is_none());
    }
    assert!(kafka.broker().topics().by_name("before").is_some());
}

#[test]
fn a_broker_that_stops_says_so() {
    let kafka = TestDoor::start(&[]);
    kafka.broker().shutdown();
    let refused = one(&kafka, topic("late"));
    assert_eq!(refused.error_code, ErrorCode::NOT_CONTROLLER.0);
}

#[test]
fn a_topic_whose_folder_cannot_be_made_is_a_storage_error_and_the_others_are_created() {
    let kafka = TestDoor::start(&[]);
    kafka.create("broken", 2);
    kafka.delete_and_leave("broken", 1);
    let topics = ["broken", "whole"].map(|name| CreatableTopic { num_partitions: 3, ..topic(name) });
    let results = create(&kafka, 7, topics.to_vec());
    assert_eq!(ErrorCode(results[0].error_code), ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(results[0].error_message.as_deref().unwrap().contains("1 of its partitions"), "{results:?}");
    assert_eq!(results[1].error_code, 0);
    // The other partitions of the topic are there, and the next start makes the missing one.
    assert_eq!(kafka.broker().topics().by_name("broken").unwrap().partitions.len(), 2);
    let fs = kafka.here().fs.clone();
    drop(kafka);
    let kafka = TestDoor::start_on(fs, &[]);
    assert_eq!(kafka.broker().topics().by_name("broken").unwrap().partitions.len(), 3);
}
