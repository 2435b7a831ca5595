use mainstem_kafka_wire::messages::describe_topic_partitions_request::{Cursor as From, TopicRequest};

use super::*;
use crate::test_support::TestDoor;

type Response = DescribeTopicPartitionsResponse<'static>;
/// Names with their partitions, and the cursor.
type Shown = (Vec<(String, Vec<i32>)>, Option<(String, i32)>);

fn describe(kafka: &TestDoor, names: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> Response {
    let request = DescribeTopicPartitionsRequest {
        topics: names.iter().map(|name| TopicRequest { name: Cow::Borrowed(*name) }).collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(name, partition_index)| From { topic_name: Cow::Borrowed(name), partition_index }),
    };
    kafka.call(0, &request)
}

fn shown(response: &Response) -> Shown {
    let topic = |topic: &DescribeTopicPartitionsResponseTopic<'_>| {
        let name = topic.name.as_deref().unwrap_or_default().to_owned();
        (name, topic.partitions.iter().map(|partition| partition.partition_index).collect())
    };
    let cursor = response.next_cursor.as_ref().map(|c| (c.topic_name.to_string(), c.partition_index));
    (response.topics.iter().map(topic).collect(), cursor)
}

/// Three topics with 2, 3 and 1 partitions, named so that they are neighbours.
fn three(kafka: &TestDoor) -> [String; 3] {
    let base = kafka.fresh("row-44");
    let names = ["a", "b", "c"].map(|letter| format!("{base}-{letter}"));
    for (name, partitions) in names.iter().zip([2, 3, 1]) {
        kafka.create(name, partitions);
    }
    names
}

#[test]
fn kip_966_topics_come_sorted_and_once_with_everything_about_them() {
    let kafka = TestDoor::any();
    let [a, b, c] = three(&kafka);
    let response = describe(&kafka, &[&c, &a, &b, &a], 2000, None);
    let all = vec![(a.clone(), vec![0, 1]), (b, vec![0, 1, 2]), (c, vec![0])];
    assert_eq!(shown(&response), (all, None));
    let topic = &response.topics[0];
    assert!(topic.error_code == 0 && !topic.topic_id.is_zero() && !topic.is_internal);
    assert_eq!(topic.topic_authorized_operations, 0b1101_1111_1000);
    let partition = &topic.partitions[0];
    assert_eq!((partition.error_code, partition.leader_id, partition.leader_epoch), (0, 1, 0));
    assert_eq!((&partition.replica_nodes, &partition.isr_nodes), (&vec![1], &vec![1]));
    assert_eq!((&partition.eligible_leader_replicas, &partition.last_known_elr), (&Some(vec![]), &Some(vec![])));
    assert!(partition.offline_replicas.is_empty());
}

#[test]
fn kip_966_pages_end_at_the_limit_and_go_on_at_the_cursor() {
    let kafka = TestDoor::any();
    let [a, b, c] = three(&kafka);
    let names = [a.as_str(), &b, &c];
    let page = |limit, cursor| shown(&describe(&kafka, &names, limit, cursor));
    let cursor = |name: &String, partition| Some((name.clone(), partition));
    assert_eq!(page(1, None), (vec![(a.clone(), vec![0])], cursor(&a, 1)));
    assert_eq!(page(2, None), (vec![(a.clone(), vec![0, 1])], cursor(&b, 0)));
    assert_eq!(page(4, None), (vec![(a.clone(), vec![0, 1]), (b.clone(), vec![0, 1])], cursor(&b, 2)));
    assert_eq!(page(4, Some((&b, 2))), (vec![(b.clone(), vec![2]), (c.clone(), vec![0])], None));
    assert_eq!(page(4, Some((&b, 9))), (vec![(b.clone(), vec![]), (c.clone(), vec![0])], None));
    for none in [0, -5] {
        assert_eq!(
            page(none, None),
            (vec![(a.clone(), vec![0])], cursor(&a, 1)),
            "there is always a next page to come to"
        );
    }
}

#[test]
fn kip_966_all_topics_are_paged_from_the_cursor_on() {
    let kafka = TestDoor::start(&[]);
    let [a, b, c] = three(&kafka);
    let page = |limit, cursor| shown(&describe(&kafka, &[], limit, cursor));
    assert_eq!(page(3, None), (vec![(a.clone(), vec![0, 1]), (b.clone(), vec![0])], Some((b.clone(), 1))));
    assert_eq!(page(3, Some((&b, 1))), (vec![(b.clone(), vec![1, 2]), (c.clone(), vec![0])], None));
    let between = format!("{a}x");
    assert_eq!(page(9, Some((&between, 5))), (vec![(b, vec![0, 1, 2]), (c, vec![0])], None));
}

#[test]
fn kip_966_the_broker_has_a_limit_of_its_own() {
    let kafka = TestDoor::start(&[("max.request.partition.size.limit", "2")]);
    let [a, b, _] = three(&kafka);
    assert_eq!(shown(&describe(&kafka, &[], 2000, None)), (vec![(a, vec![0, 1])], Some((b, 0))));
}

#[test]
fn kip_966_names_that_do_not_exist_have_an_error_and_take_no_room() {
    let kafka = TestDoor::any();
    let [a, ..] = three(&kafka);
    let absent = kafka.fresh("row-0-absent");
    let response = describe(&kafka, &[&absent, "no name", &a], 2, None);
    let codes: Vec<_> = response.topics.iter().map(|t| (t.name.as_deref().unwrap(), ErrorCode(t.error_code))).collect();
    let unknown = (absent.as_str(), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(codes, [("no name", ErrorCode::INVALID_TOPIC_EXCEPTION), unknown, (a.as_str(), ErrorCode::NONE)]);
    assert_eq!(response.next_cursor, None);
    assert!(response.topics[0].topic_id.is_zero() && response.topics[0].partitions.is_empty());
}

#[test]
fn kip_966_a_cursor_outside_of_the_names_is_refused() {
    let kafka = TestDoor::any();
    let [a, b, c] = three(&kafka);
    for cursor in [(b.as_str(), 0), (a.as_str(), -1)] {
        let response = describe(&kafka, &[&a, &c], 10, Some(cursor));
        let codes: Vec<_> = response.topics.iter().map(|topic| ErrorCode(topic.error_code)).collect();
        assert_eq!(codes, [ErrorCode::INVALID_REQUEST; 2], "{cursor:?}");
    }
}

#[test]
fn a_partition_of_other_nodes_is_shown_as_the_metadata_has_it() {
    let kafka = TestDoor::start(&[]);
    kafka.create("orders", 2);
    kafka.place("orders", 0, &[2, 3], 3);
    let response = describe(&kafka, &["orders"], 2000, None);
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.leader_id, partition.leader_epoch), (3, 1));
    assert_eq!((&partition.replica_nodes, &partition.isr_nodes), (&vec![2, 3], &vec![2, 3]));
    assert!(partition.offline_replicas.is_empty());
}
