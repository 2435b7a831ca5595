use mainstem_kafka_wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use super::*;
use crate::test_support::TestDoor;

type Response = MetadataResponse<'static>;

fn named(name: &str) -> MetadataRequestTopic<'_> {
    MetadataRequestTopic { name: Some(Cow::Borrowed(name)), ..Default::default() }
}

fn with_id<'a>(topic_id: TopicId) -> MetadataRequestTopic<'a> {
    MetadataRequestTopic { topic_id, name: None }
}

/// Asks without creating anything.
fn ask(kafka: &TestDoor, version: i16, topics: Option<Vec<MetadataRequestTopic<'_>>>) -> Response {
    let request = MetadataRequest { topics, allow_auto_topic_creation: version < 4, ..Default::default() };
    kafka.call(version, &request)
}

fn codes(response: &Response) -> Vec<ErrorCode> {
    response.topics.iter().map(|topic| ErrorCode(topic.error_code)).collect()
}

#[test]
fn row_43_brokers_cluster_and_controller_are_named_in_every_version() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-43");
    let id = kafka.create(&name, 2);
    for version in API.min_version..=API.max_version {
        let response = ask(&kafka, version, Some(vec![named(&name)]));
        assert_eq!((response.brokers.len(), response.brokers[0].node_id), (1, 1), "version {version}");
        assert!(response.brokers[0].rack.is_none() && response.brokers[0].port > 0);
        assert_eq!(response.controller_id, if version >= 1 { 1 } else { -1 });
        assert_eq!(response.cluster_id.as_ref().map(|id| id.len()), (version >= 2).then_some(22));
        let topic = &response.topics[0];
        assert_eq!((topic.name.as_deref(), topic.error_code, topic.is_internal), (Some(name.as_str()), 0, false));
        assert_eq!(topic.topic_id, if version >= 10 { id } else { TopicId::ZERO });
        let partition = topic.partitions.iter().find(|partition| partition.partition_index == 1).unwrap();
        assert_eq!((topic.partitions.len(), partition.error_code, partition.leader_id), (2, 0, 1));
        assert_eq!((&partition.replica_nodes, &partition.isr_nodes), (&vec![1], &vec![1]));
        assert_eq!(partition.leader_epoch, if version >= 7 { 0 } else { -1 });
        assert!(partition.offline_replicas.is_empty());
    }
}

#[test]
fn row_43_an_empty_list_asks_for_none_and_null_for_all_except_in_version_0() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    kafka.create("b", 1);
    assert_eq!(ask(&kafka, 0, Some(vec![])).topics.len(), 2);
    for version in 1..=API.max_version {
        assert_eq!(ask(&kafka, version, Some(vec![])).topics.len(), 0, "version {version}");
        assert_eq!(ask(&kafka, version, None).topics.len(), 2, "version {version}");
    }
}

#[test]
fn row_42_a_missing_topic_is_unknown_at_first_and_there_when_asked_again() {
    let kafka = TestDoor::any();
    for version in [0, 3, 4, 9, 12, 13] {
        let name = kafka.fresh(&format!("row-42-auto-{version}"));
        let request = MetadataRequest { topics: Some(vec![named(&name)]), ..Default::default() };
        let first: Response = kafka.call(version, &request);
        assert_eq!(codes(&first), [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION], "version {version}");
        kafka.settle();
        let second: Response = kafka.call(version, &request);
        assert_eq!(codes(&second), [ErrorCode::NONE], "version {version}");
        assert_eq!(second.topics[0].partitions[0].leader_id, 1);
    }
}

#[test]
fn row_42_nothing_is_created_without_the_flag_or_with_the_setting_off_or_for_all_topics() {
    let on = TestDoor::start(&[]);
    let off = TestDoor::start(&[("auto.create.topics.enable", "false")]);
    for _ in 0..2 {
        let request =
            MetadataRequest { topics: Some(vec![named("a")]), allow_auto_topic_creation: false, ..Default::default() };
        assert_eq!(codes(&on.call::<_, Response>(4, &request)), [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
        assert_eq!(codes(&ask(&off, 3, Some(vec![named("a")]))), [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    }
    let all: Response = on.call(4, &MetadataRequest { topics: None, ..Default::default() });
    assert!(all.topics.is_empty());
}

#[test]
fn row_42_names_that_cannot_be_are_invalid_and_create_nothing() {
    let kafka = TestDoor::any();
    let request = MetadataRequest { topics: Some(vec![named("a b"), named("..")]), ..Default::default() };
    for _ in 0..2 {
        assert_eq!(codes(&kafka.call::<_, Response>(12, &request)), [ErrorCode::INVALID_TOPIC_EXCEPTION; 2]);
    }
}

#[test]
fn row_42_a_name_that_collides_with_another_cannot_be_created() {
    // A Kafka says "unknown" for ever, and clients retry until they give up. Here they learn at once that it is final.
    let kafka = TestDoor::start(&[]);
    kafka.create("a.b", 1);
    let request = MetadataRequest { topics: Some(vec![named("a_b")]), ..Default::default() };
    assert_eq!(codes(&kafka.call::<_, Response>(12, &request)), [ErrorCode::INVALID_TOPIC_EXCEPTION]);
}

#[test]
fn row_42_many_missing_topics_are_created_together_even_if_named_twice() {
    let kafka = TestDoor::start(&[]);
    let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
    let wanted: Vec<_> = names.iter().chain(&names).map(|name| named(name)).collect();
    let first: Response = kafka.call(12, &MetadataRequest { topics: Some(wanted.clone()), ..Default::default() });
    assert_eq!(codes(&first), [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION; 50]);
    assert_eq!(codes(&ask(&kafka, 12, Some(wanted))), [ErrorCode::NONE; 50]);
}

#[test]
fn row_44_internal_topics_are_marked_and_operations_listed_on_request() {
    let kafka = TestDoor::start(&[]);
    kafka.create("__consumer_offsets", 1);
    let request = MetadataRequest {
        topics: Some(vec![named("__consumer_offsets")]),
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: true,
        ..Default::default()
    };
    let response: Response = kafka.call(8, &request);
    assert!(response.topics[0].is_internal);
    assert_eq!(response.topics[0].topic_authorized_operations, 0b1101_1111_1000);
    assert_eq!(response.cluster_authorized_operations, 0b1_1111_1010_0000);
    let plain = ask(&kafka, 8, Some(vec![named("__consumer_offsets")]));
    assert_eq!(plain.topics[0].topic_authorized_operations, i32::MIN);
    assert_eq!(plain.cluster_authorized_operations, i32::MIN);
}

#[test]
fn kip_516_topics_are_found_by_id_from_version_12_on() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("kip-516");
    let id = kafka.create(&name, 1);
    for version in 12..=API.max_version {
        let response = ask(&kafka, version, Some(vec![with_id(id)]));
        assert_eq!((response.topics[0].name.as_deref(), response.topics[0].topic_id), (Some(name.as_str()), id));
        let unknown = TopicId([7; 16]);
        let response = ask(&kafka, version, Some(vec![with_id(unknown)]));
        assert_eq!(codes(&response), [ErrorCode::UNKNOWN_TOPIC_ID]);
        assert_eq!((response.topics[0].name.as_deref(), response.topics[0].topic_id), (None, unknown));
    }
    for version in 10..12 {
        let response = ask(&kafka, version, Some(vec![MetadataRequestTopic { topic_id: id, ..named(&name) }]));
        assert_eq!(codes(&response), [ErrorCode::INVALID_REQUEST], "version {version}");
    }
}

#[test]
fn kip_516_a_topic_that_is_made_again_has_another_id() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("kip-516-again");
    let id = kafka.create(&name, 1);
    let request =
        DeleteTopicsRequest { topic_names: vec![Cow::Borrowed(&name)], timeout_ms: 30_000, ..Default::default() };
    let deleted: DeleteTopicsResponse<'static> = kafka.call(5, &request);
    assert_eq!(deleted.responses[0].error_code, 0);
    let again = kafka.create(&name, 1);
    assert_ne!(again, id);
    assert_eq!(ask(&kafka, 12, Some(vec![named(&name)])).topics[0].topic_id, again);
    assert_eq!(codes(&ask(&kafka, 12, Some(vec![with_id(id)]))), [ErrorCode::UNKNOWN_TOPIC_ID]);
}

#[test]
fn a_topic_that_is_asked_for_twice_is_answered_once() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("asked-twice");
    kafka.create(&name, 1);
    assert_eq!(ask(&kafka, 12, Some(vec![named(&name), named(&name)])).topics.len(), 1);
}

#[test]
fn a_partition_of_other_nodes_is_shown_as_the_metadata_has_it() {
    let kafka = TestDoor::start(&[]);
    kafka.create("orders", 3);
    kafka.place("orders", 0, &[2, 3], 3);
    kafka.place("orders", 1, &[1, 2], 2);
    let partition = |partition: &MetadataResponsePartition| {
        assert!(partition.offline_replicas.is_empty());
        (partition.error_code, partition.leader_id, partition.leader_epoch, partition.replica_nodes.clone())
    };
    for version in 7..=API.max_version {
        let response = ask(&kafka, version, Some(vec![named("orders")]));
        let shown: Vec<_> = response.topics[0].partitions.iter().map(partition).collect();
        assert_eq!(shown, [(0, 3, 1, vec![2, 3]), (0, 2, 1, vec![1, 2]), (0, 1, 0, vec![1])], "version {version}");
    }
}
