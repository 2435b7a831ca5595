//! Clocks. The wall clock stamps and displays; every wait, lease and timer uses the monotonic one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainstem_types::TimestampMs;

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since 1970 UTC. May jump in both directions.
    fn wall_ms(&self) -> TimestampMs;

    /// Time since an arbitrary start that is fixed for the life of the clock. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The clocks of the operating system.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now, at zero.
    pub fn new() -> Self {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn wall_ms(&self) -> TimestampMs {
        let now = SystemTime::now();
        // A wall clock set before 1970 is a broken machine; its stamps are then negative, but nothing fails.
        TimestampMs(match now.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        })
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall`, with monotonic time zero.
    pub fn at(wall: TimestampMs) -> Self {
        ManualClock { wall_ms: AtomicI64::new(wall.0), monotonic_ns: AtomicU64::new(0) }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.monotonic_ns.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        self.wall_ms.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an administrator or NTP would; also backwards.
    pub fn set_wall(&self, wall: TimestampMs) {
        self.wall_ms.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> TimestampMs {
        TimestampMs(self.wall_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic_ns.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_clock_moves_only_when_told() {
        let clock = ManualClock::at(TimestampMs(1_000));
        clock.advance(Duration::from_millis(5));
        assert_eq!((clock.wall_ms(), clock.monotonic()), (TimestampMs(1_005), Duration::from_millis(5)));
        clock.set_wall(TimestampMs(3));
        assert_eq!((clock.wall_ms(), clock.monotonic()), (TimestampMs(3), Duration::from_millis(5)));
    }

    #[test]
    fn the_real_clock_is_after_2020_and_never_goes_back() {
        let clock = RealClock::new();
        assert!(clock.wall_ms() > TimestampMs(1_577_836_800_000));
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }
}
