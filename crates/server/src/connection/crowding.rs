//! Replies in memory that clients do not read. While all connections together hold little, a slow client has no effect.
//! Above the broker's bound, the server closes the connections that read almost nothing.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// How often a client that does not take its reply is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The bytes that the client must have taken since the last look when replies are crowded.
const TAKEN_BYTES_MIN: u64 = 256 << 10;

/// The bytes of replies that all connections hold.
#[derive(Debug)]
pub(crate) struct ReplyBytes {
    held: AtomicU64,
    max: u64,
}

impl ReplyBytes {
    pub fn new(max: u64) -> Self {
        ReplyBytes { held: AtomicU64::new(0), max }
    }

    fn is_crowded(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.max
    }
}

/// One connection's part of it.
#[derive(Debug, Default)]
pub(crate) struct Share {
    held: u64,
    taken: u64,
    taken_at_last_look: u64,
    next_look: Option<Pin<Box<Sleep>>>,
}

impl Share {
    /// The connection holds so many bytes of replies now.
    pub fn report(&mut self, held: usize, all: &ReplyBytes) {
        let held = held as u64;
        if held != self.held {
            // Wraps where it shrinks: the sum is right.
            all.held.fetch_add(held.wrapping_sub(self.held), Ordering::Relaxed);
            self.held = held;
        }
    }

    /// The client took some more.
    pub fn took(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// The client waits for the disk: the bytes that it takes count from the next look on.
    pub fn waits_for_disk(&mut self) {
        self.next_look = None;
    }

    /// Called when nothing can be done: whether the connection should go because its client does not take what others
    /// need room for.
    pub fn is_in_the_way(&mut self, all: &ReplyBytes, cx: &mut Context<'_>) -> bool {
        if self.held == 0 {
            self.next_look = None;
            return false;
        }
        loop {
            let next_look = self.next_look.get_or_insert_with(|| {
                self.taken_at_last_look = self.taken;
                Box::pin(sleep(LOOK_EVERY))
            });
            if next_look.as_mut().poll(cx) == Poll::Pending {
                return false;
            }
            let taken = self.taken - self.taken_at_last_look;
            if all.is_crowded() && taken < TAKEN_BYTES_MIN {
                return true;
            }
            self.taken_at_last_look = self.taken;
            next_look.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_takes_too_little_of_too_much_is_in_the_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let goes = |max: u64, takes: u64, waits: bool| {
            let all = ReplyBytes::new(max);
            let mut share = Share::default();
            share.report(1000, &all);
            let until = Instant::now() + LOOK_EVERY * 5 / 2;
            let look = std::future::poll_fn(move |cx| {
                share.took(takes);
                if waits {
                    share.waits_for_disk();
                }
                if share.is_in_the_way(&all, cx) { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::time::timeout_at(until, look)
        };
        runtime.block_on(async {
            let (crowded, waiting) = (goes(999, 0, false), goes(999, 0, true));
            let (roomy, quick) = (goes(1000, 0, false), goes(999, TAKEN_BYTES_MIN, false));
            assert!(crowded.await.is_ok());
            assert!(waiting.await.is_err());
            assert!(roomy.await.is_err());
            assert!(quick.await.is_err());
        });
    }

    #[test]
    fn shares_add_up() {
        let all = ReplyBytes::new(10);
        let (mut one, mut other) = (Share::default(), Share::default());
        one.report(7, &all);
        other.report(4, &all);
        assert!(all.is_crowded());
        one.report(6, &all);
        assert!(!all.is_crowded());
        one.report(0, &all);
        other.report(0, &all);
        assert_eq!(all.held.load(Ordering::Relaxed), 0);
    }
}
