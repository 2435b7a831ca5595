//! Reading entries one after the other.

use std::io;

use mainstem_env::File;

use crate::{Location, SegmentBase};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Knows where an entry ends and whether it is whole. Called in the order of the journal.
pub trait EntryScanner {
    /// A segment begins to be scanned at `start`. `false`: it does not follow from the entries seen so far (a gap),
    /// which happens when a power cut took the end of the segment before, but not this one.
    ///
    /// The answer for the first segment of a scan is ignored.
    fn begin_segment(&mut self, start: Location) -> bool;

    /// Looks at the entry that starts at `location`; `bytes` begins with it, is never empty and may hold more or less
    /// than it. Called again with more bytes after [`Scan::Incomplete`]; otherwise each entry is given once.
    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan;
}

/// What an [`EntryScanner`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// A whole, valid entry of this many bytes (at least 1).
    Entry { len: usize },
    /// The bytes do not suffice; it takes at least `needed` to decide.
    Incomplete { needed: usize },
    /// This is not an entry.
    Corrupt { reason: &'static str },
}

/// Why a scan of a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    /// With the last byte of the segment.
    Whole,
    /// In the middle of an entry.
    Torn,
    /// Before bytes that are no entry.
    Corrupt { reason: &'static str },
    /// Before a segment that does not follow from the one before.
    Gap,
}

/// How far a scan came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOutcome {
    pub entries: u64,
    pub bytes: u64,
    /// The end of the last whole entry.
    pub end: Location,
    pub reason: ScanEnd,
}

/// Scans the bytes `from..len` of one segment.
pub(crate) fn scan_segment(
    file: &dyn File,
    from: Location,
    len: u64,
    max_entry_bytes: usize,
    scanner: &mut dyn EntryScanner,
) -> io::Result<ScanOutcome> {
    let mut window = Window { file, segment: from.segment, start: from.position, len, bytes: Vec::new(), used: 0 };
    let mut entries = 0;
    let reason = loop {
        if window.left() == 0 {
            break ScanEnd::Whole;
        }
        if window.unread().is_empty() && !window.fill(1)? {
            break ScanEnd::Torn;
        }
        match scanner.scan(window.location(), window.unread()) {
            Scan::Entry { len } if len == 0 || len > window.unread().len() => {
                break ScanEnd::Corrupt { reason: "the scanner gave a length that it did not see" };
            }
            Scan::Entry { len } => {
                window.used += len;
                entries += 1;
            }
            Scan::Incomplete { needed } if needed > max_entry_bytes => {
                break ScanEnd::Corrupt { reason: "longer than an entry may be" };
            }
            // The scanner may ask for no more than it has; one more byte then guarantees progress.
            Scan::Incomplete { needed } if !window.fill(needed.max(window.unread().len() + 1))? => break ScanEnd::Torn,
            Scan::Incomplete { .. } => {}
            Scan::Corrupt { reason } => break ScanEnd::Corrupt { reason },
        }
    };
    let end = window.location();
    Ok(ScanOutcome { entries, bytes: end.position - from.position, end, reason })
}

/// The part of the file that is in memory.
struct Window<'a> {
    file: &'a dyn File,
    segment: SegmentBase,
    /// The position of `bytes[0]`.
    start: u64,
    /// The end of the segment.
    len: u64,
    bytes: Vec<u8>,
    /// Bytes before this index were scanned.
    used: usize,
}

impl Window<'_> {
    fn location(&self) -> Location {
        Location::new(self.segment, self.start + self.used as u64)
    }

    fn left(&self) -> u64 {
        self.len.saturating_sub(self.start + self.used as u64)
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Gets at least `needed` bytes after the scanned ones into memory; `false` if the segment has fewer.
    fn fill(&mut self, needed: usize) -> io::Result<bool> {
        if needed as u64 > self.left() {
            return Ok(false);
        }
        self.start += self.used as u64;
        self.bytes.drain(..self.used);
        self.used = 0;
        let have = self.bytes.len();
        let want = (needed.max(READ_BYTES) as u64).min(self.left()) as usize;
        self.bytes.resize(want, 0);
        let count = self.file.read_full_at(&mut self.bytes[have..], self.start + have as u64)?;
        self.bytes.truncate(have + count);
        Ok(self.bytes.len() >= needed)
    }
}
