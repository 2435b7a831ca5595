use super::*;
use crate::test_support::TestDoor;

fn elect_for<'a>(
    kafka: &TestDoor,
    version: i16,
    election_type: i8,
    topics: Option<Vec<(&'a str, Vec<i32>)>>,
) -> (ErrorCode, Vec<(String, i32, ErrorCode)>) {
    let one = |(topic, partitions): (&'a str, Vec<i32>)| TopicPartitions { topic: Cow::Borrowed(topic), partitions };
    let topic_partitions = topics.map(|topics| topics.into_iter().map(one).collect());
    let request = ElectLeadersRequest { election_type, topic_partitions, timeout_ms: 30_000 };
    let response: ElectLeadersResponse<'static> = kafka.call(version, &request);
    let mut results = Vec::new();
    for topic in &response.replica_election_results {
        for result in &topic.partition_result {
            assert!(result.error_message.is_some(), "{result:?}");
            results.push((topic.topic.as_ref().to_owned(), result.partition_id, ErrorCode(result.error_code)));
        }
    }
    results.sort();
    (ErrorCode(response.error_code), results)
}

#[test]
fn row_50_a_partition_that_is_led_needs_no_election() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("row-50-elect"), kafka.fresh("row-50-elect-absent"));
    kafka.create(&name, 2);
    for version in API.min_version..=API.max_version {
        for election_type in if version == 0 { 0..=0 } else { 0..=1 } {
            let asked = vec![(name.as_str(), vec![0, 1, 2]), (absent.as_str(), vec![0])];
            let (error, results) = elect_for(&kafka, version, election_type, Some(asked));
            let mut expected = vec![
                (name.clone(), 0, ErrorCode::ELECTION_NOT_NEEDED),
                (name.clone(), 1, ErrorCode::ELECTION_NOT_NEEDED),
                (name.clone(), 2, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                (absent.clone(), 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ];
            expected.sort();
            assert_eq!((error, results), (ErrorCode::NONE, expected), "version {version}, type {election_type}");
        }
    }
}

#[test]
fn row_50_an_election_for_all_partitions_lists_those_that_needed_one() {
    let kafka = TestDoor::any();
    kafka.create(&kafka.fresh("row-50-elect-all"), 2);
    assert_eq!(elect_for(&kafka, 2, 0, None), (ErrorCode::NONE, vec![]));
    assert_eq!(elect_for(&kafka, 2, 1, None), (ErrorCode::NONE, vec![]));
    assert_eq!(elect_for(&kafka, 2, 0, Some(vec![])), (ErrorCode::NONE, vec![]));
}

#[test]
fn there_are_two_kinds_of_elections() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("elect-kinds");
    kafka.create(&name, 1);
    assert_eq!(elect_for(&kafka, 2, 5, Some(vec![])), (ErrorCode::NONE, vec![]), "nothing is asked");
    let asked = Some(vec![(name.as_str(), vec![0])]);
    assert_eq!(
        elect_for(&kafka, 2, 5, asked),
        (ErrorCode::INVALID_REQUEST, vec![(name.clone(), 0, ErrorCode::INVALID_REQUEST)])
    );
    assert_eq!(elect_for(&kafka, 1, -1, None).0, ErrorCode::INVALID_REQUEST);
}
