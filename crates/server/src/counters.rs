//! What a reactor counts. Each reactor has its own, so that counting shares no cache line; a reader adds them up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters and gauges of one reactor.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    pub received_bytes: AtomicU64,
    pub sent_bytes: AtomicU64,
    /// Memory held by connections for receiving and sending, and the bytes of requests that wait for their reply.
    pub held_bytes: AtomicU64,
    pub quick_reads: AtomicU64,
    pub slow_reads: AtomicU64,
    pub malformed: AtomicU64,
}

/// The sum over all reactors at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Open connections.
    pub connections: u64,
    /// Requests handled since the start.
    pub requests: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Memory held by connections for receiving and sending, and the bytes of requests that wait for their reply.
    pub held_bytes: u64,
    /// Pieces of file slices that were in memory.
    pub quick_reads: u64,
    /// Reads of file slices that had to leave the reactor because the pages were not in memory.
    pub slow_reads: u64,
    /// Connections closed for what they sent.
    pub malformed: u64,
}

impl Totals {
    /// The share of pieces of files that were sent without waiting for the disk, 1 while there was none.
    pub fn memory_share(&self) -> f64 {
        let all = self.quick_reads + self.slow_reads;
        if all == 0 { 1.0 } else { self.quick_reads as f64 / all as f64 }
    }

    /// The counts since `before`; gauges as they are now.
    pub(crate) fn since(&self, before: &Totals) -> Totals {
        Totals {
            requests: self.requests - before.requests,
            received_bytes: self.received_bytes - before.received_bytes,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            quick_reads: self.quick_reads - before.quick_reads,
            slow_reads: self.slow_reads - before.slow_reads,
            malformed: self.malformed - before.malformed,
            ..*self
        }
    }

    pub(crate) fn add(&mut self, counters: &Counters) {
        self.connections += counters.connections.load(Relaxed);
        self.requests += counters.requests.load(Relaxed);
        self.received_bytes += counters.received_bytes.load(Relaxed);
        self.sent_bytes += counters.sent_bytes.load(Relaxed);
        self.held_bytes += counters.held_bytes.load(Relaxed);
        self.quick_reads += counters.quick_reads.load(Relaxed);
        self.slow_reads += counters.slow_reads.load(Relaxed);
        self.malformed += counters.malformed.load(Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}
