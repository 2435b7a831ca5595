//! What happened, a line for each step.

use std::fmt::Write;

/// The lines of a run. Only numbers and names of the simulation go in: no addresses, no times of the machine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Trace {
    text: String,
    lines: usize,
}

impl Trace {
    pub fn line(&mut self, at_us: u64, who: &dyn std::fmt::Display, what: &dyn std::fmt::Display) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{:>6}.{:03} ms  {who:<12} {what}", at_us / 1000, at_us % 1000);
        self.lines += 1;
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn lines(&self) -> usize {
        self.lines
    }

    /// The last `count` lines.
    pub fn tail(&self, count: usize) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let from = lines.len().saturating_sub(count);
        lines[from..].join("\n")
    }
}
