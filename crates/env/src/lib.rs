//! Files, clocks and random numbers behind object-safe traits, and threads.
//!
//! Guarantees:
//! - [`Fs`] and [`File`]: positional IO with `&self`, no shared cursor, any number of threads at once. A short read or
//!   write is allowed by the plain calls and handled by the provided `*_all_*` and `*_exact_*` helpers.
//! - Nothing is durable before [`File::sync_data`] (bytes and length) and [`Fs::sync_dir`] (names) have returned `Ok`.
//!   After a failed sync the un-synced bytes are lost, whatever a read still shows; a retry that succeeds proves
//!   nothing.
//! - "Absent" is an answer ([`Fs::metadata`] gives `None`), "unreadable" an error.
//! - [`MemFs`] keeps what was synced apart from what was written: [`MemFs::crash`] gives the disk as a power cut could
//!   leave it, [`MemFs::stop_after`] stops at any write or sync, [`Fault`] fails the n-th call.
//! - [`Worker`] is a thread with a name, a stop and a wake. It is real: simulation and tests that decide about every
//!   step start none.
//! - Calls that only Linux has (`preadv2` with `RWF_NOWAIT`, `fallocate`, `sync_file_range`, `cachestat`,
//!   `posix_fadvise`, `sendfile`) live in `real/linux.rs` alone; `real/portable.rs` has the same functions for every
//!   other Unix.
//!
//! Numbers: a file position is a `u64`, at most `i64::MAX` on every real file system. One `sendfile` moves at most
//! 2,147,479,552 bytes on Linux; the portable fallback at most 64 KiB a call. One vectored write takes at most 1,024
//! parts.

mod clock;
mod file;
mod fs;
mod mem;
mod real;
mod rng;
mod slice;
mod worker;

pub use clock::{Clock, ManualClock, RealClock};
pub use file::{Advice, File, Residency};
pub use fs::{DirEntry, Fs, Metadata, OpenDir, OpenOptions, is_disk_full, is_out_of_descriptors, may_pass};
pub use mem::{CrashPolicy, Fault, FaultAction, MemFs, OpKind, is_stopped};
pub use real::{RealFs, raise_open_files_limit};
pub use rng::{RealRng, Rng, SeededRng};
pub use slice::FileSlice;
pub use worker::{Signal, Worker, abort_on_panic};
