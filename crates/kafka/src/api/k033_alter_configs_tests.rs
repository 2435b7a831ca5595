use mainstem_kafka_wire::messages::alter_configs_request::AlterableConfig;

use super::*;
use crate::test_support::TestDoor;

const TOPIC: i8 = ConfigResource::TOPIC;
const BROKER: i8 = ConfigResource::BROKER;

type Values<'v> = &'v [(&'static str, Option<&'static str>)];

fn resource<'a>(kind: i8, name: &'a str, values: Values<'_>) -> AlterConfigsResource<'a> {
    let value = |(name, value): &(&'static str, Option<&'static str>)| AlterableConfig {
        name: Cow::Borrowed(*name),
        value: value.map(Cow::Borrowed),
    };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: Cow::Borrowed(name),
        configs: values.iter().map(value).collect(),
    }
}

fn alter(kafka: &TestDoor, kind: i8, name: &str, values: Values<'_>) -> ErrorCode {
    let request = AlterConfigsRequest { resources: vec![resource(kind, name, values)], validate_only: false };
    let response: AlterConfigsResponse<'static> = kafka.call(2, &request);
    assert_eq!(response.responses.len(), 1);
    let result = &response.responses[0];
    assert_eq!((result.resource_type, result.resource_name.as_ref()), (kind, name));
    assert_eq!(result.error_message.is_some(), result.error_code != 0, "{result:?}");
    ErrorCode(result.error_code)
}

/// All that is set for a topic.
fn set(kafka: &TestDoor, topic: &str) -> Vec<(String, String)> {
    let image = kafka.broker().image();
    image.topic_configs(topic).iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn row_49_the_whole_set_is_replaced_and_applies_at_once() {
    let kafka = TestDoor::start(&[]);
    kafka.create_with("a", 1, &[("retention.ms", "5"), ("retention.bytes", "9")]);
    let values: Values = &[("retention.ms", Some("6")), ("segment.ms", Some("7"))];
    assert_eq!(alter(&kafka, TOPIC, "a", values), ErrorCode::NONE);
    assert_eq!(set(&kafka, "a"), [pair("retention.ms", "6"), pair("segment.ms", "7")]);
    let config = kafka.broker().topics().by_name("a").unwrap().config.clone();
    assert_eq!((config.retention_ms, config.retention_bytes), (Some(6), None));
    assert_eq!(alter(&kafka, TOPIC, "a", &[]), ErrorCode::NONE);
    assert_eq!(set(&kafka, "a"), []);
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().config.retention_ms, Some(604_800_000));
}

#[test]
fn row_49_settings_of_brokers_are_replaced_too() {
    let kafka = TestDoor::start(&[]);
    assert_eq!(alter(&kafka, BROKER, "1", &[("message.max.bytes", Some("2000"))]), ErrorCode::NONE);
    let values: Values = &[("log.retention.ms", Some("77")), ("min.insync.replicas", Some("1"))];
    assert_eq!(alter(&kafka, BROKER, "", values), ErrorCode::NONE);
    let without_minimum = alter(&kafka, BROKER, "", &[("log.retention.ms", Some("78"))]);
    assert_eq!(without_minimum, ErrorCode::INVALID_CONFIG, "eligible leader replicas need it (KIP-966)");
    let defaults = |kafka: &TestDoor| {
        let config = kafka.broker().config();
        (config.log.topic_defaults.max_message_bytes, config.log.topic_defaults.retention_ms)
    };
    assert_eq!(defaults(&kafka), (2000, Some(77)));
    assert_eq!(alter(&kafka, BROKER, "1", &[]), ErrorCode::NONE);
    assert_eq!(defaults(&kafka), (1_048_588, Some(77)));
}

#[test]
fn row_49_nothing_is_done_of_a_set_that_makes_no_sense() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("row-49-set"), kafka.fresh("row-49-set-absent"));
    kafka.create_with(&name, 1, &[("retention.ms", "5")]);
    let good = ("retention.bytes", Some("1"));
    let cases: &[(i8, &str, Values, ErrorCode)] = &[
        (TOPIC, &name, &[good, ("segment.ms", Some("soon"))], ErrorCode::INVALID_CONFIG),
        (TOPIC, &name, &[good, ("no.such.key", Some("1"))], ErrorCode::INVALID_CONFIG),
        (TOPIC, &name, &[good, ("segment.ms", None)], ErrorCode::INVALID_REQUEST),
        (TOPIC, &name, &[good, good], ErrorCode::INVALID_REQUEST),
        (TOPIC, &absent, &[good], ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", &[good], ErrorCode::INVALID_REQUEST),
        (BROKER, "7", &[("message.max.bytes", Some("1000"))], ErrorCode::INVALID_REQUEST),
        (BROKER, "1", &[("node.id", Some("3"))], ErrorCode::INVALID_REQUEST),
        (99, "x", &[good], ErrorCode::INVALID_REQUEST),
    ];
    for (kind, resource, values, expected) in cases {
        assert_eq!(alter(&kafka, *kind, resource, values), *expected, "{kind} {resource} {values:?}");
    }
    if !kafka.is_peer() {
        assert_eq!(set(&kafka, &name), [pair("retention.ms", "5")]);
    }
}

#[test]
fn row_49_sets_of_several_resources_in_every_version() {
    let kafka = TestDoor::any();
    let (good, absent) = (kafka.fresh("row-49-whole-good"), kafka.fresh("row-49-whole-gone"));
    kafka.create(&good, 1);
    let values: Values = &[("retention.ms", Some("1"))];
    for version in API.min_version..=API.max_version {
        for validate_only in [true, false] {
            let resources = vec![resource(TOPIC, &good, values), resource(TOPIC, &absent, values)];
            let request = AlterConfigsRequest { resources, validate_only };
            let response: AlterConfigsResponse<'static> = kafka.call(version, &request);
            assert_eq!(response.responses.len(), 2);
            for result in &response.responses {
                let fine = result.resource_name == good;
                let expected = if fine { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
                assert_eq!(ErrorCode(result.error_code), expected, "version {version} {}", result.resource_name);
            }
        }
    }
    let nothing: AlterConfigsResponse<'static> = kafka.call(2, &AlterConfigsRequest::default());
    assert_eq!(nothing.responses, []);
}

#[test]
fn row_49_validation_alone_changes_nothing() {
    let kafka = TestDoor::start(&[]);
    kafka.create_with("a", 1, &[("retention.ms", "5")]);
    let request = AlterConfigsRequest { resources: vec![resource(TOPIC, "a", &[])], validate_only: true };
    let response: AlterConfigsResponse<'static> = kafka.call(1, &request);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(set(&kafka, "a"), [pair("retention.ms", "5")]);
}
