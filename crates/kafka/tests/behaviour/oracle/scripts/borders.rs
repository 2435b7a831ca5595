//! Values at the borders of what a field can hold: 0, -1, the least and the largest, empty and null, twice the same,
//! unknown names. What the scripts of the apis ask already is not asked again.

use std::borrow::Cow;

use mainstem_kafka_wire::Records;
use mainstem_kafka_wire::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use mainstem_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use mainstem_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use mainstem_kafka_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use mainstem_kafka_wire::messages::describe_producers_request::{self, DescribeProducersRequest};
use mainstem_kafka_wire::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use mainstem_kafka_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use mainstem_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use mainstem_kafka_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use mainstem_kafka_wire::messages::produce_request::ProduceRequest;
use mainstem_kafka_wire::messages::{
    CreatePartitionsResponse, CreateTopicsResponse, DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsResponse,
    DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsResponse,
    DescribeProducersResponse, DescribeTopicPartitionsResponse, ElectLeadersResponse, FetchRequest, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataResponse, OffsetForLeaderEpochResponse, ProduceResponse,
    incremental_alter_configs_request,
};
use mainstem_types::TopicId;

use super::super::canonical::Names;
use super::super::script::Script;
use super::cluster::{wait_for_coordinator, wait_for_producer_ids};
use super::groups::{SUBSCRIPTION, describe, leave, sync, sync_in};
use super::produce::KEPT;
use crate::support::batches::batch;
use crate::support::requests::{Topic, fetch, from, join, list_offsets, produce, produce_all};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const OWN_WORDS: &str = "we say why, Kafka does so only sometimes";

#[test]
fn borders_of_produce() {
    let mut script = Script::start("borders_of_produce");
    let topic = script.create("borders-produce", 2, &[KEPT]);
    let good = batch(&["a"]);
    for version in 3..=13 {
        let mut ask = |name: String, request: &ProduceRequest<'_>| {
            script.except(&["error_message"], OWN_WORDS);
            script.ask::<_, ProduceResponse<'static>>(&name, version, request);
        };
        for timeout_ms in [0, -1, i32::MAX, i32::MIN] {
            let request = ProduceRequest { timeout_ms, ..produce(version, topic, 0, -1, &good) };
            ask(format!("timeout {timeout_ms}"), &request);
        }
        for acks in [i16::MAX, i16::MIN] {
            ask(format!("acks {acks}"), &produce(version, topic, 0, acks, &good));
        }
        for partition in [i32::MAX, i32::MIN] {
            ask(format!("partition {partition}"), &produce(version, topic, partition, -1, &good));
        }
        ask(
            "no topics".to_owned(),
            &ProduceRequest { topic_data: Vec::new(), ..produce(version, topic, 0, -1, &good) },
        );
        ask("no records".to_owned(), &produce_all(version, topic, -1, vec![(0, Records::borrowed(&[]))]));
        let nameless = Topic { name: "", id: TopicId::ZERO };
        ask("no name".to_owned(), &produce(version, nameless, 0, -1, &good));
    }
    script.finish();
}

#[test]
fn borders_of_fetch() {
    let mut script = Script::start("borders_of_fetch");
    let topic = script.create("borders-fetch", 2, &[KEPT]);
    for _ in 0..2 {
        script.ask::<_, ProduceResponse<'static>>("produce", 9, &produce(9, topic, 0, -1, &batch(&["a", "b"])));
    }
    for version in 4..=18 {
        let mut ask = |name: String, request: &FetchRequest<'static>| {
            script.ask::<_, FetchResponse<'static>>(&name, version, request);
        };
        for offset in [-1, i64::MIN, i64::MAX] {
            ask(format!("from {offset}"), &fetch(version, topic, vec![from(0, offset)]));
        }
        for partition in [i32::MAX, i32::MIN] {
            ask(format!("partition {partition}"), &fetch(version, topic, vec![from(partition, 0)]));
        }
        for max_bytes in [0, 1, i32::MAX] {
            let request = FetchRequest { max_bytes, ..fetch(version, topic, vec![from(0, 0), from(1, 0)]) };
            ask(format!("{max_bytes} bytes"), &request);
        }
        for (min_bytes, max_wait_ms) in [(0, 0), (-1, 0), (i32::MIN, 1_000), (1, -1), (1, i32::MIN), (i32::MAX, -1)] {
            let request = FetchRequest { min_bytes, max_wait_ms, ..fetch(version, topic, vec![from(1, 0)]) };
            ask(format!("at least {min_bytes} bytes within {max_wait_ms}"), &request);
        }
        for level in [0, 1] {
            let request = FetchRequest { isolation_level: level, ..fetch(version, topic, vec![from(0, 0)]) };
            ask(format!("isolation {level}"), &request);
        }
        ask("one after the other of one topic".to_owned(), &fetch(version, topic, vec![from(1, 0), from(0, 0)]));
        ask("no partitions".to_owned(), &fetch(version, topic, Vec::new()));
    }
    script.finish();
}

#[test]
fn borders_of_offsets() {
    let mut script = Script::start("borders_of_offsets");
    let topic = script.create("borders-offsets", 2, &[KEPT]);
    script.ask::<_, ProduceResponse<'static>>("produce", 9, &produce(9, topic, 0, -1, &batch(&["a", "b"])));
    for version in 1..=11 {
        let mut ask = |name: String, request: &ListOffsetsRequest<'static>| {
            let sort = |response: &mut ListOffsetsResponse<'static>, _: &mut Names| {
                response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
            };
            script.ask_shaped(&name, version, request, sort);
        };
        for time in [i64::MIN, -100, i64::MAX - 1] {
            ask(format!("time {time}"), &list_offsets(topic, &[(0, time)]));
        }
        ask("partitions".to_owned(), &list_offsets(topic, &[(i32::MAX, -1), (i32::MIN, -1)]));
        ask("no topics".to_owned(), &ListOffsetsRequest { topics: Vec::new(), ..list_offsets(topic, &[]) });
        let nameless = Topic { name: "", id: TopicId::ZERO };
        ask("no name".to_owned(), &list_offsets(nameless, &[(0, -1)]));
        for replica_id in [0, -2, -3, i32::MAX] {
            let request = ListOffsetsRequest { replica_id, ..list_offsets(topic, &[(0, -1)]) };
            ask(format!("replica {replica_id}"), &request);
        }
        for timeout_ms in [0, -1, i32::MAX].into_iter().filter(|_| version >= 10) {
            let request = ListOffsetsRequest { timeout_ms, ..list_offsets(topic, &[(0, -1), (0, 0)]) };
            ask(format!("timeout {timeout_ms}"), &request);
        }
    }
    for version in 2..=4 {
        let mut ask = |name: String, partitions: &[(i32, i32, i32)]| {
            let partition =
                |(partition, current_leader_epoch, leader_epoch): &(i32, i32, i32)| OffsetForLeaderPartition {
                    partition: *partition,
                    current_leader_epoch: *current_leader_epoch,
                    leader_epoch: *leader_epoch,
                };
            let partitions = partitions.iter().map(partition).collect();
            let topics = vec![OffsetForLeaderTopic { topic: Cow::Borrowed(topic.name), partitions }];
            let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
            let sort = |response: &mut OffsetForLeaderEpochResponse<'static>, _: &mut Names| {
                response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition));
            };
            script.ask_shaped(&name, version, &request, sort);
        };
        for epoch in [-1, 0, 1, i32::MAX] {
            ask(format!("epoch {epoch}"), &[(0, -1, epoch), (1, -1, epoch)]);
            ask(format!("current epoch {epoch}"), &[(0, epoch, 0)]);
        }
        ask("partitions".to_owned(), &[(-1, -1, 0), (i32::MAX, -1, 0), (i32::MIN, -1, 0)]);
        ask("no partitions".to_owned(), &[]);
    }
    script.finish();
}

#[test]
fn borders_of_producers() {
    let mut script = Script::start("borders_of_producers");
    let topic = script.create("borders-producers", 1, &[]);
    wait_for_producer_ids(&mut script);
    for version in 0..=5 {
        for timeout in [0, -1, i32::MAX, i32::MIN] {
            let request =
                InitProducerIdRequest { transactional_id: None, transaction_timeout_ms: timeout, ..Default::default() };
            script.ask::<_, InitProducerIdResponse>(&format!("timeout {timeout}"), version, &request);
        }
    }
    let of = |name: &'static str, partitions: &[i32]| describe_producers_request::TopicRequest {
        name: Cow::Borrowed(name),
        partition_indexes: partitions.to_vec(),
    };
    for (name, topics) in [
        ("partitions", vec![of(topic.name, &[-1, i32::MAX, i32::MIN])]),
        ("one twice", vec![of(topic.name, &[0, 0])]),
        ("no partitions", vec![of(topic.name, &[])]),
        ("no name", vec![of("", &[0])]),
        ("none", Vec::new()),
    ] {
        script.ask::<_, DescribeProducersResponse<'static>>(name, 0, &DescribeProducersRequest { topics });
    }
    script.finish();
}

fn by_name(response: &mut CreateTopicsResponse<'static>, _: &mut Names) {
    response.topics.sort_by(|a, b| a.name.cmp(&b.name));
    response.topics.iter_mut().for_each(|topic| topic.configs = None);
}

#[test]
fn borders_of_topics() {
    let mut script = Script::start("borders_of_topics");
    for version in 2..=7 {
        let mut ask = |name: String, topics: Vec<CreatableTopic<'static>>| {
            let request = CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: true };
            script.ask_shaped(&name, version, &request, by_name);
        };
        let topic = |name: &str, num_partitions, replication_factor| CreatableTopic {
            name: Cow::Owned(name.to_owned()),
            num_partitions,
            replication_factor,
            ..Default::default()
        };
        for partitions in [i32::MIN, i32::MAX, 10_001] {
            ask(format!("{partitions} partitions"), vec![topic("borders-new", partitions, 1)]);
        }
        for replicas in [i16::MIN, i16::MAX] {
            ask(format!("{replicas} replicas"), vec![topic("borders-new", 1, replicas)]);
        }
        for name in
            ["x".repeat(249), "__x".to_owned(), "-".to_owned(), "...".to_owned(), "ä".to_owned(), " ".to_owned()]
        {
            ask(format!("name of {} bytes", name.len()), vec![topic(&name, 1, 1)]);
        }
        for (key, value) in
            [("", Some("1")), ("retention.ms", Some("")), ("cleanup.policy", Some("")), ("retention.ms", Some(" 5 "))]
        {
            let config = CreatableTopicConfig { name: Cow::Borrowed(key), value: value.map(Cow::Borrowed) };
            let new = CreatableTopic { configs: vec![config], ..topic("borders-new", 1, 1) };
            ask(format!("setting [{key}] {value:?}"), vec![new]);
        }
        for (key, values) in [
            ("retention.ms", ["-1", "-2", "9223372036854775807", "9223372036854775808"]),
            ("segment.bytes", ["1048576", "1048575", "2147483647", "2147483648"]),
            ("max.message.bytes", ["0", "-1", "2147483647", "1e3"]),
            ("min.cleanable.dirty.ratio", ["0", "1", "1.1", "-0.1"]),
            ("index.interval.bytes", ["0", "-1", "2147483647", "+5"]),
            ("preallocate", ["true", "TRUE", "yes", "1"]),
        ] {
            for value in values {
                let config = CreatableTopicConfig { name: Cow::Borrowed(key), value: Some(Cow::Borrowed(value)) };
                let new = CreatableTopic { configs: vec![config], ..topic("borders-new", 1, 1) };
                ask(format!("{key}={value}"), vec![new]);
            }
        }
    }
    script.finish();
}

#[test]
fn borders_of_topics_that_change() {
    let mut script = Script::start("borders_of_topics_that_change");
    let own = script.create("borders-topic", 2, &[]);
    for version in 0..=3 {
        for count in [i32::MAX, i32::MIN, 10_002, 10_003] {
            let new = CreatePartitionsTopic { name: Cow::Borrowed(own.name), count, assignments: None };
            let request = CreatePartitionsRequest { topics: vec![new], timeout_ms: 10_000, validate_only: true };
            script.ask::<_, CreatePartitionsResponse<'static>>(&format!("to {count}"), version, &request);
        }
    }
    for version in 1..=6 {
        let mut request = DeleteTopicsRequest { timeout_ms: 10_000, ..Default::default() };
        if version < 6 {
            request.topic_names = ["nowhere", "nowhere"].map(Cow::Borrowed).to_vec();
        } else {
            let unknown = DeleteTopicState { name: None, topic_id: Topic::UNKNOWN.id };
            let named = DeleteTopicState { name: Some(Cow::Borrowed("nowhere")), topic_id: TopicId::ZERO };
            let empty = DeleteTopicState { name: Some(Cow::Borrowed("")), topic_id: TopicId::ZERO };
            request.topics = vec![unknown.clone(), unknown, named.clone(), named, empty];
        }
        let sort = |response: &mut DeleteTopicsResponse<'static>, names: &mut Names| {
            response
                .responses
                .sort_by_cached_key(|topic| (topic.name.clone(), names.topic(topic.topic_id), topic.error_code));
        };
        script.ask_shaped("unknown ones twice", version, &request, sort);
    }
    script.finish();
}

#[test]
fn borders_of_partitions() {
    let mut script = Script::start("borders_of_partitions");
    let own = script.create("borders-partitions", 2, &[KEPT]);
    script.ask::<_, ProduceResponse<'static>>("produce", 9, &produce(9, own, 0, -1, &batch(&["a", "b"])));
    for version in 0..=2 {
        let mut ask = |name: &str, topics: &[(&'static str, &[(i32, i64)])]| {
            let partition = |(partition_index, offset): &(i32, i64)| DeleteRecordsPartition {
                partition_index: *partition_index,
                offset: *offset,
            };
            let topic = |(name, partitions): &(&'static str, &[(i32, i64)])| DeleteRecordsTopic {
                name: Cow::Borrowed(*name),
                partitions: partitions.iter().map(partition).collect(),
            };
            let request = DeleteRecordsRequest { topics: topics.iter().map(topic).collect(), timeout_ms: 10_000 };
            script.ask_shaped(name, version, &request, |response: &mut DeleteRecordsResponse<'static>, _| {
                response.topics.sort_by(|a, b| a.name.cmp(&b.name));
                response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
            });
        };
        for offset in [i64::MAX, i64::MIN, -3, 0] {
            ask(&format!("until {offset}"), &[(own.name, &[(0, offset)])]);
        }
        ask("partitions", &[(own.name, &[(i32::MAX, 0), (i32::MIN, 0)])]);
        ask("no name", &[("", &[(0, 0)])]);
        ask("none", &[]);
    }
    for election_type in [-1, 2, i8::MAX] {
        for version in 1..=2 {
            let topic = TopicPartitions { topic: Cow::Borrowed(own.name), partitions: vec![0] };
            let request =
                ElectLeadersRequest { election_type, topic_partitions: Some(vec![topic]), timeout_ms: 10_000 };
            script.ask::<_, ElectLeadersResponse<'static>>(&format!("election {election_type}"), version, &request);
        }
    }
    for version in 0..=2 {
        let topic = TopicPartitions { topic: Cow::Borrowed(own.name), partitions: vec![-1, i32::MAX] };
        let request = ElectLeadersRequest { topic_partitions: Some(vec![topic]), timeout_ms: 10_000, election_type: 0 };
        let sort = |response: &mut ElectLeadersResponse<'static>, _: &mut Names| {
            response
                .replica_election_results
                .iter_mut()
                .for_each(|t| t.partition_result.sort_by_key(|p| p.partition_id));
        };
        script.ask_shaped("election of partitions", version, &request, sort);
    }
    for (limit, cursor) in [(0, None), (-1, None), (i32::MAX, None), (5, Some(-1)), (1, Some(1))] {
        let request = DescribeTopicPartitionsRequest {
            topics: vec![TopicRequest { name: Cow::Borrowed(own.name) }],
            response_partition_limit: limit,
            cursor: cursor.map(|index| Cursor { topic_name: Cow::Borrowed(own.name), partition_index: index }),
        };
        let name = format!("limit {limit} cursor {cursor:?}");
        script.ask::<_, DescribeTopicPartitionsResponse<'static>>(&name, 0, &request);
    }
    script.finish();
}

#[test]
fn borders_of_settings() {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
    let mut script = Script::start("borders_of_settings");
    let own = script.create("borders-settings", 1, &[]);
    let resource = |kind: i8, name: &'static str, keys: Option<&[&'static str]>| DescribeConfigsResource {
        resource_type: kind,
        resource_name: Cow::Borrowed(name),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| Cow::Borrowed(*key)).collect()),
    };
    for version in 1..=4 {
        for (name, resources) in [
            ("none", Vec::new()),
            ("one key twice", vec![resource(TOPIC, own.name, Some(&["retention.ms", "retention.ms"]))]),
            ("an empty key", vec![resource(TOPIC, own.name, Some(&["", "retention.ms"]))]),
        ] {
            let request = DescribeConfigsRequest { resources, ..Default::default() };
            script.ask::<_, DescribeConfigsResponse<'static>>(name, version, &request);
        }
    }
    for version in 0..=1 {
        let mut ask =
            |kind: i8, resource: &'static str, key: &'static str, operation: i8, value: Option<&'static str>| {
                let config = AlterableConfig {
                    name: Cow::Borrowed(key),
                    config_operation: operation,
                    value: value.map(Cow::Borrowed),
                };
                let resource = AlterConfigsResource {
                    resource_type: kind,
                    resource_name: Cow::Borrowed(resource),
                    configs: vec![config],
                };
                let name = format!("{kind} [{}] {key} {operation} {value:?}", resource.resource_name);
                // Others look at the same cluster.
                let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: true };
                script.ask::<_, IncrementalAlterConfigsResponse<'static>>(&name, version, &request);
            };
        for kind in [0, 1, 3, -1, i8::MAX] {
            ask(kind, own.name, "retention.ms", 0, Some("1"));
        }
        for value in ["", ",", "compact,compact", " delete ", "delete,burn"] {
            ask(TOPIC, own.name, "cleanup.policy", 0, Some(value));
            ask(TOPIC, own.name, "cleanup.policy", 2, Some(value));
            ask(TOPIC, own.name, "cleanup.policy", 3, Some(value));
        }
        for node in ["1", ""] {
            for (key, values) in [
                ("max.connections", ["0", "-1", "2147483647", "many"]),
                ("max.connections.per.ip", ["0", "-1", "2147483647", ""]),
                ("num.network.threads", ["0", "-1", "4", "1000000"]),
                ("num.io.threads", ["0", "-1", "9", "1000000"]),
                ("log.retention.ms", ["-1", "0", "1", "9223372036854775807"]),
                ("message.max.bytes", ["0", "-1", "2147483647", "2147483648"]),
                ("log.cleaner.threads", ["0", "-1", "2", "1000000"]),
            ] {
                for value in values {
                    ask(BROKER, node, key, 0, Some(value));
                }
                ask(BROKER, node, key, 1, None);
            }
        }
        for key in ["node.id", "listeners", "log.dirs"] {
            ask(BROKER, "1", key, 0, Some("1"));
            ask(BROKER, "", key, 0, Some("1"));
        }
    }
    script.finish();
}

#[test]
fn borders_of_groups() {
    let mut script = Script::start("borders_of_groups");
    wait_for_coordinator(&mut script);
    let ask = |script: &mut Script, name: String, version: i16, request: &JoinGroupRequest<'_>| {
        script.ask::<_, JoinGroupResponse<'static>>(&name, version, request);
    };
    for version in 0..=9 {
        let group: &'static str = format!("borders-{version}").leak();
        let good = join(group, "", SUBSCRIPTION);
        for session_timeout_ms in [0, -1, 5_999, 1_800_001, i32::MAX, i32::MIN] {
            let request = JoinGroupRequest { session_timeout_ms, ..good.clone() };
            ask(&mut script, format!("session timeout {session_timeout_ms}"), version, &request);
        }
        let request = JoinGroupRequest { protocols: Vec::new(), ..good.clone() };
        ask(&mut script, "no protocols".to_owned(), version, &request);
        let request = JoinGroupRequest { protocol_type: Cow::Borrowed(""), ..good.clone() };
        ask(&mut script, "no protocol type".to_owned(), version, &request);
        let request = JoinGroupRequest { member_id: Cow::Borrowed("nobody"), ..good.clone() };
        ask(&mut script, "an unknown member".to_owned(), version, &request);
        let request = JoinGroupRequest { group_id: Cow::Borrowed(""), ..good.clone() };
        ask(&mut script, "no group".to_owned(), version, &request);
        describe(&mut script, "an unknown one", 5, &["borders-none"]);
    }
    for version in 0..=4 {
        for (member, generation) in [("", 0), ("", -1), ("nobody", i32::MAX), ("nobody", i32::MIN)] {
            let request = HeartbeatRequest {
                group_id: Cow::Borrowed("borders-none"),
                generation_id: generation,
                member_id: Cow::Borrowed(member),
                ..Default::default()
            };
            script.ask::<_, HeartbeatResponse>(&format!("heartbeat [{member}] {generation}"), version, &request);
        }
    }
    for version in 0..=5 {
        for (group, member, generation) in [("", "", 0), ("borders-none", "", -1), ("borders-none", "x", i32::MAX)] {
            let request = sync_in(version, sync(group, member, generation, &[]));
            let name = format!("sync [{group}] [{member}] {generation}");
            script.ask::<_, mainstem_kafka_wire::messages::SyncGroupResponse<'static>>(&name, version, &request);
            let request: LeaveGroupRequest<'_> = leave(version, group, &[(member, None)]);
            script.ask::<_, LeaveGroupResponse<'static>>(&format!("leave [{group}] [{member}]"), version, &request);
        }
        if version >= 3 {
            let request = leave(version, "borders-none", &[]);
            script.ask::<_, LeaveGroupResponse<'static>>("nobody leaves", version, &request);
            let request = leave(version, "borders-none", &[("a", None), ("a", None), ("", Some("i")), ("", Some(""))]);
            script.ask::<_, LeaveGroupResponse<'static>>("some leave", version, &request);
        }
    }
    for version in 0..=3 {
        let groups_names = ["", "borders-none", "borders-none", ""].map(Cow::Borrowed).to_vec();
        let sort = |response: &mut DeleteGroupsResponse<'static>, _: &mut Names| {
            response.results.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        };
        script.ask_shaped("delete unknown ones twice", version, &DeleteGroupsRequest { groups_names }, sort);
    }
    script.finish();
}

#[test]
fn borders_of_lists_of_groups() {
    let mut script = Script::start("borders_of_lists_of_groups");
    wait_for_coordinator(&mut script);
    let topic = script.create("borders-listed", 1, &[KEPT]);
    super::committed::commit_as(&mut script, "commit", 8, topic, "borders-listed", "", -1);
    for version in 4..=5 {
        let mut ask = |states: &[&'static str], types: &[&'static str]| {
            let names = |names: &[&'static str]| names.iter().map(|name| Cow::Borrowed(*name)).collect();
            let request = ListGroupsRequest { states_filter: names(states), types_filter: names(types) };
            let own = |response: &mut ListGroupsResponse<'static>, _: &mut Names| {
                response.groups.retain(|group| group.group_id.starts_with("borders-listed"));
            };
            script.ask_shaped(&format!("states {states:?} types {types:?}"), version, &request, own);
        };
        for state in ["Empty", "EMPTY", "empty", "Stable", "Dead", "nonsense", ""] {
            ask(&[state], &[]);
        }
        ask(&["Empty", "Empty", "Stable"], &[]);
        for kind in ["classic", "CLASSIC", "Classic", "consumer", "share", "streams", "nonsense", ""] {
            if version >= 5 {
                ask(&[], &[kind]);
            }
        }
    }
    script.finish();
}

#[test]
fn borders_of_the_cluster() {
    let mut script = Script::start("borders_of_the_cluster");
    wait_for_coordinator(&mut script);
    for version in 4..=6 {
        let mut ask = |name: &str, key_type: i8, keys: &[&str]| {
            let coordinator_keys = keys.iter().map(|key| Cow::Owned(key.to_string())).collect();
            let request = FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() };
            script.ask::<_, FindCoordinatorResponse<'static>>(name, version, &request);
        };
        ask("no keys", 0, &[]);
        ask("a long key", 0, &[&"x".repeat(10_000)]);
        for key_type in [-1, 3, i8::MAX] {
            ask(&format!("type {key_type}"), key_type, &["a", "b"]);
        }
    }
    for version in 1..=2 {
        for endpoint_type in [0, -1, i8::MAX, i8::MIN] {
            let request = DescribeClusterRequest { endpoint_type, ..Default::default() };
            script.ask::<_, DescribeClusterResponse<'static>>(&format!("type {endpoint_type}"), version, &request);
        }
    }
    for version in 4..=13 {
        let topic = |name: &str| MetadataRequestTopic { name: Some(Cow::Owned(name.to_owned())), ..Default::default() };
        let names = ["x".repeat(249), "x".repeat(250), ".".to_owned(), "ä".to_owned()];
        let request = MetadataRequest {
            topics: Some(names.iter().map(|name| topic(name)).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let sort = |response: &mut MetadataResponse<'static>, _: &mut Names| {
            response.topics.sort_by(|a, b| a.name.cmp(&b.name));
        };
        script.ask_shaped("names", version, &request, sort);
    }
    script.finish();
}

/// What `docs/compatibility.md` says of the recordings is so.
#[test]
fn the_document_says_how_many_answers_are_compared() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut scripts, mut answers) = (0, 0);
    for entry in std::fs::read_dir(root.join("tests/oracle/recordings")).unwrap() {
        scripts += 1;
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        answers += text.lines().filter(|line| line.starts_with("> ")).count();
    }
    let sentence = format!("{},{:03} answers of {scripts} scripts", answers / 1_000, answers % 1_000);
    let document = std::fs::read_to_string(root.join("docs/compatibility.md")).unwrap();
    assert!(document.contains(&sentence), "docs/compatibility.md does not say `{sentence}`");
}

/// Every api that is advertised has a script that asks it.
#[test]
fn every_api_is_asked() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/behaviour/oracle/scripts");
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        text += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for api in mainstem_kafka::registry::APIS {
        assert!(text.contains(&format!("{}Response", api.name)), "no script asks {}", api.name);
    }
}
