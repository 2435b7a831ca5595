//! A stop at every write and every sync, and again during the recovery from it.
//!
//! Each stop is looked at with one of the two durabilities and one of the four things that a power cut may leave.
//! `MAINSTEM_SEED=<n>` chooses others, other places for the second stop, and other torn images; `MAINSTEM_FULL=1` looks
//! at all (three minutes). A failure says what reproduces it.

mod support;

use std::sync::Arc;

use mainstem_env::{CrashPolicy, ManualClock, MemFs, SeededRng};
use support::check::{check, note};
use support::scenarios::{Scenario, named};
use support::{Client, Ledger, Node, clock};

/// How a stop is placed, and what the disk is after it.
struct Place {
    scenario: &'static str,
    stop: u64,
    policy: CrashPolicy,
    seed: u64,
}

impl Place {
    fn fail(&self, what: &str, error: &str) -> ! {
        let Place { scenario, stop, policy, seed } = self;
        panic!(
            "{scenario}, stopped after {stop} changes, {policy:?}, {what}: {error} (MAINSTEM_SEED={seed} MAINSTEM_FULL=1)"
        );
    }
}

fn seed() -> u64 {
    std::env::var("MAINSTEM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Runs the scenario on a disk that stops after `stop` changes. Gives the number of changes if it did not come to that.
fn run(scenario: &Scenario, clock: &Arc<ManualClock>, stop: u64) -> (MemFs, Ledger, Option<u64>) {
    let fs = MemFs::new();
    let node = Node::start(&fs, clock, &scenario.settings, 7).expect("a new folder");
    let mut client = Client::new(&node, Ledger::default());
    (scenario.before)(&mut client);
    note(&node, &mut client.ledger);
    let before = fs.mutations();
    fs.stop_after(stop);
    (scenario.run)(&mut client);
    let changes = (!fs.stopped()).then(|| fs.mutations() - before);
    // The shutdown that follows must not reach the disk.
    fs.stop_after(0);
    (fs.clone(), client.ledger, changes)
}

/// What is looked at for one stop: a rotation, so that each kind comes to each part of a scenario.
fn policies(variant: u64, stop: u64, torn: u64) -> Vec<CrashPolicy> {
    let all = [CrashPolicy::Torn(torn), CrashPolicy::Nothing, CrashPolicy::Torn(!torn), CrashPolicy::Everything];
    let rotation = seed() + stop;
    match std::env::var_os("MAINSTEM_FULL") {
        Some(_) => all.to_vec(),
        None if rotation % 2 != variant => Vec::new(),
        None => vec![all[(rotation / 2 % 4) as usize]],
    }
}

fn every_stop(name: &str) {
    for (variant, scenario) in (0..).zip(named(name)) {
        let mut stop = 0;
        loop {
            let clock = clock();
            let (fs, ledger, finished) = run(&scenario, &clock, stop);
            let seed = seed().wrapping_mul(1_000_003).wrapping_add(stop);
            for policy in policies(variant, stop, seed) {
                let place = Place { scenario: scenario.name, stop, policy, seed: self::seed() };
                after_crash(&scenario, &clock, &fs.crash(policy), &ledger.after(policy), &place, seed);
            }
            if finished.is_some() {
                break;
            }
            stop += 1;
        }
    }
}

fn after_crash(
    scenario: &Scenario,
    clock: &Arc<ManualClock>,
    image: &MemFs,
    ledger: &Ledger,
    place: &Place,
    seed: u64,
) {
    let copy = image.crash(CrashPolicy::Everything);
    let changes = go_on(scenario, clock, &copy, ledger.clone(), place, "after one stop");
    // And again, in the middle of that start.
    let rng = SeededRng::new(seed);
    let again = image.crash(CrashPolicy::Everything);
    again.stop_after(rng.below(changes));
    drop(Node::start(&again, clock, &scenario.settings, seed));
    let policies = [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(seed)];
    let policy = policies[rng.below(3) as usize];
    go_on(scenario, clock, &again.crash(policy), ledger.clone(), place, "after another stop during recovery");
}

/// Starts, checks, works, stops orderly, starts and checks once more. Gives the number of changes of the first start.
fn go_on(
    scenario: &Scenario,
    clock: &Arc<ManualClock>,
    fs: &MemFs,
    mut ledger: Ledger,
    place: &Place,
    what: &str,
) -> u64 {
    let start = |what: &str| {
        Node::start(fs, clock, &scenario.settings, 11).unwrap_or_else(|error| place.fail(what, &error.to_string()))
    };
    let node = start(what);
    let changes = fs.mutations();
    check(&node, &mut ledger).unwrap_or_else(|error| place.fail(what, &error));
    let mut client = Client::new(&node, ledger);
    client.next_value += 1_000_000;
    assert!(client.create(&[("afterwards", 1, &[])]), "a topic is created {what}");
    let names: Vec<String> =
        client.ledger.topics.values().filter(|t| !t.deletion_tried).map(|t| t.name.clone()).collect();
    for name in names.iter().filter(|name| !name.starts_with("__")) {
        assert!(client.produce(name, 0, 1), "{name} is written {what}");
    }
    client.producer().expect("a producer id");
    if node.broker.consumer_groups().is_available() {
        assert!(client.commit("afterwards", "afterwards", 0, 1), "an offset is committed {what}");
    }
    let mut ledger = client.ledger;
    drop(node);
    let node = start("after an orderly stop");
    check(&node, &mut ledger).unwrap_or_else(|error| place.fail("after an orderly stop", &error));
    changes
}

macro_rules! scenarios {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { every_stop($name); })*
    };
}

scenarios! {
    creation: "creation",
    deletion: "deletion",
    creation_again_under_the_same_name: "creation again",
    more_partitions: "more partitions",
    settings: "settings",
    produce: "produce",
    roll: "roll",
    retention: "retention",
    delete_records: "delete records",
    checkpoints: "checkpoints",
    snapshots: "snapshots",
    groups: "groups",
    producers: "producers",
    orderly_stop: "orderly stop",
    common_commit_logs: "common commit logs",
    life_in_common_commit_logs: "life in common commit logs",
}
