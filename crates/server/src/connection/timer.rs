//! One timer for each connection, moved lazily: a request costs a look at the clock, not a change of the timer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A large frame has a second for so many bytes to arrive, beside its grace.
const FRAME_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// The limits for the present state of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// The idle time.
    pub idle: bool,
    /// The deadline of a large frame.
    pub frame: bool,
}

/// The idle time where there is none: 100 years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(crate) struct Timer {
    sleep: Pin<Box<Sleep>>,
    idle: Duration,
    last_active: Instant,
    /// When the large frame that is being received must be complete.
    frame_deadline: Option<Instant>,
}

impl Timer {
    pub fn new(idle: Option<Duration>) -> Self {
        let idle = idle.unwrap_or(NEVER);
        let now = Instant::now();
        Timer { sleep: Box::pin(sleep_until(now + idle)), idle, last_active: now, frame_deadline: None }
    }

    /// The connection made progress.
    pub fn touch(&mut self) {
        self.last_active = Instant::now();
    }

    /// A large frame begins to arrive: its budget is claimed.
    pub fn start_frame(&mut self, frame_bytes: usize, grace: Duration) {
        let transfer = Duration::from_secs(frame_bytes as u64 / FRAME_BYTES_PER_SECOND_MIN);
        self.frame_deadline = Some(Instant::now() + grace + transfer);
    }

    pub fn end_frame(&mut self) {
        self.frame_deadline = None;
    }

    /// `Ready` when the connection has been without progress for too long, by the limits that count. `wait_deadline`
    /// ends even a wait for the broker.
    pub fn poll_expired(&mut self, counts: Counts, wait_deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let idle_deadline = counts.idle.then(|| self.last_active + self.idle);
            let frame_deadline = self.frame_deadline.filter(|_| counts.frame);
            let due = [idle_deadline, frame_deadline, wait_deadline].into_iter().flatten().min();
            // The timer may stand earlier than the next deadline; it is moved when it fires.
            if let Some(due) = due
                && due < self.sleep.deadline()
            {
                self.sleep.as_mut().reset(due);
            }
            std::task::ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            match due {
                Some(due) if due <= now => return Poll::Ready(()),
                Some(due) => self.sleep.as_mut().reset(due),
                None => self.sleep.as_mut().reset(now + self.idle),
            }
        }
    }
}
