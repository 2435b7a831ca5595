use mainstem_kafka_wire::messages::create_partitions_request::CreatePartitionsAssignment;

use super::*;
use crate::test_support::TestDoor;

fn wanted<'a>(name: &'a str, count: i32, brokers: Option<&[&[i32]]>) -> CreatePartitionsTopic<'a> {
    let place = |broker_ids: &&[i32]| CreatePartitionsAssignment { broker_ids: broker_ids.to_vec() };
    CreatePartitionsTopic {
        name: Cow::Borrowed(name),
        count,
        assignments: brokers.map(|all| all.iter().map(place).collect()),
    }
}

fn add(kafka: &TestDoor, version: i16, topics: Vec<CreatePartitionsTopic<'_>>) -> Vec<(String, ErrorCode, bool)> {
    let request = CreatePartitionsRequest { topics, timeout_ms: 30_000, validate_only: false };
    let response: CreatePartitionsResponse<'static> = kafka.call(version, &request);
    let shown = |result: CreatePartitionsTopicResult<'_>| {
        (result.name.into_owned(), ErrorCode(result.error_code), result.error_message.is_some())
    };
    response.results.into_iter().map(shown).collect()
}

#[test]
fn row_50_partitions_are_added_in_every_version() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("partitions");
    kafka.create(&name, 1);
    for version in API.min_version..=API.max_version {
        let results = add(&kafka, version, vec![wanted(&name, 2 + i32::from(version), None)]);
        assert_eq!(results, [(name.clone(), ErrorCode::NONE, false)], "version {version}");
    }
}

#[test]
fn row_50_added_partitions_are_served_at_once() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 1);
    add(&kafka, 3, vec![wanted("a", 3, Some(&[&[1], &[1]]))]);
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().partitions.len(), 3);
}

#[test]
fn row_50_as_many_or_fewer_partitions_are_refused() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-50-fewer");
    kafka.create(&name, 3);
    for count in [3, 2, 0, -1] {
        let results = add(&kafka, 3, vec![wanted(&name, count, None)]);
        assert_eq!(results, [(name.clone(), ErrorCode::INVALID_PARTITIONS, true)], "{count}");
    }
}

#[test]
fn row_50_unknown_topics_bad_assignments_and_duplicates_are_refused() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("row-50-assigned"), kafka.fresh("row-50-absent"));
    kafka.create(&name, 1);
    assert_eq!(add(&kafka, 3, vec![wanted(&absent, 2, None)])[0].1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let bad: [&[&[i32]]; 4] = [&[], &[&[7]], &[&[1, 1]], &[&[]]];
    for brokers in bad {
        let results = add(&kafka, 3, vec![wanted(&name, 2, Some(brokers))]);
        assert_eq!(results[0].1, ErrorCode::INVALID_REPLICA_ASSIGNMENT, "{brokers:?}");
    }
    let twice = add(&kafka, 3, vec![wanted(&name, 2, None), wanted(&name, 3, None)]);
    assert!(twice.iter().all(|result| result.1 == ErrorCode::INVALID_REQUEST), "{twice:?}");
    assert_eq!(add(&kafka, 3, vec![wanted(&name, 2, None)])[0].1, ErrorCode::NONE, "nothing was added before");
}

#[test]
fn validating_adds_nothing() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("validated");
    kafka.create(&name, 1);
    let request = CreatePartitionsRequest { topics: vec![wanted(&name, 5, None)], timeout_ms: 1, validate_only: true };
    for _ in 0..2 {
        let response: CreatePartitionsResponse<'static> = kafka.call(3, &request);
        assert_eq!(response.results[0].error_code, 0);
    }
    assert_eq!(add(&kafka, 3, vec![wanted(&name, 2, None)])[0].1, ErrorCode::NONE);
}

#[test]
fn partitions_whose_folders_cannot_be_made_are_a_storage_error() {
    let kafka = TestDoor::start(&[]);
    kafka.create("a", 2);
    kafka.delete_and_leave("a", 1);
    kafka.create("a", 1);
    assert_eq!(add(&kafka, 3, vec![wanted("a", 3, None)]), [("a".to_owned(), ErrorCode::KAFKA_STORAGE_ERROR, true)]);
    assert_eq!(kafka.broker().topics().by_name("a").unwrap().partitions.len(), 2);
}
