//! One segment: a file and how far it is filled.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstem_env::{File, Fs, OpenOptions};
use parking_lot::Mutex;

use crate::{JournalHost, OpenFiles, SegmentBase};

/// The number of digits in a segment's name.
const NAME_DIGITS: usize = 20;

/// Marks a length that the file system was not asked for yet.
const UNKNOWN: u64 = u64::MAX;

/// A segment of a journal. The first use opens its file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: SegmentBase,
    /// Readers see the bytes below. Grows with each append, when its bytes are in the file or in the journal's memory.
    len: AtomicU64,
    /// The bytes from here on are in memory alone; `u64::MAX`: none is.
    in_memory_from: AtomicU64,
    /// Whether blocks past `len` are reserved, to be given back when the segment is full.
    pub(crate) reserved: AtomicBool,
    /// Whether something was written that no sync has covered. A file that is closed meanwhile is opened again to be
    /// synced: the system tells the next sync of a file of an error that nobody was told of, whichever handle it comes
    /// through.
    unsynced: AtomicBool,
    file: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    file: Option<Arc<dyn File>>,
    /// [`crate::OpenFiles`] has the segment in its list.
    listed: bool,
    /// Somebody used the file since the list last looked.
    used: bool,
    /// The name leads to another file still: this one must stay open.
    pinned: bool,
}

impl Segment {
    /// A segment found on the disk, whose length is asked for when it is needed.
    pub(crate) fn found(base: SegmentBase) -> Self {
        Segment {
            base,
            len: AtomicU64::new(UNKNOWN),
            in_memory_from: AtomicU64::new(u64::MAX),
            reserved: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
            file: Mutex::default(),
        }
    }

    /// A segment that was just created.
    pub(crate) fn created(base: SegmentBase, file: Arc<dyn File>, open_files: &OpenFiles) -> Arc<Self> {
        let segment = Arc::new(Segment::found(base));
        segment.set_len(0);
        segment.file.lock().file = Some(file);
        segment.note_write();
        segment.enlist(open_files);
        segment
    }

    /// A segment that takes the place of others, whose file has not got its name yet: it stays open until
    /// [`Segment::unpin`].
    pub(crate) fn replacing(base: SegmentBase, file: Arc<dyn File>, len: u64) -> Arc<Self> {
        let segment = Arc::new(Segment::found(base));
        segment.set_len(len);
        *segment.file.lock() = Slot { file: Some(file), pinned: true, ..Slot::default() };
        segment
    }

    pub(crate) fn unpin(&self) {
        self.file.lock().pinned = false;
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

    /// The open file; opens it if need be.
    pub(crate) fn file(
        self: &Arc<Self>,
        host: &JournalHost,
        path: impl FnOnce() -> PathBuf,
    ) -> io::Result<Arc<dyn File>> {
        let file = {
            let mut slot = self.file.lock();
            slot.used = true;
            if let Some(file) = &slot.file {
                return Ok(Arc::clone(file));
            }
            let file = host.fs.open(&path(), &OpenOptions::read_write())?;
            slot.file = Some(Arc::clone(&file));
            file
        };
        self.enlist(&host.open_files);
        Ok(file)
    }

    /// The file, if it is open.
    pub(crate) fn file_if_open(&self) -> Option<Arc<dyn File>> {
        let mut slot = self.file.lock();
        slot.used = true;
        slot.file.clone()
    }

    pub(crate) fn enlist(self: &Arc<Self>, open_files: &OpenFiles) {
        if !std::mem::replace(&mut self.file.lock().listed, true) {
            open_files.add(self);
        }
    }

    /// Lets go of the open file; readers that hold it keep it.
    pub(crate) fn close_file(&self) {
        // Closed after the lock is released.
        let _file = {
            let mut slot = self.file.lock();
            if slot.pinned { None } else { slot.file.take() }
        };
    }

    /// The list has taken the segment out to close its file. `false`: it was used meanwhile and goes back into the
    /// list.
    pub(crate) fn close_if_unused(&self) -> bool {
        let mut slot = self.file.lock();
        if slot.file.is_some() && (slot.pinned || std::mem::take(&mut slot.used)) {
            return false;
        }
        slot.listed = false;
        let _file = slot.file.take();
        drop(slot);
        true
    }

    /// Called before a write.
    pub(crate) fn note_write(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// Says whether there was something to sync, and forgets it. Called before a sync, which covers everything written
    /// until then.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Ordering::AcqRel)
    }

    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.file.lock().file.is_some()
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

    /// From which position on the bytes are in memory alone; `u64::MAX`: all are in the file. To be asked after the
    /// length, below which this then holds for longer than the question: bytes only ever leave memory.
    pub(crate) fn in_memory_from(&self) -> u64 {
        self.in_memory_from.load(Ordering::Acquire)
    }

    /// Called with the append lock held: before the length that includes such bytes is set, and after they were
    /// written.
    pub(crate) fn set_in_memory_from(&self, position: u64) {
        self.in_memory_from.store(position, Ordering::Release);
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
