//! When records are due, and a clock that is precise enough for it.
//!
//! A record counts from when it was due, not from when it could be handed over: whoever is held up by a slow broker does not
//! measure less (coordinated omission).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a thread may sleep without looking whether it shall stop.
const NAP: Duration = Duration::from_millis(50);

/// How fast producers send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as they can.
    Full,
    /// Each waits for the acknowledgement of a record before it sends the next.
    OneAtATime,
    /// Records a second, of all of them.
    Rate(f64),
}

/// The records that one of several threads has to send at a rate: every `step`th, from `first` on.
pub struct Schedule {
    begun: Instant,
    rate: f64,
    next: u64,
    step: u64,
}

impl Schedule {
    pub fn new(begun: Instant, rate: f64, first: usize, step: usize) -> Schedule {
        Schedule { begun, rate, next: first as u64, step: step as u64 }
    }

    /// When the next one is due, after the beginning.
    pub fn due(&self) -> Duration {
        Duration::from_secs_f64(self.next as f64 / self.rate)
    }

    /// Waits until the next one is due. `false`: it shall stop.
    pub fn wait(&self, stop: &AtomicBool) -> bool {
        let due = self.begun + self.due();
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// How many are due at a moment, at least the next one.
    pub fn ready(&self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.begun).as_secs_f64() * self.rate;
        let behind = (passed - self.next as f64).max(0.0);
        1 + (behind / self.step as f64) as usize
    }

    /// Takes the next one, and gives when it was due.
    pub fn take(&mut self) -> Instant {
        let due = self.begun + self.due();
        self.next += self.step;
        due
    }
}

/// Lets the calling thread wake up when it wants to, not up to 50 µs later as is usual.
pub fn be_precise() {
    #[cfg(target_os = "linux")]
    {
        // Without it figures are a little coarser.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_rate_and_nothing_drifts() {
        let begun = Instant::now();
        let mut threads: Vec<_> = (0..3).map(|first| Schedule::new(begun, 1000.0, first, 3)).collect();
        let mut due: Vec<_> = (0..999).map(|turn| threads[turn % 3].take() - begun).collect();
        assert!(due.is_sorted());
        assert_eq!(due.pop(), Some(Duration::from_millis(998)));
    }

    #[test]
    fn whoever_was_held_up_has_all_that_was_due_to_send() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, 1000.0, 1, 2);
        assert_eq!(schedule.ready(begun), 1);
        assert_eq!(schedule.ready(begun + Duration::from_micros(9500)), 5);
        let first = schedule.take();
        assert_eq!(first, begun + Duration::from_millis(1), "it counts from when it was due");
    }

    #[test]
    fn who_waits_is_woken_by_the_end() {
        let schedule = Schedule::new(Instant::now(), 0.001, 1, 1);
        assert!(!schedule.wait(&AtomicBool::new(true)));
        assert!(Schedule::new(Instant::now(), 1000.0, 1, 1).wait(&AtomicBool::new(false)));
    }
}
