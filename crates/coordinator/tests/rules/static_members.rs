//! Static members (KIP-345, KIP-814).

use mainstem_coordinator::{GroupError, HeartbeatRequest, JoinedGroup, OffsetCommitRequest, SyncGroupRequest};

use crate::bed::{Bed, GROUP, Join};

/// A stable group of static members; the first leads.
fn stable(bed: &mut Bed, instances: &[&str]) -> Vec<JoinedGroup> {
    let tokens: Vec<_> = instances.iter().map(|instance| bed.join(&Join::as_instance(instance))).collect();
    bed.pass_ms(6_000);
    let joined: Vec<JoinedGroup> = tokens.iter().map(|token| bed.joined(*token).unwrap()).collect();
    let assignments: Vec<(&str, &[u8])> = joined.iter().map(|j| (&*j.member_id, j.member_id.as_bytes())).collect();
    for follower in &joined[1..] {
        bed.sync(&follower.member_id, follower.generation, &[]);
    }
    bed.sync(&joined[0].member_id, joined[0].generation, &assignments);
    assert_eq!(bed.state(), "Stable");
    joined
}

fn heartbeat(bed: &mut Bed, member_id: &str, generation: i32, instance: &str) -> Result<(), GroupError> {
    let request = HeartbeatRequest { group_id: GROUP, generation, member_id, instance_id: Some(instance) };
    let now = bed.now();
    bed.shard.heartbeat(&request, now)
}

#[test]
fn a_static_member_joins_without_being_told_an_id_first() {
    let mut bed = Bed::new();
    let token = bed.join(&Join { requires_known_member_id: true, ..Join::as_instance("one") });
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    assert!(joined.member_id.starts_with("one-"));
    assert_eq!(joined.members[0].instance_id.as_deref(), Some("one"));
}

#[test]
fn a_static_follower_that_comes_back_gets_a_new_id_and_its_assignment_without_a_rebalance() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one", "two"]);
    let new = bed.join_now(&Join::as_instance("two")).unwrap();
    assert_eq!((new.generation, &new.leader), (old[1].generation, &old[0].member_id));
    assert_ne!(new.member_id, old[1].member_id);
    assert!(!new.skip_assignment && new.members.is_empty());
    assert_eq!(bed.state(), "Stable");
    let sync = bed.sync(&new.member_id, new.generation, &[]);
    assert_eq!(*bed.synced(sync).unwrap().assignment, *old[1].member_id.as_bytes());
    bed.restart();
    assert_eq!(heartbeat(&mut bed, &new.member_id, new.generation, "two"), Ok(()), "the new id is stored");
}

#[test]
fn a_static_leader_that_comes_back_with_v9_is_told_to_skip_the_assignment() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one", "two"]);
    let new = bed.join_now(&Join::as_instance("one")).unwrap();
    assert!(new.skip_assignment);
    assert_eq!(new.leader, new.member_id);
    assert_eq!(new.members.len(), 2);
    assert_eq!(new.generation, old[0].generation);
}

#[test]
fn a_static_leader_that_comes_back_before_v9_is_told_of_the_old_leader() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one", "two"]);
    let new = bed.join_now(&Join { supports_skipping_assignment: false, ..Join::as_instance("one") }).unwrap();
    assert_eq!(new.leader, old[0].member_id, "so that it does not assign again");
    assert!(!new.skip_assignment && new.members.is_empty());
}

#[test]
fn the_old_id_of_a_replaced_static_member_is_fenced() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one", "two"]);
    let (old_id, generation) = (&old[1].member_id, old[1].generation);
    bed.join_now(&Join::as_instance("two")).unwrap();
    assert_eq!(heartbeat(&mut bed, old_id, generation, "two"), Err(GroupError::FencedInstanceId));
    let rejoin = Join { member_id: old_id.to_string(), ..Join::as_instance("two") };
    assert_eq!(bed.join_now(&rejoin), Err(GroupError::FencedInstanceId));
    let sync = bed.sync_as(SyncGroupRequest {
        group_id: GROUP,
        generation,
        member_id: old_id,
        instance_id: Some("two"),
        protocol_type: None,
        protocol_name: None,
        assignments: vec![],
    });
    assert_eq!(bed.synced(sync), Err(GroupError::FencedInstanceId));
    let request = |request: &mut OffsetCommitRequest<'_>| {
        request.generation = generation;
        request.member_id = Box::leak(old_id.to_string().into_boxed_str());
        request.instance_id = Some("two");
    };
    assert_eq!(bed.commit_with(5, request), Err(GroupError::FencedInstanceId));
    assert_eq!(bed.leave(&[(old_id, Some("two"))])[0].result, Err(GroupError::FencedInstanceId));
}

#[test]
fn a_parked_request_of_a_replaced_static_member_is_fenced() {
    let mut bed = Bed::new();
    let first = bed.join(&Join::as_instance("one"));
    let second = bed.join(&Join::as_instance("one"));
    assert_eq!(bed.joined(first), Err(GroupError::FencedInstanceId));
    bed.pass_ms(60_000);
    assert_eq!(bed.joined(second).unwrap().members.len(), 1);
}

#[test]
fn a_static_member_that_comes_back_with_another_protocol_rebalances() {
    let mut bed = Bed::new();
    let protocols = |names: &[&str]| names.iter().map(|name| (name.to_string(), vec![])).collect::<Vec<_>>();
    let both = Join { protocols: protocols(&["range", "sticky"]), ..Join::as_instance("one") };
    let token = bed.join(&both);
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    bed.sync(&joined.member_id, 1, &[]);
    assert_eq!(bed.state(), "Stable");
    let changed = Join { protocols: protocols(&["sticky", "range"]), ..Join::as_instance("one") };
    let new = bed.join_now(&changed).unwrap();
    assert_eq!((new.generation, new.protocol_name.as_deref()), (2, Some("sticky")));
}

#[test]
fn a_static_member_that_comes_back_before_the_assignment_rebalances() {
    let mut bed = Bed::new();
    let tokens = [bed.join(&Join::as_instance("one")), bed.join(&Join::as_instance("two"))];
    bed.pass_ms(6_000);
    assert_eq!(bed.joined(tokens[1]).unwrap().generation, 1);
    assert_eq!(bed.state(), "CompletingRebalance");
    let token = bed.join(&Join::as_instance("two"));
    assert!(bed.is_parked(token), "the leader may be assigning to the old id");
    assert_eq!(bed.state(), "PreparingRebalance");
}

#[test]
fn static_members_stay_in_the_group_when_they_miss_a_rebalance() {
    let mut bed = Bed::new();
    let long = |join: Join| Join { session_timeout_ms: 1_800_000, ..join };
    let tokens = ["one", "two"].map(|instance| bed.join(&long(Join::as_instance(instance))));
    bed.pass_ms(6_000);
    let old = tokens.map(|token| bed.joined(token).unwrap());
    bed.sync(&old[0].member_id, 1, &[]);
    bed.sync(&old[1].member_id, 1, &[]);
    let dynamic = bed.join(&long(Join::default()));
    let leader = bed.join(&long(Join { member_id: old[0].member_id.to_string(), ..Join::as_instance("one") }));
    bed.pass_ms(60_000);
    assert_eq!(bed.joined(leader).unwrap().members.len(), 3, "two is in it though it did not join");
    assert_eq!(bed.joined(dynamic).unwrap().generation, 2);
}

#[test]
fn if_only_absent_static_members_are_left_the_rebalance_waits_for_their_sessions() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one"]);
    let dynamic = bed.join(&Join::default());
    let dynamic_id = bed.shard.describe_group(GROUP).unwrap().members[1].member_id.clone();
    bed.leave(&[(&dynamic_id, None)]);
    assert_eq!(bed.joined(dynamic), Err(GroupError::UnknownMemberId));
    assert_eq!(bed.state(), "PreparingRebalance");
    for _ in 0..13 {
        bed.pass_ms(5_000);
        let answer = heartbeat(&mut bed, &old[0].member_id, old[0].generation, "one");
        assert_eq!(answer, Err(GroupError::RebalanceInProgress));
    }
    assert_eq!(bed.state(), "PreparingRebalance", "past the rebalance timeout");
    bed.pass_ms(10_000);
    assert_eq!(bed.state(), "Empty", "its session ended");
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    let mut bed = Bed::new();
    stable(&mut bed, &["one", "two"]);
    let left = bed.leave(&[("", Some("two")), ("", Some("three")), ("", None)]);
    let results: Vec<_> = left.into_iter().map(|member| member.result).collect();
    assert_eq!(results, [Ok(()), Err(GroupError::UnknownMemberId), Err(GroupError::UnknownMemberId)]);
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.shard.describe_group(GROUP).unwrap().members.len(), 1);
}

#[test]
fn a_static_member_keeps_its_place_over_a_restart_of_itself_within_its_session() {
    let mut bed = Bed::new();
    let old = stable(&mut bed, &["one", "two"]);
    bed.pass_ms(9_999);
    assert_eq!(heartbeat(&mut bed, &old[0].member_id, old[0].generation, "one"), Ok(()));
    let new = bed.join_now(&Join::as_instance("two")).unwrap();
    bed.pass_ms(9_999);
    assert_eq!(bed.state(), "Stable", "the old id's session does not count any more");
    assert_eq!(heartbeat(&mut bed, &new.member_id, new.generation, "two"), Ok(()));
}
