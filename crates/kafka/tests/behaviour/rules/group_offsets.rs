//! Committed offsets: rows 40, 57 and 58.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use mainstem_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use mainstem_kafka_wire::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponse, OffsetCommitResponse, OffsetFetchResponse,
};
use mainstem_types::TopicId;

use crate::support::Node;
use crate::support::requests::{Topic, join};

const GROUP: &str = "g";

fn start_with(settings: &[(&str, &str)]) -> (Node, Topic) {
    let node = Node::start(settings);
    node.runtime.block_on(node.broker().create_offsets_topic()).unwrap();
    let id = node.create("t", 2, &[]);
    (node, Topic { name: "t", id })
}

fn start() -> (Node, Topic) {
    start_with(&[])
}

fn partition(index: i32, offset: i64) -> OffsetCommitRequestPartition<'static> {
    OffsetCommitRequestPartition { partition_index: index, committed_offset: offset, ..Default::default() }
}

fn commit<'m>(
    version: i16,
    topic: Topic,
    (member, generation): (&'m str, i32),
    partitions: Vec<OffsetCommitRequestPartition<'static>>,
) -> OffsetCommitRequest<'m> {
    let by_id = version >= 10;
    OffsetCommitRequest {
        group_id: Cow::Borrowed(GROUP),
        generation_id_or_member_epoch: generation,
        member_id: Cow::Borrowed(member),
        retention_time_ms: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: Cow::Borrowed(if by_id { "" } else { topic.name }),
            topic_id: if by_id { topic.id } else { TopicId::ZERO },
            partitions,
        }],
        ..Default::default()
    }
}

/// Commits and gives the error of each partition.
fn codes(node: &Node, version: i16, request: &OffsetCommitRequest<'_>) -> Vec<i16> {
    let response: OffsetCommitResponse<'static> = node.call(version, request);
    response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| partition.error_code)).collect()
}

fn commit_as(node: &Node, version: i16, topic: Topic, member: (&str, i32)) -> i16 {
    codes(node, version, &commit(version, topic, member, vec![partition(0, 5)]))[0]
}

/// Error, offset, leader epoch and metadata of what is committed for a partition.
fn committed(node: &Node, version: i16, topic: Topic, index: i32) -> (i16, i64, i32, String) {
    let by_id = version >= 10;
    let request = match version {
        0..8 => OffsetFetchRequest {
            group_id: Cow::Borrowed(GROUP),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: Cow::Borrowed(topic.name),
                partition_indexes: vec![index],
            }]),
            ..Default::default()
        },
        _ => OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: Cow::Borrowed(GROUP),
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: Cow::Borrowed(if by_id { "" } else { topic.name }),
                    topic_id: if by_id { topic.id } else { TopicId::ZERO },
                    partition_indexes: vec![index],
                }]),
                ..Default::default()
            }],
            ..Default::default()
        },
    };
    let response: OffsetFetchResponse<'static> = node.call(version, &request);
    if let Some(group) = response.groups.first().filter(|group| group.error_code != 0) {
        return (group.error_code, -1, -1, String::new());
    }
    let text = |metadata: &Option<Cow<'_, str>>| metadata.as_deref().expect("metadata is never null").to_owned();
    if version < 8 {
        let found = &response.topics[0].partitions[0];
        return (found.error_code, found.committed_offset, found.committed_leader_epoch, text(&found.metadata));
    }
    let found = &response.groups[0].topics[0].partitions[0];
    (found.error_code, found.committed_offset, found.committed_leader_epoch, text(&found.metadata))
}

/// The group's only member, and its generation. It still has to sync.
fn joined(node: &Node) -> (String, i32) {
    let answer: JoinGroupResponse<'static> = node.call(3, &join(GROUP, "", b"m"));
    assert_eq!(answer.error_code, 0);
    (answer.member_id.into_owned(), answer.generation_id)
}

fn sync(node: &Node, member: &str, generation: i32) {
    use mainstem_kafka_wire::messages::{SyncGroupRequest, SyncGroupResponse};
    let request = SyncGroupRequest {
        group_id: Cow::Borrowed(GROUP),
        generation_id: generation,
        member_id: Cow::Borrowed(member),
        ..Default::default()
    };
    assert_eq!(node.call::<_, SyncGroupResponse<'static>>(2, &request).error_code, 0);
}

fn state(node: &Node) -> String {
    let request = DescribeGroupsRequest { groups: vec![Cow::Borrowed(GROUP)], ..Default::default() };
    let response: DescribeGroupsResponse<'static> = node.call(0, &request);
    response.groups[0].group_state.to_string()
}

fn leave(node: &Node, member: &str) {
    let request =
        LeaveGroupRequest { group_id: Cow::Borrowed(GROUP), member_id: Cow::Borrowed(member), ..Default::default() };
    assert_eq!(node.call::<_, LeaveGroupResponse<'static>>(0, &request).error_code, 0);
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn row_40_offset_leader_epoch_and_metadata_come_back_as_they_were_committed_also_after_a_restart() {
    let (node, topic) = start();
    for version in 2..=10 {
        let metadata = Some(Cow::Borrowed("where I was"));
        let sent = OffsetCommitRequestPartition {
            committed_metadata: metadata,
            committed_leader_epoch: if version >= 6 { 7 } else { -1 },
            ..partition(0, i64::from(version))
        };
        assert_eq!(codes(&node, version, &commit(version, topic, ("", -1), vec![sent, partition(1, 9)])), [0, 0]);
        let epoch = if version >= 6 { 7 } else { -1 };
        for fetch_version in 1..=10 {
            let told = if fetch_version >= 5 { epoch } else { -1 };
            let expected = (0, i64::from(version), told, "where I was".to_owned());
            assert_eq!(committed(&node, fetch_version, topic, 0), expected, "{version} {fetch_version}");
            assert_eq!(committed(&node, fetch_version, topic, 1), (0, 9, -1, String::new()));
        }
    }
    let node = node.restart();
    eventually("the offsets are not loaded", || committed(&node, 8, topic, 0).0 == 0);
    assert_eq!(committed(&node, 8, topic, 0), (0, 10, 7, "where I was".to_owned()));
}

#[test]
fn row_40_without_a_committed_offset_it_is_minus_one_and_no_error() {
    let (node, topic) = start();
    for version in 1..=10 {
        for index in [0, 1, 99] {
            assert_eq!(committed(&node, version, topic, index), (0, -1, -1, String::new()));
        }
    }
    let request = OffsetFetchRequest { group_id: Cow::Borrowed(GROUP), topics: None, ..Default::default() };
    let response: OffsetFetchResponse<'static> = node.call(7, &request);
    assert_eq!((response.error_code, response.topics.len()), (0, 0), "a group that is not there has none");
}

#[test]
fn row_57_without_a_generation_a_commit_is_taken_while_the_group_has_no_members() {
    let (node, topic) = start();
    for version in 2..=10 {
        assert_eq!(commit_as(&node, version, topic, ("", -1)), 0);
    }
    assert_eq!(state(&node), "Empty", "the commit has made the group");
    let (member, generation) = joined(&node);
    sync(&node, &member, generation);
    for version in 2..=10 {
        assert_eq!(commit_as(&node, version, topic, ("", -1)), ErrorCode::UNKNOWN_MEMBER_ID.0);
        assert_eq!(commit_as(&node, version, topic, (&member, generation)), 0);
        assert_eq!(commit_as(&node, version, topic, (&member, generation + 1)), ErrorCode::ILLEGAL_GENERATION.0);
        assert_eq!(commit_as(&node, version, topic, ("nobody", generation)), ErrorCode::UNKNOWN_MEMBER_ID.0);
    }
}

#[test]
fn row_57_between_join_and_sync_a_commit_has_to_wait_for_the_rebalance() {
    let (node, topic) = start();
    let (member, generation) = joined(&node);
    assert_eq!(state(&node), "CompletingRebalance");
    for version in 2..=10 {
        assert_eq!(commit_as(&node, version, topic, (&member, generation)), ErrorCode::REBALANCE_IN_PROGRESS.0);
    }
}

#[test]
fn row_57_a_generation_of_a_group_that_is_not_there() {
    let (node, topic) = start();
    for version in 2..=10 {
        let expected = if version >= 9 { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::ILLEGAL_GENERATION };
        assert_eq!(commit_as(&node, version, topic, ("somebody", 3)), expected.0);
    }
}

#[test]
fn row_57_what_does_not_exist_or_is_too_long_is_refused_and_the_rest_is_committed() {
    let (node, topic) = start();
    for version in 2..=10 {
        let long: &'static str = "x".repeat(4_097).leak();
        let too_long =
            OffsetCommitRequestPartition { committed_metadata: Some(Cow::Borrowed(long)), ..partition(0, 1) };
        let partitions = vec![too_long, partition(1, i64::from(version)), partition(2, 1), partition(-1, 1)];
        let refused = [ErrorCode::OFFSET_METADATA_TOO_LARGE.0, 0, 3, 3];
        assert_eq!(codes(&node, version, &commit(version, topic, ("", -1), partitions)), refused);
        assert_eq!(committed(&node, version.min(9), topic, 1).1, i64::from(version));
        assert_eq!(committed(&node, version.min(9), topic, 0).1, -1);
        let unknown = if version >= 10 { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        assert_eq!(commit_as(&node, version, Topic::UNKNOWN, ("", -1)), unknown.0);
    }
}

#[test]
fn row_57_an_unknown_topic_id_is_told_when_offsets_are_asked_for() {
    let (node, topic) = start();
    assert_eq!(commit_as(&node, 10, topic, ("", -1)), 0);
    assert_eq!(committed(&node, 10, Topic::UNKNOWN, 0), (ErrorCode::UNKNOWN_TOPIC_ID.0, -1, -1, String::new()));
    assert_eq!(committed(&node, 10, topic, 0).1, 5);
}

/// Offsets expire after a minute, and are looked through all the time.
const SOON: &[(&str, &str)] = &[
    ("offsets.retention.minutes", "1"),
    ("offsets.retention.check.interval.ms", "1"),
    ("offsets.topic.num.partitions", "1"),
];

/// Commits for another group, without a member, what expires after `retention_ms`.
fn commit_for_other(node: &Node, topic: Topic, retention_ms: i64) {
    let group_id = Cow::Borrowed("other");
    let request = commit(4, topic, ("", -1), vec![partition(0, 5)]);
    let request = OffsetCommitRequest { group_id, retention_time_ms: retention_ms, ..request };
    assert_eq!(codes(node, 4, &request), [0]);
}

/// Waits until the offsets were looked through: the other group's has expired.
fn wait_for_a_look(node: &Node) {
    let groups = || {
        let listed: ListGroupsResponse<'static> = node.call(0, &ListGroupsRequest::default());
        listed.groups.iter().any(|group| group.group_id == "other")
    };
    eventually("the other group is still there", || !groups());
}

#[test]
fn row_58_offsets_expire_when_the_group_was_empty_for_the_retention_and_not_before() {
    let (node, topic) = start_with(SOON);
    let (member, generation) = joined(&node);
    sync(&node, &member, generation);
    assert_eq!(commit_as(&node, 8, topic, (&member, generation)), 0);
    node.advance(Duration::from_secs(9));
    assert_eq!(commit_as(&node, 8, topic, (&member, generation)), 0, "a commit is a sign of life");
    node.advance(Duration::from_secs(9));
    leave(&node, &member);
    commit_for_other(&node, topic, 58_000);
    node.advance(Duration::from_secs(59));
    wait_for_a_look(&node);
    assert_eq!(committed(&node, 8, topic, 0).1, 5, "older than the retention, but the group is empty for less");
    node.advance(Duration::from_secs(1));
    eventually("the offset is still there", || committed(&node, 8, topic, 0).1 == -1);
    eventually("the group is still there", || state(&node) == "Dead");
    let node = node.restart();
    eventually("the groups are not loaded", || committed(&node, 8, topic, 0).0 == 0);
    assert_eq!((committed(&node, 8, topic, 0).1, state(&node).as_str()), (-1, "Dead"), "also after a restart");
}

#[test]
fn row_58_a_retention_in_the_request_counts_instead_in_versions_2_to_4() {
    for version in 2..=4 {
        let (node, topic) = start_with(&SOON[1..]);
        let request =
            OffsetCommitRequest { retention_time_ms: 1_000, ..commit(version, topic, ("", -1), vec![partition(0, 5)]) };
        assert_eq!(codes(&node, version, &request), [0]);
        commit_for_other(&node, topic, 998);
        node.advance(Duration::from_millis(999));
        wait_for_a_look(&node);
        assert_eq!(committed(&node, 8, topic, 0).1, 5);
        node.advance(Duration::from_millis(1));
        eventually("the offset is still there", || committed(&node, 8, topic, 0).1 == -1);
    }
}

#[test]
fn the_offsets_of_a_deleted_topic_go_with_it() {
    let (node, topic) = start();
    assert_eq!(commit_as(&node, 8, topic, ("", -1)), 0);
    let gone = vec![mainstem_metadata::controller::TopicRef::Id(topic.id)];
    node.runtime.block_on(node.broker().delete_topics(gone)).unwrap();
    let again = Topic { name: "t", id: node.create("t", 2, &[]) };
    for version in 1..=10 {
        assert_eq!(committed(&node, version, again, 0).1, -1, "it belonged to the topic that was");
    }
}
