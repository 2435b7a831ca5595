//! The commit log: entries in files of a fixed size, addressed by byte position.
//!
//! ```text
//! file 0                       file 1 (its name: the size of file 0)
//! │ entry │ entry │ blank … │ │ entry │ entry │
//! ```
//! A position is that of an entry in all files together. A file ends with a blank whose length reaches to where the
//! next file begins; the bytes behind the blank's header are never written.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use mainstem_journal::{
    AppendError, Journal, JournalOptions, Location, ReadError as JournalReadError, RollError, SegmentBase,
};
use mainstem_record::{BatchHeader, HEADER_SIZE as BATCH_HEADER_SIZE};
use mainstem_types::{LeaderEpoch, Position};
use parking_lot::Mutex;

use super::GroupOptions;
use super::leader_epochs::LeaderEpochs;
use crate::config::Durability;
use crate::formats::commit_log_entry::{EntryHeader, HEADER_SIZE};

/// The largest entry that a scan believes in: files may have been larger than they are configured now.
const ENTRY_BYTES_MAX: usize = 1 << 31;

#[derive(Debug)]
pub(crate) struct CommitLog {
    pub(crate) journal: Arc<Journal>,
    file_bytes: u64,
    /// Held across the write of an entry, which decides the order of positions.
    tail: Mutex<Tail>,
    /// Leader epochs below have ended: no entry is written with them any more. Changes with `tail` locked.
    fence: AtomicI32,
}

/// What an entry that is written depends on, or changes.
#[derive(Debug)]
struct Tail {
    /// `Some`: the last file is full, the next begins there.
    next_segment: Option<u64>,
    epochs: LeaderEpochs,
}

/// Why an entry was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Its leader epoch has ended.
    Fenced,
    Append(AppendError),
    Roll(RollError),
}

/// Why a piece of another log was not written.
pub(crate) enum CopyError {
    /// The log ends elsewhere.
    End(Position),
    Write(WriteError),
}

/// Where the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) location: Location,
    pub(crate) next_segment: Option<u64>,
}

impl End {
    /// The position of the next entry, unless it begins a new file of its own accord.
    pub(crate) fn position(&self) -> Position {
        self.next_segment.map_or_else(|| position_of(self.location), Position)
    }
}

pub(crate) fn position_of(location: Location) -> Position {
    Position(location.segment.0 + location.position)
}

pub(crate) fn journal_options(options: &GroupOptions) -> JournalOptions {
    JournalOptions {
        suffix: "",
        segment_bytes: options.file_bytes,
        max_entry_bytes: ENTRY_BYTES_MAX,
        tail_cache_bytes: options.tail_cache_bytes,
        preallocate: true,
        ..JournalOptions::default()
    }
}

impl CommitLog {
    pub(super) fn new(
        journal: Journal,
        options: &GroupOptions,
        next_segment: Option<u64>,
        epochs: LeaderEpochs,
    ) -> Self {
        CommitLog {
            journal: Arc::new(journal),
            file_bytes: options.file_bytes,
            tail: Mutex::new(Tail { next_segment, epochs }),
            fence: AtomicI32::new(LeaderEpoch::NONE.0),
        }
    }

    /// The lowest leader epoch that entries may still have.
    pub(crate) fn fence(&self) -> LeaderEpoch {
        LeaderEpoch(self.fence.load(Ordering::Acquire))
    }

    /// Notes that `epoch` begins where the log ends. Entries of earlier epochs are refused from here on.
    pub(crate) fn begin_epoch(&self, epoch: LeaderEpoch) {
        let mut tail = self.tail.lock();
        let end = self.end_of(&tail).position();
        tail.epochs.begin(epoch, end);
        // Whoever led in this epoch, and then nobody, may lead in it again.
        if self.fence() <= LeaderEpoch(epoch.0.saturating_add(1)) {
            self.fence.store(epoch.0, Ordering::Release);
        }
    }

    /// Entries of `epoch` are refused from here on. An epoch that began at the end has no entry, and is forgotten: the
    /// leader may have entries of earlier epochs there.
    pub(crate) fn end_epoch(&self, epoch: LeaderEpoch) {
        let mut tail = self.tail.lock();
        let end = self.end_of(&tail).position();
        tail.epochs.truncate_end(end);
        self.fence.fetch_max(epoch.0.saturating_add(1), Ordering::AcqRel);
    }

    /// Reads or changes the list of epochs; gets where the log ends, too.
    pub(super) fn with_epochs<R>(&self, work: impl FnOnce(&mut LeaderEpochs, Position) -> R) -> R {
        let mut tail = self.tail.lock();
        let end = self.end_of(&tail).position();
        work(&mut tail.epochs, end)
    }

    /// The largest batch that fits into a file.
    pub(crate) fn batch_bytes_max(&self) -> u32 {
        let room = self.file_bytes.saturating_sub(2 * HEADER_SIZE as u64);
        u32::try_from(room).unwrap_or(u32::MAX).min(i32::MAX as u32)
    }

    /// Writes an entry of a leader epoch behind the last one and gives its position.
    pub(crate) fn write(
        &self,
        epoch: LeaderEpoch,
        entry: &EntryHeader,
        head: &[u8; BATCH_HEADER_SIZE],
        payload: &[u8],
        durability: Durability,
    ) -> Result<Position, WriteError> {
        let mut tail = self.tail.lock();
        if epoch < self.fence() {
            return Err(WriteError::Fenced);
        }
        if tail.next_segment.is_none() {
            self.make_room(&mut tail, u64::from(entry.length)).map_err(WriteError::Append)?;
        }
        self.roll(&mut tail)?;
        let header = entry.encode(head);
        let parts = [IoSlice::new(&header), IoSlice::new(head), IoSlice::new(payload)];
        let written = match durability {
            Durability::Memory => self.journal.append_in_memory(&parts),
            Durability::Os | Durability::Disk => self.journal.append(&parts),
        };
        let at = written.map_err(WriteError::Append)?;
        tail.epochs.observe(epoch, position_of(at));
        if at.position > self.file_bytes / 2 {
            self.journal.prepare_next_soon();
        }
        Ok(position_of(at))
    }

    /// Writes whole entries of another log, which have the same place there; the last may be a blank of the length that
    /// is given. Gives where the log ends then.
    pub(crate) fn write_copied(
        &self,
        at: Position,
        bytes: &[u8],
        epochs: impl Iterator<Item = (LeaderEpoch, Position)>,
        blank: Option<u32>,
    ) -> Result<Position, CopyError> {
        let mut tail = self.tail.lock();
        let end = self.end_of(&tail);
        if end.position() != at {
            return Err(CopyError::End(end.position()));
        }
        if bytes.is_empty() {
            return Ok(at);
        }
        self.roll(&mut tail).map_err(CopyError::Write)?;
        let written = self.journal.append(&[IoSlice::new(bytes)]);
        written.map_err(|error| CopyError::Write(WriteError::Append(error)))?;
        epochs.for_each(|(epoch, position)| tail.epochs.observe(epoch, position));
        let end = at.plus(bytes.len() as u64);
        let Some(length) = blank else { return Ok(end) };
        let next = end.0 - HEADER_SIZE as u64 + u64::from(length);
        tail.next_segment = Some(next);
        Ok(Position(next))
    }

    /// Begins an empty log anew at a later position, durably.
    pub(crate) fn restart_at(&self, at: Position) -> std::io::Result<()> {
        let mut tail = self.tail.lock();
        let failed = |error: String| std::io::Error::other(error);
        self.journal.roll(SegmentBase(at.0)).map_err(|error| failed(error.to_string()))?;
        *tail = Tail { next_segment: None, epochs: LeaderEpochs::from(at) };
        self.journal.delete_before(SegmentBase(at.0)).map_err(|error| failed(error.to_string()))?;
        Ok(())
    }

    /// Ends the active file if the entry does not fit.
    fn make_room(&self, tail: &mut Tail, length: u64) -> Result<(), AppendError> {
        let Some(end) = self.journal.end() else {
            tail.next_segment = Some(0);
            return Ok(());
        };
        let left = self.file_bytes.saturating_sub(end.position);
        if end.position == 0 || left >= length + HEADER_SIZE as u64 {
            return Ok(());
        }
        self.write_blank(tail, end)
    }

    /// Marks the rest of the active file, which ends there: the next entry begins another one.
    fn write_blank(&self, tail: &mut Tail, end: Location) -> Result<(), AppendError> {
        let left = self.file_bytes.saturating_sub(end.position).max(HEADER_SIZE as u64);
        let rest = u32::try_from(left).unwrap_or(u32::MAX);
        self.journal.append(&[IoSlice::new(&EntryHeader::blank(rest))])?;
        let next = position_of(end).plus(rest.into());
        tail.next_segment = Some(next.0);
        tail.epochs.move_end(position_of(end), next);
        Ok(())
    }

    /// Ends the active file, unless it is empty: what comes next lies in another one.
    pub(crate) fn end_file(&self) -> Result<(), WriteError> {
        let mut tail = self.tail.lock();
        if tail.next_segment.is_none() {
            match self.journal.end() {
                Some(end) if end.position > 0 => {
                    self.write_blank(&mut tail, end).map_err(WriteError::Append)?;
                }
                _ => return Ok(()),
            }
        }
        self.roll(&mut tail)
    }

    /// Begins the next file, if the last one has ended.
    fn roll(&self, tail: &mut Tail) -> Result<(), WriteError> {
        if let Some(base) = tail.next_segment {
            self.journal.roll(SegmentBase(base)).map_err(WriteError::Roll)?;
            tail.next_segment = None;
        }
        Ok(())
    }

    pub(crate) fn end(&self) -> End {
        self.end_of(&self.tail.lock())
    }

    fn end_of(&self, tail: &Tail) -> End {
        End { location: self.journal.end().unwrap_or_default(), next_segment: tail.next_segment }
    }

    /// The file that holds a position.
    pub(crate) fn segment_of(&self, position: Position) -> Option<SegmentBase> {
        self.journal.segment_holding(position.0)
    }

    pub(crate) fn location(&self, position: Position) -> Result<Location, JournalReadError> {
        match self.journal.segment_holding(position.0) {
            Some(segment) => Ok(Location::new(segment, position.0 - segment.0)),
            None => Err(JournalReadError::NoSegment {
                dir: self.journal.dir().to_owned(),
                segment: SegmentBase(position.0),
            }),
        }
    }

    /// Reads bytes of one file into the buffer.
    pub(crate) fn read(&self, position: Position, buffer: &mut [u8]) -> Result<(), JournalReadError> {
        self.reader(true).read(position, buffer).map(|_| ())
    }

    /// The header of the batch of an entry.
    pub(crate) fn batch_header(&self, position: Position) -> Result<BatchHeader, JournalReadError> {
        let mut bytes = [0; BATCH_HEADER_SIZE];
        self.read(position.plus(HEADER_SIZE as u64), &mut bytes)?;
        Ok(BatchHeader::read(&bytes))
    }

    /// The whole batch of an entry.
    pub(crate) fn batch(&self, position: Position, size: u32) -> Result<Vec<u8>, JournalReadError> {
        let mut bytes = vec![0; (size as usize).saturating_sub(HEADER_SIZE)];
        self.read(position.plus(HEADER_SIZE as u64), &mut bytes)?;
        Ok(bytes)
    }

    /// Cuts everything from a location on.
    pub(crate) fn truncate(&self, to: Location) -> Result<(), mainstem_journal::TruncateError> {
        let mut tail = self.tail.lock();
        self.journal.truncate_to(to)?;
        tail.next_segment = None;
        tail.epochs.truncate_end(position_of(to));
        Ok(())
    }
}
