//! Deadlines by key, on the monotonic clock. Scheduling a key again moves it; equal deadlines fire in the order set.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TimerKey {
    /// A member's session, or the time within which a member that was told its id must join with it.
    Session { group: Arc<str>, member: Arc<str> },
    /// The end of the join phase.
    Join { group: Arc<str> },
    /// The time within which every member must have synced.
    Sync { group: Arc<str> },
    /// A member of a group kind that is not served here.
    ForeignMember { group: Arc<str>, member: Arc<str> },
    /// The next sweep for expired offsets.
    OffsetExpiry,
}

/// The pending deadlines of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_deadline: BTreeMap<(Duration, u64), TimerKey>,
    by_key: HashMap<TimerKey, (Duration, u64)>,
    next_sequence: u64,
}

impl Timers {
    pub(crate) fn schedule(&mut self, key: TimerKey, deadline: Duration) {
        self.cancel(&key);
        let slot = (deadline, self.next_sequence);
        self.next_sequence += 1;
        self.by_key.insert(key.clone(), slot);
        self.by_deadline.insert(slot, key);
    }

    pub(crate) fn cancel(&mut self, key: &TimerKey) {
        if let Some(slot) = self.by_key.remove(key) {
            self.by_deadline.remove(&slot);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.keys().next().map(|(deadline, _)| *deadline)
    }

    /// Takes the earliest timer that is due: a deadline is due at its own moment, not after it.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<TimerKey> {
        let slot = *self.by_deadline.keys().next()?;
        if slot.0 > now {
            return None;
        }
        let key = self.by_deadline.remove(&slot)?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(group: &str) -> TimerKey {
        TimerKey::Join { group: group.into() }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn timers_fire_by_deadline_then_by_order_of_scheduling() {
        let mut timers = Timers::default();
        timers.schedule(join("late"), ms(20));
        timers.schedule(join("first"), ms(10));
        timers.schedule(join("second"), ms(10));
        assert_eq!(timers.next_deadline(), Some(ms(10)));
        assert_eq!(timers.pop_due(ms(9)), None);
        assert_eq!(timers.pop_due(ms(10)), Some(join("first")));
        assert_eq!(timers.pop_due(ms(10)), Some(join("second")));
        assert_eq!(timers.pop_due(ms(19)), None);
        assert_eq!(timers.pop_due(ms(25)), Some(join("late")));
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn scheduling_a_key_again_moves_it_and_cancelling_removes_it() {
        let mut timers = Timers::default();
        timers.schedule(join("g"), ms(10));
        timers.schedule(join("g"), ms(30));
        assert_eq!(timers.pop_due(ms(20)), None);
        timers.cancel(&join("g"));
        assert_eq!(timers.next_deadline(), None);
        assert!(timers.by_key.is_empty() && timers.by_deadline.is_empty());
    }
}
