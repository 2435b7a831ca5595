//! What is promised only with a record, fails without it; and the group is as it was, or rebalances.

use std::time::Duration;

use mainstem_coordinator::{AppendFailure, GroupConfig, GroupError, Reply};
use mainstem_types::Offset;

use crate::bed::{Bed, Join};

#[test]
fn a_group_whose_creation_is_not_stored_does_not_exist_and_its_joins_fail() {
    for requires_known_member_id in [false, true] {
        let mut bed = Bed::new();
        bed.fail_next_append = Some(AppendFailure::NotReplicated);
        let join = Join { requires_known_member_id, ..Join::default() };
        assert_eq!(bed.join_now(&join), Err(GroupError::CoordinatorNotAvailable));
        assert_eq!(bed.state(), "Dead");
        assert_eq!(
            bed.shard.next_deadline(),
            Some(bed.now().monotonic + Duration::from_secs(600)),
            "only the sweep is left"
        );
        let (ids, generation) = bed.stable_group(1);
        assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()));
    }
}

#[test]
fn an_assignment_that_is_not_stored_is_given_to_nobody_and_the_group_rebalances() {
    let mut bed = Bed::new();
    let tokens = [bed.join(&Join::default()), bed.join(&Join::default())];
    bed.pass_ms(6_000);
    let [leader, follower] = tokens.map(|token| bed.joined(token).unwrap());
    let waiting = bed.sync(&follower.member_id, 1, &[]);
    bed.fail_next_append = Some(AppendFailure::NotWritable);
    let own = bed.sync(&leader.member_id, 1, &[(&leader.member_id, b"x")]);
    assert_eq!(bed.synced(own), Err(GroupError::NotCoordinator));
    assert_eq!(bed.synced(waiting), Err(GroupError::NotCoordinator));
    assert_eq!(bed.state(), "PreparingRebalance");
    let again = [bed.join(&Join::as_member(&leader.member_id)), bed.join(&Join::as_member(&follower.member_id))];
    assert_eq!(again.map(|token| bed.joined(token).unwrap().generation), [2, 2]);
}

#[test]
fn a_static_member_whose_new_id_is_not_stored_keeps_the_old_one() {
    let mut bed = Bed::new();
    let token = bed.join(&Join::as_instance("one"));
    bed.pass_ms(3_000);
    let old = bed.joined(token).unwrap();
    let sync = bed.sync(&old.member_id, 1, &[(&old.member_id, b"kept")]);
    assert!(bed.synced(sync).is_ok());
    bed.fail_next_append = Some(AppendFailure::TooLarge);
    let longer = Join { session_timeout_ms: 60_000, ..Join::as_instance("one") };
    assert_eq!(bed.join_now(&longer), Err(GroupError::StateTooLarge));
    assert_eq!(bed.state(), "Stable");
    assert_eq!(bed.heartbeat(&old.member_id, 1), Ok(()));
    let group = bed.shard.describe_group("group").unwrap();
    assert_eq!((&group.members[0].member_id, &*group.members[0].assignment), (&old.member_id, &b"kept"[..]));
    bed.pass_ms(10_000);
    assert_eq!(bed.state(), "Empty", "the old session timeout counts");
}

#[test]
fn a_commit_that_is_not_stored_fails_and_the_offset_stays() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 1).unwrap();
    for (failure, error) in [
        (AppendFailure::NotReplicated, GroupError::CoordinatorNotAvailable),
        (AppendFailure::NotWritable, GroupError::NotCoordinator),
        (AppendFailure::TooLarge, GroupError::StateTooLarge),
    ] {
        bed.fail_next_append = Some(failure);
        assert_eq!(bed.commit_as("", -1, 2), Err(error));
        assert_eq!(bed.fetch(false).offset, Offset(1));
    }
}

#[test]
fn an_emptied_group_that_is_not_stored_is_empty_all_the_same() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(1);
    bed.fail_next_append = Some(AppendFailure::NotReplicated);
    bed.pass_ms(10_000);
    assert_eq!(bed.state(), "Empty");
    bed.restart();
    assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()), "the stored generation is back, and times out again");
    bed.pass_ms(10_000);
    assert_eq!(bed.state(), "Empty");
}

#[test]
fn a_sweep_that_is_not_stored_is_made_again() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 1).unwrap();
    bed.pass_ms(7 * 24 * 3_600_000 - 1);
    bed.fail_next_append = Some(AppendFailure::NotReplicated);
    bed.pass_ms(600_000);
    assert_eq!(bed.fetch(false).offset, Offset(1));
    bed.pass_ms(600_000);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
}

#[test]
fn a_deletion_that_is_not_stored_leaves_the_group_as_it_was() {
    let mut bed = Bed::new();
    assert!(bed.join_now(&Join { requires_known_member_id: true, ..Join::default() }).is_err());
    let session_ends = bed.shard.next_deadline();
    bed.fail_next_append = Some(AppendFailure::NotReplicated);
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, "group") {
        bed.run(outcome);
    }
    assert_eq!(bed.answers[&token], Reply::DeleteGroup(Err(GroupError::CoordinatorNotAvailable)));
    assert_eq!((bed.state(), bed.shard.next_deadline()), ("Empty", session_ends));
}

#[test]
fn a_shard_that_goes_answers_what_is_parked_and_then_refuses() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(2);
    let leader = bed.join(&Join::as_member(&ids[0]));
    let now = bed.now();
    let answers = bed.shard.unload(now);
    assert_eq!(answers, [(leader, Reply::Join(Err(GroupError::NotCoordinator)))]);
    assert_eq!(bed.shard.next_deadline(), None);
    assert_eq!(bed.join_now(&Join::default()), Err(GroupError::CoordinatorLoadInProgress));
}

#[test]
fn a_group_that_is_too_large_when_read_rebalances() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(3);
    bed.shard = bed.replayed();
    bed.shard.set_config(GroupConfig { max_group_size: 2, ..GroupConfig::default() });
    let outcome = bed.shard.loaded(bed.now());
    bed.run(outcome);
    assert_eq!(bed.heartbeat(&ids[0], generation), Err(GroupError::RebalanceInProgress));
    let tokens: Vec<_> = ids.iter().map(|id| bed.join(&Join::as_member(id))).collect();
    assert_eq!(bed.joined(tokens[2]), Err(GroupError::GroupMaxSizeReached));
    assert_eq!(bed.joined(tokens[0]).unwrap().members.len(), 2);
}
