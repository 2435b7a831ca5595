use super::*;
use proptest::prelude::*;

const LOCAL: NodeId = NodeId(1);

fn set(replicas: &[i32]) -> ReplicaSet {
    ReplicaSet::new(ReplicaSetState {
        local: LOCAL,
        replicas: replicas.iter().map(|node| NodeId(*node)).collect(),
        log_start: Offset(0),
        high_watermark: Offset(0),
        log_end: Offset(0),
        acknowledged: Offset(0),
    })
    .unwrap()
}

fn elect(set: &mut ReplicaSet, epoch: i32, in_sync: &[i32]) -> ReplicaOutcome {
    set.apply(elected(&all(set), Some(1), epoch, in_sync)).unwrap()
}

fn all(set: &ReplicaSet) -> Vec<i32> {
    set.replicas().map(|replica| replica.node.0).collect()
}

fn elected(replicas: &[i32], leader: Option<i32>, epoch: i32, in_sync: &[i32]) -> Event {
    let nodes = |list: &[i32]| list.iter().copied().map(NodeId).collect();
    Event::LeaderElected {
        replicas: nodes(replicas),
        leader: leader.map(NodeId),
        epoch: LeaderEpoch(epoch),
        in_sync: nodes(in_sync),
    }
}

fn fetched(set: &mut ReplicaSet, node: i32, epoch: i32, offset: i64) -> Result<ReplicaOutcome, EventError> {
    set.apply(Event::FollowerFetched { node: NodeId(node), epoch: LeaderEpoch(epoch), from: Offset(offset) })
}

#[test]
fn with_one_replica_the_high_watermark_follows_the_log_end() {
    let mut set = set(&[1]);
    assert_eq!(set.local_ends(Offset(3), Offset(3)), Ok(ReplicaOutcome::Nothing));
    let became = ReplicaOutcome::BecameLeader { epoch: LeaderEpoch(0), high_watermark: Offset(3) };
    assert_eq!(elect(&mut set, 0, &[1]), became);
    assert_eq!(set.local_ends(Offset(7), Offset(7)), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(7) }));
    assert_eq!(set.local_ends(Offset(7), Offset(7)), Ok(ReplicaOutcome::Nothing));
}

#[test]
fn only_what_the_local_log_acknowledges_counts() {
    let mut set = set(&[1]);
    elect(&mut set, 0, &[1]);
    assert_eq!(set.local_ends(Offset(7), Offset(0)), Ok(ReplicaOutcome::Nothing));
    assert_eq!(set.local_ends(Offset(7), Offset(5)), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(5) }));
    assert_eq!(set.local_ends(Offset(7), Offset(4)), Ok(ReplicaOutcome::Nothing));
    let all = Event::LocalEnds { log_end: Offset(7), acknowledged: Offset(7) };
    assert_eq!(set.apply(all), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(7) }));
    assert!(matches!(set.local_ends(Offset(7), Offset(8)), Err(EventError::BeyondLogEnd { .. })));
}

#[test]
fn settings_that_promise_more_never_take_the_high_watermark_back() {
    let mut set = set(&[1]);
    elect(&mut set, 0, &[1]);
    set.local_ends(Offset(7), Offset(7)).unwrap();
    assert_eq!(set.local_ends(Offset(9), Offset(2)), Ok(ReplicaOutcome::Nothing));
    assert_eq!(set.high_watermark(), Offset(7));
}

#[test]
fn with_three_replicas_the_slowest_in_sync_one_decides() {
    let mut set = set(&[1, 2, 3]);
    elect(&mut set, 4, &[1, 2]);
    set.local_ends(Offset(10), Offset(10)).unwrap();
    assert_eq!(set.high_watermark(), Offset(0));
    assert_eq!(fetched(&mut set, 2, 4, 6), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(6) }));
    assert_eq!(fetched(&mut set, 3, 4, 2), Ok(ReplicaOutcome::Nothing));
    assert_eq!(elect(&mut set, 4, &[1]), ReplicaOutcome::HighWatermarkAdvanced { to: Offset(10) });
    assert_eq!(elect(&mut set, 4, &[1, 2, 3]), ReplicaOutcome::Nothing);
    assert_eq!(set.high_watermark(), Offset(10));
}

#[test]
fn who_is_proposed_counts_until_the_controller_has_answered() {
    let mut set = set(&[1, 2]);
    elect(&mut set, 4, &[1]);
    set.local_ends(Offset(5), Offset(5)).unwrap();
    fetched(&mut set, 2, 4, 5).unwrap();
    assert!(set.may_join(NodeId(2)));
    set.apply(Event::InSyncProposed(vec![LOCAL, NodeId(2)])).unwrap();
    assert_eq!(
        set.local_ends(Offset(9), Offset(9)),
        Ok(ReplicaOutcome::Nothing),
        "the controller may have agreed already"
    );
    assert_eq!(fetched(&mut set, 2, 4, 7), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(7) }));
    assert_eq!(elect(&mut set, 4, &[1]), ReplicaOutcome::HighWatermarkAdvanced { to: Offset(9) });
}

#[test]
fn who_is_below_the_start_of_the_epoch_does_not_join() {
    let mut set = set(&[1, 2]);
    set.local_ends(Offset(5), Offset(5)).unwrap();
    elect(&mut set, 4, &[1, 2]);
    assert_eq!((set.high_watermark(), set.epoch_start()), (Offset(0), Offset(5)));
    elect(&mut set, 4, &[]);
    for (from, may_join) in [(0, false), (4, false), (5, true)] {
        fetched(&mut set, 2, 4, from).unwrap();
        assert_eq!(set.may_join(NodeId(2)), may_join, "at {from}");
    }
}

#[test]
fn kip_966_under_min_insync_replicas_nothing_is_committed() {
    let mut set = set(&[1, 2]);
    set.apply(Event::MinInSyncChanged(3)).unwrap();
    elect(&mut set, 0, &[1]);
    assert_eq!(set.local_ends(Offset(5), Offset(5)), Ok(ReplicaOutcome::Nothing), "both replicas are asked for");
    let alone = elected(&[1], Some(1), 0, &[1]);
    assert_eq!(set.apply(alone), Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(5) }));
}

#[test]
fn who_loses_replicas_and_the_leadership_at_once_commits_nothing() {
    let mut set = set(&[1, 2]);
    elect(&mut set, 0, &[1, 2]);
    set.local_ends(Offset(5), Offset(5)).unwrap();
    // Replicas [1, 2] → [1, 4] and leader 1 → 4, in several records of which this node sees the last image.
    let resigned = Ok(ReplicaOutcome::Resigned { epoch: LeaderEpoch(1) });
    assert_eq!(set.apply(elected(&[1, 4], Some(4), 1, &[4])), resigned);
    assert_eq!((set.high_watermark(), all(&set)), (Offset(0), vec![1, 4]));
    assert_eq!(set.role(), Role::Follower { leader: Some(NodeId(4)) });
}

#[test]
fn a_replica_that_is_new_counts_when_it_is_in_sync_and_from_nothing_on() {
    let mut set = set(&[1, 2]);
    elect(&mut set, 0, &[1, 2]);
    set.local_ends(Offset(5), Offset(5)).unwrap();
    fetched(&mut set, 2, 0, 3).unwrap();
    // 2 stays with what is known of it; 3 has fetched nothing.
    assert_eq!(set.apply(elected(&[1, 2, 3], Some(1), 0, &[1, 2, 3])), Ok(ReplicaOutcome::Nothing));
    fetched(&mut set, 2, 0, 5).unwrap();
    assert_eq!(set.high_watermark(), Offset(3));
    let without = set.apply(elected(&[1, 2], Some(1), 0, &[1, 2]));
    assert_eq!(without, Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(5) }));
}

#[test]
fn a_follower_s_high_watermark_follows_the_leader_s_and_a_cut() {
    let mut set = set(&[1, 2]);
    let committed = |epoch, to| Event::LeaderCommitted { epoch: LeaderEpoch(epoch), high_watermark: Offset(to) };
    let elected = elected(&[1, 2], Some(2), 3, &[2]);
    set.apply(elected).unwrap();
    assert_eq!(set.role(), Role::Follower { leader: Some(NodeId(2)) });
    set.local_ends(Offset(5), Offset(5)).unwrap();
    assert_eq!(
        set.apply(committed(3, 9)),
        Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(5) }),
        "as far as it has it"
    );
    assert_eq!(set.apply(committed(3, 2)), Ok(ReplicaOutcome::Nothing), "a new leader knows less at first");
    assert!(matches!(set.apply(committed(2, 9)), Err(EventError::OldEpoch { .. })));
    assert_eq!(set.apply(Event::LocalTruncated(Offset(5))), Ok(ReplicaOutcome::Nothing));
    let lowered = ReplicaOutcome::HighWatermarkLowered { from: Offset(5), to: Offset(3) };
    assert_eq!(set.apply(Event::LocalTruncated(Offset(3))), Ok(lowered));
    assert_eq!((set.log_end(), set.high_watermark()), (Offset(3), Offset(3)));
    elect(&mut set, 4, &[1]);
    assert_eq!(set.apply(Event::LocalTruncated(Offset(2))), Err(EventError::LeaderCut(Offset(2))));
}

#[test]
fn a_follower_s_fetch_is_checked_for_epoch_node_and_range() {
    let mut set = set(&[1, 2]);
    elect(&mut set, 4, &[1, 2]);
    assert!(matches!(fetched(&mut set, 2, 3, 0), Err(EventError::OldEpoch { .. })));
    assert!(matches!(fetched(&mut set, 2, 5, 0), Err(EventError::FutureEpoch { .. })));
    assert_eq!(fetched(&mut set, 9, 4, 0), Err(EventError::NotAReplica(NodeId(9))));
    assert!(matches!(fetched(&mut set, 2, 4, 1), Err(EventError::BeyondLogEnd { .. })));
}

#[test]
fn row_33_leader_epochs_are_fenced_unknown_or_unchecked() {
    let mut set = set(&[1, 2]);
    assert_eq!(set.check_leader_epoch(LeaderEpoch::NONE), Err(EpochCheckError::NotLeader));
    elect(&mut set, 4, &[1]);
    let current = LeaderEpoch(4);
    let cases = [
        (-1, Ok(())),
        (4, Ok(())),
        (3, Err(EpochCheckError::Fenced { given: LeaderEpoch(3), current })),
        (5, Err(EpochCheckError::Unknown { given: LeaderEpoch(5), current })),
    ];
    for (given, expected) in cases {
        assert_eq!(set.check_leader_epoch(LeaderEpoch(given)), expected, "epoch {given}");
    }
}

#[test]
fn row_10_min_in_sync_replicas() {
    let mut set = set(&[1, 2, 3]);
    elect(&mut set, 0, &[1, 2]);
    assert_eq!(set.check_min_in_sync(2), Ok(()));
    assert_eq!(set.check_min_in_sync(3), Err(MinInSyncError { in_sync: 2, required: 3 }));
}

#[test]
fn an_older_epoch_is_refused_and_another_leader_makes_this_one_resign() {
    let mut set = set(&[1, 2]);
    elect(&mut set, 4, &[1]);
    let elected = |leader: Option<NodeId>, epoch| elected(&[1, 2], leader.map(|node| node.0), epoch, &[2]);
    assert!(matches!(set.apply(elected(Some(NodeId(2)), 3)), Err(EventError::OldEpoch { .. })));
    assert!(set.is_leader());
    let resigned = ReplicaOutcome::Resigned { epoch: LeaderEpoch(5) };
    assert_eq!(set.apply(elected(Some(NodeId(2)), 5)), Ok(resigned));
    assert_eq!(set.check_leader_epoch(LeaderEpoch(5)), Err(EpochCheckError::NotLeader));
    assert_eq!(set.apply(elected(None, 6)), Ok(ReplicaOutcome::Nothing));
}

#[test]
fn the_checkpointed_high_watermark_is_clamped_into_the_log() {
    let state = |high_watermark| ReplicaSetState {
        local: LOCAL,
        replicas: vec![LOCAL],
        log_start: Offset(5),
        high_watermark: Offset(high_watermark),
        log_end: Offset(9),
        acknowledged: Offset(0),
    };
    for (given, expected) in [(0, 5), (7, 7), (100, 9)] {
        assert_eq!(ReplicaSet::new(state(given)).unwrap().high_watermark(), Offset(expected));
    }
    assert!(ReplicaSet::new(ReplicaSetState { log_start: Offset(10), ..state(0) }).is_err());
}

#[test]
fn the_log_start_moves_up_to_the_high_watermark_and_not_back() {
    let mut set = set(&[1]);
    elect(&mut set, 0, &[1]);
    set.local_ends(Offset(7), Offset(7)).unwrap();
    assert_eq!(set.local_log_start(Offset(7)), Ok(ReplicaOutcome::Nothing));
    assert!(matches!(set.local_log_start(Offset(3)), Err(EventError::WentBack { .. })));
    assert!(matches!(set.local_log_start(Offset(8)), Err(EventError::Order(_))));
    assert_eq!(set.positions(Offset(2)).last_stable, Offset(7));
}

fn any_event() -> impl Strategy<Value = Event> {
    let node = || (1..=3i32).prop_map(NodeId);
    let nodes = || prop::collection::btree_set(node(), 0..4);
    let offset = || (0..60i64).prop_map(Offset);
    let epoch = || (0..6i32).prop_map(LeaderEpoch);
    prop_oneof![
        2 => (nodes(), prop::option::of(node()), epoch(), nodes()).prop_map(|(replicas, leader, epoch, in_sync)| {
            Event::LeaderElected { replicas: replicas.into_iter().collect(), leader, epoch, in_sync: in_sync.into_iter().collect() }
        }),
        6 => (offset(), offset()).prop_map(|(log_end, acknowledged)| Event::LocalEnds { log_end, acknowledged }),
        1 => offset().prop_map(Event::LocalLogStart),
        1 => offset().prop_map(Event::LocalTruncated),
        2 => (epoch(), offset())
            .prop_map(|(epoch, high_watermark)| Event::LeaderCommitted { epoch, high_watermark }),
        1 => prop::collection::vec(node(), 0..4).prop_map(Event::InSyncProposed),
        1 => (0..4usize).prop_map(Event::MinInSyncChanged),
        4 => (node(), epoch(), offset())
            .prop_map(|(node, epoch, offset)| Event::FollowerFetched { node, epoch, from: offset }),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_order_holds_and_nothing_goes_back(
        events in prop::collection::vec(any_event(), 0..80),
    ) {
        let mut set = set(&[1, 2, 3]);
        for event in events {
            let before = set.clone();
            let outcome = set.apply(event);
            prop_assert_eq!(set.positions(Offset(0)).check(), Ok(()));
            let lowered = matches!(outcome, Ok(ReplicaOutcome::HighWatermarkLowered { .. }));
            prop_assert_eq!(lowered, set.high_watermark() < before.high_watermark());
            prop_assert!(set.leader_epoch() >= before.leader_epoch());
            match outcome {
                Err(_) => prop_assert_eq!(&set, &before),
                Ok(ReplicaOutcome::HighWatermarkAdvanced { to }) => {
                    prop_assert_eq!(to, set.high_watermark());
                    let counted = set.replicas().filter(|r| r.in_sync || set.proposed.contains(&r.node));
                    prop_assert!(!set.is_leader() || counted.map(|r| r.acknowledged).min() == Some(to));
                }
                Ok(ReplicaOutcome::HighWatermarkLowered { .. }) => prop_assert!(!set.is_leader()),
                Ok(ReplicaOutcome::BecameLeader { high_watermark, .. }) => {
                    prop_assert_eq!(high_watermark, set.high_watermark());
                }
                Ok(_) => prop_assert_eq!(set.high_watermark(), before.high_watermark()),
            }
        }
    }
}

#[test]
fn a_leader_is_alone_while_only_its_own_log_counts() {
    let mut set = set(&[1, 2]);
    assert!(!set.is_alone(), "it does not lead");
    elect(&mut set, 0, &[1]);
    assert!(set.is_alone());
    set.apply(Event::InSyncProposed(vec![NodeId(1), NodeId(2)])).unwrap();
    assert!(!set.is_alone(), "who is proposed counts");
    elect(&mut set, 1, &[1, 2]);
    assert!(!set.is_alone());
    elect(&mut set, 2, &[]);
    assert!(!set.is_alone(), "too few are in sync");
    elect(&mut set, 3, &[1]);
    set.apply(Event::MinInSyncChanged(2)).unwrap();
    assert!(!set.is_alone());
}
