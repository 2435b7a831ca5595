//! Heartbeat, SyncGroup, LeaveGroup, sessions.

use mainstem_coordinator::{GroupError, JoinedGroup, SyncGroupRequest};

use crate::bed::{Bed, GROUP, Join};

/// Two members whose join was answered and who have not synced; the first leads.
fn joined_pair(bed: &mut Bed) -> [JoinedGroup; 2] {
    let tokens = [bed.join(&Join::default()), bed.join(&Join::default())];
    bed.pass_ms(6_000);
    assert_eq!(bed.state(), "CompletingRebalance");
    tokens.map(|token| bed.joined(token).unwrap())
}

#[test]
fn heartbeats_say_that_the_group_rebalances_only_while_it_prepares_to() {
    let mut bed = Bed::new();
    let [leader, _] = joined_pair(&mut bed);
    assert_eq!(bed.heartbeat(&leader.member_id, leader.generation), Ok(()), "CompletingRebalance");
    bed.sync(&leader.member_id, leader.generation, &[]);
    assert_eq!(bed.heartbeat(&leader.member_id, leader.generation), Ok(()), "Stable");
    bed.join(&Join::default());
    assert_eq!(bed.heartbeat(&leader.member_id, leader.generation), Err(GroupError::RebalanceInProgress));
}

#[test]
fn heartbeats_during_a_rebalance_keep_the_session() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.join(&Join::as_member(&ids[0]));
    for _ in 0..5 {
        bed.pass_ms(9_000);
        assert_eq!(bed.heartbeat(&ids[1], generation), Err(GroupError::RebalanceInProgress));
    }
    assert_eq!(bed.shard.describe_group(GROUP).unwrap().members.len(), 2);
}

#[test]
fn heartbeats_of_a_wrong_generation_or_an_unknown_member_are_refused() {
    let mut bed = Bed::new();
    assert_eq!(bed.heartbeat("x", 1), Err(GroupError::UnknownMemberId), "no group");
    let (ids, generation) = bed.stable_group(1);
    assert_eq!(bed.heartbeat(&ids[0], generation - 1), Err(GroupError::IllegalGeneration));
    assert_eq!(bed.heartbeat("x", generation), Err(GroupError::UnknownMemberId));
    bed.leave(&[(&ids[0], None)]);
    assert_eq!(bed.state(), "Empty");
    assert_eq!(bed.heartbeat(&ids[0], generation), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_member_without_heartbeats_is_dropped_after_its_session_and_the_others_rebalance() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.pass_ms(6_000);
    assert_eq!(bed.heartbeat(&ids[1], generation), Ok(()));
    bed.pass_ms(3_999);
    assert_eq!(bed.state(), "Stable");
    bed.pass_ms(1);
    assert_eq!(bed.state(), "PreparingRebalance");
    let token = bed.join(&Join::as_member(&ids[1]));
    let joined = bed.joined(token).unwrap();
    assert_eq!((joined.generation, &*joined.leader), (generation + 1, ids[1].as_str()));
}

#[test]
fn syncs_wait_for_the_leader_and_members_it_forgot_get_empty_bytes() {
    let mut bed = Bed::new();
    let [leader, follower] = joined_pair(&mut bed);
    let waiting = bed.sync(&follower.member_id, 1, &[]);
    assert!(bed.is_parked(waiting));
    let own = bed.sync(&leader.member_id, 1, &[(&leader.member_id, b"all of it"), ("stranger", b"nothing")]);
    assert_eq!(&*bed.synced(own).unwrap().assignment, b"all of it");
    let answer = bed.synced(waiting).unwrap();
    assert_eq!(&*answer.assignment, b"");
    assert_eq!(answer.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(answer.protocol_name.as_deref(), Some("range"));
}

#[test]
fn a_sync_of_a_stable_group_gets_the_stored_assignment() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.restart();
    for id in &ids {
        let token = bed.sync(id, generation, &[]);
        assert_eq!(&*bed.synced(token).unwrap().assignment, id.as_bytes());
    }
}

#[test]
fn a_sync_while_members_join_is_refused() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.join(&Join::as_member(&ids[0]));
    let token = bed.sync(&ids[1], generation, &[]);
    assert_eq!(bed.synced(token), Err(GroupError::RebalanceInProgress));
}

#[test]
fn a_sync_with_another_generation_member_or_protocol_is_refused() {
    let mut bed = Bed::new();
    let unknown_group = bed.sync("x", 1, &[]);
    assert_eq!(bed.synced(unknown_group), Err(GroupError::UnknownMemberId));
    let [leader, _] = joined_pair(&mut bed);
    let mut refused = |member_id: &str, generation: i32, kind: Option<&str>, name: Option<&str>| {
        let token = bed.sync_as(SyncGroupRequest {
            group_id: GROUP,
            generation,
            member_id,
            instance_id: None,
            protocol_type: kind,
            protocol_name: name,
            assignments: vec![],
        });
        bed.synced(token).unwrap_err()
    };
    assert_eq!(refused("x", 1, None, None), GroupError::UnknownMemberId);
    assert_eq!(refused(&leader.member_id, 2, None, None), GroupError::IllegalGeneration);
    assert_eq!(refused(&leader.member_id, 1, Some("connect"), None), GroupError::InconsistentGroupProtocol);
    assert_eq!(refused(&leader.member_id, 1, None, Some("sticky")), GroupError::InconsistentGroupProtocol);
    let before_v5 = bed.sync_as(SyncGroupRequest {
        group_id: GROUP,
        generation: 1,
        member_id: &leader.member_id,
        instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: vec![],
    });
    assert!(bed.synced(before_v5).is_ok());
}

#[test]
fn members_that_do_not_sync_within_the_rebalance_timeout_are_dropped() {
    let mut bed = Bed::new();
    let [leader, follower] = joined_pair(&mut bed);
    let synced = bed.sync(&leader.member_id, 1, &[]);
    assert!(bed.synced(synced).is_ok());
    for _ in 0..11 {
        bed.pass_ms(5_000);
        assert_eq!(bed.heartbeat(&leader.member_id, 1), Ok(()));
        assert_eq!(bed.heartbeat(&follower.member_id, 1), Ok(()));
    }
    assert_eq!(bed.state(), "Stable");
    bed.pass_ms(5_000);
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.heartbeat(&follower.member_id, 1), Err(GroupError::UnknownMemberId));
    assert_eq!(bed.heartbeat(&leader.member_id, 1), Err(GroupError::RebalanceInProgress));
}

#[test]
fn a_leader_that_never_syncs_is_dropped_and_parked_syncs_end() {
    let mut bed = Bed::new();
    let [_, follower] = joined_pair(&mut bed);
    let waiting = bed.sync(&follower.member_id, 1, &[]);
    bed.pass_ms(10_000);
    assert_eq!(bed.synced(waiting), Err(GroupError::RebalanceInProgress), "the leader's session ended");
    let token = bed.join(&Join::as_member(&follower.member_id));
    assert_eq!(*bed.joined(token).unwrap().leader, *follower.member_id);
}

#[test]
fn a_member_that_leaves_is_gone_at_once_and_the_last_one_empties_the_group() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    assert_eq!(bed.leave(&[(&ids[0], None)])[0].result, Ok(()));
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.heartbeat(&ids[0], generation), Err(GroupError::UnknownMemberId));
    assert_eq!(bed.leave(&[(&ids[1], None)])[0].result, Ok(()));
    assert_eq!(bed.state(), "Empty");
    bed.restart();
    assert_eq!(bed.state(), "Empty");
}

#[test]
fn a_leave_answers_for_each_member_and_one_rebalance_follows() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(3);
    let left = bed.leave(&[(&ids[0], None), ("stranger", None), (&ids[1], None), (&ids[1], None)]);
    let results: Vec<_> = left.into_iter().map(|member| member.result).collect();
    let unknown = Err(GroupError::UnknownMemberId);
    assert_eq!(results, [Ok(()), unknown.clone(), Ok(()), unknown]);
    let token = bed.join(&Join::as_member(&ids[2]));
    assert_eq!(bed.joined(token).unwrap().members.len(), 1);
}

#[test]
fn a_parked_join_or_sync_of_a_member_that_leaves_is_answered() {
    let mut bed = Bed::new();
    let [leader, follower] = joined_pair(&mut bed);
    let sync = bed.sync(&follower.member_id, 1, &[]);
    bed.leave(&[(&follower.member_id, None)]);
    assert_eq!(bed.synced(sync), Err(GroupError::UnknownMemberId));
    let other = bed.join(&Join::default());
    let join = bed.join(&Join::as_member(&leader.member_id));
    assert_eq!(bed.joined(join).unwrap().generation, bed.joined(other).unwrap().generation);
    let third = bed.join(&Join::default());
    let third_id = bed.shard.describe_group(GROUP).unwrap().members[2].member_id.clone();
    bed.leave(&[(&third_id, None)]);
    assert_eq!(bed.joined(third), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_pending_member_may_leave_before_it_joined() {
    let mut bed = Bed::new();
    let asked = bed.join_now(&Join { requires_known_member_id: true, ..Join::default() });
    let Err(GroupError::MemberIdRequired { member_id }) = asked else { panic!("no id was given") };
    assert_eq!(bed.leave(&[(&member_id, None)])[0].result, Ok(()));
    assert_eq!(bed.join_now(&Join::as_member(&member_id)), Err(GroupError::UnknownMemberId));
}

#[test]
fn bytes_of_any_protocol_type_pass_through_untouched() {
    for protocol_type in ["connect", "sr", "whatever"] {
        let mut bed = Bed::new();
        let bytes = vec![0xff, 0, 1, 2, 254];
        let join = Join {
            protocol_type: protocol_type.into(),
            protocols: vec![("compatible".into(), bytes.clone())],
            ..Join::default()
        };
        let token = bed.join(&join);
        bed.pass_ms(3_000);
        let joined = bed.joined(token).unwrap();
        assert_eq!(*joined.members[0].metadata, *bytes);
        let token = bed.sync_as(SyncGroupRequest {
            group_id: GROUP,
            generation: 1,
            member_id: &joined.member_id,
            instance_id: None,
            protocol_type: Some(protocol_type),
            protocol_name: Some("compatible"),
            assignments: vec![(&joined.member_id, &bytes)],
        });
        assert_eq!(*bed.synced(token).unwrap().assignment, *bytes);
        bed.restart();
        let group = bed.shard.describe_group(GROUP).unwrap();
        assert_eq!((&*group.members[0].metadata, &*group.members[0].assignment), (&bytes[..], &bytes[..]));
        assert_eq!(&*group.protocol_type, protocol_type);
    }
}

#[test]
fn members_of_a_stable_group_survive_a_restart_and_have_a_session_to_show_up() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.restart();
    assert_eq!(bed.state(), "Stable");
    bed.pass_ms(9_999);
    assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()));
    bed.pass_ms(1);
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.shard.describe_group(GROUP).unwrap().members.len(), 1);
}
