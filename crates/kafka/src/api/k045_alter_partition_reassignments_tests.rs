use mainstem_kafka_wire::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};

use super::*;
use crate::test_support::TestDoor;

fn alter(
    kafka: &TestDoor,
    version: i16,
    topic: &str,
    may_change: bool,
    wanted: &[(i32, Option<&[i32]>)],
) -> Vec<(i32, ErrorCode)> {
    let partition = |(partition_index, replicas): &(i32, Option<&[i32]>)| ReassignablePartition {
        partition_index: *partition_index,
        replicas: replicas.map(<[i32]>::to_vec),
    };
    let topic = ReassignableTopic { name: topic.into(), partitions: wanted.iter().map(partition).collect() };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 30_000,
        allow_replication_factor_change: may_change,
        topics: vec![topic],
    };
    let response: AlterPartitionReassignmentsResponse<'static> = kafka.call(version, &request);
    assert_eq!((response.error_code, response.error_message), (0, None));
    assert_eq!(response.allow_replication_factor_change, may_change);
    let mut results: Vec<_> = response.responses[0]
        .partitions
        .iter()
        .map(|result| {
            let says_all = [ErrorCode::NONE, ErrorCode::NO_REASSIGNMENT_IN_PROGRESS];
            let has_message = !says_all.contains(&ErrorCode(result.error_code));
            assert_eq!(result.error_message.is_some(), has_message, "{result:?}");
            (result.partition_index, ErrorCode(result.error_code))
        })
        .collect();
    results.sort();
    results
}

#[test]
fn a_partition_may_stay_where_it_is() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("reassign");
    kafka.create(&name, 2);
    for version in API.min_version..=API.max_version {
        let results = alter(&kafka, version, &name, true, &[(0, Some(&[1])), (1, Some(&[1]))]);
        assert_eq!(results, [(0, ErrorCode::NONE), (1, ErrorCode::NONE)], "version {version}");
    }
    assert_eq!(alter(&kafka, 1, &name, false, &[(0, Some(&[1]))]), [(0, ErrorCode::NONE)]);
}

#[test]
fn what_cannot_be_is_refused_one_by_one() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("reassign-refused"), kafka.fresh("reassign-absent"));
    kafka.create(&name, 6);
    let wanted: &[(i32, Option<&[i32]>)] =
        &[(0, Some(&[7])), (1, Some(&[1, 1])), (2, Some(&[])), (3, None), (4, Some(&[1])), (6, Some(&[1]))];
    let invalid = ErrorCode::INVALID_REPLICA_ASSIGNMENT;
    let expected = [
        (0, invalid),
        (1, invalid),
        (2, invalid),
        (3, ErrorCode::NO_REASSIGNMENT_IN_PROGRESS),
        (4, ErrorCode::NONE),
        (6, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    ];
    assert_eq!(alter(&kafka, 1, &name, true, wanted), expected);
    let unknown = [(0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)];
    assert_eq!(alter(&kafka, 0, &absent, true, &[(0, Some(&[1]))]), unknown);
    assert_eq!(alter(&kafka, 0, &absent, true, &[(0, None)]), unknown);
    assert_eq!(alter(&kafka, 1, &name, false, &[(0, Some(&[1, 7]))]), [(0, invalid)]);
}
