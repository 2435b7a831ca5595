//! DescribeGroups, ListGroups, DeleteGroups, OffsetDelete (KIP-496).

use mainstem_coordinator::{
    GroupConfig, GroupError, GroupShard, GroupState, GroupType, OffsetDeleteRequest, Reply, TopicPartitions,
};
use mainstem_types::{Offset, PartitionIndex};

use crate::bed::{Bed, GROUP, Join, subscription};

fn delete(bed: &mut Bed, group: &str) -> Result<(), GroupError> {
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, group) {
        bed.run(outcome);
    }
    match &bed.answers[&token] {
        Reply::DeleteGroup(result) => result.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stable_group_is_described_with_its_members_bytes() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(2);
    let group = bed.shard.describe_group(GROUP).unwrap();
    assert_eq!((group.state.name(), &*group.protocol_type, &*group.protocol_name), ("Stable", "consumer", "range"));
    let member = &group.members[0];
    assert_eq!(*member.member_id, *ids[0]);
    assert_eq!((&*member.client_id, &*member.client_host), ("client", "/127.0.0.1"));
    assert_eq!(*member.metadata, *subscription(&["orders"]));
    assert_eq!(*member.assignment, *ids[0].as_bytes());
}

#[test]
fn a_group_that_is_not_stable_is_described_without_protocol_and_metadata() {
    let mut bed = Bed::new();
    bed.stable_group(1);
    bed.join(&Join::default());
    let group = bed.shard.describe_group(GROUP).unwrap();
    assert_eq!((group.state.name(), &*group.protocol_name), ("PreparingRebalance", ""));
    assert!(group.members.iter().all(|member| member.metadata.is_empty()));
}

#[test]
fn an_unknown_group_is_not_found_and_the_empty_name_is_one_like_others() {
    let bed = Bed::new();
    assert_eq!(bed.shard.describe_group(GROUP), Err(GroupError::GroupIdNotFound));
    assert_eq!(bed.shard.describe_group(""), Err(GroupError::GroupIdNotFound));
}

#[test]
fn the_states_bear_kafkas_names() {
    let mut bed = Bed::new();
    assert_eq!(bed.state(), "Dead");
    let token = bed.join(&Join::default());
    assert_eq!(bed.state(), "PreparingRebalance");
    bed.pass_ms(3_000);
    assert_eq!(bed.state(), "CompletingRebalance");
    let id = bed.joined(token).unwrap().member_id;
    bed.sync(&id, 1, &[]);
    assert_eq!(bed.state(), "Stable");
    bed.leave(&[(&id, None)]);
    assert_eq!(bed.state(), "Empty");
}

#[test]
fn groups_are_listed_by_state_and_type_in_any_case() {
    let mut bed = Bed::new();
    bed.stable_group(1);
    bed.commit_with(1, |request| request.group_id = "simple").unwrap();
    let list = |states: &[&str], types: &[&str]| {
        let groups = bed.shard.list_groups(states, types).unwrap();
        groups.iter().map(|group| group.group_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(&[], &[]), [GROUP, "simple"]);
    assert_eq!(list(&["STABLE"], &[]), [GROUP]);
    assert_eq!(list(&["empty", "Dead"], &["Classic"]), ["simple"]);
    assert_eq!(list(&[], &["consumer"]), Vec::<String>::new());
    let listed = &bed.shard.list_groups(&["stable"], &[]).unwrap()[0];
    assert_eq!(
        (listed.state, listed.group_type, &*listed.protocol_type),
        (GroupState::Stable, GroupType::Classic, "consumer")
    );
}

#[test]
fn only_an_empty_group_can_be_deleted_and_its_offsets_go_with_it() {
    let mut bed = Bed::new();
    assert_eq!(delete(&mut bed, GROUP), Err(GroupError::GroupIdNotFound));
    let (ids, generation) = bed.stable_group(1);
    bed.commit_as(&ids[0], generation, 5).unwrap();
    assert_eq!(delete(&mut bed, GROUP), Err(GroupError::NonEmptyGroup));
    bed.leave(&[(&ids[0], None)]);
    assert_eq!(delete(&mut bed, GROUP), Ok(()));
    for _ in 0..2 {
        assert_eq!((bed.state(), bed.fetch(false).offset), ("Dead", Offset(-1)));
        bed.restart();
    }
}

#[test]
fn offsets_of_topics_that_the_members_read_are_not_deleted() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(1);
    for topic in ["orders", "payments"] {
        bed.commit_with(5, |request| {
            request.generation = generation;
            request.member_id = Box::leak(ids[0].clone().into_boxed_str());
            request.topics[0].name = topic;
        })
        .unwrap();
    }
    let token = bed.token();
    let topic = |name| TopicPartitions { name, partitions: vec![PartitionIndex(0), PartitionIndex(9)] };
    let request = OffsetDeleteRequest { group_id: GROUP, topics: vec![topic("orders"), topic("payments")] };
    for outcome in bed.shard.offset_delete(token, &request) {
        bed.run(outcome);
    }
    let Reply::OffsetDelete(Ok(deleted)) = bed.answers[&token].clone() else { panic!("refused") };
    let subscribed = Err(GroupError::GroupSubscribedToTopic);
    assert!(deleted[0].partitions.iter().all(|partition| partition.result == subscribed));
    assert!(deleted[1].partitions.iter().all(|partition| partition.result == Ok(())));
    bed.restart();
    let left: Vec<String> = bed.fetch_all(GROUP).iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(left, ["orders"]);
}

#[test]
fn a_compacted_log_without_the_commits_of_a_simple_group_is_no_difference() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 5).unwrap();
    let mut compacted = GroupShard::new(GroupConfig::default());
    assert!(bed.shard.difference(&compacted).is_some(), "its offset is missing");
    let token = bed.token();
    let topics = vec![TopicPartitions { name: "orders", partitions: vec![PartitionIndex(0)] }];
    for outcome in bed.shard.offset_delete(token, &OffsetDeleteRequest { group_id: GROUP, topics }) {
        bed.run(outcome);
    }
    assert_eq!((bed.log.len(), bed.state()), (2, "Empty"), "the group waits for the sweep");
    // The cleaner keeps the tombstone alone.
    bed.replay_entry(&mut compacted, 1);
    assert_eq!(bed.shard.difference(&compacted), None);
}

#[test]
fn offsets_of_a_group_of_another_protocol_type_are_deleted_only_while_it_is_empty() {
    let mut bed = Bed::new();
    let join = Join { protocol_type: "connect".into(), ..Join::default() };
    bed.join(&join);
    let token = bed.token();
    let request = OffsetDeleteRequest { group_id: GROUP, topics: vec![] };
    let outcome = bed.shard.offset_delete(token, &request).remove(0);
    bed.run(outcome);
    assert_eq!(bed.answers[&token], Reply::OffsetDelete(Err(GroupError::NonEmptyGroup)));
}
