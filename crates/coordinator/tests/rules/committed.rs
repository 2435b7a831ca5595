//! Readers are shown what is committed, and answers wait for it; operations decide on all records. Live and at the
//! start state comes from the same replay.

use mainstem_coordinator::{GroupError, GroupState, OffsetDeleteRequest, Reply, TopicPartitions};
use mainstem_types::{Offset, PartitionIndex, ProducerId};

use crate::bed::{Bed, GROUP, Join, LogEntry};

/// A bed in which nothing is committed before the test says so.
fn held() -> Bed {
    let mut bed = Bed::new();
    bed.commits_at_once = false;
    bed
}

fn commit_all(bed: &mut Bed) {
    bed.shard.committed(Offset(bed.log.len() as i64));
}

fn names(bed: &Bed) -> Vec<String> {
    bed.shard.list_groups(&[], &[]).unwrap().iter().map(|group| group.group_id.to_string()).collect()
}

#[test]
fn an_offset_is_shown_when_its_record_is_committed_and_not_before() {
    let mut bed = held();
    bed.commit_as("", -1, 5).unwrap();
    assert_eq!((bed.fetch(false).offset, bed.fetch_all(GROUP), names(&bed)), (Offset(-1), vec![], vec![]));
    assert_eq!(bed.shard.answers_wait_for(), Some(Offset(1)));
    commit_all(&mut bed);
    assert_eq!(bed.fetch(false).offset, Offset(5));
    assert_eq!((bed.shard.answers_wait_for(), names(&bed)), (None, vec![GROUP.to_owned()]));

    bed.commit_as("", -1, 6).unwrap();
    bed.commit_as("", -1, 7).unwrap();
    assert_eq!(bed.fetch(false).offset, Offset(5));
    assert_eq!(bed.fetch_all(GROUP)[0].partitions[0].offset, Offset(5));
    bed.shard.committed(Offset(2));
    assert_eq!(bed.fetch(false).offset, Offset(6), "the second record is committed, the third is not");
    commit_all(&mut bed);
    assert_eq!(bed.fetch_all(GROUP)[0].partitions[0].offset, Offset(7));
}

#[test]
fn an_offset_and_a_group_whose_deletion_is_not_committed_are_still_shown() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 5).unwrap();
    bed.commits_at_once = false;
    let topics = vec![TopicPartitions { name: "orders", partitions: vec![PartitionIndex(0)] }];
    let token = bed.token();
    for outcome in bed.shard.offset_delete(token, &OffsetDeleteRequest { group_id: GROUP, topics }) {
        bed.run(outcome);
    }
    assert_eq!((bed.fetch(false).offset, bed.fetch_all(GROUP).len()), (Offset(5), 1));
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, GROUP) {
        bed.run(outcome);
    }
    assert_eq!((bed.fetch(false).offset, bed.state(), names(&bed).len()), (Offset(5), "Empty", 1));
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, GROUP) {
        bed.run(outcome);
    }
    assert_eq!(bed.answers[&token], Reply::DeleteGroup(Err(GroupError::GroupIdNotFound)), "all records decide");
    commit_all(&mut bed);
    assert_eq!((bed.fetch(false).offset, bed.state(), names(&bed).len()), (Offset(-1), "Dead", 0));
}

#[test]
fn a_deletion_takes_offsets_that_are_not_committed_yet() {
    let mut bed = held();
    bed.commit_as("", -1, 5).unwrap();
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, GROUP) {
        bed.run(outcome);
    }
    assert_eq!(bed.answers[&token], Reply::DeleteGroup(Ok(())));
    commit_all(&mut bed);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
    bed.restart();
    assert_eq!((bed.fetch(false).offset, bed.state()), (Offset(-1), "Dead"));
}

#[test]
fn a_generation_is_shown_as_being_completed_until_its_record_is_committed() {
    let mut bed = held();
    let token = bed.join(&Join::default());
    commit_all(&mut bed);
    bed.pass_ms(3_000);
    let id = bed.joined(token).unwrap().member_id;
    bed.sync(&id, 1, &[(&id, b"mine")]);
    let group = bed.shard.describe_group(GROUP).unwrap();
    assert_eq!((group.state, &*group.protocol_name), (GroupState::CompletingRebalance, ""));
    assert!(group.members[0].assignment.is_empty(), "nobody acts on an assignment that may be lost");
    assert_eq!(bed.shard.list_groups(&["Stable"], &[]).unwrap(), []);
    assert!(bed.shard.answers_wait_for().is_some(), "nor is it given to the member");
    commit_all(&mut bed);
    let group = bed.shard.describe_group(GROUP).unwrap();
    assert_eq!((group.state, &*group.members[0].assignment), (GroupState::Stable, &b"mine"[..]));

    bed.leave(&[(&id, None)]);
    assert_eq!(bed.state(), "PreparingRebalance");
    commit_all(&mut bed);
    assert_eq!(bed.state(), "Empty");
}

#[test]
fn a_static_member_is_shown_under_its_old_id_until_the_new_one_is_committed() {
    let mut bed = Bed::new();
    let token = bed.join(&Join::as_instance("one"));
    bed.pass_ms(3_000);
    let old = bed.joined(token).unwrap().member_id;
    bed.sync(&old, 1, &[(&old, b"mine")]);
    bed.commits_at_once = false;
    let new = bed.join_now(&Join::as_instance("one")).unwrap().member_id;
    let shown = |bed: &Bed| {
        let group = bed.shard.describe_group(GROUP).unwrap();
        (group.state, group.members[0].member_id.clone(), group.members[0].assignment.to_vec())
    };
    assert_eq!(shown(&bed), (GroupState::Stable, old, b"mine".to_vec()));
    commit_all(&mut bed);
    assert_eq!(shown(&bed), (GroupState::Stable, new, b"mine".to_vec()));
}

#[test]
fn the_offsets_of_a_transaction_are_shown_when_its_end_is_committed() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 1).unwrap();
    bed.commit_as("", -1, 2).unwrap();
    let LogEntry::Record { key, value, .. } = bed.log[1].clone() else { panic!() };
    let producer = ProducerId(9);
    bed.log[1] = LogEntry::Record { producer: Some(producer), key, value };
    bed.log.push(LogEntry::EndTransaction { producer, committed: true });
    // The shard as another broker reads it, of which the first entry is committed, then the second, then the marker.
    bed.shard = bed.replayed_with_committed(1);
    let outcome = bed.shard.loaded(bed.now());
    bed.run(outcome);
    assert_eq!((bed.fetch(false).offset, bed.fetch(true).error), (Offset(1), None));
    bed.shard.committed(Offset(2));
    assert_eq!(bed.fetch(false).offset, Offset(1));
    assert_eq!(bed.fetch(true).error, Some(GroupError::UnstableOffsetCommit), "its end is not committed");
    bed.shard.committed(Offset(3));
    assert_eq!((bed.fetch(true).offset, bed.fetch(true).error), (Offset(2), None));
}
