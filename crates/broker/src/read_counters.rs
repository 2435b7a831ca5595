//! Counts the reads of fetches that memory answered, and those that had to wait for the disk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start. A look is one pass over the partitions of a fetch.
#[derive(Debug, Default)]
pub struct ReadCounters {
    from_memory: AtomicU64,
    waited: AtomicU64,
}

impl ReadCounters {
    /// A look found everything in memory: positions, index entries, batch headers.
    pub fn count_from_memory(&self) {
        self.from_memory.fetch_add(1, Relaxed);
    }

    /// A look was handed to a thread that may wait for the disk.
    pub fn count_waited(&self) {
        self.waited.fetch_add(1, Relaxed);
    }

    pub fn from_memory(&self) -> u64 {
        self.from_memory.load(Relaxed)
    }

    pub fn waited(&self) -> u64 {
        self.waited.load(Relaxed)
    }

    /// The share of looks that did not need the disk, 1 while there was none.
    pub fn hit_ratio(&self) -> f64 {
        let (hits, waits) = (self.from_memory(), self.waited());
        if waits == 0 { 1.0 } else { hits as f64 / (hits + waits) as f64 }
    }
}
