use mainstem_kafka_wire::messages::describe_quorum_request::{PartitionData as Asked, TopicData as AskedTopic};

use super::*;
use crate::test_support::TestDoor;

fn describe(kafka: &TestDoor, version: i16, topics: &[(&str, &[i32])]) -> DescribeQuorumResponse<'static> {
    let partition = |index: &i32| Asked { partition_index: *index };
    let topic = |(name, partitions): &(&str, &[i32])| AskedTopic {
        topic_name: name.to_string().into(),
        partitions: partitions.iter().map(partition).collect(),
    };
    kafka.call(version, &DescribeQuorumRequest { topics: topics.iter().map(topic).collect() })
}

#[test]
fn one_node_leads_and_votes_alone() {
    let kafka = TestDoor::any();
    for version in API.min_version..=API.max_version {
        let before = describe(&kafka, version, &[(CLUSTER_METADATA_TOPIC, &[0])]);
        kafka.create(&kafka.fresh(&format!("quorum-{version}")), 1);
        let response = describe(&kafka, version, &[(CLUSTER_METADATA_TOPIC, &[0])]);
        assert_eq!((response.error_code, response.topics.len()), (0, 1));
        assert_eq!(response.error_message.unwrap_or_default(), "");
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.partition_index, partition.error_code, partition.leader_id), (0, 0, 1));
        assert_eq!(partition.error_message.as_deref().unwrap_or_default(), "");
        assert!(partition.leader_epoch > 0);
        assert!(partition.high_watermark > before.topics[0].partitions[0].high_watermark, "{partition:?}");
        let voter = &partition.current_voters[0];
        assert_eq!((partition.current_voters.len(), partition.observers.len(), voter.replica_id), (1, 0, 1));
        assert!(voter.log_end_offset >= partition.high_watermark);
        let has_times = voter.last_fetch_timestamp > 0 && voter.last_caught_up_timestamp > 0;
        assert_eq!(has_times, version >= 1, "{voter:?}");
        assert_eq!(voter.replica_directory_id, Default::default());
        let nodes: Vec<_> = response.nodes.iter().map(|node| (node.node_id, node.listeners.len())).collect();
        assert_eq!(nodes, if version >= 2 { vec![(1, 1)] } else { vec![] });
    }
}

#[test]
fn there_is_no_other_log_to_ask_for() {
    let kafka = TestDoor::any();
    let cases: &[&[(&str, &[i32])]] = &[
        &[("orders", &[0])],
        &[(CLUSTER_METADATA_TOPIC, &[1])],
        &[(CLUSTER_METADATA_TOPIC, &[0, 1])],
        &[(CLUSTER_METADATA_TOPIC, &[0]), ("orders", &[0])],
    ];
    for topics in cases {
        let response = describe(&kafka, 2, topics);
        assert_eq!((response.error_code, response.nodes.len()), (0, 0));
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            assert_eq!(partition.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, "{topics:?}");
        }
        assert_eq!(response.topics.len(), topics.len());
    }
}
