use mainstem_env::CrashPolicy;
use mainstem_kafka_wire::messages::ListOffsetsResponse;
use mainstem_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use mainstem_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use super::*;
use crate::test_support::TestDoor;

fn request<'a>(topic: &'a str, partitions: &[(i32, i64)]) -> DeleteRecordsRequest<'a> {
    let partition = |&(partition_index, offset): &(i32, i64)| DeleteRecordsPartition { partition_index, offset };
    let topic =
        DeleteRecordsTopic { name: Cow::Borrowed(topic), partitions: partitions.iter().map(partition).collect() };
    DeleteRecordsRequest { topics: vec![topic], timeout_ms: 30_000 }
}

/// The error and the low watermark of the one partition.
fn delete(kafka: &TestDoor, topic: &str, partition: i32, offset: i64) -> (ErrorCode, i64) {
    let response: DeleteRecordsResponse<'static> = kafka.call(2, &request(topic, &[(partition, offset)]));
    let result = &response.topics[0].partitions[0];
    assert_eq!((response.topics.len(), response.topics[0].partitions.len(), result.partition_index), (1, 1, partition));
    (ErrorCode(result.error_code), result.low_watermark)
}

fn earliest(kafka: &TestDoor, topic: &str) -> i64 {
    let partition = ListOffsetsPartition { timestamp: -2, ..Default::default() };
    let topic = ListOffsetsTopic { name: Cow::Borrowed(topic), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let response: ListOffsetsResponse<'static> = kafka.call(5, &request);
    response.topics[0].partitions[0].offset
}

#[test]
fn row_41_a_partition_begins_at_the_offset_that_was_asked_for_in_every_version() {
    let kafka = TestDoor::any();
    for version in API.min_version..=API.max_version {
        let name = kafka.fresh(&format!("row-41-version-{version}"));
        kafka.create(&name, 1);
        kafka.produce(&name, 0, 10);
        let response: DeleteRecordsResponse<'static> = kafka.call(version, &request(&name, &[(0, 4)]));
        let result = &response.topics[0].partitions[0];
        assert_eq!(response.topics[0].name, name);
        assert_eq!((result.error_code, result.low_watermark), (0, 4), "version {version}");
        assert_eq!(earliest(&kafka, &name), 4);
    }
}

#[test]
fn row_41_the_borders() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-41-borders");
    kafka.create(&name, 1);
    assert_eq!(delete(&kafka, &name, 0, -1), (ErrorCode::NONE, 0), "an empty partition");
    assert_eq!(delete(&kafka, &name, 0, 0), (ErrorCode::NONE, 0));
    assert_eq!(delete(&kafka, &name, 0, 1), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    kafka.produce(&name, 0, 10);
    assert_eq!(delete(&kafka, &name, 0, 5), (ErrorCode::NONE, 5));
    assert_eq!(delete(&kafka, &name, 0, 5), (ErrorCode::NONE, 5), "at the start: nothing to do");
    assert_eq!(delete(&kafka, &name, 0, 2), (ErrorCode::NONE, 5), "below the start: nothing to do");
    assert_eq!(delete(&kafka, &name, 0, 11), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(&kafka, &name, 0, -2), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(&kafka, &name, 0, i64::MIN), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(&kafka, &name, 0, i64::MAX), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(&kafka, &name, 0, 10), (ErrorCode::NONE, 10), "the high watermark itself");
    kafka.produce(&name, 0, 3);
    assert_eq!(delete(&kafka, &name, 0, -1), (ErrorCode::NONE, 13));
    assert_eq!(earliest(&kafka, &name), 13);
    assert_eq!(kafka.produce(&name, 0, 1), 13, "offsets go on");
}

#[test]
fn row_41_what_cannot_be_deleted_is_refused() {
    let kafka = TestDoor::any();
    let (compacted, both) = (kafka.fresh("row-41-compacted"), kafka.fresh("row-41-both"));
    kafka.create_with(&compacted, 1, &[("cleanup.policy", "compact")]);
    kafka.create_with(&both, 1, &[("cleanup.policy", "compact,delete")]);
    kafka.produce(&compacted, 0, 2);
    kafka.produce(&both, 0, 2);
    kafka.serve_groups();
    assert_eq!(delete(&kafka, &compacted, 0, 1), (ErrorCode::POLICY_VIOLATION, -1));
    assert_eq!(delete(&kafka, &compacted, 0, -7), (ErrorCode::POLICY_VIOLATION, -1), "the policy is looked at first");
    assert_eq!(delete(&kafka, &both, 0, 1), (ErrorCode::NONE, 1));
    assert_eq!(delete(&kafka, "__consumer_offsets", 0, -1), (ErrorCode::INVALID_TOPIC_EXCEPTION, -1));
    assert_eq!(delete(&kafka, &both, 1, -1), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
    assert_eq!(delete(&kafka, &both, -1, -1), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
    let absent = kafka.fresh("row-41-absent");
    assert_eq!(delete(&kafka, &absent, 0, -1), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
}

#[test]
fn row_41_partitions_succeed_and_fail_on_their_own() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-41-several");
    kafka.create(&name, 3);
    (0..3).for_each(|partition| assert_eq!(kafka.produce(&name, partition, 5), 0));
    let response: DeleteRecordsResponse<'static> = kafka.call(2, &request(&name, &[(0, 2), (1, 9), (2, -1), (3, 1)]));
    let mut results = response.topics[0].partitions.clone();
    results.sort_by_key(|result| result.partition_index);
    let results: Vec<_> = results.iter().map(|r| (r.partition_index, r.error_code, r.low_watermark)).collect();
    assert_eq!(results, [(0, 0, 2), (1, 1, -1), (2, 0, 5), (3, 3, -1)]);
    let nothing: DeleteRecordsResponse<'static> = kafka.call(2, &DeleteRecordsRequest::default());
    assert_eq!(nothing.topics, []);
}

#[test]
fn row_41_what_was_deleted_does_not_come_back_after_a_power_cut() {
    let kafka = TestDoor::start(&[]);
    kafka.create_with("a", 1, &[("mainstem.durability", "disk")]);
    kafka.produce("a", 0, 10);
    assert_eq!(delete(&kafka, "a", 0, 6), (ErrorCode::NONE, 6));
    let again = TestDoor::start_on(kafka.here().fs.crash(CrashPolicy::Nothing), &[]);
    assert_eq!(earliest(&again, "a"), 6);
    assert_eq!(again.produce("a", 0, 1), 10);
}

#[test]
fn a_log_start_that_cannot_be_made_durable_is_an_error() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    kafka.produce("a", 0, 10);
    let fault = mainstem_env::Fault::of(mainstem_env::OpKind::Rename, 1).on("log-start-offset-checkpoint");
    kafka.here().fs.plan_fault(fault);
    assert_eq!(delete(&kafka, "a", 0, 6), (ErrorCode::KAFKA_STORAGE_ERROR, -1));
    assert_eq!(delete(&kafka, "a", 0, 6), (ErrorCode::NONE, 6), "the next one writes it");
}
