//! The threads that make journals durable.
//!
//! A journal is in the queue at most once. One later sync serves all requests that arrive while a sync runs. The number
//! of journals therefore bounds the queue, and one `fdatasync` serves all waiting requests (group commit).
//! `flush_status.rs` has the states of a journal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mainstem_env::Worker;
use parking_lot::{Condvar, Mutex};

use crate::{FlushError, Journal, Location};

/// How long a thread waits for another journal after it found no file descriptor left.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A few threads that sync journals. Dropping it ends them after the queue is empty.
#[derive(Debug)]
pub struct Flusher {
    shared: Arc<FlushQueue>,
    threads: Vec<Worker>,
}

#[derive(Debug, Default)]
struct FlushQueue {
    queue: Mutex<QueuedJournals>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct QueuedJournals {
    journals: VecDeque<Arc<Journal>>,
    stopping: bool,
}

impl Flusher {
    /// Starts `threads` threads. With 0, requests wait for [`Flusher::run_pending`]: for tests, where every step has
    /// its place.
    pub fn new(threads: usize) -> std::io::Result<Flusher> {
        let mut flusher = Flusher { shared: Arc::default(), threads: Vec::with_capacity(threads) };
        for number in 0..threads {
            let shared = Arc::clone(&flusher.shared);
            flusher.threads.push(Worker::start(format!("flush-{number}"), move |_| shared.run())?);
        }
        Ok(flusher)
    }

    /// Asks for everything before `up_to` to become durable. `true`: it is already, and there will be no report.
    /// `false`: the journal's observer is told later, so register the waiter before the call.
    pub fn request(&self, journal: &Arc<Journal>, up_to: Location) -> bool {
        if journal.failure().is_none() && journal.durable().is_some_and(|durable| durable >= up_to) {
            return true;
        }
        if journal.flush_status.request() {
            self.shared.push(Arc::clone(journal));
        }
        false
    }

    /// Runs what is queued on the calling thread and says how many journals that were. Those for which no file
    /// descriptor was left are not counted, and wait for the next call.
    pub fn run_pending(&self) -> usize {
        let (mut count, mut unsynced) = (0, VecDeque::new());
        loop {
            let next = self.shared.queue.lock().journals.pop_front();
            let Some(journal) = next else { break };
            match self.shared.flush(&journal) {
                true => count += 1,
                false => unsynced.push_back(journal),
            }
        }
        self.shared.queue.lock().journals.append(&mut unsynced);
        count
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        // An observer may hold the last reference to its flusher: then this runs on one of the threads.
        self.threads.iter().for_each(Worker::join);
    }
}

impl FlushQueue {
    fn push(&self, journal: Arc<Journal>) {
        self.queue.lock().journals.push_back(journal);
        self.wake.notify_one();
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let journal = loop {
                match queue.journals.pop_front() {
                    Some(journal) => break journal,
                    None if queue.stopping => return,
                    None => self.wake.wait(&mut queue),
                }
            };
            drop(queue);
            if !self.flush(&journal) {
                self.queue_again(journal);
            }
        }
    }

    /// No file descriptor was left for the journal. It is tried once more at the end, not for ever.
    fn queue_again(&self, journal: Arc<Journal>) {
        let mut queue = self.queue.lock();
        if !queue.stopping {
            queue.journals.push_back(journal);
            self.wake.wait_for(&mut queue, RETRY_AFTER);
        }
    }

    /// `false`: no file descriptor was left, and the journal belongs into the queue again.
    fn flush(&self, journal: &Arc<Journal>) -> bool {
        journal.flush_status.begin();
        if !flush_and_tell(journal) {
            journal.flush_status.put_back();
            return false;
        }
        if journal.flush_status.done() {
            // No other thread is woken for it: this one looks at the queue next.
            self.queue.lock().journals.push_back(Arc::clone(journal));
        }
        true
    }
}

/// Flushes on this thread, and tells the journal's observer. `false`: no file descriptor was left. Nobody is told, and
/// whoever asked still waits for a flush.
pub(crate) fn flush_and_tell(journal: &Journal) -> bool {
    let result = journal.flush();
    if let Err(FlushError::Open { .. }) = &result {
        return false;
    }
    if let Some(observer) = journal.observer.get().and_then(|observer| observer.upgrade()) {
        match result {
            Ok(Some(up_to)) => observer.on_durable(up_to),
            Err(FlushError::Failed(failure)) => observer.on_failed(&failure),
            Ok(None) | Err(FlushError::Open { .. }) => {}
        }
    }
    true
}
