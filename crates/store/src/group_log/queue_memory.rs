//! How much memory the consume queues of a process take together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::run::RUN_SIZE;

/// Past this many times the limit an append writes what waits of its own queue, if that is more than its share, into
/// files that are there.
const APPENDS_WRITE_AT: usize = 2;
/// Past this many times the limit nothing could be written for long: appends are refused where the disk has no room.
const APPENDS_STOP_AT: usize = 4;
/// Of the limit, what entries may take that are in the files as well, and again what those of small queues may take.
const KEPT_PART: usize = 4;
/// Such batches of one queue.
const KEPT_MAX: usize = 128;

/// Counts what all queues hold; each of them keeps its part of it up to date.
#[derive(Debug, Default)]
pub(crate) struct QueueMemory {
    bytes: AtomicUsize,
    queues: AtomicUsize,
}

impl QueueMemory {
    pub(super) fn add_queue(&self) {
        self.queues.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_queue(&self) {
        self.queues.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn share(&self, bytes: usize) -> usize {
        bytes / self.queues.load(Ordering::Relaxed).max(1)
    }

    /// Whether the thread `views` has to write waiting entries.
    pub(super) fn is_write_due(&self, limit: usize) -> bool {
        self.bytes() >= limit
    }

    /// Whether it is worth it to write a queue that takes so much, then.
    pub(super) fn is_worth_writing(&self, limit: usize, queue_bytes: usize) -> bool {
        queue_bytes > self.share(limit / KEPT_PART)
    }

    /// Whether a queue that takes so much is to be written at once: its writer has fallen behind, and other queues do
    /// not take more.
    pub(super) fn is_write_overdue(&self, limit: usize, queue_bytes: usize) -> bool {
        let limit = limit.saturating_mul(APPENDS_WRITE_AT);
        self.bytes() >= limit && queue_bytes >= self.share(limit)
    }

    pub(super) fn is_exhausted(&self, limit: usize) -> bool {
        self.bytes() >= limit.saturating_mul(APPENDS_STOP_AT)
    }

    /// How many batches of a queue may stay in memory that are in the files.
    pub(super) fn kept_max(&self, limit: usize) -> usize {
        (self.share(limit / KEPT_PART) / RUN_SIZE).clamp(1, KEPT_MAX)
    }
}
