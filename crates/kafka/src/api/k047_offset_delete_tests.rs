use mainstem_kafka_wire::messages::offset_delete_request::OffsetDeleteRequestPartition;

use super::*;
use crate::test_support::TestDoor;

/// The error of the whole, and (topic, partition, error) of all partitions, sorted.
fn delete(kafka: &TestDoor, group: &str, wanted: &[(&str, &[i32])]) -> (ErrorCode, Vec<(String, i32, ErrorCode)>) {
    let partition = |index: &i32| OffsetDeleteRequestPartition { partition_index: *index };
    let topic = |(name, partitions): &(&'static str, &[i32])| OffsetDeleteRequestTopic {
        name: Cow::Borrowed(*name),
        partitions: partitions.iter().map(partition).collect(),
    };
    let owned: Vec<(&'static str, &[i32])> =
        wanted.iter().map(|(name, indexes)| (&*String::leak(name.to_string()), *indexes)).collect();
    let request = OffsetDeleteRequest { group_id: group.into(), topics: owned.iter().map(topic).collect() };
    let response: OffsetDeleteResponse<'static> = kafka.call(0, &request);
    let mut results = Vec::new();
    for topic in &response.topics {
        let one = |result: &OffsetDeleteResponsePartition| {
            (topic.name.as_ref().to_owned(), result.partition_index, ErrorCode(result.error_code))
        };
        results.extend(topic.partitions.iter().map(one));
    }
    results.sort();
    (ErrorCode(response.error_code), results)
}

#[test]
fn row_59_single_offsets_go_and_the_others_stay() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let (topic, group, absent) = (kafka.fresh("row-59-od"), kafka.fresh("row-59-odg"), kafka.fresh("row-59-oda"));
    kafka.create(&topic, 3);
    (0..3).for_each(|partition| kafka.commit(&group, &topic, partition, 5));
    let (error, results) = delete(&kafka, &group, &[(&topic, &[0, 2, 3]), (&absent, &[0])]);
    assert_eq!(error, ErrorCode::NONE);
    let mut expected = vec![
        (topic.clone(), 0, ErrorCode::NONE),
        (topic.clone(), 2, ErrorCode::NONE),
        (topic.clone(), 3, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (absent, 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    ];
    expected.sort();
    assert_eq!(results, expected);
    assert_eq!([0, 1, 2].map(|partition| kafka.committed(&group, &topic, partition)), [-1, 5, -1]);
    let again = delete(&kafka, &group, &[(&topic, &[0])]);
    assert_eq!(again, (ErrorCode::NONE, vec![(topic, 0, ErrorCode::NONE)]), "an offset that is not there");
}

#[test]
fn row_59_topics_that_a_member_reads_are_refused() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let (read, other, group) = (kafka.fresh("row-59-read"), kafka.fresh("row-59-other"), kafka.fresh("row-59-reader"));
    kafka.create(&read, 1);
    kafka.create(&other, 1);
    kafka.commit(&group, &read, 0, 5);
    kafka.commit(&group, &other, 0, 6);
    kafka.join_alone(&group, &[&read]);
    let (error, results) = delete(&kafka, &group, &[(&read, &[0]), (&other, &[0])]);
    assert_eq!(error, ErrorCode::NONE);
    let mut expected =
        vec![(read.clone(), 0, ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC), (other.clone(), 0, ErrorCode::NONE)];
    expected.sort();
    assert_eq!(results, expected);
    assert_eq!((kafka.committed(&group, &read, 0), kafka.committed(&group, &other, 0)), (5, -1));
}

#[test]
fn row_59_a_group_that_is_not_there_is_an_error_of_the_whole() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let (topic, group) = (kafka.fresh("row-59-od-topic"), kafka.fresh("row-59-od-absent"));
    kafka.create(&topic, 1);
    assert_eq!(delete(&kafka, &group, &[(&topic, &[0])]), (ErrorCode::GROUP_ID_NOT_FOUND, vec![]));
    assert_eq!(delete(&kafka, &group, &[]), (ErrorCode::GROUP_ID_NOT_FOUND, vec![]));
}
