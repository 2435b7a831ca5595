//! One timer for the waits of a connection. It stays from one wait to the next, and moves only when it fires: setting a
//! new timer interrupts the sleep of its reactor, which takes more system calls than a short request.
//!
//! A connection keeps at most one timer; waits that overlap have their own.
//!
//! Long waits end together: a reactor that wakes for each of a thousand consumers spends more on waking than on
//! answering.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

/// Waits of at least [`COMPANY_FROM`] end at a whole number of these since [`FIRST_TICK`]: up to 16 ms later than they
/// were asked for, never earlier. A client must expect more from the network.
const TICK: Duration = Duration::from_millis(16);
const COMPANY_FROM: Duration = Duration::from_millis(160);

static FIRST_TICK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a wait that begins now ends.
pub fn end_of_wait(wait: Duration) -> Instant {
    let first = *FIRST_TICK;
    let end = Instant::now() + wait;
    if wait < COMPANY_FROM {
        return end;
    }
    let past = end.saturating_duration_since(first).as_nanos();
    let ticks = past.div_ceil(TICK.as_nanos());
    u32::try_from(ticks).ok().and_then(|ticks| TICK.checked_mul(ticks)).map_or(end, |since| first + since)
}

/// The wait was over before the event came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOver;

#[derive(Debug, Clone, Default)]
pub struct WaitTimer {
    kept: Arc<Mutex<Option<Pin<Box<Sleep>>>>>,
}

impl WaitTimer {
    /// Waits for `event`, but not past `deadline`.
    pub async fn until<F: Future>(&self, deadline: Instant, event: F) -> Result<F::Output, TimeOver> {
        let mut event = pin!(event);
        let kept = self.kept.lock().take();
        let mut timer = kept.unwrap_or_else(|| Box::pin(sleep_until(deadline)));
        let outcome = poll_fn(|cx| {
            if let Poll::Ready(happened) = event.as_mut().poll(cx) {
                return Poll::Ready(Ok(happened));
            }
            // The timer may stand earlier than the deadline; it is moved when it fires.
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            loop {
                ready!(timer.as_mut().poll(cx));
                if Instant::now() >= deadline {
                    return Poll::Ready(Err(TimeOver));
                }
                timer.as_mut().reset(deadline);
            }
        })
        .await;
        self.kept.lock().get_or_insert(timer);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::time::Duration;

    const SHORT: Duration = Duration::from_millis(20);

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn long_waits_end_together_and_none_ends_before_its_time() {
        let begun = Instant::now();
        for wait_ms in [0, 1, 100, 159, 160, 500, 30_000, 24 * 3_600_000, i32::MAX as u64] {
            let wait = Duration::from_millis(wait_ms);
            let end = end_of_wait(wait);
            let late = end - begun - wait;
            // Never early; at the most a tick late, and what this test itself takes.
            assert!(late <= TICK + begun.elapsed(), "{wait_ms}: {late:?}");
            let of_tick = (end - *FIRST_TICK).as_nanos() % TICK.as_nanos();
            assert!(wait < COMPANY_FROM || of_tick == 0, "{wait_ms}: {of_tick} ns from a tick");
        }
    }

    #[test]
    fn an_event_ends_the_wait_and_so_does_the_deadline() {
        run(async {
            let timer = WaitTimer::default();
            for _ in 0..3 {
                let deadline = Instant::now() + SHORT;
                assert_eq!(timer.until(deadline, ready(7)).await, Ok(7));
                assert_eq!(timer.until(deadline, pending::<()>()).await, Err(TimeOver));
                assert!(Instant::now() >= deadline);
            }
        });
    }

    #[test]
    fn a_timer_that_was_kept_serves_earlier_and_later_deadlines() {
        run(async {
            let timer = WaitTimer::default();
            let start = Instant::now();
            assert_eq!(timer.until(start + Duration::from_secs(3600), ready(())).await, Ok(()), "it is never polled");
            let soon = tokio::time::sleep(SHORT / 4);
            assert_eq!(timer.until(start + Duration::from_secs(3600), soon).await, Ok(()));
            assert_eq!(timer.until(start + SHORT, pending::<()>()).await, Err(TimeOver), "an hour earlier");
            assert!(start.elapsed() >= SHORT);
            let soon = tokio::time::sleep(SHORT / 4);
            assert_eq!(timer.until(Instant::now() + Duration::from_secs(3600), soon).await, Ok(()), "an hour later");
            let deadline = Instant::now() + SHORT;
            assert_eq!(timer.until(deadline, pending::<()>()).await, Err(TimeOver));
            assert!(Instant::now() >= deadline);
        });
    }

    #[test]
    fn waits_that_overlap_end_each_at_its_time() {
        run(async {
            let timer = WaitTimer::default();
            let start = Instant::now();
            let late = timer.until(start + 2 * SHORT, pending::<()>());
            let early = timer.until(start + SHORT, pending::<()>());
            let (late, early) = tokio::join!(ends(late), ends(early));
            assert!(late.0 && early.0);
            assert!(early.1 >= start + SHORT && late.1 >= start + 2 * SHORT);
        });
    }

    async fn ends(wait: impl Future<Output = Result<(), TimeOver>>) -> (bool, Instant) {
        (wait.await == Err(TimeOver), Instant::now())
    }
}
