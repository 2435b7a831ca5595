//! Looks at a log that take no lock for their whole length.

use crate::sync::{AtomicU64, Ordering};

/// The number of an opening of a log in this process. It is renewed when positions in the segments change their
/// meaning: what was found under an old number is not believed.
#[derive(Debug)]
pub(crate) struct LogNumber(AtomicU64);

impl LogNumber {
    pub(crate) fn new(number: u64) -> Self {
        LogNumber(AtomicU64::new(number))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Positions in the segments change their meaning. To be called with the log's state locked, before they do: who
    /// begins to look afterwards waits for the lock, and who began before finds another number at the end. Gives the
    /// old number.
    pub(crate) fn renew(&self, number: u64) -> u64 {
        self.0.swap(number, Ordering::AcqRel)
    }

    /// Looks again if the number was renewed meanwhile: what was found may be half old, half new. `look` takes the
    /// lock of the state first.
    pub(crate) fn unmixed<R>(&self, look: impl Fn() -> R) -> R {
        loop {
            let number = self.get();
            let found = look();
            if self.get() == number {
                return found;
            }
        }
    }
}
