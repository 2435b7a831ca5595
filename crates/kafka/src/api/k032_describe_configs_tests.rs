use super::*;
use crate::test_support::TestDoor;

const TOPIC: i8 = ConfigResource::TOPIC;
const BROKER: i8 = ConfigResource::BROKER;
const DYNAMIC_DEFAULT_BROKER: i8 = 3;
const STATIC_BROKER: i8 = 4;
const DEFAULT: i8 = 5;

type Result = DescribeConfigsResult<'static>;
type Entry = DescribeConfigsResourceResult<'static>;

fn resource<'a>(kind: i8, name: &'a str, keys: Option<&[&'a str]>) -> DescribeConfigsResource<'a> {
    DescribeConfigsResource {
        resource_type: kind,
        resource_name: Cow::Borrowed(name),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| Cow::Borrowed(*key)).collect()),
    }
}

fn describe(kafka: &TestDoor, kind: i8, name: &str) -> Result {
    let resources = vec![resource(kind, name, None)];
    ask(kafka, 4, DescribeConfigsRequest { resources, ..Default::default() })
}

fn ask(kafka: &TestDoor, version: i16, request: DescribeConfigsRequest<'_>) -> Result {
    let mut response: DescribeConfigsResponse<'static> = kafka.call(version, &request);
    assert_eq!(response.results.len(), 1);
    response.results.remove(0)
}

fn entry<'r>(result: &'r Result, key: &str) -> &'r Entry {
    result.configs.iter().find(|entry| entry.name == key).unwrap_or_else(|| panic!("{key} is missing"))
}

#[test]
fn row_48_every_key_is_shown_with_its_source_in_every_version() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-48-sources");
    kafka.create_with(&name, 1, &[("retention.ms", "7")]);
    for version in API.min_version..=API.max_version {
        let resources = vec![resource(TOPIC, &name, None)];
        let result = ask(&kafka, version, DescribeConfigsRequest { resources, ..Default::default() });
        assert_eq!((result.error_code, result.resource_type, result.resource_name.as_ref()), (0, TOPIC, name.as_str()));
        assert!(result.configs.len() >= 30, "version {version}: {} keys", result.configs.len());
        let own = entry(&result, "retention.ms");
        assert_eq!(
            (own.value.as_deref(), own.config_source, own.read_only, own.is_sensitive),
            (Some("7"), 1, false, false)
        );
        let default = entry(&result, "cleanup.policy");
        assert_eq!((default.value.as_deref(), default.config_source), (Some("delete"), DEFAULT));
        assert_eq!(own.config_type, if version >= 3 { 5 } else { 0 }, "a long");
        assert_eq!(default.config_type, if version >= 3 { 7 } else { 0 }, "a list");
        assert!(result.configs.iter().all(|entry| entry.synonyms.is_empty()));
        assert!(version < 3 || result.configs.iter().all(|entry| entry.documentation.is_none()));
    }
}

#[test]
fn row_48_synonyms_and_documentation_come_on_request() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-48-synonyms");
    kafka.create_with(&name, 1, &[("max.message.bytes", "1000")]);
    let resources = vec![resource(TOPIC, &name, None)];
    let request = DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: true };
    let result = ask(&kafka, 4, request);
    let own = entry(&result, "max.message.bytes");
    let synonyms: Vec<_> =
        own.synonyms.iter().map(|s| (s.name.as_ref(), s.value.as_deref().unwrap(), s.source)).collect();
    assert_eq!(synonyms, [("max.message.bytes", "1000", 1), ("message.max.bytes", "1048588", DEFAULT)]);
    assert!(result.configs.iter().all(|entry| entry.documentation.as_ref().is_some_and(|text| !text.is_empty())));
}

#[test]
fn row_48_a_list_of_keys_restricts_the_answer() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-48-keys");
    kafka.create(&name, 1);
    let shown = |keys: Option<&[&'static str]>| {
        let request = DescribeConfigsRequest { resources: vec![resource(TOPIC, &name, keys)], ..Default::default() };
        let result = ask(&kafka, 1, request);
        result.configs.into_iter().map(|entry| entry.name.into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(Some(&["retention.ms", "no.such.key"])), ["retention.ms"]);
    assert!(shown(None).len() >= 30);
    assert_eq!(shown(Some(&[])).len(), shown(None).len(), "an empty list asks for all");
}

#[test]
fn row_48_topics_that_do_not_exist_are_unknown() {
    let kafka = TestDoor::any();
    let absent = kafka.fresh("row-48-absent");
    let result = describe(&kafka, TOPIC, &absent);
    assert_eq!((result.error_code, result.configs.len()), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, 0));
    assert_eq!(describe(&kafka, TOPIC, "a b").error_code, ErrorCode::INVALID_TOPIC_EXCEPTION.0);
    assert_eq!(describe(&kafka, TOPIC, "").error_code, ErrorCode::INVALID_TOPIC_EXCEPTION.0);
}

#[test]
fn row_48_a_broker_shows_its_own_settings_and_those_of_all_brokers() {
    let kafka = TestDoor::any();
    let own = describe(&kafka, BROKER, "1");
    assert_eq!(own.error_code, 0);
    let id = entry(&own, "node.id");
    assert_eq!((id.value.as_deref(), id.config_source, id.read_only), (Some("1"), STATIC_BROKER, true));
    let size = entry(&own, "message.max.bytes");
    assert_eq!((size.value.as_deref(), size.config_source, size.read_only), (Some("1048588"), DEFAULT, false));
    let all = describe(&kafka, BROKER, "");
    assert_eq!(all.error_code, 0);
    assert!(all.configs.iter().all(|entry| entry.config_source == DYNAMIC_DEFAULT_BROKER), "{all:?}");
}

#[test]
fn row_48_secrets_have_no_value() {
    let kafka = TestDoor::any();
    let own = describe(&kafka, BROKER, "1");
    let secret = entry(&own, "ssl.keystore.password");
    assert_eq!((secret.value.as_deref(), secret.is_sensitive, secret.config_type), (None, true, 9));
}

#[test]
fn row_48_other_brokers_must_be_asked_themselves() {
    let kafka = TestDoor::any();
    for name in ["2", "-1", "one"] {
        let result = describe(&kafka, BROKER, name);
        assert_eq!(result.error_code, ErrorCode::INVALID_REQUEST.0, "{name}");
        assert!(result.error_message.is_some() && result.configs.is_empty());
    }
}

#[test]
fn resources_without_settings_here_are_refused_with_the_reason() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    let group = describe(&kafka, GROUP, "any");
    assert_eq!((group.error_code, group.configs.len()), (0, 0), "it could have settings, and has none");
    assert_eq!(describe(&kafka, GROUP, "").error_code, ErrorCode::INVALID_REQUEST.0);
    for kind in [CLIENT_METRICS, 0, 1, 3, 99] {
        let result = describe(&kafka, kind, "1");
        assert_eq!((result.error_code, result.resource_type), (ErrorCode::INVALID_REQUEST.0, kind));
        assert!(result.error_message.is_some());
    }
}

#[test]
fn levels_of_loggers_are_described_and_changed() {
    use mainstem_kafka_wire::messages::incremental_alter_configs_request as alter;
    let kafka = TestDoor::start(&[]);
    let level = || {
        let result = describe(&kafka, BROKER_LOGGER, "1");
        assert_eq!((result.error_code, result.configs.len()), (0, 1), "{result:?}");
        let root = &result.configs[0];
        assert_eq!((root.name.as_ref(), root.config_source, root.read_only), ("root", 6, false));
        root.value.as_deref().unwrap().to_owned()
    };
    let change = |node: &'static str, value: &'static str, validate_only: bool| {
        let config = alter::AlterableConfig { name: "root".into(), config_operation: 0, value: Some(value.into()) };
        let resource = alter::AlterConfigsResource {
            resource_type: BROKER_LOGGER,
            resource_name: node.into(),
            configs: vec![config],
        };
        let request = alter::IncrementalAlterConfigsRequest { resources: vec![resource], validate_only };
        let response: mainstem_kafka_wire::messages::IncrementalAlterConfigsResponse<'static> = kafka.call(1, &request);
        ErrorCode(response.responses[0].error_code)
    };
    assert_eq!(level(), "INFO");
    assert_eq!((change("1", "TRACE", true), level().as_str()), (ErrorCode::NONE, "INFO"));
    assert_eq!((change("1", "TRACE", false), level().as_str()), (ErrorCode::NONE, "TRACE"));
    assert_eq!((change("1", "LOUD", false), level().as_str()), (ErrorCode::INVALID_CONFIG, "TRACE"));
    for node in ["2", "", "one"] {
        assert_eq!((change(node, "INFO", false), level().as_str()), (ErrorCode::INVALID_REQUEST, "TRACE"));
        assert_eq!(describe(&kafka, BROKER_LOGGER, node).error_code, ErrorCode::INVALID_REQUEST.0);
    }
}

#[test]
fn many_resources_are_described_in_one_answer_each_once() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-48-many");
    let names: Vec<String> = (0..40).map(|number| format!("{name}-{number}")).collect();
    kafka.create(&names[0], 1);
    kafka.create(&names[1], 1);
    let resources = names.iter().map(|name| resource(TOPIC, name, Some(&["retention.ms"]))).collect();
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let response: DescribeConfigsResponse<'static> = kafka.call(4, &request);
    let codes: Vec<_> = response.results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes.len(), 40);
    assert_eq!((codes.iter().filter(|code| **code == 0).count(), codes[39]), (2, 3));
}
