//! JoinGroup (KIP-134, KIP-394).

use mainstem_coordinator::{GroupConfig, GroupError};

use crate::bed::{Bed, GROUP, Join};

fn v4() -> Join {
    Join { requires_known_member_id: true, ..Join::default() }
}

#[test]
fn v4_and_later_without_member_id_is_told_an_id_and_joins_with_it() {
    let mut bed = Bed::new();
    let Err(GroupError::MemberIdRequired { member_id }) = bed.join_now(&v4()) else { panic!("no id was given") };
    assert!(member_id.starts_with("client-"), "{member_id}");
    assert_eq!(member_id.len(), "client-".len() + 36);
    let token = bed.join(&Join { member_id: member_id.clone(), ..v4() });
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    assert_eq!((&*joined.member_id, &*joined.leader), (member_id.as_str(), member_id.as_str()));
    assert_eq!(joined.generation, 1);
    assert_eq!(joined.members.len(), 1);
}

#[test]
fn a_member_that_was_told_its_id_is_forgotten_after_the_session_timeout() {
    let mut bed = Bed::new();
    let Err(GroupError::MemberIdRequired { member_id }) = bed.join_now(&v4()) else { panic!("no id was given") };
    bed.pass_ms(10_000);
    assert_eq!(bed.join_now(&Join { member_id, ..v4() }), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_pending_member_holds_up_the_join_phase_until_it_joins_or_expires() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(1);
    assert!(matches!(bed.join_now(&v4()), Err(GroupError::MemberIdRequired { .. })));
    let leader = bed.join(&Join::as_member(&ids[0]));
    bed.pass_ms(9_999);
    assert!(bed.is_parked(leader));
    bed.pass_ms(1);
    assert_eq!(bed.joined(leader).unwrap().generation, 2);
}

#[test]
fn v0_to_v3_join_directly() {
    let mut bed = Bed::new();
    let token = bed.join(&Join { rebalance_timeout_ms: -1, ..Join::default() });
    assert!(bed.is_parked(token));
    bed.pass_ms(3_000);
    assert_eq!(bed.joined(token).unwrap().generation, 1);
}

#[test]
fn the_first_join_of_an_empty_group_waits_for_the_initial_rebalance_delay() {
    let mut bed = Bed::new();
    let token = bed.join(&Join::default());
    bed.pass_ms(2_999);
    assert!(bed.is_parked(token));
    bed.pass_ms(1);
    assert_eq!(bed.joined(token).unwrap().generation, 1);
}

#[test]
fn the_initial_delay_is_extended_while_members_come_up_to_the_rebalance_timeout() {
    let mut bed = Bed::new();
    let short = Join { rebalance_timeout_ms: 7_000, ..Join::default() };
    let first = bed.join(&short);
    for _ in 0..2 {
        bed.pass_ms(2_000);
        bed.join(&short);
    }
    // Looks at 3 s (somebody came), at 6 s (somebody came, 1 s is left), and ends at 7 s.
    bed.pass_ms(2_999);
    assert!(bed.is_parked(first));
    bed.pass_ms(1);
    assert_eq!(bed.joined(first).unwrap().members.len(), 3);
}

#[test]
fn without_an_initial_delay_the_first_join_is_answered_by_the_next_poll() {
    let mut bed = Bed::with_config(GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() });
    let token = bed.join(&Join::default());
    bed.pass_ms(0);
    assert_eq!(bed.joined(token).unwrap().generation, 1);
}

#[test]
fn an_empty_group_id_is_invalid() {
    let mut bed = Bed::new();
    assert_eq!(bed.join_now(&Join { group: String::new(), ..Join::default() }), Err(GroupError::InvalidGroupId));
}

#[test]
fn a_session_timeout_outside_6_s_to_30_min_is_invalid() {
    let mut bed = Bed::new();
    for (session_timeout_ms, valid) in [(5_999, false), (6_000, true), (1_800_000, true), (1_800_001, false)] {
        let token = bed.join(&Join { session_timeout_ms, ..Join::default() });
        assert_eq!(bed.is_parked(token), valid, "{session_timeout_ms}");
        if !valid {
            assert_eq!(bed.joined(token), Err(GroupError::InvalidSessionTimeout));
        }
    }
}

#[test]
fn another_protocol_type_or_no_common_protocol_is_inconsistent() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(1);
    let refused = Err(GroupError::InconsistentGroupProtocol);
    assert_eq!(bed.join_now(&Join { protocol_type: "connect".into(), ..Join::default() }), refused);
    let other = vec![("sticky".to_owned(), vec![])];
    assert_eq!(bed.join_now(&Join { protocols: other.clone(), ..Join::default() }), refused);
    assert_eq!(bed.join_now(&Join { protocols: other, ..Join::as_member(&ids[0]) }), refused);
    assert_eq!(bed.state(), "Stable");
}

#[test]
fn a_new_group_needs_a_protocol_type_and_a_protocol_and_is_not_created_without() {
    let mut bed = Bed::new();
    let refused = Err(GroupError::InconsistentGroupProtocol);
    assert_eq!(bed.join_now(&Join { protocols: vec![], ..Join::default() }), refused);
    assert_eq!(bed.join_now(&Join { protocol_type: String::new(), ..Join::default() }), refused);
    assert!(bed.log.is_empty());
    assert_eq!(bed.state(), "Dead");
}

#[test]
fn a_full_group_refuses_members_beyond_its_size() {
    let config = GroupConfig { max_group_size: 2, ..GroupConfig::default() };
    let mut bed = Bed::with_config(config);
    let (ids, generation) = bed.stable_group(2);
    assert_eq!(bed.join_now(&Join::default()), Err(GroupError::GroupMaxSizeReached));
    assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()));
    assert_eq!(bed.state(), "Stable");
}

#[test]
fn while_members_join_those_waiting_count_against_the_size() {
    let config = GroupConfig { max_group_size: 2, ..GroupConfig::default() };
    let mut bed = Bed::with_config(config);
    let tokens = [bed.join(&Join::default()), bed.join(&Join::default())];
    assert_eq!(bed.join_now(&Join::default()), Err(GroupError::GroupMaxSizeReached));
    bed.pass_ms(60_000);
    assert!(tokens.iter().all(|token| bed.joined(*token).is_ok()));
}

#[test]
fn an_unknown_member_id_is_refused_in_a_known_and_in_an_unknown_group() {
    let mut bed = Bed::new();
    assert_eq!(bed.join_now(&Join::as_member("stranger")), Err(GroupError::UnknownMemberId));
    bed.stable_group(1);
    assert_eq!(bed.join_now(&Join::as_member("stranger")), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_leader_that_joins_a_stable_group_again_always_rebalances() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    let leader = bed.join(&Join::as_member(&ids[0]));
    assert!(bed.is_parked(leader));
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.heartbeat(&ids[1], generation), Err(GroupError::RebalanceInProgress));
    let follower = bed.join(&Join::as_member(&ids[1]));
    assert_eq!(bed.joined(leader).unwrap().generation, generation + 1);
    assert_eq!(bed.joined(follower).unwrap().generation, generation + 1);
}

#[test]
fn a_follower_that_joins_a_stable_group_unchanged_gets_the_current_generation() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    let joined = bed.join_now(&Join::as_member(&ids[1])).unwrap();
    assert_eq!((joined.generation, &*joined.leader), (generation, ids[0].as_str()));
    assert!(joined.members.is_empty());
    assert_eq!(bed.state(), "Stable");
}

#[test]
fn a_follower_with_changed_metadata_rebalances_a_stable_group() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(2);
    let token = bed.join(&Join { protocols: vec![("range".into(), vec![9])], ..Join::as_member(&ids[1]) });
    assert!(bed.is_parked(token));
    assert_eq!(bed.state(), "PreparingRebalance");
}

#[test]
fn joining_again_unchanged_before_the_sync_repeats_the_answer() {
    let mut bed = Bed::new();
    let tokens = [bed.join(&Join::default()), bed.join(&Join::default())];
    bed.pass_ms(6_000);
    for token in tokens {
        let joined = bed.joined(token).unwrap();
        assert_eq!(bed.join_now(&Join::as_member(&joined.member_id)), Ok(joined));
    }
    assert_eq!(bed.state(), "CompletingRebalance");
}

#[test]
fn joining_again_changed_before_the_sync_rebalances_and_ends_parked_syncs() {
    let mut bed = Bed::new();
    let tokens = [bed.join(&Join::default()), bed.join(&Join::default())];
    bed.pass_ms(6_000);
    let [leader, follower] = tokens.map(|token| bed.joined(token).unwrap());
    let sync = bed.sync(&follower.member_id, follower.generation, &[]);
    assert!(bed.is_parked(sync));
    bed.join(&Join { protocols: vec![("range".into(), vec![9])], ..Join::as_member(&leader.member_id) });
    assert_eq!(bed.synced(sync), Err(GroupError::RebalanceInProgress));
    assert_eq!(bed.state(), "PreparingRebalance");
}

#[test]
fn only_the_leader_gets_the_members_with_the_metadata_of_the_chosen_protocol() {
    let mut bed = Bed::new();
    let both = |first: &str, second: &str, byte: u8| {
        let protocol = |name: &str| (name.to_owned(), [name.as_bytes(), &[byte]].concat());
        Join { protocols: vec![protocol(first), protocol(second)], ..Join::default() }
    };
    let tokens = [bed.join(&both("a", "b", 1)), bed.join(&both("b", "a", 2)), bed.join(&both("b", "a", 3))];
    bed.pass_ms(6_000);
    let joined = tokens.map(|token| bed.joined(token).unwrap());
    assert!(joined.iter().all(|j| j.protocol_name.as_deref() == Some("b")), "two of three prefer b");
    let metadata: Vec<&[u8]> = joined[0].members.iter().map(|m| &*m.metadata).collect();
    assert_eq!(metadata, [b"b\x01", b"b\x02", b"b\x03"]);
    assert!(joined[1].members.is_empty() && joined[2].members.is_empty());
}

#[test]
fn a_second_join_of_a_member_takes_the_place_of_its_parked_one() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(2);
    let first = bed.join(&Join::as_member(&ids[0]));
    let second = bed.join(&Join::as_member(&ids[0]));
    assert_eq!(bed.joined(first), Err(GroupError::RebalanceInProgress));
    assert!(bed.is_parked(second));
}

#[test]
fn dynamic_members_that_do_not_join_within_the_rebalance_timeout_are_dropped() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    let leader = bed.join(&Join { session_timeout_ms: 1_800_000, ..Join::as_member(&ids[0]) });
    for _ in 0..11 {
        bed.pass_ms(5_000);
        assert_eq!(bed.heartbeat(&ids[1], generation), Err(GroupError::RebalanceInProgress));
    }
    bed.pass_ms(4_999);
    assert!(bed.is_parked(leader));
    bed.pass_ms(1);
    assert_eq!(bed.joined(leader).unwrap().members.len(), 1);
    assert_eq!(bed.heartbeat(&ids[1], generation), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_new_members_parked_join_expires_after_five_minutes() {
    let mut bed = Bed::new();
    let slow = Join { rebalance_timeout_ms: 1_000_000, session_timeout_ms: 1_800_000, ..Join::default() };
    let first = bed.join(&slow);
    bed.pass_ms(1_000_000);
    let leader = bed.joined(first).unwrap();
    let sync = bed.sync(&leader.member_id, 1, &[]);
    assert!(bed.synced(sync).is_ok());
    let new = bed.join(&slow);
    bed.pass_ms(299_999);
    assert!(bed.is_parked(new));
    bed.pass_ms(1);
    assert_eq!(bed.joined(new), Err(GroupError::UnknownMemberId));
}

#[test]
fn everything_is_refused_until_the_log_has_been_read() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(1);
    bed.shard = bed.replayed();
    let loading = GroupError::CoordinatorLoadInProgress;
    assert_eq!(bed.join_now(&Join::as_member(&ids[0])), Err(loading.clone()));
    assert_eq!(bed.commit_as(&ids[0], generation, 1), Err(loading.clone()));
    assert_eq!(bed.shard.describe_group(GROUP), Err(loading.clone()));
    assert_eq!(bed.shard.list_groups(&[], &[]), Err(loading));
    assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()), "members are left in peace");
    let sync = bed.sync(&ids[0], generation, &[]);
    assert_eq!(bed.synced(sync), Err(GroupError::RebalanceInProgress));
}
