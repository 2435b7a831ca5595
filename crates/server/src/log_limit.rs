//! A limit on log lines that peers can cause.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// At most this many lines in a second.
const LINES_PER_SECOND: u64 = 5;

/// Lets a few lines through each second and counts the rest.
#[derive(Debug)]
pub(crate) struct LogLimit {
    started: Instant,
    second: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
}

impl LogLimit {
    pub fn new() -> Self {
        LogLimit {
            started: Instant::now(),
            second: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Whether a line may be written now, and how many were left out since the last one that was.
    pub fn admit(&self) -> Option<u64> {
        self.admit_in_second(self.started.elapsed().as_secs())
    }

    fn admit_in_second(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Relaxed) != second {
            self.lines.store(0, Relaxed);
        }
        if self.lines.fetch_add(1, Relaxed) < LINES_PER_SECOND {
            return Some(self.suppressed.swap(0, Relaxed));
        }
        self.suppressed.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_into_the_next_second() {
        let limit = LogLimit::new();
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(limit.admit_in_second(7), Some(0));
        }
        assert_eq!(limit.admit_in_second(7), None);
        assert_eq!(limit.admit_in_second(7), None);
        assert_eq!(limit.admit_in_second(8), Some(2));
        assert_eq!(limit.admit_in_second(8), Some(0));
    }
}
