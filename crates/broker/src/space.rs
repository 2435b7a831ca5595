//! The last bytes of a disk are not for clients: below `mainstem.disk.reserve` the broker refuses produced records,
//! except those that are already stored.
//!
//! Reads, deletions, groups and administration continue, and need a little space. The reserve holds at any rate of
//! writing. A check of the disk says how many bytes may be written until the next check. Appends count their bytes, and
//! an append that finds nothing left checks again. A check once a second sees the writes and deletions of other
//! programs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstem_store::{Origin, StoreEnv};

/// The most that is kept free by default.
const RESERVE_BYTES_MAX: u64 = 1 << 30;
/// With less, the disk is full: the next segment or checkpoint may find no room.
const FULL_BYTES: u64 = 1 << 20;
/// What file systems give out at once: a small append may take as much of the log, and as much of an index.
const BLOCK_BYTES: u64 = 4096;
/// More bytes than any append has: the sum of what is counted at once does not overflow.
const BYTES_MAX: u64 = 1 << 40;
/// With less above the reserve, logs reserve no space ahead of their ends: all of it is for records.
const AHEAD_FROM_BYTES: u64 = 256 << 20;

/// Whether there is space for clients' writes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    shared: Arc<SpaceAccount>,
}

/// ```text
/// written ≤ begun ≤ limit, or a thread checks the disk
/// ```
/// All three count bytes since the start. Bytes below `written` were on the disk when a later look at it began.
#[derive(Debug)]
struct SpaceAccount {
    env: Arc<StoreEnv>,
    folder: PathBuf,
    short: AtomicBool,
    /// The last look found less than [`FULL_BYTES`], with any reserve.
    full: AtomicBool,
    /// How often one of the two ended.
    recoveries: AtomicU64,
    reserve: AtomicU64,
    /// The bytes, above the reserve, that the append wanted which made the disk short.
    missed: AtomicU64,
    begun: AtomicU64,
    written: AtomicU64,
    limit: AtomicU64,
}

/// Bytes that an append is about to write.
#[must_use = "what is taken is counted as written when this is dropped"]
#[derive(Debug)]
pub(crate) struct Taken<'s> {
    space: &'s SpaceAccount,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.space.written.fetch_add(self.bytes, Ordering::Release);
    }
}

impl Space {
    /// Nothing is short until the first check.
    pub fn new(env: Arc<StoreEnv>, folder: PathBuf) -> Space {
        let shared = SpaceAccount {
            env,
            folder,
            short: AtomicBool::new(false),
            full: AtomicBool::new(false),
            recoveries: AtomicU64::new(0),
            reserve: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        };
        Space { shared: Arc::new(shared) }
    }

    pub fn is_short(&self) -> bool {
        self.shared.short.load(Ordering::Relaxed)
    }

    /// Whether space is needed at once: for clients' writes, or because the disk is full and nothing is reserved.
    pub fn is_wanted(&self) -> bool {
        self.is_short() || self.shared.full.load(Ordering::Relaxed)
    }

    /// How often since the start there was space again.
    pub fn recoveries(&self) -> u64 {
        self.shared.recoveries.load(Ordering::Relaxed)
    }

    /// Takes space for a client's append of so many bytes. `None`: it would take from the reserve.
    pub fn take(&self, bytes: usize) -> Option<Taken<'_>> {
        if self.is_short() {
            return None;
        }
        let taken = self.count(bytes);
        // A disk that cannot be asked says nothing about its space: the write itself will tell.
        if !self.shared.is_over() || self.shared.look().is_err() {
            return Some(taken);
        }
        if !self.is_short() && self.shared.is_over() {
            self.shared.missed.store(taken.bytes, Ordering::Relaxed);
            self.shared.become_short();
        }
        Some(taken).filter(|_| !self.is_short())
    }

    /// Takes space for an append: what clients do not produce is written in any case.
    pub fn take_for(&self, origin: Origin, bytes: usize) -> Option<Taken<'_>> {
        match origin {
            Origin::Client => self.take(bytes),
            _ => Some(self.count(bytes)),
        }
    }

    /// Counts bytes that are written in any case.
    pub fn count(&self, bytes: usize) -> Taken<'_> {
        let bytes = (bytes as u64).min(BYTES_MAX).next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
        self.shared.begun.fetch_add(bytes, Ordering::AcqRel);
        Taken { space: &self.shared, bytes }
    }
}

impl SpaceAccount {
    fn is_over(&self) -> bool {
        self.begun.load(Ordering::Acquire) > self.limit.load(Ordering::Acquire)
    }

    fn look(&self) -> io::Result<()> {
        // In this order: the free space already lacks the bytes that were written before.
        let written = self.written.load(Ordering::Acquire);
        let free = self.env.fs.free_space(&self.folder)?;
        let unwritten = self.env.unwritten_buffer_bytes() as u64;
        self.judge(free.saturating_sub(unwritten), written);
        Ok(())
    }

    /// Judges the free space. Once it was too little, a tenth more than the reserve has to be free again, and the
    /// refused append has to fit. So the judgement does not change every second.
    fn judge(&self, free: u64, written: u64) {
        let reserve = self.reserve.load(Ordering::Relaxed);
        let full = free < FULL_BYTES;
        if self.full.swap(full, Ordering::Relaxed) && !full {
            self.recoveries.fetch_add(1, Ordering::Relaxed);
        }
        let left = if reserve == 0 { u64::MAX } else { free.saturating_sub(reserve) };
        // As much again may have been reserved since the look began.
        let reservable = if left < AHEAD_FROM_BYTES { 0 } else { left / 4 };
        self.env.set_reservable_bytes(reservable);
        self.limit.store(written.saturating_add(left - 2 * reservable), Ordering::Release);
        if !self.short.load(Ordering::Relaxed) {
            if free < reserve {
                self.missed.store(0, Ordering::Relaxed);
                self.become_short();
            }
            return;
        }
        let more = (reserve / 10).max(self.missed.load(Ordering::Relaxed));
        if free >= reserve.saturating_add(more) && self.short.swap(false, Ordering::Relaxed) {
            self.recoveries.fetch_add(1, Ordering::Relaxed);
            tracing::info!("{free} bytes are free on the disk: the broker accepts records again");
        }
    }

    fn become_short(&self) {
        if self.short.swap(true, Ordering::Relaxed) {
            return;
        }
        let reserve = self.reserve.load(Ordering::Relaxed);
        tracing::error!(
            "the free space on the disk of {} is down to mainstem.disk.reserve={reserve} bytes: the broker refuses records of producers until \
             there is more; delete topics or records, shorten retention, or enlarge the disk",
            self.folder.display()
        );
    }
}

impl Space {
    /// Looks at the disk, and keeps `reserve_bytes` of it free. If the look fails, everything stays as it was.
    pub fn look(&self, reserve_bytes: u64) -> io::Result<()> {
        self.shared.reserve.store(reserve_bytes, Ordering::Relaxed);
        self.shared.look()
    }
}

/// The default reserve of a disk of `total` bytes.
pub(crate) fn suggested_reserve(total: u64) -> u64 {
    (total / 20).min(RESERVE_BYTES_MAX)
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
