//! Every api in every version that is advertised: answered, and the answer can be read to its last byte.
//!
//! Encoders refuse fields that a version does not carry. An api that sets one would end connections, in the versions
//! and for the errors that nobody tried: so each is asked with nothing (which is mostly refused) and with something.

use std::borrow::Cow;

use mainstem_kafka::registry::{self, APIS, OWN_APIS};
use mainstem_kafka_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeGroupsRequest, DescribeGroupsResponse, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, InitProducerIdRequest,
    InitProducerIdResponse, JoinGroupResponse, ListGroupsRequest, ListGroupsResponse, ListOffsetsResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, ProduceResponse, SyncGroupRequest, SyncGroupResponse,
};
use mainstem_kafka_wire::{Message, messages};

use crate::support::batches::batch;
use crate::support::requests::{Topic, fetch, from, join, list_offsets, produce};
use crate::support::{Node, RequestOutcome};

/// Sends what `request` makes of each version; gives the api's key.
fn all_versions<'q, Q: Message<'q>, R: Message<'static>>(node: &Node, request: impl Fn(i16) -> Q) -> i16 {
    let api = registry::find(Q::API_KEY.unwrap()).unwrap();
    for version in api.min_version..=api.max_version {
        let mut link = node.connect();
        let outcome: RequestOutcome<R> = link.outcome(version, &request(version));
        assert!(matches!(outcome, RequestOutcome::Answer(_)), "{} {version} was not answered", api.name);
        let again: ApiVersionsResponse<'static> = link.call(0, &ApiVersionsRequest::default());
        assert_eq!(again.error_code, 0, "{} {version} ended the connection", api.name);
    }
    api.key
}

fn node(with_groups: bool) -> (Node, Topic) {
    let node = Node::start(&[]);
    let id = node.create("t", 1, &[]);
    if with_groups {
        node.runtime.block_on(node.broker().create_offsets_topic()).unwrap();
    }
    (node, Topic { name: "t", id })
}

/// Asks with empty requests; gives the keys of the apis that were asked.
macro_rules! empty {
    ($node:expr, $($request:ident => $response:ident),* $(,)?) => {
        vec![$(all_versions::<messages::$request, messages::$response>($node, |_| Default::default())),*]
    };
}

#[test]
fn an_empty_request_is_answered_in_every_version_of_every_api() {
    for with_groups in [false, true] {
        let (node, topic) = node(with_groups);
        // Acks 0 would not be answered.
        let mut asked = vec![all_versions::<_, ProduceResponse<'static>>(&node, |v| produce(v, topic, 0, 1, b""))];
        asked.extend(for_clients(&node));
        asked.extend(for_administrators(&node));
        let registered: Vec<i16> = APIS.iter().chain(OWN_APIS).map(|api| api.key).collect();
        let missing: Vec<_> = registered.iter().filter(|key| !asked.contains(key)).collect();
        assert!(missing.is_empty(), "add the apis {missing:?} here");
    }
}

fn for_clients(node: &Node) -> Vec<i16> {
    empty!(node,
        FetchRequest => FetchResponse,
        ListOffsetsRequest => ListOffsetsResponse,
        MetadataRequest => MetadataResponse,
        OffsetCommitRequest => OffsetCommitResponse,
        OffsetFetchRequest => OffsetFetchResponse,
        FindCoordinatorRequest => FindCoordinatorResponse,
        JoinGroupRequest => JoinGroupResponse,
        HeartbeatRequest => HeartbeatResponse,
        LeaveGroupRequest => LeaveGroupResponse,
        SyncGroupRequest => SyncGroupResponse,
        ApiVersionsRequest => ApiVersionsResponse,
        InitProducerIdRequest => InitProducerIdResponse,
        OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse,
    )
}

fn for_administrators(node: &Node) -> Vec<i16> {
    empty!(node,
        DescribeGroupsRequest => DescribeGroupsResponse,
        ListGroupsRequest => ListGroupsResponse,
        CreateTopicsRequest => CreateTopicsResponse,
        DeleteTopicsRequest => DeleteTopicsResponse,
        DeleteRecordsRequest => DeleteRecordsResponse,
        DescribeConfigsRequest => DescribeConfigsResponse,
        AlterConfigsRequest => AlterConfigsResponse,
        AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse,
        DescribeLogDirsRequest => DescribeLogDirsResponse,
        CreatePartitionsRequest => CreatePartitionsResponse,
        DeleteGroupsRequest => DeleteGroupsResponse,
        ElectLeadersRequest => ElectLeadersResponse,
        IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse,
        AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse,
        ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse,
        OffsetDeleteRequest => OffsetDeleteResponse,
        DescribeQuorumRequest => DescribeQuorumResponse,
        DescribeClusterRequest => DescribeClusterResponse,
        DescribeProducersRequest => DescribeProducersResponse,
        UnregisterBrokerRequest => UnregisterBrokerResponse,
        UpdateFeaturesRequest => UpdateFeaturesResponse,
        ListConfigResourcesRequest => ListConfigResourcesResponse,
        DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse,
        FindByKeyRequest => FindByKeyResponse,
    )
}

#[test]
fn the_data_apis_answer_errors_and_data_in_every_version() {
    let (node, topic) = node(false);
    let (good, bad) = (batch(&["a"]), &good_for_nothing());
    for topic in [topic, Topic::UNKNOWN] {
        for batch in [&good, bad] {
            all_versions::<_, ProduceResponse<'static>>(&node, |version| produce(version, topic, 0, -1, batch));
        }
        for offset in [0, 1_000] {
            all_versions::<_, FetchResponse<'static>>(&node, |version| fetch(version, topic, vec![from(0, offset)]));
        }
        for time in [-9, -6, -5, -4, -3, -2, -1, 0, i64::MAX] {
            all_versions::<_, ListOffsetsResponse<'static>>(&node, |_| list_offsets(topic, &[(0, time), (9, time)]));
        }
    }
    for transactional_id in [None, Some(Cow::Borrowed("t"))] {
        all_versions::<_, InitProducerIdResponse>(&node, |_| InitProducerIdRequest {
            transactional_id: transactional_id.clone(),
            transaction_timeout_ms: 1_000,
            ..Default::default()
        });
    }
    use messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
    for name in ["t", "nowhere"] {
        for (current_leader_epoch, leader_epoch) in [(-1, 0), (0, 0), (5, 0), (-1, 7)] {
            let partition = OffsetForLeaderPartition { partition: 0, current_leader_epoch, leader_epoch };
            let topics = vec![OffsetForLeaderTopic { topic: Cow::Borrowed(name), partitions: vec![partition] }];
            all_versions::<_, OffsetForLeaderEpochResponse<'static>>(&node, |_| OffsetForLeaderEpochRequest {
                topics: topics.clone(),
                ..Default::default()
            });
        }
    }
}

/// A batch whose checksum is wrong.
fn good_for_nothing() -> Vec<u8> {
    let mut bad = batch(&["a"]);
    *bad.last_mut().unwrap() ^= 1;
    bad
}

#[test]
fn the_group_apis_answer_errors_and_data_in_every_version() {
    for with_groups in [false, true] {
        let (node, topic) = node(with_groups);
        for key_type in 0..4 {
            all_versions::<_, FindCoordinatorResponse<'static>>(&node, |version| FindCoordinatorRequest {
                key: Cow::Borrowed(if version < 4 { "g" } else { "" }),
                key_type: if version >= 1 { key_type } else { 0 },
                coordinator_keys: if version < 4 { vec![] } else { vec![Cow::Borrowed("g"), Cow::Borrowed("")] },
            });
        }
        all_versions::<_, JoinGroupResponse<'static>>(&node, |version| {
            let group: &'static str = format!("g-{version}").leak();
            join(group, "", b"m")
        });
        all_versions::<_, JoinGroupResponse<'static>>(&node, |_| join("g", "nobody", b"m"));
        all_versions::<_, HeartbeatResponse>(&node, |_| HeartbeatRequest {
            group_id: Cow::Borrowed("g-0"),
            member_id: Cow::Borrowed("nobody"),
            ..Default::default()
        });
        all_versions::<_, SyncGroupResponse<'static>>(&node, |version| SyncGroupRequest {
            group_id: Cow::Borrowed("g-0"),
            member_id: Cow::Borrowed("nobody"),
            protocol_type: (version >= 5).then_some(Cow::Borrowed("consumer")),
            protocol_name: (version >= 5).then_some(Cow::Borrowed("range")),
            ..Default::default()
        });
        all_versions::<_, DescribeGroupsResponse<'static>>(&node, |version| DescribeGroupsRequest {
            groups: vec![Cow::Borrowed("g-0"), Cow::Borrowed("unknown"), Cow::Borrowed("")],
            include_authorized_operations: version >= 3,
        });
        all_versions::<_, ListGroupsResponse<'static>>(&node, |_| ListGroupsRequest::default());
        offsets_in_every_version(&node, topic);
    }
}

fn offsets_in_every_version(node: &Node, topic: Topic) {
    use messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
    use messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
    for topic in [topic, Topic::UNKNOWN] {
        let name = |by_id| Cow::Borrowed(if by_id { "" } else { topic.name });
        let id = |by_id| if by_id { topic.id } else { Default::default() };
        all_versions::<_, OffsetCommitResponse<'static>>(node, |version| OffsetCommitRequest {
            group_id: Cow::Borrowed("simple"),
            topics: vec![OffsetCommitRequestTopic {
                name: name(version >= 10),
                topic_id: id(version >= 10),
                partitions: vec![
                    OffsetCommitRequestPartition { partition_index: 0, committed_offset: 3, ..Default::default() },
                    OffsetCommitRequestPartition { partition_index: 9, ..Default::default() },
                ],
            }],
            ..Default::default()
        });
        all_versions::<_, OffsetFetchResponse<'static>>(node, |version| {
            let topics = OffsetFetchRequestTopic { name: name(false), partition_indexes: vec![0, 9] };
            if version < 8 {
                let (group_id, topics) = (Cow::Borrowed("simple"), Some(vec![topics]));
                return OffsetFetchRequest { group_id, topics, ..Default::default() };
            }
            let topics = OffsetFetchRequestTopics {
                name: name(version >= 10),
                topic_id: id(version >= 10),
                partition_indexes: vec![0, 9],
            };
            let group = OffsetFetchRequestGroup {
                group_id: Cow::Borrowed("simple"),
                topics: Some(vec![topics]),
                ..Default::default()
            };
            OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
        });
        all_versions::<_, OffsetFetchResponse<'static>>(node, |version| match version {
            0..8 => OffsetFetchRequest {
                group_id: Cow::Borrowed("simple"),
                topics: if version >= 2 { None } else { Some(Vec::new()) },
                ..Default::default()
            },
            _ => OffsetFetchRequest {
                groups: ["simple", "unknown"]
                    .map(|id| OffsetFetchRequestGroup { group_id: Cow::Borrowed(id), ..Default::default() })
                    .to_vec(),
                ..Default::default()
            },
        });
    }
}
