//! Metadata and coordinators: rows 42 to 45. More of Metadata is tested beside its code.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use mainstem_kafka_wire::messages::{
    DescribeClusterRequest, DescribeClusterResponse, FindCoordinatorRequest, FindCoordinatorResponse, MetadataResponse,
};
use mainstem_types::TopicId;

use crate::support::Node;
use crate::support::batches::batch;
use crate::support::requests::{Topic, fetched, produced};

fn named(names: &[&str], may_create: bool) -> MetadataRequest<'static> {
    let topic = |name: &&str| MetadataRequestTopic { name: Some(Cow::Owned(name.to_string())), ..Default::default() };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: may_create,
        ..Default::default()
    }
}

/// Error and number of partitions of each topic.
fn shown(node: &Node, version: i16, request: &MetadataRequest<'static>) -> Vec<(i16, usize)> {
    let response: MetadataResponse<'static> = node.call(version, request);
    response.topics.iter().map(|topic| (topic.error_code, topic.partitions.len())).collect()
}

#[test]
fn row_42_a_topic_is_created_if_request_and_setting_allow_it_and_the_first_answer_is_unknown() {
    let node = Node::start(&[("num.partitions", "3")]);
    for version in 4..=13 {
        let name = format!("created-{version}");
        assert_eq!(shown(&node, version, &named(&[&name], false)), [(3, 0)]);
        assert_eq!(shown(&node, version, &named(&[&name], false)), [(3, 0)], "it was not created");
        assert_eq!(shown(&node, version, &named(&[&name], true)), [(3, 0)]);
        assert_eq!(shown(&node, version, &named(&[&name], true)), [(0, 3)]);
    }
    let node = Node::start(&[("auto.create.topics.enable", "false")]);
    assert_eq!(shown(&node, 9, &named(&["t"], true)), [(3, 0)]);
    assert_eq!(shown(&node, 9, &named(&["t"], true)), [(3, 0)]);
}

#[test]
fn row_42_asking_for_all_topics_creates_none_and_invalid_names_are_told_so() {
    let node = Node::start(&[]);
    let long = "x".repeat(250);
    let bad = ["", ".", "..", "a b", "a/b", "ä", &long];
    assert_eq!(shown(&node, 9, &named(&bad, true)), [(17, 0); 7]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(shown(&node, 9, &all), []);
    let just_valid = "x".repeat(249);
    assert_eq!(shown(&node, 9, &named(&[&just_valid, "a.b"], true)), [(3, 0), (3, 0)]);
    assert_eq!(shown(&node, 9, &named(&[&just_valid, "a.b"], true)), [(0, 1), (0, 1)]);
    assert_eq!(shown(&node, 9, &named(&["a_b"], true)), [(17, 0)], "it collides with a.b");
}

#[test]
fn row_43_the_controller_is_an_alive_broker_and_the_cluster_has_an_id() {
    let node = Node::start(&[]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    let first: MetadataResponse<'static> = node.call(13, &all);
    assert!(first.brokers.iter().any(|broker| broker.node_id == first.controller_id));
    assert_eq!((first.brokers[0].host.as_ref(), first.brokers[0].port), ("127.0.0.1", 19_092));
    assert_eq!(first.brokers[0].rack, None);
    let id = first.cluster_id.unwrap().into_owned();
    assert_eq!(id.len(), 22);
    let cluster: DescribeClusterResponse<'static> = node.call(1, &DescribeClusterRequest::default());
    assert_eq!((cluster.cluster_id.as_ref(), cluster.controller_id), (id.as_str(), first.controller_id));
    let node = node.restart_with(&[("broker.rack", "r1")]);
    let later: MetadataResponse<'static> = node.call(13, &all);
    assert_eq!(later.cluster_id.as_deref(), Some(id.as_str()), "also after a restart");
    assert_eq!(later.brokers[0].rack.as_deref(), Some("r1"));
}

#[test]
fn row_44_leader_epochs_never_go_back_and_ids_stay() {
    let mut node = Node::start(&[]);
    let id = node.create("t", 2, &[]);
    let mut last = -1;
    for _ in 0..3 {
        let response: MetadataResponse<'static> = node.call(13, &named(&["t"], false));
        let topic = &response.topics[0];
        assert_eq!((topic.topic_id, topic.is_internal, topic.topic_authorized_operations), (id, false, i32::MIN));
        for partition in &topic.partitions {
            assert_eq!((partition.leader_id, &partition.replica_nodes, &partition.isr_nodes), (1, &vec![1], &vec![1]));
            assert!(partition.leader_epoch > last && partition.offline_replicas.is_empty());
        }
        last = topic.partitions[0].leader_epoch;
        node = node.restart();
    }
}

#[test]
fn row_44_operations_are_told_when_asked_for_and_those_of_the_cluster_in_versions_8_to_10() {
    let node = Node::start(&[]);
    node.create("t", 1, &[]);
    for version in 8..=13 {
        let request = MetadataRequest {
            include_topic_authorized_operations: true,
            include_cluster_authorized_operations: version <= 10,
            ..named(&["t"], false)
        };
        let response: MetadataResponse<'static> = node.call(version, &request);
        assert!(response.topics[0].topic_authorized_operations > 0);
        assert_eq!(response.cluster_authorized_operations > 0, version <= 10);
    }
}

#[test]
fn section_1_6_topics_have_ids_by_which_they_are_found_and_a_new_one_gets_a_new_id() {
    let node = Node::start(&[]);
    let first = node.create("t", 1, &[]);
    assert!(!first.is_zero());
    let by_id = |topic_id| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { topic_id, name: None }]),
        ..Default::default()
    };
    let response: MetadataResponse<'static> = node.call(12, &by_id(first));
    assert_eq!((response.topics[0].error_code, response.topics[0].name.as_deref()), (0, Some("t")));
    let response: MetadataResponse<'static> = node.call(12, &by_id(TopicId([9; 16])));
    assert_eq!((response.topics[0].error_code, response.topics[0].name.as_deref()), (100, None));
    let gone = vec![mainstem_metadata::controller::TopicRef::Id(first)];
    node.runtime.block_on(node.broker().delete_topics(gone)).unwrap();
    assert_ne!(node.create("t", 1, &[]), first);
    let response: MetadataResponse<'static> = node.call(12, &by_id(first));
    assert_eq!(response.topics[0].error_code, 100);
}

#[test]
fn a_partition_that_is_shown_with_a_leader_can_be_written_and_read_at_once() {
    let node = Node::start(&[]);
    for number in 0..20 {
        let name: &'static str = format!("auto-{number}").leak();
        assert_eq!(shown(&node, 12, &named(&[name], true)), [(3, 0)]);
        let response: MetadataResponse<'static> = node.call(12, &named(&[name], true));
        assert_eq!(response.topics[0].partitions[0].leader_id, 1);
        let topic = Topic { name, id: response.topics[0].topic_id };
        assert_eq!(produced(&mut node.connect(), 13, topic, 0, &batch(&["a"])).error_code, 0);
        assert_eq!(fetched(&mut node.connect(), 18, topic, 0, 0).high_watermark, 1);
    }
}

#[test]
fn row_45_the_topic_of_the_offsets_is_made_when_a_coordinator_is_looked_for() {
    for version in 0..=6 {
        let node = Node::start(&[]);
        let request = FindCoordinatorRequest {
            key: Cow::Borrowed(if version < 4 { "g" } else { "" }),
            coordinator_keys: if version < 4 { vec![] } else { vec![Cow::Borrowed("g"), Cow::Borrowed("h")] },
            ..Default::default()
        };
        let codes = |response: &FindCoordinatorResponse<'static>| match version {
            0..4 => vec![(response.error_code, response.node_id)],
            _ => response.coordinators.iter().map(|one| (one.error_code, one.node_id)).collect(),
        };
        let first: FindCoordinatorResponse<'static> = node.call(version, &request);
        assert!(codes(&first).iter().all(|code| *code == (15, -1)), "{first:?}");
        let second: FindCoordinatorResponse<'static> = node.call(version, &request);
        assert!(codes(&second).iter().all(|code| *code == (0, 1)), "{second:?}");
        assert_eq!(shown(&node, 9, &named(&["__consumer_offsets"], false)), [(0, 3)]);
    }
}
