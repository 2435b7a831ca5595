//! A few hundred seeds hold every rule, and a seed says all there is about a run.

use std::sync::atomic::{AtomicU64, Ordering};

use mainstem_sim::{Scenario, run, shrink};

/// How many seeds each run of the tests plays; `cargo xtask sim` plays more.
const SEEDS: u64 = 200;

/// The first failing seed, small, as text.
fn report(seed: u64) -> String {
    match shrink(&Scenario::of(seed), 200) {
        None => format!("seed {seed} failed once and then did not: it depends on more than the seed"),
        Some(shrunk) => {
            let items: Vec<String> = shrunk.scenario.items.iter().map(ToString::to_string).collect();
            format!(
                "seed {seed} fails; the trace before it:\n{}\n\nitems that are needed:\n{}\nrun it again: {}",
                shrunk.run.trace.tail(40),
                items.join("\n"),
                shrunk.scenario.command()
            )
        }
    }
}

#[test]
fn no_rule_is_violated() {
    let (next, failed) = (AtomicU64::new(1), AtomicU64::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == 0 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > SEEDS {
                        return;
                    }
                    if run(&Scenario::of(seed)).violation.is_some() {
                        failed.store(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = failed.into_inner();
    assert!(seed == 0, "{}", report(seed));
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [1, 7, 22, 84, 1_000_003] {
        let (one, other) = (run(&Scenario::of(seed)), run(&Scenario::of(seed)));
        assert!(one.trace == other.trace, "seed {seed} gave two traces");
        assert!(one.trace.lines() > 1_000, "seed {seed} did next to nothing");
    }
    assert!(run(&Scenario::of(1)).trace != run(&Scenario::of(2)).trace);
}

/// A run without records, elections and cuts proves nothing.
#[test]
fn seeds_reach_what_they_are_for() {
    let runs: Vec<_> = (1..=12).map(|seed| run(&Scenario::of(seed))).collect();
    let sum = |of: fn(&mainstem_sim::Run) -> u64| runs.iter().map(of).sum::<u64>();
    assert!(sum(|run| run.acknowledged) > 200, "too few records");
    assert!(sum(|run| run.elections) > 3 * 12, "no election but the first ones");
    assert!(sum(|run| run.truncations) > 3 * 12, "no truncation but of empty logs");
}
