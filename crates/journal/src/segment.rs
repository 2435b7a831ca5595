//! One segment: a file and how far it is filled.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstem_env::{File, Fs, OpenOptions};
use parking_lot::Mutex;

use crate::SegmentBase;

/// The number of digits in a segment's name.
const NAME_DIGITS: usize = 20;

/// Marks a length that nobody has asked the file system for yet.
const UNKNOWN: u64 = u64::MAX;

/// A segment of a journal. Its file is opened by the first who needs it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: SegmentBase,
    /// Readers see the bytes below. Grows with each append, after the bytes were written.
    len: AtomicU64,
    /// Whether blocks past `len` are reserved, to be given back when the segment is full.
    pub(crate) reserved: AtomicBool,
    file: Mutex<Option<Arc<dyn File>>>,
}

impl Segment {
    /// A segment found on the disk, whose length is asked for when it is needed.
    pub(crate) fn found(base: SegmentBase) -> Self {
        Segment { base, len: AtomicU64::new(UNKNOWN), reserved: AtomicBool::new(false), file: Mutex::new(None) }
    }

    /// A segment that was just created.
    pub(crate) fn created(base: SegmentBase, file: Arc<dyn File>) -> Self {
        let segment = Segment::found(base);
        segment.set_len(0);
        *segment.file.lock() = Some(file);
        segment
    }

    /// The name of the file of a segment.
    pub(crate) fn path(dir: &Path, base: SegmentBase, suffix: &str) -> PathBuf {
        dir.join(format!("{base}{suffix}"))
    }

    /// The base in a file name; `None` if this is not the name of a segment.
    pub(crate) fn parse_name(name: &str, suffix: &str) -> Option<SegmentBase> {
        let digits = name.strip_suffix(suffix)?;
        if digits.len() != NAME_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().map(SegmentBase)
    }

    /// The open file.
    pub(crate) fn file(&self, fs: &dyn Fs, path: impl FnOnce() -> PathBuf) -> io::Result<Arc<dyn File>> {
        let mut slot = self.file.lock();
        if let Some(file) = &*slot {
            return Ok(Arc::clone(file));
        }
        let file = fs.open(&path(), &OpenOptions::read_write())?;
        *slot = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Lets go of the open file; readers that hold it keep it.
    pub(crate) fn close_file(&self) {
        *self.file.lock() = None;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.lock().is_some()
    }

    /// How many bytes readers may see.
    pub(crate) fn len(&self, fs: &dyn Fs, path: impl FnOnce() -> PathBuf) -> io::Result<u64> {
        match self.len.load(Ordering::Acquire) {
            UNKNOWN => {
                let found = fs.metadata(&path())?.ok_or(io::ErrorKind::NotFound)?.len;
                // Only the first answer counts: an append may have moved the end meanwhile.
                match self.len.compare_exchange(UNKNOWN, found, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => Ok(found),
                    Err(known) => Ok(known),
                }
            }
            len => Ok(len),
        }
    }

    /// The length if it was asked for or set before.
    pub(crate) fn known_len(&self) -> Option<u64> {
        Some(self.len.load(Ordering::Acquire)).filter(|len| *len != UNKNOWN)
    }

    /// Makes the bytes below `len` visible. Called with the append lock held.
    pub(crate) fn set_len(&self, len: u64) {
        self.len.store(len, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_twenty_digits_and_the_suffix_name_a_segment() {
        let parse = |name| Segment::parse_name(name, ".log");
        assert_eq!(parse("00000000000000000017.log"), Some(SegmentBase(17)));
        assert_eq!(parse("18446744073709551615.log"), Some(SegmentBase(u64::MAX)));
        assert_eq!(parse("18446744073709551616.log"), None);
        assert_eq!(parse("0000000000000000017.log"), None);
        assert_eq!(parse("+0000000000000000017.log"), None);
        assert_eq!(parse("00000000000000000017.log.deleted"), None);
        assert_eq!(parse("00000000000000000017.index"), None);
        assert_eq!(Segment::parse_name("00000000000000000017", ""), Some(SegmentBase(17)));
    }
}
