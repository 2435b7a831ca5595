//! What all journals of a process share, and what each has of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mainstem_env::{Clock, Fs, Signal};

use crate::{Location, MemoryBudget, NextSegments, OpenFiles, WriteOut, Writeback};

/// The parts that all journals of a process share.
#[derive(Debug)]
pub struct JournalHost {
    pub fs: Arc<dyn Fs>,
    pub clock: Arc<dyn Clock>,
    /// The memory that all tail caches together may take.
    pub tail_budget: MemoryBudget,
    /// How many segment files may be open.
    pub open_files: OpenFiles,
    /// Writes dirty pages steadily, once it is started.
    pub writeback: Writeback,
    /// Writes out entries that were appended to memory.
    pub write_out: WriteOut,
    /// Makes the files of next segments.
    pub next_segments: NextSegments,
    /// How many bytes segments may still reserve ahead of their ends.
    reservable: AtomicU64,
    /// Recovery checks it between two segments.
    stop: OnceLock<Arc<Signal>>,
}

impl JournalHost {
    /// `tail_bytes`: the memory that all tail caches together may take.
    pub fn new(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, tail_bytes: usize) -> Self {
        JournalHost {
            fs,
            clock,
            tail_budget: MemoryBudget::new(tail_bytes),
            open_files: OpenFiles::default(),
            writeback: Writeback::default(),
            write_out: WriteOut::default(),
            next_segments: NextSegments::default(),
            reservable: AtomicU64::new(u64::MAX),
            stop: OnceLock::new(),
        }
    }

    /// What tells recoveries to end early. Can be set once; later calls change nothing.
    pub fn set_stop(&self, stop: Arc<Signal>) {
        // The first one counts: recoveries may look at it already.
        let _ = self.stop.set(stop);
    }

    /// Whether recoveries are to end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.get().is_some_and(|stop| stop.is_stopped())
    }

    /// How many bytes segments may reserve ahead of their ends from now on, all together. Without this there is no
    /// limit.
    pub fn set_reservable_bytes(&self, bytes: u64) {
        self.reservable.store(bytes, Ordering::Relaxed);
    }

    /// Takes from them; `false` if there are not as many.
    pub(crate) fn take_reservable(&self, bytes: u64) -> bool {
        self.reservable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// The settings of one journal. They can be changed while it runs ([`crate::Journal::set_options`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// What follows the 20 digits in a segment's file name.
    pub suffix: &'static str,
    /// [`crate::Journal::needs_roll`] says yes when an entry would make the segment larger than this.
    pub segment_bytes: u64,
    /// Recovery takes a longer entry for corrupt, so that a broken length cannot ask for more memory.
    pub max_entry_bytes: usize,
    /// The tail cache of this journal; 0 keeps none.
    pub tail_cache_bytes: usize,
    /// Whether disk space is reserved ahead of the end of a busy segment.
    pub preallocate: bool,
    /// Suffixes of the owner's files beside each segment, which are prepared with it.
    /// See [`crate::Journal::take_prepared`].
    pub companions: &'static [&'static str],
    /// How much of a segment is dirty before the system is told to begin writing it; 0: the system decides. See
    /// [`crate::Writeback`].
    pub writeback_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            suffix: ".log",
            segment_bytes: 1 << 30,
            max_entry_bytes: 256 << 20,
            tail_cache_bytes: 64 << 10,
            preallocate: true,
            companions: &[],
            writeback_bytes: 4 << 20,
        }
    }
}

/// The known facts about the files of a journal that is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverFrom {
    /// The journal was closed cleanly: the files are taken as they are, none is opened or read.
    Clean,
    /// Everything before this location was durable and valid, and it is the start of an entry or the end: the files are
    /// checked from here on. A clean end found at exactly this location costs no read and no sync. Give a location that
    /// [`crate::Journal::durable`] or [`crate::Journal::flush`] once returned, or that a later cut lowered; never a
    /// guess, not even zero, for a journal that was never flushed: that is `Start`.
    Checkpoint(Location),
    /// Nothing is known: every segment is checked. If the power went before the very first flush, the first segments
    /// may be missing while later ones are there: the journal then starts with what is there.
    Start,
}
