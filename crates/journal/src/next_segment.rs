//! Files of the next segment, made before they are needed: a roll then renames them, and waits for no file to be
//! created.
//!
//! ```text
//!   segment half full          thread "next-segment"             roll
//!   ───────────────────▶ asked ─────────────────────▶ prepared ──────▶ <base>.log
//!                                next.log.deleted
//! ```
//! A prepared file is empty and closed. Its name ends like the name of a deleted file: a start removes the file, also
//! a start of a Kafka.
//! Where nothing is prepared, the roll creates the file itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use mainstem_env::{File, OpenOptions, Worker};
use parking_lot::{Condvar, Mutex};

use crate::deleted_names::DELETED_SUFFIX;
use crate::journal::AppendState;
use crate::{Journal, SegmentBase};

/// Makes the files of next segments. Without [`NextSegments::start`] that waits for [`NextSegments::run_pending`]: for
/// tests, where every step has its place. Dropping it ends the thread.
#[derive(Debug, Default)]
pub struct NextSegments {
    queue: Arc<Asked>,
    thread: Mutex<Option<Worker>>,
}

#[derive(Debug, Default)]
struct Asked {
    journals: Mutex<AskedJournals>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct AskedJournals {
    /// Each journal once.
    waiting: Vec<Weak<Journal>>,
    stopping: bool,
}

impl NextSegments {
    /// Starts the thread, once; later calls change nothing.
    pub fn start(&self) -> io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let queue = Arc::clone(&self.queue);
            *thread = Some(Worker::start("next-segment", move |_| queue.run())?);
        }
        Ok(())
    }

    /// Prepares the requested files on this thread.
    pub fn run_pending(&self) {
        let waiting = std::mem::take(&mut self.queue.journals.lock().waiting);
        waiting.iter().filter_map(Weak::upgrade).for_each(|journal| journal.prepare_next());
    }

    fn ask(&self, journal: Weak<Journal>) {
        self.queue.journals.lock().waiting.push(journal);
        self.queue.wake.notify_one();
    }
}

impl Drop for NextSegments {
    fn drop(&mut self) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.queue.journals.lock().stopping = true;
        self.queue.wake.notify_all();
        thread.join();
    }
}

impl Asked {
    fn run(&self) {
        loop {
            let mut journals = self.journals.lock();
            while journals.waiting.is_empty() && !journals.stopping {
                self.wake.wait(&mut journals);
            }
            if journals.stopping {
                return;
            }
            let waiting = std::mem::take(&mut journals.waiting);
            drop(journals);
            waiting.iter().filter_map(Weak::upgrade).for_each(|journal| journal.prepare_next());
        }
    }
}

/// The files that are prepared for the next roll. They are closed: a busy journal holds no descriptor for them.
#[derive(Debug)]
pub(crate) struct PreparedFiles {
    log: bool,
    /// Suffixes of files beside it.
    companions: Vec<&'static str>,
}

/// The name of a prepared file in the folder of a journal.
pub(crate) fn prepared_name(suffix: &str) -> String {
    format!("next{suffix}{DELETED_SUFFIX}")
}

impl Journal {
    /// The active segment is full soon: asks for the files of the next one. Costs next to nothing when it was asked
    /// before.
    pub fn prepare_next_soon(self: &Arc<Self>) {
        if !self.next_asked.load(Ordering::Relaxed) && !self.next_asked.swap(true, Ordering::AcqRel) {
            self.host.next_segments.ask(Arc::downgrade(self));
        }
    }

    /// Makes the files of the next segment. Where that fails, the roll makes them, and says why it cannot.
    fn prepare_next(&self) {
        {
            let state = self.state.lock();
            let is_prepared = state.prepared.as_ref().is_some_and(|prepared| prepared.log);
            if state.closed || is_prepared || self.failure().is_some() {
                return;
            }
        }
        if !self.names_are_durable() {
            // A later segment may not be there without the first one. Where no descriptor is left, the roll sees that
            // the names are not durable.
            let _ = crate::flusher::flush_and_tell(self);
        }
        let create = |suffix: &str| self.host.fs.open(&self.prepared_path(suffix), &OpenOptions::create_empty());
        if create(self.suffix).is_err() {
            return;
        }
        let options = self.options();
        let companions = options.companions.iter().copied().filter(|suffix| create(suffix).is_ok()).collect();
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            self.remove_prepared();
        } else {
            state.prepared = Some(PreparedFiles { log: true, companions });
        }
    }

    fn prepared_path(&self, suffix: &str) -> PathBuf {
        self.dir.join(prepared_name(suffix))
    }

    /// Opens a prepared file, and gives it its name. `None`: there is none, or another file has the name. It is opened
    /// first: where that fails, nothing has changed.
    pub(crate) fn take_prepared_log(&self, state: &mut AppendState, base: SegmentBase) -> Option<Arc<dyn File>> {
        self.next_asked.store(false, Ordering::Release);
        if !std::mem::take(&mut state.prepared.as_mut()?.log) {
            return None;
        }
        let (from, to) = (self.prepared_path(self.suffix), self.path(base));
        let file = self.host.fs.open(&from, &OpenOptions::read_write()).ok()?;
        let is_free = matches!(self.host.fs.exists(&to), Ok(false));
        (is_free && self.host.fs.rename(&from, &to).is_ok()).then_some(file)
    }

    /// Gives the prepared file of another kind ([`crate::JournalOptions::companions`]) the name `to`, in place of what
    /// has it. `false`: there is none. What was prepared with one segment serves one roll.
    pub fn take_prepared(&self, suffix: &'static str, to: &Path) -> bool {
        let mut state = self.state.lock();
        let Some(prepared) = &mut state.prepared else { return false };
        let Some(at) = prepared.companions.iter().position(|known| *known == suffix) else { return false };
        prepared.companions.swap_remove(at);
        if !prepared.log && prepared.companions.is_empty() {
            state.prepared = None;
        }
        drop(state);
        self.host.fs.rename(&self.prepared_path(suffix), to).is_ok()
    }

    /// Removes prepared files that were not used. The next start removes those that cannot be removed now.
    pub(crate) fn remove_prepared(&self) {
        let companions = self.options().companions;
        for suffix in companions.iter().copied().chain([self.suffix]) {
            let _ = self.host.fs.remove_file(&self.prepared_path(suffix));
        }
    }

    /// The names of the files that the journal began with have been synced.
    pub fn names_are_durable(&self) -> bool {
        self.names_durable.load(Ordering::Acquire)
    }
}
