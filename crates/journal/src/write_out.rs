//! The thread that soon writes out entries that were appended to memory.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstem_env::Worker;
use parking_lot::{Condvar, Mutex};

use crate::{AppendError, Journal, MemoryBudget};

/// How often journals with bytes in memory alone are looked at: that is how long such bytes stay there, save where the
/// disk is full.
pub const WRITE_OUT_AFTER: Duration = Duration::from_millis(10);

/// What all journals of a host may have in memory alone.
const HOST_BYTES_MAX: usize = 32 << 20;

/// Writes out what journals have in memory. Without [`WriteOut::start`] that waits for [`WriteOut::run_pending`]: for
/// tests, where every step has its place. Dropping it ends the thread.
#[derive(Debug)]
pub struct WriteOut {
    pub(crate) budget: MemoryBudget,
    shared: Arc<WriteOutQueue>,
    thread: Mutex<Option<Worker>>,
}

impl Default for WriteOut {
    fn default() -> Self {
        let budget = MemoryBudget::new(HOST_BYTES_MAX);
        WriteOut { budget, shared: Arc::default(), thread: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct WriteOutQueue {
    queue: Mutex<BufferedJournals>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct BufferedJournals {
    /// Each journal that has a buffer, once; not those that are being looked at.
    journals: Vec<Weak<Journal>>,
    stopping: bool,
}

impl WriteOut {
    /// Starts the thread, once; later calls change nothing.
    pub fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(Worker::start("write-out", move |_| shared.run())?);
        }
        Ok(())
    }

    /// Memory that journals have taken for entries that are not written: at least as much as there are such bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.budget.used()
    }

    /// Looks at every journal that has a buffer, on this thread.
    pub fn run_pending(&self) {
        let journals = std::mem::take(&mut self.shared.queue.lock().journals);
        self.shared.look_at(journals);
    }

    /// A journal has got a buffer.
    pub(crate) fn note(&self, journal: Weak<Journal>) {
        let mut queue = self.shared.queue.lock();
        queue.journals.push(journal);
        if queue.journals.len() == 1 {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for WriteOut {
    fn drop(&mut self) {
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        // The thread itself may hold the last journal, and with it the last reference to this.
        self.thread.get_mut().iter().for_each(Worker::join);
    }
}

impl WriteOutQueue {
    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            while queue.journals.is_empty() && !queue.stopping {
                self.wake.wait(&mut queue);
            }
            if !queue.stopping {
                self.wake.wait_for(&mut queue, WRITE_OUT_AFTER);
            }
            if queue.stopping {
                return;
            }
            let journals = std::mem::take(&mut queue.journals);
            drop(queue);
            self.look_at(journals);
        }
    }

    fn look_at(&self, mut journals: Vec<Weak<Journal>>) {
        journals.retain(|journal| journal.upgrade().is_some_and(|journal| serve(&journal)));
        let mut queue = self.queue.lock();
        // What came meanwhile is younger.
        journals.append(&mut queue.journals);
        queue.journals = journals;
    }
}

/// Writes out what waits, or takes the buffer away if nothing came since the last look. `false`: there is no buffer to
/// look at any more.
fn serve(journal: &Journal) -> bool {
    let mut state = journal.state.lock();
    let Some(unwritten) = &state.unwritten else { return false };
    if unwritten.is_empty() && !unwritten.flush_waits {
        journal.release_unwritten(&mut state);
        return false;
    }
    let outcome = journal.write_out_locked(&mut state);
    let flush_waits = state.unwritten.as_ref().is_some_and(|unwritten| unwritten.flush_waits);
    drop(state);
    match outcome {
        // The flush was left waiting because the disk was full, and nobody asks again.
        Ok(()) if flush_waits => {
            // No descriptor was left for the sync: that is tried again, too.
            if !crate::flusher::flush_and_tell(journal)
                && let Some(unwritten) = &mut journal.state.lock().unwritten
            {
                unwritten.flush_waits = true;
            }
        }
        Ok(()) => {}
        Err(AppendError::Failed(failure)) => {
            let (dir, lost) = (journal.dir.display(), journal.unwritten_bytes());
            tracing::error!(
                "journal {dir}: the process ends and loses {lost} bytes that were acknowledged from memory"
            );
            if let Some(observer) = journal.observer.get().and_then(|observer| observer.upgrade()) {
                observer.on_failed(&failure);
            }
            return false;
        }
        // The disk is full, or there is no descriptor left: that is tried again.
        Err(_) => {}
    }
    true
}
