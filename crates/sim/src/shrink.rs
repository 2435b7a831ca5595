//! Makes a failing run small: leaves items out as long as the same rule is violated (delta debugging).

use crate::scenario::Scenario;
use crate::world::{Run, run};

/// The smallest scenario that was found, and its run.
#[derive(Debug)]
pub struct Shrunk {
    pub scenario: Scenario,
    pub run: Run,
    /// How many runs it took.
    pub tries: usize,
}

/// Tries at most `tries_max` runs. `None`: the scenario does not fail.
pub fn shrink(scenario: &Scenario, tries_max: usize) -> Option<Shrunk> {
    let first = run(scenario);
    let rule = first.violation.as_ref()?.invariant.clone();
    let mut best = Shrunk { scenario: scenario.clone(), run: first, tries: 1 };
    drop_late_items(&mut best);
    // Faults go first: fewer faults explain more than fewer records.
    for faults in [true, false] {
        let mut size = best.scenario.items.len().div_ceil(2);
        while size >= 1 {
            if !pass(&mut best, &rule, faults, size, tries_max) || size == 1 {
                size /= 2;
            }
        }
    }
    Some(best)
}

/// Whatever happens after the violation has nothing to do with it.
fn drop_late_items(best: &mut Shrunk) {
    if let Some(violation) = &best.run.violation {
        let at_us = violation.at_us;
        best.scenario.items.retain(|item| item.at_ms * 1_000 <= at_us);
    }
}

/// Leaves out `size` neighbouring items at a time. True: something could go.
fn pass(best: &mut Shrunk, rule: &str, faults: bool, size: usize, tries_max: usize) -> bool {
    let mut from = 0;
    let mut better = false;
    loop {
        let kind: Vec<usize> =
            best.scenario.items.iter().filter(|item| item.action.is_fault() == faults).map(|i| i.number).collect();
        if from >= kind.len() || best.tries >= tries_max {
            return better;
        }
        let leave = &kind[from..(from + size).min(kind.len())];
        let kept: Vec<usize> =
            best.scenario.items.iter().map(|item| item.number).filter(|number| !leave.contains(number)).collect();
        let smaller = best.scenario.keeping(&kept);
        let tried = run(&smaller);
        best.tries += 1;
        if tried.violation.as_ref().is_some_and(|violation| violation.invariant == rule) {
            best.scenario = smaller;
            best.run = tried;
            drop_late_items(best);
            better = true;
        } else {
            from += size;
        }
    }
}
