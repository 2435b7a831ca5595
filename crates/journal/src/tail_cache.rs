//! The newest small entries of a journal, in memory.
//!
//! One unbroken run of bytes that ends where the journal ends, in a ring that starts at 4 KiB and doubles up to the
//! journal's `tail_cache_bytes`. All rings together stay within the [`MemoryBudget`]. An entry of more than
//! [`TAIL_ENTRY_BYTES_MAX`] ends the run and frees the ring: copying it would cost more than the page cache does.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Journal, Location, MemoryBudget};

/// The largest entry that is kept.
pub const TAIL_ENTRY_BYTES_MAX: usize = 4 << 10;

/// The first size of a ring.
const RING_BYTES_MIN: usize = 4 << 10;

/// The tail cache of one journal. Empty, it holds no memory.
#[derive(Debug, Default)]
pub(crate) struct TailCache {
    ring: Mutex<Option<Box<Ring>>>,
}

#[derive(Debug)]
struct Ring {
    /// Where the run ends.
    end: Location,
    bytes: VecDeque<u8>,
    /// Bytes taken from the budget; `bytes` is never longer.
    granted: usize,
}

impl TailCache {
    /// Takes over an entry that was just written at `at`.
    pub(crate) fn append(&self, budget: &MemoryBudget, limit: usize, at: Location, parts: &[IoSlice<'_>]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut slot = self.ring.lock();
        if len > TAIL_ENTRY_BYTES_MAX || len > limit {
            Self::free(&mut slot, budget);
            return;
        }
        let ring = slot.get_or_insert_with(|| Box::new(Ring { end: at, bytes: VecDeque::new(), granted: 0 }));
        if ring.end != at {
            ring.bytes.clear();
        }
        ring.grow(budget, limit, len);
        if len > ring.granted {
            Self::free(&mut slot, budget);
            return;
        }
        let surplus = (ring.bytes.len() + len).saturating_sub(ring.granted);
        ring.bytes.drain(..surplus);
        parts.iter().for_each(|part| ring.bytes.extend(part.iter()));
        ring.end = at.plus(len as u64);
    }

    /// Up to `max` bytes from `at` on; `None` if the first of them is not here.
    fn read(&self, at: Location, max: usize) -> Option<Bytes> {
        let slot = self.ring.lock();
        let (first, second) = slot.as_ref()?.find(at, max)?;
        Some(Bytes::from([first, second].concat()))
    }

    /// Fills the buffer with the bytes at `at`. `false`: not all of them are here.
    fn read_into(&self, at: Location, buffer: &mut [u8]) -> bool {
        let slot = self.ring.lock();
        let Some((first, second)) = slot.as_ref().and_then(|ring| ring.find(at, buffer.len())) else { return false };
        if first.len() + second.len() < buffer.len() {
            return false;
        }
        let (head, tail) = buffer.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail.copy_from_slice(second);
        true
    }

    pub(crate) fn clear(&self, budget: &MemoryBudget) {
        Self::free(&mut self.ring.lock(), budget);
    }

    fn free(slot: &mut Option<Box<Ring>>, budget: &MemoryBudget) {
        if let Some(ring) = slot.take() {
            budget.give_back(ring.granted);
        }
    }
}

impl Ring {
    /// Up to `max` bytes from `at` on, in two parts; `None` if the first of them is not here.
    fn find(&self, at: Location, max: usize) -> Option<(&[u8], &[u8])> {
        if at.segment != self.end.segment || at.position >= self.end.position {
            return None;
        }
        let back = (self.end.position - at.position) as usize;
        let from = self.bytes.len().checked_sub(back)?;
        let to = from + back.min(max);
        let (first, second) = self.bytes.as_slices();
        let middle = first.len();
        let in_first = &first[from.min(middle)..to.min(middle)];
        Some((in_first, &second[from.max(middle) - middle..to.max(middle) - middle]))
    }

    /// Gets room for `len` more bytes if the limits allow it.
    fn grow(&mut self, budget: &MemoryBudget, limit: usize, len: usize) {
        let needed = self.bytes.len() + len;
        while self.granted < needed && self.granted < limit {
            let want = (self.granted * 2).max(RING_BYTES_MIN).min(limit);
            if !budget.take(want - self.granted) {
                break;
            }
            self.granted = want;
        }
        // Exact, so that the budget counts the real memory.
        self.bytes.reserve_exact(self.granted.saturating_sub(self.bytes.len()));
    }
}

impl Journal {
    /// Up to `max` bytes from `at` on, from memory alone; `None` if the tail cache does not hold them. Not necessarily
    /// whole entries at the end.
    pub fn tail(&self, at: Location, max: usize) -> Option<Bytes> {
        self.tail.read(at, max)
    }

    /// Fills the buffer with the bytes at `at`, from memory alone. `false`: the tail cache does not hold all of them.
    pub fn tail_into(&self, at: Location, buffer: &mut [u8]) -> bool {
        self.tail.read_into(at, buffer)
    }
}

#[cfg(test)]
#[path = "tail_cache_tests.rs"]
mod tests;
