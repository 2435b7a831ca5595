//! Coordinators tell what is committed: nothing that a client was shown is taken back by a power cut.

mod support;

use mainstem_broker::Answer;
use mainstem_coordinator::{
    CommitPartition, CommitTopic, CommittedTopic, FetchTopic, GroupError, OffsetCommitRequest, OffsetFetchRequest,
};
use mainstem_env::{CrashPolicy, MemFs};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use support::{LIMIT, Node, clock, settings};

fn commit(node: &Node, offset: i64) -> Answer<Vec<CommittedTopic>> {
    let partition = CommitPartition {
        partition: PartitionIndex(0),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::NONE,
        metadata: None,
    };
    let topic = CommitTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![partition] };
    node.broker.consumer_groups().commit_offsets(&OffsetCommitRequest {
        group_id: "g",
        generation: -1,
        member_id: "",
        instance_id: None,
        retention_ms: None,
        reports_missing_group: true,
        topics: vec![topic],
    })
}

/// The committed offset, and the names of all groups.
fn shown(node: &Node) -> (i64, Vec<String>) {
    let topic = FetchTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![PartitionIndex(0)] };
    let request = OffsetFetchRequest {
        group_id: "g",
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![topic]),
        require_stable: false,
    };
    let groups = node.broker.consumer_groups();
    let end = std::time::Instant::now() + LIMIT;
    let fetched = loop {
        match groups.fetch_offsets(&request) {
            Err(GroupError::CoordinatorLoadInProgress) if std::time::Instant::now() < end => std::thread::yield_now(),
            fetched => break fetched.expect("a coordinator"),
        }
    };
    let names = groups.list(&[], &[]).expect("a coordinator").iter().map(|group| group.group_id.to_string()).collect();
    (fetched[0].partitions[0].offset.0, names)
}

/// What a broker shows that starts on the disk as a power cut leaves it.
fn shown_after_a_power_cut(node: &Node, policy: CrashPolicy) -> (i64, Vec<String>) {
    let settings = settings(&[("mainstem.durability", "disk")]);
    let again = Node::start(&node.fs.crash(policy), &node.clock, &settings, 5).expect("it starts");
    shown(&again)
}

#[test]
fn what_is_shown_survives_a_power_cut_and_what_does_not_survive_was_never_shown() {
    let settings = settings(&[("mainstem.durability", "disk")]);
    let node = Node::start(&MemFs::new(), &clock(), &settings, 3).expect("a new folder");
    node.wait(node.broker.create_offsets_topic()).expect("created");
    node.flush();
    let nothing = (-1, Vec::<String>::new());
    let mut last = nothing.clone();
    for offset in [5, 6, 7] {
        let first = commit(&node, offset * 10);
        let second = commit(&node, offset * 10 + 1);
        assert_eq!(shown(&node), last, "appended is not committed");
        assert_eq!(shown_after_a_power_cut(&node, CrashPolicy::Nothing), last);
        node.flush();
        last = (offset * 10 + 1, vec!["g".to_owned()]);
        assert_eq!(shown(&node), last, "the flush covers both");
        node.wait(first.wait()).expect("acknowledged");
        node.wait(second.wait()).expect("acknowledged");
        assert_eq!(shown_after_a_power_cut(&node, CrashPolicy::Nothing), last);
        assert_eq!(shown_after_a_power_cut(&node, CrashPolicy::Torn(offset as u64)), last);
    }
    let deleted = node.broker.consumer_groups().delete("g");
    assert_eq!(shown(&node), last, "the deletion may still be lost");
    assert_eq!(shown_after_a_power_cut(&node, CrashPolicy::Nothing), last);
    node.flush();
    assert_eq!(shown(&node), nothing);
    node.wait(deleted.wait()).expect("acknowledged");
    assert_eq!(shown_after_a_power_cut(&node, CrashPolicy::Nothing), nothing);
}
