//! Every call of the disk fails once, in every scenario: the log that it belongs to stops, all others go on, nothing
//! waits for ever, and a restart recovers.
//!
//! `MAINSTEM_SEED=<n>` chooses other calls where there are too many; a failure says what reproduces it.

mod support;

use std::sync::Arc;

use mainstem_broker::RecordsToDelete;
use mainstem_env::{CrashPolicy, Fault, FaultAction, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, Offset, PartitionIndex};
use support::check::{check, note};
use support::scenarios::{Scenario, all, named};
use support::{Client, Ledger, Node, broker_panics, clock};

/// Calls that are failed in one scenario, by each action.
const CALLS_MAX: u64 = 12;
const ACTIONS: [FaultAction; 4] =
    [FaultAction::Io, FaultAction::NoSpace, FaultAction::Short(7), FaultAction::Interrupted];

fn seed() -> u64 {
    std::env::var("MAINSTEM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

struct Place {
    scenario: &'static str,
    nth: u64,
    action: FaultAction,
}

impl Place {
    fn fail(&self, what: &str, error: &str) -> ! {
        let Place { scenario, nth, action } = self;
        panic!("{scenario}, call {nth} fails with {action:?}, {what}: {error} (MAINSTEM_SEED={})", seed());
    }
}

/// All calls if they are few, else some of them.
fn chosen(calls: u64, salt: u64) -> Vec<u64> {
    if calls <= CALLS_MAX {
        return (1..=calls).collect();
    }
    let rng = SeededRng::new(seed().wrapping_mul(31).wrapping_add(salt));
    (0..CALLS_MAX).map(|part| 1 + (part * calls + rng.below(calls)) / CALLS_MAX).collect()
}

/// Runs the scenario with one failing call; 0: with none. Gives the number of calls that it made.
fn run(scenario: &Scenario, place: &Place) -> u64 {
    let (fs, clock) = (MemFs::new(), clock());
    let node = Node::start(&fs, &clock, &scenario.settings, 7).expect("a new folder");
    let mut client = Client::new(&node, Ledger::default());
    (scenario.before)(&mut client);
    note(&node, &mut client.ledger);
    let before = fs.calls();
    if place.nth > 0 {
        fs.plan_fault(Fault::any(place.nth).with(place.action));
    }
    (scenario.run)(&mut client);
    let calls = fs.calls() - before;
    fs.clear_faults();
    others_go_on(&mut client, place);
    let ledger = client.ledger;
    // A power cut now: what was acknowledged as durable is there, whatever the disk said meanwhile.
    restart(
        scenario,
        &clock,
        &fs.crash(CrashPolicy::Nothing),
        ledger.after(CrashPolicy::Nothing),
        place,
        "after a power cut",
    );
    drop(node);
    restart(scenario, &clock, &fs, ledger, place, "after a restart");
    calls
}

/// Logs that did not fail take writes; a failed one refuses them at once, and says where.
fn others_go_on(client: &mut Client<'_>, place: &Place) {
    if client.node.broker.topics().is_empty() || client.node.broker.is_stopping() {
        return;
    }
    let topics: Vec<_> = client.node.broker.topics().iter().cloned().collect();
    for topic in topics.iter().filter(|topic| !topic.is_internal()) {
        let failed: Vec<_> = topic.partitions.iter().map(|partition| partition.log().failure()).collect();
        for (partition, failed) in topic.partitions.iter().zip(failed) {
            let known = client.ledger.topic_named(&topic.name) == Some(topic.id);
            let taken = known && client.produce(&topic.name, partition.index.0, 1);
            match failed {
                Some(error) if taken => place.fail("a failed log takes writes", &error.to_string()),
                Some(error) if !error.to_string().contains("/data/") => place.fail("where?", &error.to_string()),
                None if known && !taken => {
                    place.fail("a good log", &format!("{}-{} refuses", topic.name, partition.index))
                }
                _ => {}
            }
        }
    }
}

fn restart(scenario: &Scenario, clock: &Arc<ManualClock>, fs: &MemFs, mut ledger: Ledger, place: &Place, what: &str) {
    let node = Node::start(fs, clock, &scenario.settings, 11);
    let node = node.unwrap_or_else(|error| place.fail(what, &error.to_string()));
    check(&node, &mut ledger).unwrap_or_else(|error| place.fail(what, &error));
    let mut client = Client::new(&node, ledger);
    client.next_value += 1_000_000;
    others_go_on(&mut client, place);
    if broker_panics() > 0 {
        place.fail(what, "a thread of the broker panicked");
    }
}

fn every_call(name: &str) {
    for (number, scenario) in (0..).zip(named(name)) {
        let calls = run(&scenario, &Place { scenario: scenario.name, nth: 0, action: FaultAction::Io });
        for (action_number, action) in (0..).zip(ACTIONS) {
            for nth in chosen(calls, number * 10 + action_number) {
                run(&scenario, &Place { scenario: scenario.name, nth, action });
            }
        }
    }
}

/// A log that failed and one that cannot be created are told of, and are nobody else's concern.
#[test]
fn an_error_is_told_of_the_partition_that_it_belongs_to() {
    let (fs, clock) = (MemFs::new(), clock());
    let one_shard = vec![("offsets.topic.num.partitions", "1")];
    let node = Node::start(&fs, &clock, &one_shard, 7).expect("a new folder");
    let mut client = Client::new(&node, Ledger::default());
    assert!(client.create(&[("bad", 1, &[]), ("good", 1, &[])]));
    for topic in ["bad", "good"] {
        assert!(client.produce(topic, 0, 5));
    }
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("/bad-0/"));
    let delete = || {
        let wanted = |topic: &str| RecordsToDelete {
            topic: topic.to_owned(),
            partition: PartitionIndex(0),
            before: Some(Offset(3)),
        };
        node.wait(node.broker.delete_records(vec![wanted("bad"), wanted("good")])).expect("the broker runs")
    };
    for results in [delete(), delete()] {
        assert!(results[0].is_err(), "the disk of this one failed");
        assert_eq!(results[1].as_ref().ok(), Some(&Offset(3)));
    }
    fs.plan_fault(Fault::of(OpKind::Open, 1).on("/more-1/").with(FaultAction::NoSpace));
    assert!(client.create(&[("more", 3, &[])]));
    assert!(client.produce("more", 0, 1) && client.produce("more", 2, 1) && client.produce("good", 0, 1));
    assert!(!client.produce("more", 1, 1), "its folder cannot be created");
    assert!(client.produce("more", 1, 1), "the next append tries again");
    fs.plan_fault(Fault::of(OpKind::CreateDir, 1).on("/good-1"));
    assert!(client.create_partitions("good", 2));
    assert!(!client.produce("good", 1, 1) && client.produce("good", 0, 1));
    assert!(client.produce("good", 1, 1));
    fs.plan_fault(Fault::of(OpKind::CreateDir, 1).on(CONSUMER_OFFSETS_TOPIC));
    let _ = node.wait(node.broker.create_offsets_topic());
    let unserved = node.broker.unserved_partitions(CONSUMER_OFFSETS_TOPIC);
    assert_eq!(unserved, [PartitionIndex(0)], "the folders of the broker's own topics are created at once");
    assert_eq!(node.broker.unserved_partitions("good"), []);
}

/// A start that meets a failing call ends with a clear error, or serves what it can; the next one has everything.
#[test]
fn starts() {
    for scenario in all().iter().filter(|s| ["groups", "orderly stop", "snapshots"].contains(&s.name)) {
        let (fs, clock) = (MemFs::new(), clock());
        let mut node = Some(Node::start(&fs, &clock, &scenario.settings, 7).expect("a new folder"));
        let mut client = Client::new(node.as_ref().expect("started"), Ledger::default());
        (scenario.before)(&mut client);
        note(client.node, &mut client.ledger);
        (scenario.run)(&mut client);
        let ledger = client.ledger;
        let image = fs.crash(CrashPolicy::Everything);
        node.take();
        let counted = image.crash(CrashPolicy::Everything);
        drop(Node::start(&counted, &clock, &scenario.settings, 8));
        for (action_number, action) in (0..).zip(ACTIONS) {
            for nth in chosen(counted.calls(), action_number) {
                let place = Place { scenario: scenario.name, nth, action };
                let fs = image.crash(CrashPolicy::Everything);
                fs.plan_fault(Fault::any(nth).with(action));
                match Node::start(&fs, &clock, &scenario.settings, 8) {
                    Ok(started) => drop(started),
                    Err(error) if error.to_string().is_empty() => place.fail("a start", "an error without words"),
                    Err(_) => {}
                }
                fs.clear_faults();
                restart(scenario, &clock, &fs, ledger.clone(), &place, "after a start that met the fault");
            }
        }
    }
}

macro_rules! scenarios {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { every_call($name); })*
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
}
