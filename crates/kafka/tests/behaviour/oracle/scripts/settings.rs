//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use mainstem_kafka_wire::messages::{
    AlterConfigsResponse, DescribeConfigsResponse, IncrementalAlterConfigsResponse, alter_configs_request,
    incremental_alter_configs_request,
};

use super::super::canonical::Names;
use super::super::script::Script;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;

fn describe(kind: i8, name: &'static str, keys: Option<&[&'static str]>) -> DescribeConfigsRequest<'static> {
    let resource = DescribeConfigsResource {
        resource_type: kind,
        resource_name: Cow::Borrowed(name),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| Cow::Borrowed(*key)).collect()),
    };
    DescribeConfigsRequest { resources: vec![resource], ..Default::default() }
}

/// Without our own settings; Kafka gives settings in the order of a hash map.
fn common(response: &mut DescribeConfigsResponse<'static>, _: &mut Names) {
    for result in &mut response.results {
        result.configs.retain(|config| !config.name.starts_with("mainstem."));
        result.configs.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

#[test]
fn describe_configs_in_all_versions() {
    let mut script = Script::start("describe_configs_in_all_versions");
    script.create("described", 1, &[("retention.ms", "1000"), ("cleanup.policy", "compact,delete")]);
    for version in 1..=4 {
        script.ask_shaped("a topic", version, &describe(TOPIC, "described", None), common);
        let request = DescribeConfigsRequest {
            include_synonyms: true,
            include_documentation: version >= 3,
            ..describe(TOPIC, "described", None)
        };
        script.ask_shaped("a topic with everything", version, &request, common);
        let some = describe(TOPIC, "described", Some(&["retention.ms", "segment.bytes", "no.such.setting"]));
        script.ask_shaped("some settings", version, &some, common);
        script.ask_shaped("no settings", version, &describe(TOPIC, "described", Some(&[])), common);
        for name in ["nowhere", "not valid", ""] {
            script.except(&["error_message"], "we say why, Kafka does so only sometimes");
            script.ask_shaped(&format!("topic [{name}]"), version, &describe(TOPIC, name, None), common);
        }
        let keys: &[&'static str] = &["num.io.threads", "log.retention.hours", "log.retention.ms", "message.max.bytes"];
        for name in ["1", "", "9", "one"] {
            let request = DescribeConfigsRequest { include_synonyms: true, ..describe(BROKER, name, Some(keys)) };
            script.ask_shaped(&format!("broker [{name}]"), version, &request, common);
        }
    }
    script.finish();
}

/// Set, delete, append, subtract.
const OPERATIONS: [&str; 4] = ["set", "delete", "append", "subtract"];

fn incremental(
    kind: i8,
    name: &'static str,
    configs: &[(&'static str, i8, Option<&'static str>)],
) -> incremental_alter_configs_request::IncrementalAlterConfigsRequest<'static> {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
    let config = |(name, operation, value): &(&'static str, i8, Option<&'static str>)| AlterableConfig {
        name: Cow::Borrowed(*name),
        config_operation: *operation,
        value: value.map(Cow::Borrowed),
    };
    let configs = configs.iter().map(config).collect();
    let resource = AlterConfigsResource { resource_type: kind, resource_name: Cow::Borrowed(name), configs };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}

#[test]
fn incremental_alter_configs_in_all_versions() {
    let mut script = Script::start("incremental_alter_configs_in_all_versions");
    for version in 0..=1 {
        let own = script.create(format!("altered-{version}").leak(), 1, &[("retention.ms", "1000")]).name;
        let mut ask = |name: &str, request| {
            script.ask::<_, IncrementalAlterConfigsResponse<'static>>(name, version, &request);
            script.settle();
            let keys: &[&'static str] = &["retention.ms", "cleanup.policy", "segment.bytes"];
            script.ask_shaped(&format!("after {name}"), 4, &describe(TOPIC, own, Some(keys)), common);
        };
        ask(
            "set",
            incremental(TOPIC, own, &[("retention.ms", 0, Some("2000")), ("segment.bytes", 0, Some("2000000"))]),
        );
        ask("append", incremental(TOPIC, own, &[("cleanup.policy", 2, Some("compact"))]));
        ask("append again", incremental(TOPIC, own, &[("cleanup.policy", 2, Some("compact"))]));
        ask("subtract", incremental(TOPIC, own, &[("cleanup.policy", 3, Some("delete"))]));
        ask("delete", incremental(TOPIC, own, &[("retention.ms", 1, None), ("max.message.bytes", 1, None)]));
        let mut validated = incremental(TOPIC, own, &[("retention.ms", 0, Some("3000"))]);
        validated.validate_only = true;
        ask("validate", validated);
        for (name, operation, value) in [
            ("retention.ms", 0, Some("soon")),
            ("retention.ms", 0, None),
            ("retention.ms", 2, Some("1")),
            ("no.such.setting", 0, Some("1")),
            ("no.such.setting", 1, None),
            ("cleanup.policy", 0, Some("burn")),
            ("", 0, Some("1")),
        ] {
            let label = format!("{} [{name}] {value:?}", OPERATIONS[operation as usize]);
            ask(&label, incremental(TOPIC, own, &[(name, operation, value)]));
        }
        ask("one twice", incremental(TOPIC, own, &[("retention.ms", 0, Some("1")), ("retention.ms", 1, None)]));
        ask("an unknown topic", incremental(TOPIC, "nowhere", &[("retention.ms", 0, Some("1"))]));
        ask("no topic", incremental(TOPIC, "", &[("retention.ms", 0, Some("1"))]));
        ask("an unknown broker", incremental(BROKER, "9", &[("log.retention.ms", 0, Some("1"))]));
        ask("read only", incremental(BROKER, "1", &[("log.dirs", 0, Some("/"))]));
        ask("nothing", incremental(TOPIC, own, &[]));
        let mut twice = incremental(TOPIC, own, &[("retention.ms", 0, Some("1"))]);
        twice.resources.push(twice.resources[0].clone());
        ask("a resource twice", twice);
    }
    script.finish();
}

/// The logger that both brokers have.
fn root_alone(response: &mut DescribeConfigsResponse<'static>, _: &mut Names) {
    response.results.iter_mut().for_each(|result| result.configs.retain(|config| config.name == "root"));
}

#[test]
fn levels_of_broker_loggers() {
    let mut script = Script::start("levels_of_broker_loggers");
    for version in 0..=1 {
        let mut ask = |name: &str, node: &'static str, configs: &[(&'static str, i8, Option<&'static str>)]| {
            let request = incremental(LOGGER, node, configs);
            script.ask::<_, IncrementalAlterConfigsResponse<'static>>(name, version, &request);
            let described = describe(LOGGER, "1", None);
            script.ask_shaped(&format!("after {name}"), 4, &described, root_alone);
        };
        ask("debug", "1", &[("root", 0, Some("DEBUG"))]);
        for level in ["FATAL", "ERROR", "WARN", "INFO", "TRACE"] {
            ask(level, "1", &[("root", 0, Some(level))]);
        }
        for level in [Some("OFF"), Some("ALL"), Some("debug"), Some(""), Some("1"), None] {
            ask(&format!("level {level:?}"), "1", &[("root", 0, level)]);
        }
        ask("removed", "1", &[("root", 1, None)]);
        ask("appended", "1", &[("root", 2, Some("DEBUG"))]);
        ask("subtracted", "1", &[("root", 3, Some("DEBUG"))]);
        ask("an unknown operation", "1", &[("root", 9, Some("DEBUG"))]);
        ask("an unknown logger", "1", &[("root", 0, Some("DEBUG")), ("no.such.logger", 0, Some("DEBUG"))]);
        ask("an unknown logger removed", "1", &[("no.such.logger", 1, None)]);
        ask("no logger", "1", &[("", 0, Some("DEBUG"))]);
        ask("one twice", "1", &[("root", 0, Some("DEBUG")), ("root", 0, Some("WARN"))]);
        ask("nothing", "1", &[]);
        for node in ["2", "", "one", "-1"] {
            ask(&format!("node [{node}]"), node, &[("root", 0, Some("DEBUG"))]);
        }
    }
    for version in 1..=4 {
        for node in ["1", "2", "", "one"] {
            for keys in [None, Some(&["root", "no.such.logger"][..]), Some(&[][..])] {
                let request = DescribeConfigsRequest {
                    include_synonyms: true,
                    include_documentation: version >= 3,
                    ..describe(LOGGER, node, keys)
                };
                script.ask_shaped(&format!("node [{node}] keys {keys:?}"), version, &request, root_alone);
            }
        }
    }
    script.finish();
}

#[test]
fn alter_configs_in_all_versions() {
    use alter_configs_request::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
    let mut script = Script::start("alter_configs_in_all_versions");
    for version in 0..=2 {
        let own = script.create(format!("replaced-{version}").leak(), 1, &[("retention.ms", "1000")]).name;
        let mut ask =
            |name: &str, topic: &'static str, configs: &[(&'static str, Option<&'static str>)], validate_only| {
                let config = |(name, value): &(&'static str, Option<&'static str>)| AlterableConfig {
                    name: Cow::Borrowed(*name),
                    value: value.map(Cow::Borrowed),
                };
                let configs = configs.iter().map(config).collect();
                let resource =
                    AlterConfigsResource { resource_type: TOPIC, resource_name: Cow::Borrowed(topic), configs };
                let request = AlterConfigsRequest { resources: vec![resource], validate_only };
                script.ask::<_, AlterConfigsResponse<'static>>(name, version, &request);
                script.settle();
                let keys: &[&'static str] = &["retention.ms", "segment.bytes"];
                script.ask_shaped(&format!("after {name}"), 4, &describe(TOPIC, own, Some(keys)), common);
            };
        ask("replace", own, &[("segment.bytes", Some("2000000"))], false);
        ask("validate", own, &[("retention.ms", Some("5"))], true);
        ask("a bad value", own, &[("retention.ms", Some("soon"))], false);
        ask("no value", own, &[("retention.ms", None)], false);
        ask("an unknown setting", own, &[("no.such.setting", Some("1"))], false);
        ask("an unknown topic", "nowhere", &[("retention.ms", Some("5"))], false);
        ask("nothing", own, &[], false);
    }
    script.finish();
}
