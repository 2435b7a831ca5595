//! The batches of one segment, checked, one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use mainstem_env::File;
use mainstem_record::{BatchView, FramingError, PEEK_SIZE, peek};
use mainstem_types::Offset;

use super::{CleaningControl, CompactError};
use crate::partition_log::{PartitionLog, SealedSegment};

/// Reads a segment in pieces of the size of the buffer, or of a batch that is larger.
pub(super) struct SegmentReader {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
    /// Where `bytes` begins in the file.
    start: u64,
    bytes: Vec<u8>,
    /// Bytes of the batches that were given.
    used: usize,
    buffer_bytes: usize,
    segment: SealedSegment,
    /// The offset after the last batch that was given.
    expected: Offset,
    /// Reading stopped before a damaged batch.
    at_damage: bool,
}

impl SegmentReader {
    /// Begins at `position`, where a batch begins.
    pub(super) fn open(
        log: &PartitionLog,
        segment: &SealedSegment,
        position: u64,
        buffer_bytes: usize,
    ) -> Result<Self, CompactError> {
        Ok(SegmentReader {
            file: log.segment_reader(segment.base)?,
            path: log.file(segment.base, crate::formats::names::LOG),
            len: segment.bytes,
            start: position,
            bytes: Vec::new(),
            used: 0,
            buffer_bytes: buffer_bytes.max(PEEK_SIZE),
            segment: *segment,
            expected: segment.base,
            at_damage: false,
        })
    }

    /// Keeps the file's blocks until it is dropped, also when its name has gone.
    pub(super) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file)
    }

    /// The next batch, whole, with the right checksum, and with offsets that fit between those of its neighbours.
    /// `Ok(None)`: the segment ends. After [`CompactError::Damaged`], [`SegmentReader::skip_damage`] goes on.
    pub(super) fn next(
        &mut self,
        log: &PartitionLog,
        control: &mut dyn CleaningControl,
    ) -> Result<Option<BatchView<'_>>, CompactError> {
        if self.left() == 0 {
            return Ok(None);
        }
        let size = self.check_next(log, control);
        self.at_damage = matches!(size, Err(CompactError::Damaged { .. }));
        let size = size?;
        let (from, position) = (self.used, self.position());
        self.used += size;
        let damaged = |error: FramingError| {
            let (path, reason) = (self.path.clone(), error.to_string());
            CompactError::Damaged { path, position, reason }
        };
        let batch = BatchView::parse(&self.bytes[from..self.used]).map_err(damaged)?;
        self.expected = batch.header().next_offset();
        Ok(Some(batch))
    }

    /// Goes on behind the damage that the last error told of, if that was of a batch that could not be given. False:
    /// nothing follows.
    pub(super) fn skip_damage(&mut self, log: &PartitionLog) -> Result<bool, CompactError> {
        if std::mem::take(&mut self.at_damage) {
            let to = log.behind_damage(&self.segment, self.position()).map_err(CompactError::of_read)?;
            self.start = to.min(self.len);
            self.bytes.clear();
            self.used = 0;
        }
        Ok(self.left() > 0)
    }

    /// Gets the next batch into memory, with the beginning of the one behind it. Gives its size.
    fn check_next(&mut self, log: &PartitionLog, control: &mut dyn CleaningControl) -> Result<usize, CompactError> {
        self.fill(PEEK_SIZE, log, control)?;
        let size = match peek(&self.bytes[self.used..]) {
            Ok(head) => head.size_in_bytes,
            Err(error) => return Err(self.damaged(&error.to_string())),
        };
        let behind = self.left().saturating_sub(size as u64).min(PEEK_SIZE as u64) as usize;
        self.fill(size + behind, log, control)?;
        let batch = match BatchView::parse(&self.bytes[self.used..self.used + size]) {
            Ok(batch) => batch,
            Err(error) => return Err(self.damaged(&error.to_string())),
        };
        if !batch.crc_is_valid() {
            return Err(self.damaged("the checksum of the batch does not match"));
        }
        let header = batch.header();
        if header.last_offset_delta < 0
            || header.base_offset < self.expected
            || header.last_offset() >= self.segment.next
        {
            return Err(self.damaged("the offsets of the batch do not fit between those of its neighbours"));
        }
        // The rule of readers (`partition_log/damage.rs`): a checksum does not cover the base offset.
        let behind = peek(&self.bytes[self.used + size..]).ok().map(|head| head.base_offset);
        let conflict = behind.is_some_and(|behind| behind < header.next_offset() && behind >= self.expected);
        if conflict && header.base_offset != self.expected {
            return Err(self.damaged("the offsets of the batch reach into those of the batch behind it"));
        }
        Ok(size)
    }

    fn position(&self) -> u64 {
        self.start + self.used as u64
    }

    fn left(&self) -> u64 {
        self.len.saturating_sub(self.position())
    }

    fn damaged(&self, reason: &str) -> CompactError {
        CompactError::Damaged { path: self.path.clone(), position: self.position(), reason: reason.to_owned() }
    }

    /// Gets at least `needed` bytes from the present position on into memory.
    fn fill(
        &mut self,
        needed: usize,
        log: &PartitionLog,
        control: &mut dyn CleaningControl,
    ) -> Result<(), CompactError> {
        if self.bytes.len() - self.used >= needed {
            return Ok(());
        }
        if needed as u64 > self.left() {
            return Err(self.damaged("the segment ends within the batch"));
        }
        self.start = self.position();
        self.bytes.drain(..self.used);
        self.used = 0;
        let have = self.bytes.len();
        let want = (needed.max(self.buffer_bytes) as u64).min(self.left()) as usize;
        if want < self.bytes.capacity() / 4 {
            // After a batch that was much larger than the buffer.
            self.bytes.shrink_to(self.buffer_bytes.max(want));
        }
        self.bytes.resize(want, 0);
        let read = self.file.read_exact_at(&mut self.bytes[have..], self.start + have as u64);
        read.map_err(|error| CompactError::io("read", self.path.clone(), error))?;
        super::pass::proceed(log, control, (want - have) as u64)
    }
}
