//! Dirty pages go to the disk in a steady flow, so that neither a sync nor the system's own flusher finds gigabytes at
//! once.
//!
//! Whenever a segment has grown by [`crate::JournalOptions::writeback_bytes`], the append notes which bytes these are.
//! The thread `write-back` tells the system to begin writing them. Nothing waits for this thread, and it makes nothing
//! durable. If it is late or fails, the system writes the pages when it wants.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstem_env::{File, Worker};
use parking_lot::{Condvar, Mutex};

/// Most waiting notes. Each keeps a file open. Notes beyond this are dropped, and the system writes their pages back.
const NOTES_MAX: usize = 64;

/// The work so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WritebackStats {
    /// Calls of the system, and the bytes that they were for.
    pub calls: u64,
    pub bytes: u64,
    /// Bytes for which there was no room, because the disk takes less than is written.
    pub skipped_bytes: u64,
}

/// Begins to write what journals have appended. Without [`Writeback::start`] nothing is noted. Dropping it ends the
/// thread.
#[derive(Debug, Default)]
pub struct Writeback {
    shared: Arc<WritebackQueue>,
    thread: Mutex<Option<Worker>>,
}

#[derive(Debug, Default)]
struct WritebackQueue {
    running: AtomicBool,
    queue: Mutex<Queue>,
    wake: Condvar,
    calls: AtomicU64,
    bytes: AtomicU64,
    skipped_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    notes: VecDeque<Note>,
    stopping: bool,
}

#[derive(Debug)]
struct Note {
    file: Arc<dyn File>,
    position: u64,
    len: u64,
}

impl Writeback {
    /// Starts the thread, once; later calls change nothing.
    pub fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(Worker::start("write-back", move |_| shared.run())?);
            self.shared.running.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub fn stats(&self) -> WritebackStats {
        WritebackStats {
            calls: self.shared.calls.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            skipped_bytes: self.shared.skipped_bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed)
    }

    /// Leaves a note. Never waits for IO.
    pub(crate) fn note(&self, file: &Arc<dyn File>, position: u64, len: u64) {
        let mut queue = self.shared.queue.lock();
        if let Some(last) = queue.notes.back_mut()
            && Arc::ptr_eq(&last.file, file)
            && last.position + last.len == position
        {
            last.len += len;
            return;
        }
        if queue.notes.len() >= NOTES_MAX {
            self.shared.skipped_bytes.fetch_add(len, Ordering::Relaxed);
            return;
        }
        queue.notes.push_back(Note { file: Arc::clone(file), position, len });
        drop(queue);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writeback {
    fn drop(&mut self) {
        let Some(thread) = self.thread.lock().take() else { return };
        {
            let mut queue = self.shared.queue.lock();
            queue.stopping = true;
            queue.notes.clear();
        }
        self.shared.wake.notify_all();
        thread.join();
    }
}

impl WritebackQueue {
    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let note = loop {
                match queue.notes.pop_front() {
                    _ if queue.stopping => return,
                    Some(note) => break note,
                    None => self.wake.wait(&mut queue),
                }
            };
            drop(queue);
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(note.len, Ordering::Relaxed);
            // A hint. An error of the disk is told to the next sync of the file, which is where it counts.
            let _ = note.file.start_writeback(note.position, note.len);
        }
    }
}
