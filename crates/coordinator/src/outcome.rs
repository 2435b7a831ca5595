//! What an operation leaves to its caller: records to append, and answers that wait for them.

use std::time::Duration;

use mainstem_types::TimestampMs;

use crate::classic::Undo;
use crate::{OffsetsRecord, Reply};

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

/// What a caller must do after an operation.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "an outcome carries records to append and answers to send"]
pub struct CoordinatorOutcome {
    /// To be appended in this order as one batch.
    pub records: Vec<OffsetsRecord>,
    /// To be sent once the records are committed; at once if there are none.
    pub replies: Vec<(ReplyToken, Reply)>,
    /// How to take the operation back if the append fails.
    pub(crate) undo: Vec<Undo>,
}

impl CoordinatorOutcome {
    pub(crate) fn reply(token: ReplyToken, reply: Reply) -> CoordinatorOutcome {
        CoordinatorOutcome { replies: vec![(token, reply)], ..CoordinatorOutcome::default() }
    }

    /// True if there is nothing to append and nothing to send.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.replies.is_empty()
    }
}
