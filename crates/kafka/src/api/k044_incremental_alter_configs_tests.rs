use super::*;
use crate::test_support::TestDoor;

const TOPIC: i8 = ConfigResource::TOPIC;
const BROKER: i8 = ConfigResource::BROKER;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

type Change = (&'static str, i8, Option<&'static str>);

fn resource<'a>(kind: i8, name: &'a str, changes: &[Change]) -> AlterConfigsResource<'a> {
    let change = |(key, operation, value): &Change| AlterableConfig {
        name: Cow::Borrowed(*key),
        config_operation: *operation,
        value: value.map(Cow::Borrowed),
    };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: Cow::Borrowed(name),
        configs: changes.iter().map(change).collect(),
    }
}

fn alter(kafka: &TestDoor, kind: i8, name: &str, changes: &[Change]) -> ErrorCode {
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource(kind, name, changes)], validate_only: false };
    let response: IncrementalAlterConfigsResponse<'static> = kafka.call(1, &request);
    assert_eq!(response.responses.len(), 1);
    let result = &response.responses[0];
    assert_eq!((result.resource_type, result.resource_name.as_ref()), (kind, name));
    assert_eq!(result.error_message.is_some(), result.error_code != 0, "{result:?}");
    ErrorCode(result.error_code)
}

fn value(kafka: &TestDoor, topic: &str, key: &str) -> Option<String> {
    kafka.broker().image().topic_configs(topic).get(key).cloned()
}

#[test]
fn row_49_set_and_delete_change_single_keys_and_apply_at_once() {
    let kafka = TestDoor::start(&[]);
    kafka.create_with("a", 1, &[("retention.ms", "5"), ("retention.bytes", "9")]);
    assert_eq!(alter(&kafka, TOPIC, "a", &[("retention.ms", SET, Some("6"))]), ErrorCode::NONE);
    assert_eq!(value(&kafka, "a", "retention.ms").as_deref(), Some("6"));
    assert_eq!(value(&kafka, "a", "retention.bytes").as_deref(), Some("9"), "keys that are not named stay");
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().config.retention_ms, Some(6));
    assert_eq!(alter(&kafka, TOPIC, "a", &[("retention.ms", DELETE, None)]), ErrorCode::NONE);
    assert_eq!(value(&kafka, "a", "retention.ms"), None);
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().config.retention_ms, Some(604_800_000));
}

#[test]
fn row_49_deleting_an_unset_key_does_nothing() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-49-unset");
    kafka.create(&name, 1);
    assert_eq!(alter(&kafka, TOPIC, &name, &[("retention.ms", DELETE, None)]), ErrorCode::NONE);
}

#[test]
fn row_49_append_and_subtract_work_on_lists_only() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-49-lists");
    kafka.create(&name, 1);
    assert_eq!(alter(&kafka, TOPIC, &name, &[("cleanup.policy", APPEND, Some("compact"))]), ErrorCode::NONE);
    if !kafka.is_peer() {
        assert_eq!(value(&kafka, &name, "cleanup.policy").as_deref(), Some("delete,compact"));
    }
    assert_eq!(alter(&kafka, TOPIC, &name, &[("cleanup.policy", SUBTRACT, Some("delete"))]), ErrorCode::NONE);
    if !kafka.is_peer() {
        assert_eq!(value(&kafka, &name, "cleanup.policy").as_deref(), Some("compact"));
    }
    for operation in [APPEND, SUBTRACT] {
        assert_eq!(alter(&kafka, TOPIC, &name, &[("retention.ms", operation, Some("1"))]), ErrorCode::INVALID_CONFIG);
    }
}

#[test]
fn row_49_what_makes_no_sense_is_refused_and_nothing_of_it_is_done() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-49-refused");
    let absent = kafka.fresh("row-49-absent");
    kafka.create(&name, 1);
    let good: Change = ("retention.ms", SET, Some("1"));
    let cases: &[(i8, &str, &[Change], ErrorCode)] = &[
        (TOPIC, &name, &[good, ("retention.bytes", SET, Some("lots"))], ErrorCode::INVALID_CONFIG),
        (TOPIC, &name, &[good, ("no.such.key", SET, Some("1"))], ErrorCode::INVALID_CONFIG),
        (TOPIC, &name, &[good, ("retention.bytes", SET, None)], ErrorCode::INVALID_REQUEST),
        (TOPIC, &name, &[good, good], ErrorCode::INVALID_REQUEST),
        (TOPIC, &absent, &[good], ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", &[good], ErrorCode::INVALID_REQUEST),
        (BROKER, "7", &[("message.max.bytes", SET, Some("1000"))], ErrorCode::INVALID_REQUEST),
        (BROKER, "one", &[("message.max.bytes", SET, Some("1000"))], ErrorCode::INVALID_REQUEST),
        (BROKER, "1", &[("node.id", SET, Some("3"))], ErrorCode::INVALID_REQUEST),
        (BROKER, "1", &[("message.max.bytes", SET, Some("many"))], ErrorCode::INVALID_REQUEST),
        (99, "x", &[good], ErrorCode::INVALID_REQUEST),
        (0, "x", &[good], ErrorCode::INVALID_REQUEST),
    ];
    for (kind, resource, changes, expected) in cases {
        assert_eq!(alter(&kafka, *kind, resource, changes), *expected, "{kind} {resource} {changes:?}");
    }
    if !kafka.is_peer() {
        assert_eq!(value(&kafka, &name, "retention.ms"), None);
        assert_eq!(alter(&kafka, TOPIC, &name, &[("retention.ms", 9, Some("1"))]), ErrorCode::INVALID_REQUEST);
    }
}

#[test]
fn row_49_resources_succeed_and_fail_on_their_own() {
    let kafka = TestDoor::any();
    let (good, absent) = (kafka.fresh("row-49-good"), kafka.fresh("row-49-gone"));
    kafka.create(&good, 1);
    let change: &[Change] = &[("retention.ms", SET, Some("1"))];
    for version in API.min_version..=API.max_version {
        let resources = vec![resource(TOPIC, &good, change), resource(TOPIC, &absent, change)];
        let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
        let response: IncrementalAlterConfigsResponse<'static> = kafka.call(version, &request);
        assert_eq!(response.responses.len(), 2);
        for result in &response.responses {
            let fine = result.resource_name == good;
            let expected = if fine { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            assert_eq!(ErrorCode(result.error_code), expected, "version {version} {}", result.resource_name);
        }
    }
    let twice = vec![resource(TOPIC, &good, change), resource(TOPIC, &good, change)];
    let request = IncrementalAlterConfigsRequest { resources: twice, validate_only: false };
    let response: IncrementalAlterConfigsResponse<'static> = kafka.call(1, &request);
    assert_eq!(response.responses.len(), 2);
    assert!(response.responses.iter().all(|result| result.error_code == ErrorCode::INVALID_REQUEST.0));
}

#[test]
fn row_49_broker_settings_change_for_one_or_for_all_and_reach_the_topics() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    let limit = || kafka.broker().topics().by_name("a").unwrap().config.max_message_bytes;
    assert_eq!(alter(&kafka, BROKER, "", &[("message.max.bytes", SET, Some("2000"))]), ErrorCode::NONE);
    assert_eq!(limit(), 2000);
    assert_eq!(alter(&kafka, BROKER, "1", &[("message.max.bytes", SET, Some("3000"))]), ErrorCode::NONE);
    assert_eq!(limit(), 3000);
    assert_eq!(alter(&kafka, BROKER, "1", &[("message.max.bytes", DELETE, None)]), ErrorCode::NONE);
    assert_eq!(limit(), 2000);
    assert_eq!(alter(&kafka, BROKER, "", &[("message.max.bytes", DELETE, None)]), ErrorCode::NONE);
    assert_eq!(limit(), 1_048_588);
}

#[test]
fn of_loggers_named_twice_none_is_changed() {
    let kafka = TestDoor::start(&[]);
    let change: &[Change] = &[("root", SET, Some("WARN"))];
    let code = |names: &[&str]| {
        let resources = names.iter().map(|name| resource(BROKER_LOGGER, name, change)).collect();
        let request = IncrementalAlterConfigsRequest { resources, validate_only: true };
        let response: IncrementalAlterConfigsResponse<'static> = kafka.call(1, &request);
        response.responses.iter().map(|result| ErrorCode(result.error_code)).collect::<Vec<_>>()
    };
    assert_eq!(code(&["1"]), [ErrorCode::NONE]);
    assert_eq!(code(&["1", "2", "1"]), [ErrorCode::INVALID_REQUEST; 3]);
}

#[test]
fn validating_changes_nothing() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    let resources = vec![resource(TOPIC, "a", &[("retention.ms", SET, Some("6"))])];
    let request = IncrementalAlterConfigsRequest { resources, validate_only: true };
    let response: IncrementalAlterConfigsResponse<'static> = kafka.call(1, &request);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(value(&kafka, "a", "retention.ms"), None);
}
