use super::super::test_support::{apply, broker, kinds, running, with_topics};
use super::*;
use crate::controller::NewTopic;
use AlterConfigOperation::{Append, Delete, Set, Subtract};
use mainstem_types::TopicId;

fn alteration(resource: ConfigResource, operations: &[(&str, AlterConfigOperation, Option<&str>)]) -> ConfigAlteration {
    let operation = |(key, operation, value): &(&str, AlterConfigOperation, Option<&str>)| AlterConfigOp {
        key: key.to_string(),
        operation: *operation,
        value: value.map(str::to_string),
    };
    ConfigAlteration { resource, operations: operations.iter().map(operation).collect() }
}

fn plain(operations: &[(&str, AlterConfigOperation, Option<&str>)]) -> ConfigAlteration {
    alteration(ConfigResource::topic("plain"), operations)
}

/// Applies the change and gives what the topic has set afterwards.
fn change(controller: &mut Controller, operations: &[(&str, AlterConfigOperation, Option<&str>)]) -> String {
    let decision = controller.incremental_alter_configs(&[plain(operations)], false, &broker(&[]));
    assert_eq!(decision.reply, vec![Ok(())]);
    apply(controller, &decision.records);
    let set = controller.image().topic_configs("plain");
    set.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<String>>().join(" ")
}

fn error(controller: &Controller, alteration: ConfigAlteration) -> AlterConfigError {
    let decision = controller.incremental_alter_configs(&[alteration], false, &broker(&[]));
    assert!(decision.records.is_empty());
    decision.reply.into_iter().next().unwrap().unwrap_err()
}

#[test]
fn row_49_set_delete_append_subtract() {
    let mut controller = with_topics(&["plain"]);
    let throttled = "leader.replication.throttled.replicas";
    assert_eq!(change(&mut controller, &[("retention.ms", Set, Some("5"))]), "retention.ms=5");
    assert_eq!(change(&mut controller, &[("retention.ms", Set, Some("6"))]), "retention.ms=6");
    assert_eq!(change(&mut controller, &[("retention.ms", Delete, None)]), "");
    assert_eq!(
        change(&mut controller, &[("cleanup.policy", Append, Some("compact"))]),
        "cleanup.policy=delete,compact"
    );
    assert_eq!(change(&mut controller, &[("cleanup.policy", Append, Some("delete"))]), "cleanup.policy=delete,compact");
    assert_eq!(change(&mut controller, &[("cleanup.policy", Subtract, Some("delete"))]), "cleanup.policy=compact");
    assert_eq!(change(&mut controller, &[("cleanup.policy", Delete, None)]), "");
    assert_eq!(change(&mut controller, &[(throttled, Subtract, Some("0:2"))]), "");
    assert_eq!(change(&mut controller, &[(throttled, Append, Some("0:1,1:1"))]), format!("{throttled}=0:1,1:1"));
}

#[test]
fn row_49_deleting_what_is_not_set_is_no_error_and_writes_nothing() {
    let controller = with_topics(&["plain"]);
    for key in ["retention.ms", "nope"] {
        let decision = controller.incremental_alter_configs(&[plain(&[(key, Delete, None)])], false, &broker(&[]));
        assert_eq!((decision.reply, decision.records), (vec![Ok(())], vec![]));
    }
}

#[test]
fn what_kafka_refuses_for_a_topic_is_refused() {
    let controller = with_topics(&["plain"]);
    let topic = |name: &str| alteration(ConfigResource::topic(name), &[("retention.ms", Set, Some("1"))]);
    let cases = [
        (topic("nope"), "The topic 'nope' does not exist."),
        (topic(""), "Default topic resources are not allowed."),
        (plain(&[("retention.ms", Set, None)]), "Null value not supported for : retention.ms"),
        (
            plain(&[("retention.ms", Append, Some("1"))]),
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (plain(&[("nope", Set, Some("1"))]), "Unknown topic config name: nope"),
        (
            plain(&[("retention.ms", Set, Some("x"))]),
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            plain(&[("retention.ms", Set, Some("1")), ("retention.ms", Delete, None)]),
            "Error due to duplicate config keys: retention.ms",
        ),
        (alteration(ConfigResource { kind: 16, name: "x".into() }, &[]), "cannot change resources of kind 16"),
    ];
    for (alteration, message) in cases {
        assert_eq!(error(&controller, alteration).to_string(), message);
    }
    assert!(matches!(error(&controller, topic("pl ain")), AlterConfigError::TopicName(_)));
}

#[test]
fn a_layout_is_fixed_and_compaction_belongs_to_one() {
    let mut controller = with_topics(&["plain"]);
    let refused =
        |controller: &Controller, key, value| error(controller, plain(&[(key, Set, Some(value))])).to_string();
    assert!(refused(&controller, "mainstem.layout", "shared").contains("fixed when a topic is created"));
    assert_eq!(change(&mut controller, &[("mainstem.layout", Set, Some("partition"))]), "mainstem.layout=partition");
    let both = [("mainstem.layout", Set, Some("topic")), ("cleanup.policy", Set, Some("compact"))];
    assert!(error(&controller, plain(&both)).to_string().contains("mainstem.layout=partition only"));
}

/// What DescribeConfigs says about the layout of `plain` on this broker: its value, and whether the topic itself has
/// it.
fn described_layout(controller: &Controller, broker: &BrokerConfig) -> (String, bool) {
    let overrides = controller.image().topic_configs("plain");
    let entries = crate::config::topic_config_entries("plain", overrides, broker);
    let entry = entries.into_iter().find(|entry| entry.name == LAYOUT).unwrap();
    (entry.value.unwrap(), entry.source.kafka_id() == 1)
}

#[test]
fn a_topic_that_is_made_compacted_has_the_layout_of_partitions_for_ever() {
    let compacted = vec![("cleanup.policy".to_string(), Some("compact".to_string()))];
    let both = [("mainstem.layout", "shared"), ("log.cleanup.policy", "compact")];
    for (configs, settings) in [(compacted, &both[..1]), (Vec::new(), &both[..])] {
        let (mut controller, shared) = (running(), broker(settings));
        let topic = NewTopic { configs, ..NewTopic::named("plain") };
        let created = controller.create_topics(&[topic], false, &shared, &mut || TopicId([7; 16]));
        assert!(created.reply[0].is_ok(), "{:?}", created.reply);
        apply(&mut controller, &created.records);
        // The image is what the records replay to. Kafka can read them: they hold no key that it does not know.
        assert_eq!(described_layout(&controller, &shared), ("partition".to_string(), false));
        let set = |controller: &mut Controller, key, value| {
            let decision = controller.incremental_alter_configs(&[plain(&[(key, Set, Some(value))])], false, &shared);
            apply(controller, &decision.records);
            decision.reply.into_iter().next().unwrap().map_err(|error| error.to_string())
        };
        for policy in ["delete", "compact,delete", "delete", "compact"] {
            assert_eq!(set(&mut controller, "cleanup.policy", policy), Ok(()));
            assert_eq!(described_layout(&controller, &shared).0, "partition");
        }
        let refused = set(&mut controller, "mainstem.layout", "shared").unwrap_err();
        assert!(refused.contains("mainstem.layout=partition only"), "{refused}");
    }
}

#[test]
fn a_replacement_that_does_not_name_the_layout_leaves_it() {
    let mut controller = running();
    let shared = broker(&[("mainstem.layout", "shared")]);
    let created = controller.create_topics(&[NewTopic::named("a")], false, &shared, &mut || TopicId([7; 16]));
    apply(&mut controller, &created.records);
    let replacement = |values: &[(&str, &str)]| ConfigReplacement {
        resource: ConfigResource::topic("a"),
        values: values.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect(),
    };
    let changed = controller.replace_configs(&[replacement(&[("retention.ms", "7")])], false, &shared);
    assert_eq!((&changed.reply[..], changed.records.len()), (&[Ok(())][..], 1));
    let refused = controller.replace_configs(&[replacement(&[("mainstem.layout", "partition")])], false, &shared);
    assert!(refused.reply[0].as_ref().unwrap_err().to_string().contains("fixed when a topic is created"));
}

#[test]
fn what_kafka_refuses_for_brokers_is_refused() {
    let controller = with_topics(&[]);
    let one = |key: &str, value: &str| alteration(ConfigResource::broker(1), &[(key, Set, Some(value))]);
    let all = |key: &str, value: &str| alteration(ConfigResource::cluster_default(), &[(key, Set, Some(value))]);
    let read_only = |error| matches!(error, AlterConfigError::ReadOnly(_));
    assert!(read_only(error(&controller, one("node.id", "2"))));
    assert!(read_only(error(&controller, all("node.id", "2"))));
    assert!(matches!(error(&controller, all("listeners", "x")), AlterConfigError::PerBrokerOnly(_)));
    assert!(matches!(error(&controller, one("message.max.bytes", "x")), AlterConfigError::BrokerValue(_)));
    let other = alteration(ConfigResource::broker(5), &[("message.max.bytes", Set, Some("2"))]);
    assert_eq!(error(&controller, other), AlterConfigError::UnknownBroker("5".into()));
    let message = error(&controller, one("min.insync.replicas", "2")).to_string();
    assert_eq!(message, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.");
    let removed = alteration(ConfigResource::cluster_default(), &[("min.insync.replicas", Delete, None)]);
    let message = error(&controller, removed).to_string();
    assert_eq!(message, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.");
}

#[test]
fn server_properties_are_set_for_one_broker_and_for_all() {
    let mut controller = with_topics(&[]);
    for resource in [ConfigResource::broker(1), ConfigResource::cluster_default()] {
        let wanted = alteration(resource.clone(), &[("log.retention.ms", Set, Some("9"))]);
        let decision = controller.incremental_alter_configs(&[wanted], false, &broker(&[]));
        assert_eq!(decision.reply, vec![Ok(())]);
        let delta = apply(&mut controller, &decision.records);
        assert!(delta.configs_changed.contains(&resource));
        assert_eq!(controller.image().configs(&resource)["log.retention.ms"], "9");
    }
}

#[test]
fn another_minimum_of_in_sync_replicas_forgets_who_was_eligible() {
    let controller = with_topics(&["plain"]);
    let wanted = plain(&[("min.insync.replicas", Set, Some("2"))]);
    let decision = controller.incremental_alter_configs(&[wanted], false, &broker(&[]));
    assert_eq!(kinds(&decision.records), [4, 28]);
}

#[test]
fn a_resource_changes_wholly_or_not_at_all_and_others_go_on() {
    let controller = with_topics(&["plain", "other"]);
    let bad = plain(&[("retention.ms", Set, Some("1")), ("segment.bytes", Set, Some("1"))]);
    let good = alteration(ConfigResource::topic("other"), &[("retention.ms", Set, Some("1"))]);
    let decision = controller.incremental_alter_configs(&[bad, good.clone()], false, &broker(&[]));
    assert!(decision.reply[0].is_err() && decision.reply[1].is_ok());
    assert_eq!(decision.records.len(), 1);
    let twice = controller.incremental_alter_configs(&[good.clone(), good], false, &broker(&[]));
    assert!(twice.reply.iter().all(|result| *result == Err(AlterConfigError::DuplicateResource)));
}

#[test]
fn validating_writes_nothing() {
    let controller = with_topics(&["plain"]);
    let decision =
        controller.incremental_alter_configs(&[plain(&[("retention.ms", Set, Some("1"))])], true, &broker(&[]));
    assert_eq!((decision.reply, decision.records), (vec![Ok(())], vec![]));
}

fn replacement(name: &str, values: &[(&str, Option<&str>)]) -> ConfigReplacement {
    let value = |(key, value): &(&str, Option<&str>)| (key.to_string(), value.map(str::to_string));
    ConfigReplacement { resource: ConfigResource::topic(name), values: values.iter().map(value).collect() }
}

#[test]
fn row_49_a_replacement_sets_what_it_names_and_unsets_the_rest() {
    let mut controller = with_topics(&["plain", "other"]);
    change(&mut controller, &[("retention.ms", Set, Some("5")), ("retention.bytes", Set, Some("9"))]);
    let replacements = [replacement("plain", &[("retention.ms", Some("5")), ("segment.ms", Some("7"))])];
    let decision = controller.replace_configs(&replacements, false, &broker(&[]));
    assert_eq!((decision.reply, decision.records.len()), (vec![Ok(())], 2), "what stays as it is needs no record");
    apply(&mut controller, &decision.records);
    let set: Vec<_> = controller.image().topic_configs("plain").keys().map(String::as_str).collect();
    assert_eq!(set, ["retention.ms", "segment.ms"]);
    let validated = controller.replace_configs(&[replacement("plain", &[])], true, &broker(&[]));
    assert_eq!((validated.reply, validated.records), (vec![Ok(())], vec![]));
}

#[test]
fn row_49_a_replacement_that_makes_no_sense_changes_nothing() {
    let mut controller = with_topics(&["plain"]);
    change(&mut controller, &[("retention.ms", Set, Some("5"))]);
    let cases: [&[(&str, Option<&str>)]; 4] = [
        &[("segment.ms", Some("soon"))],
        &[("no.such.key", Some("1"))],
        &[("segment.ms", None)],
        &[("segment.ms", Some("1")), ("segment.ms", Some("2"))],
    ];
    for values in cases {
        let decision = controller.replace_configs(&[replacement("plain", values)], false, &broker(&[]));
        assert!(decision.reply[0].is_err() && decision.records.is_empty(), "{values:?}");
    }
}
