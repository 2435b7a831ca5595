//! Goes from one whole entry of a file to the next, past damage.
//!
//! Numbers: 1 MiB of the file is in memory, or one entry where that is larger; an entry above 32 MiB is read only after
//! its checksum was found right piece by piece, so a length that was damaged costs no memory.

use std::io;
use std::sync::Arc;

use mainstem_env::File;
use mainstem_record::{BatchHeader, HEADER_SIZE, layout};
use mainstem_store::formats::commit_log_entry::{self, EntryError, EntryHeader, EntryKind};
use mainstem_types::Offset;

const WINDOW_SIZE: usize = 1 << 20;
const READ_AT_ONCE_MAX: usize = 32 << 20;

/// The fields in the first bytes of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// Bytes that it takes in the file.
    pub(crate) size: usize,
    /// Where its batch begins in it.
    pub(crate) batch_at: usize,
    /// `None`: there is no batch in it, and nothing follows it in the file.
    pub(crate) batch: Option<BatchHeader>,
}

/// How entries look.
pub(crate) trait Format {
    /// Bytes that tell all that [`Format::head`] tells; there may be fewer at the end of a file.
    const HEAD_SIZE: usize;

    /// The head of the entry that the bytes begin with.
    fn head(&self, bytes: &[u8]) -> Result<Head, String>;

    /// Whether a whole entry is right in every byte that has a checksum.
    fn check(&self, bytes: &[u8]) -> Result<(), String>;

    /// Whether an entry may begin with these bytes: quick, and true of every entry.
    fn may_begin(&self, bytes: &[u8]) -> bool;

    /// Whether what an entry says of its place, which no checksum covers, cannot be: the bytes after it, `next`, say
    /// otherwise.
    fn is_contradicted(&self, _head: &Head, _next: &[u8]) -> bool {
        false
    }

    /// A whole entry was found.
    fn accept(&mut self, head: &Head);
}

/// Bytes that are no whole entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) reason: String,
    /// Nothing whole follows.
    pub(crate) at_end: bool,
    /// The file ends within the entry.
    pub(crate) cut: bool,
}

#[derive(Debug)]
pub(crate) enum ScanStep {
    /// [`Scan::bytes`] has its bytes.
    Entry {
        position: u64,
        head: Head,
    },
    Damage(Damage),
    End,
}

enum Trouble {
    Damaged(String),
    Cut(String),
    Io(io::Error),
}

/// A part of a file in memory.
struct Window {
    file: Arc<dyn File>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `at` on: at least `needed`, unless the file ends before.
    fn get(&mut self, at: u64, needed: usize) -> io::Result<&[u8]> {
        let inside = at >= self.start && at + needed as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            self.bytes.resize(needed.max(WINDOW_SIZE), 0);
            self.start = at;
            let count = self.file.read_full_at(&mut self.bytes, at);
            self.bytes.truncate(*count.as_ref().unwrap_or(&0));
            count?;
        }
        Ok(&self.bytes[(at - self.start) as usize..])
    }
}

pub(crate) struct Scan<F> {
    window: Window,
    len: u64,
    at: u64,
    /// Where the entry found last is.
    found: (u64, usize),
    pub(crate) format: F,
}

impl<F: Format> Scan<F> {
    pub(crate) fn new(file: Arc<dyn File>, format: F) -> io::Result<Scan<F>> {
        let len = file.len()?;
        Ok(Scan { window: Window { file, start: 0, bytes: Vec::new() }, len, at: 0, found: (0, 0), format })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes of the entry that was found last.
    pub(crate) fn bytes(&mut self) -> io::Result<&[u8]> {
        let (at, size) = self.found;
        let bytes = self.window.get(at, size)?;
        bytes.get(..size).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub(crate) fn next(&mut self) -> ScanStep {
        let position = self.at;
        if position >= self.len {
            return ScanStep::End;
        }
        let entry = self.try_entry(position).and_then(|head| self.check_place(position, &head).map(|()| head));
        let (reason, cut) = match entry {
            Ok(head) => {
                self.found = (position, head.size);
                self.at = if head.batch.is_some() { position + head.size as u64 } else { self.len };
                self.format.accept(&head);
                return ScanStep::Entry { position, head };
            }
            Err(Trouble::Damaged(reason)) => (reason, false),
            Err(Trouble::Cut(reason)) => (reason, true),
            Err(Trouble::Io(error)) => return self.unreadable(position, &error),
        };
        match self.next_whole(position) {
            Ok(to) => {
                self.at = to;
                ScanStep::Damage(Damage { from: position, to, reason, at_end: to == self.len, cut })
            }
            Err(error) => self.unreadable(position, &error),
        }
    }

    fn unreadable(&mut self, position: u64, error: &io::Error) -> ScanStep {
        self.at = self.len;
        let reason = format!("cannot be read: {error}");
        ScanStep::Damage(Damage { from: position, to: self.len, reason, at_end: true, cut: false })
    }

    /// The whole entry at a position.
    fn try_entry(&mut self, at: u64) -> Result<Head, Trouble> {
        let bytes = self.window.get(at, F::HEAD_SIZE).map_err(Trouble::Io)?;
        let left = self.len - at;
        let trouble = if left < F::HEAD_SIZE as u64 { Trouble::Cut } else { Trouble::Damaged };
        let head = self.format.head(bytes).map_err(trouble)?;
        if head.size as u64 > left {
            return Err(Trouble::Cut(format!("an entry of {} bytes begins here and {left} are there", head.size)));
        }
        if head.size > READ_AT_ONCE_MAX {
            self.check_in_pieces(at, &head)?;
        }
        let bytes = self.window.get(at, head.size).map_err(Trouble::Io)?;
        let whole = bytes.get(..head.size).ok_or(Trouble::Io(io::ErrorKind::UnexpectedEof.into()))?;
        self.format.check(whole).map_err(Trouble::Damaged)?;
        Ok(head)
    }

    fn check_place(&mut self, at: u64, head: &Head) -> Result<(), Trouble> {
        let Some(batch) = head.batch else { return Ok(()) };
        let next = self.window.get(at + head.size as u64, F::HEAD_SIZE).map_err(Trouble::Io)?;
        if self.format.is_contradicted(head, next) {
            let reason = format!(
                "a batch says that it begins with offset {}, the one after it begins before",
                batch.base_offset
            );
            return Err(Trouble::Damaged(reason));
        }
        Ok(())
    }

    /// The checksum of a large batch.
    fn check_in_pieces(&mut self, at: u64, head: &Head) -> Result<(), Trouble> {
        let Some(batch) = head.batch else { return Ok(()) };
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let mut from = at + (head.batch_at + layout::ATTRIBUTES) as u64;
        let end = at + head.size as u64;
        while from < end {
            let count = WINDOW_SIZE.min((end - from) as usize);
            let bytes = self.window.get(from, count).map_err(Trouble::Io)?;
            digest.update(bytes.get(..count).ok_or(Trouble::Io(io::ErrorKind::UnexpectedEof.into()))?);
            from += count as u64;
        }
        let right = digest.finalize() as u32 == batch.crc;
        if right { Ok(()) } else { Err(Trouble::Damaged("the checksum of a batch does not match".to_owned())) }
    }

    /// Where the next whole entry begins after one that is damaged; the end of the file if there is none.
    fn next_whole(&mut self, from: u64) -> io::Result<u64> {
        // What the damaged entry says of its size is tried first: what it holds may look like an entry.
        let bytes = self.window.get(from, F::HEAD_SIZE)?;
        if let Ok(head) = self.format.head(bytes) {
            let behind = from + head.size as u64;
            if behind < self.len && self.try_at(behind)? {
                return Ok(behind);
            }
        }
        let mut at = from + 1;
        while at < self.len {
            let bytes = self.window.get(at, F::HEAD_SIZE)?;
            if self.format.may_begin(bytes) && self.try_at(at)? {
                return Ok(at);
            }
            at += 1;
        }
        Ok(self.len)
    }

    fn try_at(&mut self, at: u64) -> io::Result<bool> {
        match self.try_entry(at) {
            Ok(_) => Ok(true),
            Err(Trouble::Io(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

/// Batches, one after the other, offsets ascending: a segment of a partition, or a snapshot of the metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    /// The lowest offset that may come next.
    pub(crate) next_offset: Offset,
    /// Offsets in reach of a segment's indexes.
    pub(crate) base: Offset,
}

impl Batches {
    pub(crate) fn from(base: Offset) -> Batches {
        Batches { next_offset: base, base }
    }
}

impl Format for Batches {
    const HEAD_SIZE: usize = HEADER_SIZE;

    fn head(&self, bytes: &[u8]) -> Result<Head, String> {
        let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Err(format!("{} bytes are left, a batch has at least {HEADER_SIZE}", bytes.len()));
        };
        let peek = mainstem_record::peek(bytes).map_err(|error| error.to_string())?;
        let header = BatchHeader::read(header);
        if header.base_offset < self.next_offset {
            return Err(format!("offset {} where {} or more is due", header.base_offset, self.next_offset));
        }
        let relative = header.last_offset().0.saturating_sub(self.base.0);
        if header.last_offset_delta < 0 || relative > i64::from(i32::MAX) {
            return Err(format!("offset {} is out of reach of this file", header.last_offset()));
        }
        Ok(Head { size: peek.size_in_bytes, batch_at: 0, batch: Some(header) })
    }

    fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let view = mainstem_record::BatchView::parse(bytes).map_err(|error| error.to_string())?;
        if view.crc_is_valid() { Ok(()) } else { Err("the checksum of a batch does not match".to_owned()) }
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        bytes.get(layout::MAGIC) == Some(&(layout::MAGIC_V2 as u8)) && self.head(bytes).is_ok()
    }

    fn is_contradicted(&self, head: &Head, next: &[u8]) -> bool {
        let (Some(batch), Some(next)) = (head.batch, next.first_chunk()) else { return false };
        let next = BatchHeader::read(next);
        let gap = batch.base_offset > self.next_offset;
        gap && next.base_offset >= self.next_offset && next.base_offset <= batch.last_offset()
    }

    fn accept(&mut self, head: &Head) {
        if let Some(batch) = head.batch {
            self.next_offset = batch.next_offset();
        }
    }
}

/// Entries of a commit log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommitLogEntries;

impl Format for CommitLogEntries {
    const HEAD_SIZE: usize = commit_log_entry::HEADER_SIZE + HEADER_SIZE;

    fn head(&self, bytes: &[u8]) -> Result<Head, String> {
        let header = EntryHeader::decode(bytes).map_err(explain_entry)?;
        let batch = match header.kind {
            EntryKind::Blank => None,
            EntryKind::Batch { .. } => {
                let head = bytes.get(commit_log_entry::HEADER_SIZE..).and_then(|batch| batch.first_chunk());
                let short = || format!("{} bytes are left, an entry has at least {}", bytes.len(), Self::HEAD_SIZE);
                Some(BatchHeader::read(head.ok_or_else(short)?))
            }
        };
        Ok(Head { size: header.stored_len(), batch_at: commit_log_entry::HEADER_SIZE, batch })
    }

    fn check(&self, bytes: &[u8]) -> Result<(), String> {
        commit_log_entry::decode(bytes).map(|_| ()).map_err(explain_entry)
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        EntryHeader::decode(bytes).is_ok()
    }

    fn accept(&mut self, _: &Head) {}
}

fn explain_entry(error: EntryError) -> String {
    match error {
        EntryError::Partial { needed } => format!("the file ends within an entry, of which {needed} bytes are needed"),
        EntryError::Damaged(reason) => reason.to_owned(),
    }
}
