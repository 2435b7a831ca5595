//! The loop of a long poll: look, register, look again, wait.
//!
//! No append is missed: what is waited for is said before the look, so an append that comes between the two is counted
//! twice, which costs a look. At the end of the wait it looks once more and answers with what there is.

use mainstem_waits::{Stopped, WaitTimer};
use tokio::time::Instant;

use crate::fetch_wait::FetchWait;

/// What a protocol looks for.
pub trait LongPoll: Sync {
    /// What a look found.
    type Found: Send + Sync;

    /// Looks at what may have changed since the look that found `before`.
    fn look_again(&self, before: &Self::Found) -> impl Future<Output = Result<Self::Found, Stopped>> + Send;

    fn bytes(&self, found: &Self::Found) -> usize;

    /// Whether it is the answer before the wait is over.
    fn is_enough(&self, found: &Self::Found) -> bool;

    /// Takes note of a result that is not enough.
    fn saw(&self, found: &Self::Found);
}

/// How long a poll waits, and for how much.
pub struct Patience<'t> {
    pub min_bytes: i64,
    pub deadline: Instant,
    pub timer: &'t WaitTimer,
}

/// Waits until `poll` finds enough, the time is over, or `is_stopping`. `first` was too little. `wait` is registered
/// with all partitions of the poll; with `is_armed` it counted what is appended since before the look that found
/// `first`.
pub async fn long_poll<L: LongPoll>(
    poll: &L,
    first: L::Found,
    (wait, mut is_armed): (&FetchWait, bool),
    patience: Patience<'_>,
    is_stopping: impl Fn() -> bool + Send,
) -> Result<L::Found, Stopped> {
    let mut found = first;
    loop {
        if is_armed {
            if is_stopping() {
                return Ok(found);
            }
            wait.credit(poll.bytes(&found) as i64);
            if patience.timer.until(patience.deadline, wait.wait()).await.is_err() {
                return poll.look_again(&found).await;
            }
        }
        wait.expect_bytes(patience.min_bytes);
        is_armed = true;
        found = poll.look_again(&found).await?;
        if poll.is_enough(&found) {
            return Ok(found);
        }
        poll.saw(&found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch_wait::FetchWaiters;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    /// A log whose length is a number.
    #[derive(Default)]
    struct Log {
        bytes: AtomicUsize,
        looks: AtomicUsize,
        waiters: Arc<FetchWaiters>,
        /// Appended during the next look, after it has looked.
        behind_the_look: AtomicUsize,
    }

    impl Log {
        fn append(&self, bytes: usize) {
            self.bytes.fetch_add(bytes, SeqCst);
            self.waiters.wake(bytes as i64);
        }

        async fn poll(&self, min_bytes: i64, wait_ms: u64, is_stopping: &AtomicBool) -> usize {
            let wait = FetchWait::register(vec![Arc::clone(&self.waiters)]);
            let (deadline, timer) = (Instant::now() + Duration::from_millis(wait_ms), WaitTimer::default());
            let patience = Patience { min_bytes, deadline, timer: &timer };
            long_poll(self, 0, (&wait, false), patience, || is_stopping.load(SeqCst)).await.unwrap()
        }
    }

    impl LongPoll for Log {
        type Found = usize;

        async fn look_again(&self, _before: &usize) -> Result<usize, Stopped> {
            self.looks.fetch_add(1, SeqCst);
            let found = self.bytes.load(SeqCst);
            self.append(self.behind_the_look.swap(0, SeqCst));
            Ok(found)
        }

        fn bytes(&self, found: &usize) -> usize {
            *found
        }

        fn is_enough(&self, found: &usize) -> bool {
            *found >= 100
        }

        fn saw(&self, _found: &usize) {}
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
    }

    const LONG_MS: u64 = 60_000;

    #[test]
    fn it_ends_with_the_append_that_is_enough_and_not_before() {
        let (log, goes_on) = (Log::default(), AtomicBool::new(false));
        let append = async {
            for bytes in [30, 30, 30, 9, 1] {
                tokio::task::yield_now().await;
                log.append(bytes);
            }
        };
        let (found, ()) = run(async { tokio::join!(log.poll(100, LONG_MS, &goes_on), append) });
        assert_eq!((found, log.looks.load(SeqCst)), (100, 2), "small appends wake nobody");
    }

    #[test]
    fn an_append_right_behind_a_look_is_not_missed() {
        let (log, goes_on) = (Log::default(), AtomicBool::new(false));
        log.behind_the_look.store(100, SeqCst);
        assert_eq!(run(log.poll(100, LONG_MS, &goes_on)), 100);
    }

    #[test]
    fn at_the_end_of_the_wait_it_answers_with_what_there_is() {
        let (log, goes_on) = (Log::default(), AtomicBool::new(false));
        log.behind_the_look.store(40, SeqCst);
        assert_eq!(run(log.poll(100, 5, &goes_on)), 40);
    }

    #[test]
    fn a_stop_ends_it_at_once() {
        let (log, stops) = (Log::default(), AtomicBool::new(true));
        log.append(7);
        assert_eq!(run(log.poll(100, LONG_MS, &stops)), 7);
    }
}
