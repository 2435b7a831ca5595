//! Segmented append-only byte journals with group commit.
//!
//! A journal is a directory of *segments*. A segment is a file named by a number that the owner gives and that grows
//! from segment to segment (for Kafka the offset of its first record). An *entry* is whatever one [`Journal::append`]
//! writes; only the owner's [`EntryScanner`] knows how to find its end. A [`Location`] is (segment, byte position in
//! its file).
//!
//! # Guarantees
//! - [`Journal::append`] returns after the bytes are in the page cache: they survive a killed process. They survive a
//!   power cut once [`Journal::durable`] is past them. No sync ever runs under the append lock.
//! - [`Journal::append_in_memory`] returns before that. A killed process loses such entries, always the newest ones,
//!   until something writes them to the file: the thread of [`WriteOut`], a full buffer, a reader of the file, or any
//!   later append, flush, roll or cut. An entry of [`Journal::append`] is written only after everything before it.
//! - One `fdatasync` covers every append before it ([`Flusher`]): group commit.
//! - Order: `durable ≤ written ≤ end`; a later segment is never durable before an earlier one.
//! - Recovery reads only the tail from the checkpoint on. Before [`Journal::open`] returns, recovery durably cuts what
//!   follows the last whole entry. It parks (renames) later segments and deletes none. An unreadable file is an error,
//!   not an empty file.
//! - A failed sync, and a failed write other than "disk full", is final: the journal refuses every later append and
//!   gives the reason ([`Journal::failure`]). Reads continue.
//! - "Disk full" refuses the one append, leaves nothing of it in the file, and is not final. Entries that were
//!   acknowledged from memory stay there, and the journal retries. It refuses appends until they are written.
//! - Readers never wait for an append, a flush or a deletion, with one exception: a reader of bytes that are only in
//!   memory writes them to the file first. A [`FileSlice`] outlives the deletion of its segment.
//!
//! # Numbers
//! | what | limit |
//! | --- | --- |
//! | name of a segment | 20 digits and a suffix: 0 to `u64::MAX` |
//! | reserved space | none below 1 MiB of a segment, then steps that double, 1 MiB to 64 MiB, never past `segment_bytes`; for all of a host what [`JournalHost::set_reservable_bytes`] says |
//! | begun to be written to the disk | each 4 MiB of a segment ([`JournalOptions::writeback_bytes`], [`Writeback`]), at most 64 pieces waiting |
//! | entry kept in the tail cache | 4 KiB |
//! | in memory alone | 256 KiB a journal ([`UNWRITTEN_BYTES_MAX`]), 32 MiB for all of a host, for about 10 ms ([`WRITE_OUT_AFTER`]); an entry above 32 KiB is written at once ([`IN_MEMORY_ENTRY_BYTES_MAX`]) |
//! | idle journal | below 1 KiB of memory, no open file before its first read or append |
//! | files of the next segment | made when the active one is half full, or when its owner asks ([`Journal::prepare_next_soon`]) |
//! | open files of all journals of a host | [`OpenFiles::set_limit`], beside those that readers hold at the moment |
//! | recovery buffer | 1 MiB, or one entry (`max_entry_bytes`), for one journal at a time |
//!
//! # Example
//! ```
//! use std::io::IoSlice;
//! use std::sync::Arc;
//! use mainstem_env::{MemFs, RealClock};
//! use mainstem_journal::{EntryScanner, Journal, JournalHost, JournalOptions, Location};
//! use mainstem_journal::{RecoverFrom, Scan, SegmentBase};
//!
//! /// Entries of this example: one byte that counts the bytes after it.
//! struct Lengths;
//! impl EntryScanner for Lengths {
//!     fn begin_segment(&mut self, _: Location) -> bool { true }
//!     fn scan(&mut self, _: Location, bytes: &[u8]) -> Scan {
//!         let len = 1 + bytes[0] as usize;
//!         if bytes.len() < len { Scan::Incomplete { needed: len } } else { Scan::Entry { len } }
//!     }
//! }
//!
//! let host = Arc::new(JournalHost::new(Arc::new(MemFs::new()), Arc::new(RealClock::new()), 1 << 20));
//! let dir = std::path::Path::new("/data/example");
//! let (journal, report) = Journal::open(&host, dir, JournalOptions::default(), RecoverFrom::Start, &mut Lengths)?;
//! assert_eq!(report.entries, 0);
//! journal.roll(SegmentBase(0))?;
//! let at = journal.append(&[IoSlice::new(b"\x05"), IoSlice::new(b"hello")])?;
//! journal.flush()?;
//! let mut bytes = [0; 6];
//! journal.read_at(at, &mut bytes)?;
//! assert_eq!(&bytes, b"\x05hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod budget;
mod deleted_names;
mod deletion;
mod error;
mod flush;
mod flush_status;
mod flusher;
mod journal;
mod kept_tail;
mod location;
mod next_segment;
mod open_files;
mod options;
mod read;
mod recovery;
mod rename;
mod replace;
mod scan;
mod segment;
mod sync;
mod tail_cache;
mod unwritten;
mod write_out;
mod writeback;

pub use budget::MemoryBudget;
pub use deletion::DeletedSegments;
pub use error::{
    AppendError, CloseError, DeleteError, FlushError, JournalFailure, OpenError, ReadError, ReplaceError, RollError,
    ScanError, TruncateError,
};
pub use flush::DurabilityObserver;
pub use flusher::Flusher;
pub use journal::Journal;
pub use location::{Location, SegmentBase};
pub use mainstem_env::FileSlice;
pub use next_segment::NextSegments;
pub use open_files::OpenFiles;
pub use options::{JournalHost, JournalOptions, RecoverFrom};
pub use read::SegmentInfo;
pub use recovery::{Cut, RecoveryReport};
pub use scan::{EntryScanner, Scan, ScanEnd, ScanOutcome};
pub use tail_cache::TAIL_ENTRY_BYTES_MAX;
pub use unwritten::{IN_MEMORY_ENTRY_BYTES_MAX, UNWRITTEN_BYTES_MAX};
pub use write_out::{WRITE_OUT_AFTER, WriteOut};
pub use writeback::{Writeback, WritebackStats};
