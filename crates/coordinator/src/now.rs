//! The moment of a call, and the name of its request.

use std::time::Duration;

use mainstem_types::TimestampMs;

/// The moment of a call. Timers follow the monotonic clock; stamps and expiry of offsets, which must survive a restart,
/// follow the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Of a clock that never goes back, as exact as the clock is: timers are set and fired by the same value, so no
    /// rounding lies between a request and a deadline. The zero does not matter.
    pub monotonic: Duration,
    pub wall: TimestampMs,
}

impl Now {
    /// The deadline of a wait of `delay_ms` that begins now.
    pub(crate) fn after_ms(&self, delay_ms: u64) -> Duration {
        self.monotonic.saturating_add(Duration::from_millis(delay_ms))
    }
}

/// Names the request that an answer belongs to. Chosen by the caller, never reused while an answer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyToken(pub u64);
