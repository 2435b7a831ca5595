//! CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, DeleteRecords, ElectLeaders.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use mainstem_kafka_wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use mainstem_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use mainstem_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use mainstem_kafka_wire::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use mainstem_kafka_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use mainstem_kafka_wire::messages::{
    CreatePartitionsResponse, CreateTopicsResponse, DeleteRecordsResponse, DeleteTopicsResponse,
    DescribeTopicPartitionsResponse, ElectLeadersResponse, FetchResponse, ListOffsetsResponse, ProduceResponse,
};
use mainstem_types::TopicId;

use super::super::canonical::Names;
use super::super::script::Script;
use super::produce::KEPT;
use crate::support::batches::batch;
use crate::support::requests::{Topic, fetch, from, list_offsets, produce};

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic<'static> {
    CreatableTopic { name: Cow::Owned(name.to_owned()), num_partitions, replication_factor, ..Default::default() }
}

fn with_configs(topic: CreatableTopic<'static>, configs: &[(&str, Option<&str>)]) -> CreatableTopic<'static> {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: Cow::Owned(name.to_string()),
        value: value.map(|value| Cow::Owned(value.to_owned())),
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic }
}

fn assigned(topic: CreatableTopic<'static>, assignments: &[(i32, &[i32])]) -> CreatableTopic<'static> {
    let assignment = |(partition_index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *partition_index,
        broker_ids: brokers.to_vec(),
    };
    CreatableTopic { assignments: assignments.iter().map(assignment).collect(), ..topic }
}

/// Our own settings are shown, too; Kafka gives topics in the order of a hash map.
fn common(response: &mut CreateTopicsResponse<'static>, _: &mut Names) {
    response.topics.sort_by(|a, b| a.name.cmp(&b.name));
    for configs in response.topics.iter_mut().filter_map(|topic| topic.configs.as_mut()) {
        configs.retain(|config| !config.name.starts_with("mainstem."));
        configs.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

fn create(script: &mut Script, name: &str, version: i16, topics: Vec<CreatableTopic<'static>>, validate_only: bool) {
    let request = CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only };
    script.ask_shaped(name, version, &request, common);
}

#[test]
fn create_topics_in_all_versions() {
    let mut script = Script::start("create_topics_in_all_versions");
    for version in 2..=7 {
        let own = |name: &str| format!("create-{version}-{name}");
        create(&mut script, "only validated", version, vec![topic(&own("a"), 3, 1)], true);
        let configs = [("cleanup.policy", Some("compact,delete")), ("retention.ms", Some("1000"))];
        create(&mut script, "with settings", version, vec![with_configs(topic(&own("a"), 3, 1), &configs)], false);
        create(&mut script, "it exists", version, vec![topic(&own("a"), 3, 1)], false);
        create(&mut script, "it exists, validated", version, vec![topic(&own("a"), 3, 1)], true);
        if version >= 4 {
            create(&mut script, "defaults", version, vec![topic(&own("b"), -1, -1)], false);
        }
        let by_hand = assigned(topic(&own("c"), -1, -1), &[(0, &[1]), (1, &[1])]);
        create(&mut script, "assigned", version, vec![by_hand], false);
        create(&mut script, "none", version, Vec::new(), false);
        for (name, partitions, replicas) in [("p0", 0, 1), ("p-2", -2, 1), ("r0", 1, 0), ("r-2", 1, -2), ("r2", 1, 2)] {
            create(&mut script, name, version, vec![topic(&own(name), partitions, replicas)], false);
        }
        for bad in ["", ".", "..", "a b", "a/b", &"x".repeat(250)] {
            create(&mut script, &format!("name [{}]", bad.len()), version, vec![topic(bad, 1, 1)], false);
        }
        let collides = own("a.b");
        create(&mut script, "with a dot", version, vec![topic(&collides, 1, 1)], false);
        create(&mut script, "it collides", version, vec![topic(&collides.replace('.', "_"), 1, 1)], false);
        let twice = vec![topic(&own("d"), 1, 1), topic(&own("d"), 2, 1), topic(&own("e"), 1, 1)];
        create(&mut script, "one twice", version, twice, false);
        for configs in [
            [("retention.ms", Some("soon"))],
            [("no.such.setting", Some("1"))],
            [("retention.ms", None)],
            [("min.insync.replicas", Some("0"))],
            [("compression.type", Some("rar"))],
        ] {
            let name = format!("setting {configs:?}");
            create(&mut script, &name, version, vec![with_configs(topic(&own("f"), 1, 1), &configs)], false);
        }
        for (name, assignments) in [
            ("to an unknown broker", &[(0, &[9][..])][..]),
            ("with a gap", &[(0, &[1]), (2, &[1])]),
            ("to nobody", &[(0, &[])]),
            ("to one twice", &[(0, &[1, 1])]),
        ] {
            let topic = assigned(topic(&own("g"), -1, -1), assignments);
            create(&mut script, &format!("assigned {name}"), version, vec![topic], false);
        }
        let both = assigned(topic(&own("g"), 1, 1), &[(0, &[1])]);
        create(&mut script, "assigned and counted", version, vec![both], false);
    }
    script.finish();
}

fn delete(names: &[&'static str]) -> DeleteTopicsRequest<'static> {
    DeleteTopicsRequest {
        topic_names: names.iter().map(|name| Cow::Borrowed(*name)).collect(),
        timeout_ms: 10_000,
        ..Default::default()
    }
}

fn sorted(response: &mut DeleteTopicsResponse<'static>, names: &mut Names) {
    response.responses.sort_by_cached_key(|topic| (topic.name.clone(), names.topic(topic.topic_id), topic.error_code));
}

#[test]
fn delete_topics_in_all_versions() {
    let mut script = Script::start("delete_topics_in_all_versions");
    for version in 1..=6 {
        let a = script.create(format!("delete-{version}-a").leak(), 1, &[]);
        let b = script.create(format!("delete-{version}-b").leak(), 1, &[]);
        if version < 6 {
            script.ask_shaped("two and an unknown one", version, &delete(&[a.name, "nowhere", b.name]), sorted);
            script.ask_shaped("an empty name", version, &delete(&[""]), sorted);
            script.ask_shaped("none", version, &delete(&[]), sorted);
            continue;
        }
        let state = |name: Option<&'static str>, topic_id| DeleteTopicState { name: name.map(Cow::Borrowed), topic_id };
        let mut ask = |name: &str, topics: Vec<DeleteTopicState<'static>>| {
            let request = DeleteTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
            script.ask_shaped(name, version, &request, sorted);
        };
        ask("by name and id", vec![state(Some(a.name), a.id)]);
        ask("by neither", vec![state(None, TopicId::ZERO)]);
        ask("unknown", vec![state(Some("nowhere"), TopicId::ZERO), state(None, Topic::UNKNOWN.id)]);
        ask("by name, and by id", vec![state(Some(a.name), TopicId::ZERO), state(None, b.id)]);
    }
    script.finish();
}

#[test]
fn create_partitions_in_all_versions() {
    let mut script = Script::start("create_partitions_in_all_versions");
    for version in 0..=3 {
        let own = script.create(format!("grow-{version}").leak(), 2, &[]);
        let grown = |name: &str, count, assignments: Option<&[&[i32]]>| CreatePartitionsTopic {
            name: Cow::Owned(name.to_owned()),
            count,
            assignments: assignments.map(|all| {
                all.iter().map(|brokers| CreatePartitionsAssignment { broker_ids: brokers.to_vec() }).collect()
            }),
        };
        let mut ask = |name: &str, topics: Vec<CreatePartitionsTopic<'static>>, validate_only| {
            let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only };
            script.except(&["error_message"], "we say why, Kafka does so only sometimes");
            script.ask_shaped(name, version, &request, |response: &mut CreatePartitionsResponse<'static>, _| {
                response.results.sort_by(|a, b| a.name.cmp(&b.name));
            });
        };
        ask("validated", vec![grown(own.name, 4, None)], true);
        for count in [2, 1, 0, -1] {
            ask(&format!("to {count}"), vec![grown(own.name, count, None)], false);
        }
        ask("to four", vec![grown(own.name, 4, None)], false);
        ask("an unknown one", vec![grown("nowhere", 4, None), grown("", 4, None)], false);
        ask("one twice", vec![grown(own.name, 5, None), grown(own.name, 6, None)], false);
        ask("assigned", vec![grown(own.name, 6, Some(&[&[1], &[1]]))], false);
        ask("assigned too few", vec![grown(own.name, 8, Some(&[&[1]]))], false);
        ask("assigned to an unknown broker", vec![grown(own.name, 7, Some(&[&[9]]))], false);
        ask("assigned to nobody", vec![grown(own.name, 7, Some(&[&[]]))], false);
        ask("none", Vec::new(), false);
    }
    script.finish();
}

#[test]
fn describe_topic_partitions() {
    let mut script = Script::start("describe_topic_partitions");
    for name in ["pages-a", "pages-b", "pages-c"] {
        script.create(name, 3, &[]);
    }
    let mut ask = |name: &str, topics: &[&'static str], limit: i32, cursor: Option<(&'static str, i32)>| {
        let request = DescribeTopicPartitionsRequest {
            topics: topics.iter().map(|name| TopicRequest { name: Cow::Borrowed(*name) }).collect(),
            response_partition_limit: limit,
            cursor: cursor.map(|(name, index)| Cursor { topic_name: Cow::Borrowed(name), partition_index: index }),
        };
        script.ask::<_, DescribeTopicPartitionsResponse<'static>>(name, 0, &request);
    };
    let all = &["pages-b", "pages-a", "pages-c"];
    ask("all", all, 2_000, None);
    ask("a page", all, 4, None);
    ask("the next", all, 4, Some(("pages-b", 1)));
    ask("the last", all, 4, Some(("pages-c", 2)));
    ask("behind the end", all, 4, Some(("pages-d", 0)));
    ask("from between", all, 4, Some(("pages-aa", 0)));
    ask("unknown ones", &["nowhere", "not valid", "pages-a"], 2, None);
    ask("one twice", &["pages-a", "pages-a"], 100, None);
    script.finish();
}

fn records_until(topic: Topic, offsets: &[(i32, i64)]) -> DeleteRecordsRequest<'static> {
    let partition = |(partition_index, offset): &(i32, i64)| DeleteRecordsPartition {
        partition_index: *partition_index,
        offset: *offset,
    };
    let partitions = offsets.iter().map(partition).collect();
    DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic { name: Cow::Borrowed(topic.name), partitions }],
        timeout_ms: 10_000,
    }
}

fn by_index(response: &mut DeleteRecordsResponse<'static>, _: &mut Names) {
    response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
}

#[test]
fn delete_records_in_all_versions() {
    let mut script = Script::start("delete_records_in_all_versions");
    for version in 0..=2 {
        let own = script.create(format!("records-{version}").leak(), 2, &[KEPT]);
        for _ in 0..5 {
            let response: ProduceResponse<'static> =
                script.link().call(9, &produce(9, own, 0, -1, &batch(&["a", "b"])));
            assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
        }
        for offset in [3, 2, 3, 11, -2] {
            script.ask_shaped(&format!("until {offset}"), version, &records_until(own, &[(0, offset)]), by_index);
        }
        script.ask_shaped("unknown ones", version, &records_until(own, &[(2, 0), (-1, 0), (1, 0)]), by_index);
        script.ask_shaped("an unknown topic", version, &records_until(Topic::UNKNOWN, &[(0, 0)]), by_index);
        let request = list_offsets(own, &[(0, -2), (1, -2)]);
        script.ask_shaped("where it begins", 7, &request, |response: &mut ListOffsetsResponse<'static>, _| {
            response.topics[0].partitions.sort_by_key(|partition| partition.partition_index);
        });
        script.ask::<_, FetchResponse<'static>>("before it", 12, &fetch(12, own, vec![from(0, 2)]));
        script.ask::<_, FetchResponse<'static>>("what is left", 12, &fetch(12, own, vec![from(0, 3)]));
        script.ask_shaped("all", version, &records_until(own, &[(0, -1)]), by_index);
        let compacted =
            script.create(format!("records-{version}-compacted").leak(), 1, &[("cleanup.policy", "compact")]);
        script.ask_shaped("of a compacted topic", version, &records_until(compacted, &[(0, 0)]), by_index);
    }
    script.finish();
}

#[test]
fn elect_leaders_in_all_versions() {
    let mut script = Script::start("elect_leaders_in_all_versions");
    let own = script.create("elect", 2, &[]);
    for version in 0..=2 {
        for election_type in [0, 1].into_iter().filter(|kind| version >= 1 || *kind == 0) {
            let of = |topic: &'static str, partitions: &[i32]| TopicPartitions {
                topic: Cow::Borrowed(topic),
                partitions: partitions.to_vec(),
            };
            let mut ask = |name: &str, topic_partitions: Vec<TopicPartitions<'static>>| {
                let topic_partitions = Some(topic_partitions);
                let request = ElectLeadersRequest { election_type, topic_partitions, timeout_ms: 10_000 };
                let name = format!("{name}, type {election_type}");
                script.ask_shaped(&name, version, &request, |response: &mut ElectLeadersResponse<'static>, _| {
                    response.replica_election_results.sort_by(|a, b| a.topic.cmp(&b.topic));
                    for topic in &mut response.replica_election_results {
                        topic.partition_result.sort_by_key(|partition| partition.partition_id);
                    }
                });
            };
            ask("nothing to do", vec![of(own.name, &[0, 1])]);
            ask("unknown ones", vec![of(own.name, &[9]), of("nowhere", &[0])]);
            ask("none", Vec::new());
        }
    }
    script.finish();
}
