//! Expiry of offsets and groups (KIP-211).

use mainstem_coordinator::{CommitPartition, GroupConfig};
use mainstem_types::{Offset, PartitionIndex};

use crate::bed::{Bed, GROUP, Join, subscription};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// One interval between two sweeps.
const SWEEP_MS: u64 = 600_000;

/// Lets a member live on for `ms`.
fn keep_alive(bed: &mut Bed, member_id: &str, generation: i32, ms: u64) {
    for _ in 0..ms / 1_200_000 {
        bed.pass_ms(1_200_000);
        assert_eq!(bed.heartbeat(member_id, generation), Ok(()));
    }
}

/// A stable group of one member with a long session that reads `topic`.
fn one_member(bed: &mut Bed, topic: &str) -> (String, i32) {
    let join = Join {
        session_timeout_ms: 1_800_000,
        protocols: vec![("range".into(), subscription(&[topic]))],
        ..Join::default()
    };
    let token = bed.join(&join);
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    bed.sync(&joined.member_id, joined.generation, &[]);
    (joined.member_id.to_string(), joined.generation)
}

#[test]
fn offsets_of_a_simple_consumer_expire_seven_days_after_the_commit_and_the_group_goes() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 5).unwrap();
    bed.pass_ms(7 * DAY_MS - 1);
    assert_eq!(bed.fetch(false).offset, Offset(5));
    bed.pass_ms(SWEEP_MS + 1);
    for _ in 0..2 {
        assert_eq!(bed.fetch(false).offset, Offset(-1));
        assert_eq!(bed.state(), "Dead");
        bed.restart();
    }
}

#[test]
fn offsets_of_a_group_with_members_do_not_expire_by_the_age_of_the_commit() {
    let mut bed = Bed::new();
    let (member, generation) = one_member(&mut bed, "orders");
    bed.commit_as(&member, generation, 5).unwrap();
    keep_alive(&mut bed, &member, generation, 20 * DAY_MS);
    assert_eq!(bed.fetch(false).offset, Offset(5));
}

#[test]
fn offsets_expire_seven_days_after_the_group_became_empty() {
    let mut bed = Bed::new();
    let (member, generation) = one_member(&mut bed, "orders");
    bed.commit_as(&member, generation, 5).unwrap();
    keep_alive(&mut bed, &member, generation, 10 * DAY_MS);
    bed.leave(&[(&member, None)]);
    bed.pass_ms(6 * DAY_MS);
    bed.restart();
    bed.pass_ms(DAY_MS - 1);
    assert_eq!(bed.fetch(false).offset, Offset(5), "counted from the stored moment, over a restart");
    bed.pass_ms(2 * SWEEP_MS);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
    assert_eq!(bed.state(), "Dead");
}

#[test]
fn offsets_of_topics_that_a_stable_group_no_longer_reads_expire() {
    let mut bed = Bed::new();
    let (member, generation) = one_member(&mut bed, "payments");
    bed.commit_as(&member, generation, 5).unwrap();
    keep_alive(&mut bed, &member, generation, 6 * DAY_MS);
    assert_eq!(bed.fetch(false).offset, Offset(5));
    keep_alive(&mut bed, &member, generation, DAY_MS + 2 * SWEEP_MS);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
    assert_eq!(bed.state(), "Stable");
}

#[test]
fn offsets_of_a_group_whose_subscription_cannot_be_read_stay() {
    let mut bed = Bed::new();
    let join = Join { session_timeout_ms: 1_800_000, protocols: vec![("range".into(), vec![1])], ..Join::default() };
    let token = bed.join(&join);
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    bed.sync(&joined.member_id, joined.generation, &[]);
    bed.commit_as(&joined.member_id, joined.generation, 5).unwrap();
    keep_alive(&mut bed, &joined.member_id, joined.generation, 8 * DAY_MS);
    assert_eq!(bed.fetch(false).offset, Offset(5));
}

#[test]
fn a_retention_in_the_request_overrides_the_brokers() {
    let mut bed = Bed::new();
    bed.commit_with(5, |request| request.retention_ms = Some(DAY_MS as i64)).unwrap();
    bed.restart();
    bed.pass_ms(DAY_MS - 1);
    assert_eq!(bed.fetch(false).offset, Offset(5));
    bed.pass_ms(SWEEP_MS + 1);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
}

#[test]
fn an_empty_group_without_offsets_goes_with_the_next_sweep_unless_somebody_is_about_to_join() {
    let mut bed = Bed::new();
    let told = Join { requires_known_member_id: true, session_timeout_ms: 1_000_000, ..Join::default() };
    assert!(bed.join_now(&told).is_err());
    bed.pass_ms(SWEEP_MS);
    assert_eq!(bed.state(), "Empty", "a pending member");
    bed.pass_ms(SWEEP_MS);
    assert_eq!(bed.state(), "Dead");
    bed.restart();
    assert_eq!(bed.state(), "Dead");
}

#[test]
fn a_large_sweep_comes_in_parts_of_a_thousand_records() {
    let mut bed = Bed::new();
    for group in ["a", "b", "c"] {
        bed.commit_with(5, |request| {
            request.group_id = group;
            let one = request.topics[0].partitions[0];
            let all = (0..900).map(|partition| CommitPartition { partition: PartitionIndex(partition), ..one });
            request.topics[0].partitions = all.collect();
        })
        .unwrap();
    }
    let before = bed.log.len();
    bed.pass_ms(7 * DAY_MS - 1);
    let mut largest = 0;
    for _ in 0..10 {
        let length = bed.log.len();
        bed.pass_ms(if length == before { SWEEP_MS } else { 1 });
        largest = largest.max(bed.log.len() - length);
    }
    assert_eq!(bed.log.len() - before, 3 * 900 + 3);
    assert!(largest <= 3_000, "a sweep's parts may fall into one step of the clock");
    assert_eq!(bed.shard.list_groups(&[], &[]).unwrap(), vec![]);
    bed.restart();
    assert_eq!(bed.shard.list_groups(&[], &[]).unwrap(), vec![]);
}

#[test]
fn nothing_expires_while_a_group_rebalances() {
    let config =
        GroupConfig { offsets_retention_ms: 1, offsets_retention_check_interval_ms: 10, ..GroupConfig::default() };
    let mut bed = Bed::with_config(config);
    let (member, generation) = one_member(&mut bed, "orders");
    bed.commit_as(&member, generation, 5).unwrap();
    bed.join(&Join { group: GROUP.into(), ..Join::default() });
    assert_eq!(bed.state(), "PreparingRebalance");
    bed.pass_ms(1_000);
    assert_eq!(bed.fetch(false).offset, Offset(5));
}
