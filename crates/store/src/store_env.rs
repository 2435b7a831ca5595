//! What all logs of a process share: files, clock, threads, caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstem_env::{Clock, Fs, Rng, Signal};
use mainstem_journal::{Flusher, JournalHost, WritebackStats};

use crate::group_log::QueueMemory;
use crate::views::index_cache;

/// More index files are not kept open, however many files there may be.
const INDEX_FILES_MAX: usize = 4096;

/// What all logs of a process share.
#[derive(Debug)]
pub struct StoreEnv {
    pub fs: Arc<dyn Fs>,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub(crate) host: Arc<JournalHost>,
    pub(crate) flusher: Flusher,
    pub(crate) indexes: index_cache::IndexCache,
    /// Of consume queues.
    pub(crate) queues: Arc<QueueMemory>,
    logs_opened: AtomicU64,
}

impl StoreEnv {
    /// `tail_bytes`: the memory that the tail caches of all logs together may take. `flusher_threads`: how many logs
    /// are synced at the same time; with 0, syncs wait for [`StoreEnv::run_pending_flushes`] and what is in memory
    /// alone for [`StoreEnv::run_pending_write_outs`] (for tests), and nothing is written back ahead of them.
    pub fn new(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        tail_bytes: usize,
        flusher_threads: usize,
    ) -> std::io::Result<Arc<StoreEnv>> {
        let host = Arc::new(JournalHost::new(Arc::clone(&fs), Arc::clone(&clock), tail_bytes));
        if flusher_threads > 0 {
            host.writeback.start()?;
            host.write_out.start()?;
            host.next_segments.start()?;
        }
        let flusher = Flusher::new(flusher_threads)?;
        Ok(Arc::new(StoreEnv {
            fs,
            clock,
            rng,
            host,
            flusher,
            indexes: Default::default(),
            queues: Default::default(),
            logs_opened: AtomicU64::new(0),
        }))
    }

    /// How many files the logs may keep open together, beside those that readers hold at the moment. Without this there
    /// is no limit for segment files, and 256 for the indexes of segments that are read behind the tail.
    pub fn set_open_files_max(&self, files: usize) {
        let indexes = (files / 8).clamp(1, INDEX_FILES_MAX);
        self.indexes.set_files_max(indexes);
        self.host.open_files.set_limit(files.saturating_sub(indexes));
    }

    /// What tells the opening of logs to end early. Can be set once; later calls change nothing.
    pub fn set_stop(&self, stop: Arc<Signal>) {
        self.host.set_stop(stop);
    }

    /// Whether no further log is to be opened.
    pub fn is_stopped(&self) -> bool {
        self.host.is_stopped()
    }

    /// How many bytes logs may reserve ahead of their ends from now on, all together. Without this there is no limit.
    pub fn set_reservable_bytes(&self, bytes: u64) {
        self.host.set_reservable_bytes(bytes);
    }

    /// What was begun to be written to the disk before a sync, or the system, asked for it.
    pub fn writeback_stats(&self) -> WritebackStats {
        self.host.writeback.stats()
    }

    /// Closes the files that were not used since the last call. To be called now and then, where nobody waits.
    pub fn release_idle_files(&self) {
        self.indexes.release_idle();
        self.host.open_files.release_idle();
    }

    pub(crate) fn next_log_number(&self) -> u64 {
        self.logs_opened.fetch_add(1, Ordering::Relaxed)
    }

    /// Memory that is taken for acknowledged records which are not in the page cache yet
    /// (`mainstem.durability=memory`).
    pub fn unwritten_buffer_bytes(&self) -> usize {
        self.host.write_out.buffered_bytes()
    }

    /// Writes out what logs have in memory alone, on this thread.
    pub fn run_pending_write_outs(&self) {
        self.host.write_out.run_pending();
    }

    /// Makes the files of next segments that logs asked for, on this thread.
    pub fn run_pending_preparations(&self) {
        self.host.next_segments.run_pending();
    }

    /// Runs the syncs that were asked for on this thread; gives the number of logs.
    pub fn run_pending_flushes(&self) -> usize {
        self.flusher.run_pending()
    }
}
