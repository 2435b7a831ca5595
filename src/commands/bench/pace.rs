//! When records are due, and a clock that is precise enough for it.
//!
//! A record counts from when it was due, not from when it could be handed over: whoever is held up by a slow broker
//! does not measure less (coordinated omission).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a thread may sleep without looking whether it shall stop.
const NAP: Duration = Duration::from_millis(50);

/// A thread that has more than one record in this time hands over what is due in it at once: to sleep for each of them
/// would take more of the machine than what is measured.
const GRAIN: Duration = Duration::from_micros(500);

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
    /// When the thread woke up last, after the beginning: what was due then is ready.
    awake: Duration,
}

impl Schedule {
    pub fn new(begun: Instant, rate: f64, first: usize, step: usize) -> Schedule {
        Schedule { begun, rate, next: first as u64, step: step as u64, awake: Duration::ZERO }
    }

    /// When the next one is due, after the beginning.
    pub fn due(&self) -> Duration {
        Duration::from_secs_f64(self.next as f64 / self.rate)
    }

    /// Waits until the next one is due, or at high rates until all of [`GRAIN`] are. `false`: it shall stop.
    pub fn wait(&mut self, stop: &AtomicBool) -> bool {
        let due = self.due();
        let wake = if due <= self.awake { due } else { due + self.grain() };
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = self.begun.elapsed();
            if now >= wake {
                self.awake = now;
                return true;
            }
            std::thread::sleep((wake - now).min(NAP));
        }
    }

    /// How much later than the first of them several records are handed over.
    fn grain(&self) -> Duration {
        let interval = self.step as f64 / self.rate;
        if interval < GRAIN.as_secs_f64() { GRAIN } else { Duration::ZERO }
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
        let mut schedule = Schedule::new(Instant::now(), 0.001, 1, 1);
        assert!(!schedule.wait(&AtomicBool::new(true)));
        assert!(Schedule::new(Instant::now(), 1000.0, 1, 1).wait(&AtomicBool::new(false)));
    }

    #[test]
    fn at_a_high_rate_what_is_due_within_half_a_millisecond_is_ready_at_once() {
        let mut schedule = Schedule::new(Instant::now(), 100_000.0, 0, 1);
        schedule.take();
        assert!(schedule.wait(&AtomicBool::new(false)));
        let ready = schedule.ready(schedule.begun + schedule.awake);
        assert!(ready >= 50, "{ready}");
        for _ in 0..ready - 1 {
            schedule.take();
            let awake = schedule.awake;
            assert!(schedule.wait(&AtomicBool::new(false)) && schedule.due() <= awake.max(schedule.awake));
        }
        assert_eq!(Schedule::new(Instant::now(), 1_000.0, 0, 1).grain(), Duration::ZERO);
    }
}
