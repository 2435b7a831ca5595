use std::time::Duration;

use mainstem_env::CrashPolicy;
use mainstem_kafka_wire::ErrorCode;

use super::*;
use crate::test_support::TestDoor;

fn delete(kafka: &TestDoor, version: i16, groups: &[&str]) -> Vec<(String, ErrorCode)> {
    let groups_names = groups.iter().map(|group| Cow::Borrowed(*group)).collect();
    let response: DeleteGroupsResponse<'static> = kafka.call(version, &DeleteGroupsRequest { groups_names });
    let result = |result: &DeletableGroupResult<'_>| {
        assert_eq!(result.error_message, None, "{result:?}");
        (result.group_id.as_ref().to_owned(), ErrorCode(result.error_code))
    };
    response.results.iter().map(result).collect()
}

#[test]
fn row_59_an_empty_group_goes_with_its_offsets_in_every_version() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let topic = kafka.fresh("row-59-topic");
    kafka.create(&topic, 2);
    for version in API.min_version..=API.max_version {
        let group = kafka.fresh(&format!("row-59-version-{version}"));
        kafka.commit(&group, &topic, 1, 7);
        assert_eq!(kafka.committed(&group, &topic, 1), 7);
        assert_eq!(delete(&kafka, version, &[&group]), [(group.clone(), ErrorCode::NONE)]);
        assert_eq!(kafka.committed(&group, &topic, 1), -1);
        assert_eq!(delete(&kafka, version, &[&group]), [(group, ErrorCode::GROUP_ID_NOT_FOUND)]);
    }
}

#[test]
fn row_59_a_group_with_members_stays() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let (topic, group, empty) = (kafka.fresh("row-59-t"), kafka.fresh("row-59-lively"), kafka.fresh("row-59-empty"));
    kafka.create(&topic, 1);
    kafka.commit(&empty, &topic, 0, 1);
    kafka.join_alone(&group, &[&topic]);
    let mut results = delete(&kafka, 3, &[&group, &empty]);
    results.sort();
    assert_eq!(results, [(empty, ErrorCode::NONE), (group, ErrorCode::NON_EMPTY_GROUP)]);
}

/// No thread fires a timer here: the clock moves without anybody being woken.
#[test]
fn a_session_that_ended_just_now_has_ended_for_whoever_asks() {
    let kafka = TestDoor::start(&[("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "3")]);
    kafka.serve_groups();
    kafka.create("topic", 1);
    // A moment within a millisecond.
    kafka.here().clock.advance(Duration::from_micros(1_900));
    kafka.join_alone("group", &["topic"]);
    kafka.here().clock.advance(Duration::from_micros(30_000_000 - 1));
    assert_eq!(delete(&kafka, 3, &["group"]), [("group".to_owned(), ErrorCode::NON_EMPTY_GROUP)]);
    kafka.here().clock.advance(Duration::from_micros(1));
    assert_eq!(delete(&kafka, 3, &["group"]), [("group".to_owned(), ErrorCode::NONE)]);
}

#[test]
fn groups_without_names_and_names_that_stand_there_twice() {
    let kafka = TestDoor::any_with_groups();
    kafka.serve_groups();
    let (topic, group) = (kafka.fresh("row-59-twice-topic"), kafka.fresh("row-59-twice"));
    kafka.create(&topic, 1);
    kafka.commit(&group, &topic, 0, 1);
    assert_eq!(delete(&kafka, 3, &[&group, &group]), [(group, ErrorCode::NONE)]);
    assert_eq!(delete(&kafka, 3, &[""]), [(String::new(), ErrorCode::GROUP_ID_NOT_FOUND)]);
    assert_eq!(delete(&kafka, 3, &[]), []);
}

#[test]
fn a_group_that_was_deleted_stays_so_after_a_restart() {
    let kafka = TestDoor::start(&[("offsets.topic.num.partitions", "2")]);
    kafka.serve_groups();
    kafka.create("a", 3_000);
    for partition in 0..3_000 {
        kafka.commit("group", "a", partition, 7);
    }
    assert_eq!(delete(&kafka, 2, &["group"]), [("group".to_owned(), ErrorCode::NONE)]);
    kafka.broker().shutdown();
    let again =
        TestDoor::start_on(kafka.here().fs.crash(CrashPolicy::Everything), &[("offsets.topic.num.partitions", "2")]);
    again.commit("other", "a", 0, 1);
    for partition in [0, 999, 1_000, 2_999] {
        assert_eq!(again.committed("group", "a", partition), -1, "{partition}");
    }
}
