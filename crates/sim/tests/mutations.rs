//! Each rule that is broken on purpose is noticed, by the invariant that is there for it, within a few seeds.

use mainstem_sim::{Mutation, Run, Scenario, run, run_judged_by, shrink};

const COMMITTED: &str = "committed records are never lost, changed, reordered or repeated";
const ACKNOWLEDGED: &str = "acknowledged records are in every later leader's log";
const OFFSETS: &str = "committed offsets are never lost and never go back";
const GROUPS: &str = "the live state of groups is a replay of their log";
const GENERATIONS: &str = "generations ascend, and a partition has one owner in each";
const METADATA: &str = "every image is a replay of the committed metadata";

const IN_SYNC: &str = "each member of the in-sync set has everything that is committed";
const RECOVERY: &str = "a restart keeps what the durability promises";

const SEEDS_MAX: u64 = 60;

/// The first seed at which one of these invariants notices, alone. With all of them another may be faster: a broken
/// rule has many effects.
fn noticed(mutation: Mutation, by: &[&str]) -> u64 {
    noticed_from(1, mutation, by, |scenario| run_judged_by(scenario, by))
}

/// As [`noticed`], from this seed on, for rules that matter only after several rare events in a row.
fn noticed_from(first: u64, mutation: Mutation, by: &[&str], judge: impl Fn(&Scenario) -> Run) -> u64 {
    let found = (first..first + SEEDS_MAX).find(|seed| {
        let violation = judge(&Scenario::of(*seed).with(Some(mutation))).violation;
        violation.is_some_and(|violation| by.contains(&violation.invariant.as_str()))
    });
    found.unwrap_or_else(|| panic!("{mutation:?} is not noticed in {SEEDS_MAX} seeds from {first} on by {by:?}"))
}

#[test]
fn broken_replication_is_noticed() {
    for mutation in [
        Mutation::WatermarkOfLeaderAlone,
        Mutation::AnswerBeforeInSync,
        Mutation::NoTruncation,
        Mutation::TruncateToWatermark,
        Mutation::UncleanElection,
    ] {
        noticed(mutation, &[COMMITTED, ACKNOWLEDGED]);
    }
}

#[test]
fn broken_in_sync_sets_and_syncs_are_noticed() {
    noticed(Mutation::JoinAtWatermark, &[IN_SYNC]);
    noticed(Mutation::PendingNotCounted, &[IN_SYNC]);
    noticed_from(300, Mutation::OldIncarnationCounts, &[IN_SYNC], run);
    noticed(Mutation::FollowerDoesNotSync, &[RECOVERY]);
}

#[test]
fn broken_coordinators_and_metadata_are_noticed() {
    noticed(Mutation::LossyReplay, &[GROUPS]);
    noticed(Mutation::GroupAnswersEarly, &[OFFSETS, GENERATIONS]);
    noticed(Mutation::LossyMetadata, &[METADATA]);
}

#[test]
fn a_failing_run_becomes_small_and_its_command_leads_to_the_same_violation() {
    let seed = noticed_from(1, Mutation::AnswerBeforeInSync, &[ACKNOWLEDGED], run);
    let whole = Scenario::of(seed).with(Some(Mutation::AnswerBeforeInSync));
    let shrunk = shrink(&whole, 150).unwrap();
    let count = shrunk.scenario.items.len();
    assert!(count * 3 < whole.items.len(), "{count} of {} items are left", whole.items.len());
    let command = shrunk.scenario.command();
    let kept = command.split_once("--keep ").unwrap().1.split_whitespace().next().unwrap();
    let kept: Vec<usize> = kept.split(',').map(|number| number.parse().unwrap()).collect();
    let again = run(&whole.keeping(&kept));
    assert_eq!(again.violation.unwrap().invariant, ACKNOWLEDGED);
    assert_eq!(again.trace, shrunk.run.trace);
}

#[test]
fn a_run_without_a_violation_is_not_shrunk() {
    assert!(shrink(&Scenario::of(1), 10).is_none());
}
