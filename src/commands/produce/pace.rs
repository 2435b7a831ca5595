//! `--rate`: when the next record may go.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What was missed while the broker was slow is caught up for at most this long.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

pub struct Pace {
    /// Between two records; `None` is no limit.
    every: Option<Duration>,
    next: Instant,
}

impl Pace {
    /// So many a second.
    pub fn new(rate: Option<u32>) -> Self {
        Pace { every: rate.map(|rate| Duration::from_secs(1) / rate.max(1)), next: Instant::now() }
    }

    /// Does something when it is time for the next record. May be dropped and called again if that may.
    pub async fn then<T>(&self, what: impl Future<Output = T>) -> T {
        if self.every.is_some() {
            sleep_until(self.next).await;
        }
        what.await
    }

    /// A record goes now.
    pub fn step(&mut self) {
        if let Some(every) = self.every {
            let earliest = Instant::now().checked_sub(CATCH_UP_MAX).unwrap_or(self.next);
            self.next = self.next.max(earliest) + every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_apart_and_what_is_missed_is_not_all_caught_up() {
        let mut pace = Pace::new(Some(4));
        let first = pace.next;
        pace.step();
        assert_eq!(pace.next - first, Duration::from_millis(250));
        pace.next -= Duration::from_secs(60);
        pace.step();
        assert!(pace.next + Duration::from_secs(1) > Instant::now());
    }
}
