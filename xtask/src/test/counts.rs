//! What the test runners say at their end, each in its own words.

/// Lines that name failed tests which are shown.
const SHOWN_FAILURES: usize = 24;

/// A test runner whose output is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    Cargo,
    Pytest,
    Node,
    Go,
    Maven,
    /// No tests: success is all that counts.
    None,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// The runner's own closing lines.
    pub closing: Vec<String>,
    /// The lines that name the tests that failed.
    pub failures: Vec<String>,
}

impl Counts {
    pub fn read(runner: Runner, output: &str) -> Self {
        let mut counts = Self::default();
        match runner {
            Runner::Cargo => counts.read_cargo(output),
            Runner::Pytest => counts.read_pytest(output),
            Runner::Node => counts.read_node(output),
            Runner::Go => counts.read_go(output),
            Runner::Maven => counts.read_maven(output),
            Runner::None => {}
        }
        if counts.failed > 0 {
            counts.failures = failures(runner, output);
        }
        counts
    }

    fn read_cargo(&mut self, output: &str) {
        for line in output.lines().filter(|line| line.starts_with("test result:")) {
            let passed = number_before(line, " passed");
            self.passed += passed;
            self.failed += number_before(line, " failed");
            self.skipped += number_before(line, " ignored");
            if passed > 0 || !line.starts_with("test result: ok") {
                self.closing.push(line.to_owned());
            }
        }
    }

    fn read_pytest(&mut self, output: &str) {
        let is_last = |line: &&str| {
            line.contains(" in ") && (line.contains("passed") || line.contains("failed") || line.contains("error"))
        };
        let Some(line) = output.lines().rev().find(is_last) else { return };
        self.passed = number_before(line, " passed");
        self.failed = number_before(line, " failed") + number_before(line, " error");
        self.skipped = number_before(line, " skipped");
        self.closing.push(line.trim_matches(['=', ' ']).to_owned());
    }

    fn read_node(&mut self, output: &str) {
        for line in output.lines().filter(|line| line.starts_with("# ")) {
            let mut words = line[2..].split_whitespace();
            let (Some(word), Some(number), None) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "pass" => self.passed = number,
                "fail" | "cancelled" => self.failed += number,
                "skipped" | "todo" => self.skipped += number,
                "tests" => {}
                _ => continue,
            }
            self.closing.push(line.to_owned());
        }
    }

    fn read_go(&mut self, output: &str) {
        for line in output.lines() {
            match line.trim_start() {
                line if line.starts_with("--- PASS:") => self.passed += 1,
                line if line.starts_with("--- FAIL:") => self.failed += 1,
                line if line.starts_with("--- SKIP:") => self.skipped += 1,
                "PASS" | "FAIL" => self.closing.push(line.to_owned()),
                _ => {}
            }
        }
    }

    fn read_maven(&mut self, output: &str) {
        let is_sum = |line: &&str| line.contains("Tests run:") && !line.contains("Time elapsed");
        let Some(line) = output.lines().rev().find(is_sum) else { return };
        let line = &line[line.find("Tests run:").unwrap_or(0)..];
        let total = number_after(line, "Tests run: ");
        self.failed = number_after(line, "Failures: ") + number_after(line, "Errors: ");
        self.skipped = number_after(line, "Skipped: ");
        self.passed = total.saturating_sub(self.failed + self.skipped);
        self.closing.push(line.to_owned());
    }
}

/// What a runner's output says of each test that failed: its line in the listing, and a panic's line with the one after
/// it.
fn failures(runner: Runner, output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let mut named = Vec::new();
    for (at, line) in lines.iter().map(|line| line.trim()).enumerate() {
        let is_panic = runner == Runner::Cargo && line.starts_with("thread '") && line.contains("panicked at");
        let is_name = match runner {
            Runner::Cargo => line.starts_with("test ") && line.ends_with("FAILED"),
            Runner::Pytest => line.starts_with("FAILED ") || line.starts_with("ERROR "),
            Runner::Node => line.starts_with("not ok "),
            Runner::Go => line.starts_with("--- FAIL:"),
            Runner::Maven => line.starts_with("[ERROR]") && line.contains("Time elapsed") && line.contains("<<<"),
            Runner::None => false,
        };
        if is_name || is_panic {
            named.push(line.to_owned());
        }
        if is_panic {
            named.extend(lines.get(at + 1).map(|line| line.to_string()));
        }
    }
    // A property test panics once for each step of its shrinking; its last words count.
    let skip = named.len().saturating_sub(SHOWN_FAILURES);
    named.split_off(skip)
}

fn number_before(line: &str, word: &str) -> usize {
    let before = line.find(word).map_or("", |at| &line[..at]);
    let digits = before.rfind(|c: char| !c.is_ascii_digit()).map_or(before, |at| &before[at + 1..]);
    digits.parse().unwrap_or(0)
}

fn number_after(line: &str, word: &str) -> usize {
    let after = line.find(word).map_or("", |at| &line[at + word.len()..]);
    after.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(runner: Runner, output: &str) -> (usize, usize, usize) {
        let counts = Counts::read(runner, output);
        (counts.passed, counts.failed, counts.skipped)
    }

    #[test]
    fn cargo_is_summed_over_its_binaries() {
        let output = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                      test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n\
                      test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(three(Runner::Cargo, output), (15, 2, 1));
        assert_eq!(Counts::read(Runner::Cargo, output).closing.len(), 2, "a binary without tests says nothing");
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\nthread 'a::c' (7) panicked at src/a.rs:3:5:\nleft is not right\nnote: x\n\
                      test a::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let named = Counts::read(Runner::Cargo, output).failures;
        assert_eq!(named, ["thread 'a::c' (7) panicked at src/a.rs:3:5:", "left is not right", "test a::c ... FAILED"]);
        let named = Counts::read(Runner::Pytest, "FAILED x.py::y - boom\n= 1 failed, 1 passed in 1.0s =\n").failures;
        assert_eq!(named, ["FAILED x.py::y - boom"]);
        assert!(Counts::read(Runner::Go, "--- PASS: A (0.1s)\nPASS\n").failures.is_empty());
    }

    #[test]
    fn pytest_counts_errors_as_failures() {
        assert_eq!(
            three(Runner::Pytest, "a\n=== 1 failed, 11 passed, 2 skipped, 3 errors in 38.82s ===\n"),
            (11, 4, 2)
        );
        assert_eq!(three(Runner::Pytest, "43 passed in 20.80s\n"), (43, 0, 0));
        assert_eq!(three(Runner::Pytest, "no tests ran in 0.01s\n"), (0, 0, 0));
    }

    #[test]
    fn node_go_and_maven() {
        assert_eq!(
            three(Runner::Node, "# Subtest: pass 7\n# tests 13\n# pass 12\n# fail 1\n# cancelled 1\n# skipped 0\n"),
            (12, 2, 0)
        );
        assert_eq!(
            three(
                Runner::Go,
                "=== RUN A\n--- FAIL: A (0.1s)\n    --- PASS: A/b (0.0s)\n    --- SKIP: A/c (0.0s)\nFAIL\n"
            ),
            (1, 1, 1)
        );
        let maven = "[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s -- in A\n\
                     [ERROR] Tests run: 23, Failures: 1, Errors: 2, Skipped: 1\n[INFO] BUILD FAILURE\n";
        assert_eq!(three(Runner::Maven, maven), (19, 3, 1));
    }
}
