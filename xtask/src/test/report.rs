//! What came of each suite, said while it happens and once more at the end.

use super::counts::{Counts, Runner};
use super::process;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Lines of a failed suite's output that are shown.
const SHOWN_LINES: usize = 80;

#[derive(Debug)]
pub struct Report {
    pub name: String,
    pub counts: Counts,
    pub problems: Vec<String>,
}

impl Report {
    /// A suite that could not run.
    pub fn broken(name: &str, problem: String) -> Self {
        let mut report = Self { name: name.to_owned(), counts: Counts::default(), problems: Vec::new() };
        report.add_problem(problem);
        report
    }

    pub fn is_good(&self) -> bool {
        self.counts.failed == 0 && self.problems.is_empty()
    }

    /// A problem beside the tests' own results; it makes at least one failure.
    pub fn add_problem(&mut self, problem: String) {
        println!("{}: {problem}", self.name);
        self.problems.push(problem);
        self.counts.failed = self.counts.failed.max(1);
    }
}

/// Says what starts and ends, with the seconds since the beginning.
pub struct Progress {
    began: Instant,
}

impl Progress {
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub fn say(&self, text: &str) {
        println!("[{:4} s] {text}", self.began.elapsed().as_secs());
    }

    /// Runs a suite's command, its output into `log`, and understands the outcome.
    pub fn run(&self, name: &str, runner: Runner, command: Command, log: &Path, limit: Duration) -> Report {
        self.say(&format!("{name} starts"));
        let outcome = process::run_logged(command, log, limit);
        let output = std::fs::read(log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let counts = Counts::read(runner, &output);
        let mut report = Report { name: name.to_owned(), counts, problems: Vec::new() };
        let counts = &report.counts;
        self.say(&format!("{name} ends: {} passed, {} failed", counts.passed, counts.failed));
        let problem = match outcome {
            Ok(()) if runner != Runner::None && counts.passed + counts.failed == 0 => Some("it ran no test".to_owned()),
            Ok(()) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        if problem.is_some() || report.counts.failed > 0 {
            let lines: Vec<&str> = output.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"));
            println!("{name}: all of its output is in {}", log.display());
        }
        if let Some(problem) = problem {
            report.add_problem(problem);
        }
        report
    }
}

/// Prints every runner's closing lines, then the sum alone on the last line; true when nothing failed.
pub fn close(reports: &[Report]) -> bool {
    println!();
    for report in reports {
        let lines = report.counts.failures.iter().chain(&report.counts.closing).chain(&report.problems);
        lines.for_each(|line| println!("{}: {line}", report.name));
    }
    let sum = |part: fn(&Counts) -> usize| reports.iter().map(|report| part(&report.counts)).sum::<usize>();
    let (passed, failed, skipped) = (sum(|c| c.passed), sum(|c| c.failed), sum(|c| c.skipped));
    let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    println!("{passed} passed, {failed} failed{skipped}");
    failed == 0 && passed > 0
}
