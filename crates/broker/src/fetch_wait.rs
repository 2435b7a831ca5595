//! Long polls: a fetch that found too little waits here until appends have brought enough bytes.
//!
//! A waiter is registered with every partition of its fetch, and dropped with the fetch, so a client that leaves leaves
//! nothing behind. An append wakes a waiter only when all bytes that it still wants have arrived. A small record
//! therefore does not wake a fetch for a megabyte. A partition without waiters costs one load for each append. A
//! waiting fetch costs no CPU.
//!
//! A number counts what a fetch can see of a partition: while [`FetchWaiters::changes`] does not move, another read
//! finds the same.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::sync::{AtomicI64, AtomicU64, AtomicUsize, Mutex, Ordering};

/// One waiting fetch.
#[derive(Debug)]
pub struct FetchWaiter {
    missing_bytes: AtomicI64,
    notify: Notify,
}

impl FetchWaiter {
    /// Takes note of appended bytes. Wakes a waiter once: it then says anew how many bytes it waits for.
    fn add(&self, bytes: i64) {
        let missing = self.missing_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if missing > 0 && missing <= bytes {
            self.notify.notify_one();
        }
    }
}

/// The waiting fetches of one partition, and the number of its changes. Outlives the partition where somebody still
/// holds it.
#[derive(Debug, Default)]
pub struct FetchWaiters {
    changes: AtomicU64,
    count: AtomicUsize,
    waiters: Mutex<Vec<Arc<FetchWaiter>>>,
}

impl FetchWaiters {
    fn register(&self, waiter: &Arc<FetchWaiter>) {
        let mut waiters = self.waiters.lock();
        waiters.push(Arc::clone(waiter));
        self.count.store(waiters.len(), Ordering::SeqCst);
    }

    fn unregister(&self, waiter: &Arc<FetchWaiter>) {
        let mut waiters = self.waiters.lock();
        if let Some(place) = waiters.iter().position(|w| Arc::ptr_eq(w, waiter)) {
            waiters.swap_remove(place);
        }
        // A thousand waiters that came and went must not leave their room behind in each partition.
        if waiters.is_empty() {
            waiters.shrink_to_fit();
        }
        self.count.store(waiters.len(), Ordering::SeqCst);
    }

    /// How often changed what a fetch can see: records, watermarks, the log start, epochs, the end of it all. To be
    /// asked before a look: what changes during the look is counted after it.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Something changed that no fetch waits for.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Tells all waiters that `bytes` more can be read.
    pub fn wake(&self, bytes: i64) {
        self.changed();
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for waiter in self.waiters.lock().iter() {
            waiter.add(bytes);
        }
    }

    /// Wakes all waiters: the partition was deleted, failed, or changed its leader.
    pub(crate) fn wake_all(&self) {
        self.wake(i64::MAX / 2);
    }
}

/// The registration of one waiting fetch; ends when it is dropped. One that is kept for the next fetch of the same
/// partitions saves the registration, and costs an append a few instructions.
#[derive(Debug)]
pub struct FetchWait {
    waiter: Arc<FetchWaiter>,
    partitions: Vec<Arc<FetchWaiters>>,
}

impl FetchWait {
    /// Registers with `partitions`. The caller then says what it waits for ([`expect_bytes`](Self::expect_bytes)),
    /// looks at the partitions once more, counts what it found ([`credit`](Self::credit)), and only then waits.
    pub fn register(partitions: Vec<Arc<FetchWaiters>>) -> FetchWait {
        let waiter = Arc::new(FetchWaiter { missing_bytes: AtomicI64::new(i64::MAX), notify: Notify::new() });
        for partition in &partitions {
            partition.register(&waiter);
        }
        FetchWait { waiter, partitions }
    }

    /// Begins to wait for `bytes`, of which appends from here on count.
    pub fn expect_bytes(&self, bytes: i64) {
        // Bytes that were told before do not count: the look that follows sees them.
        std::pin::pin!(self.waiter.notify.notified()).enable();
        self.waiter.missing_bytes.store(bytes.max(1), Ordering::SeqCst);
    }

    /// Counts bytes that were found by looking.
    pub fn credit(&self, bytes: i64) {
        if bytes > 0 {
            self.waiter.add(bytes);
        }
    }

    /// Returns when enough was appended.
    pub async fn wait(&self) {
        self.waiter.notify.notified().await;
    }
}

impl Drop for FetchWait {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.unregister(&self.waiter);
        }
    }
}
