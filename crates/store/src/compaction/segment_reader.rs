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
        })
    }

    /// Keeps the file's blocks until it is dropped, also when its name has gone.
    pub(super) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file)
    }

    /// The next batch, whole and with the right checksum. `Ok(None)`: the segment ends.
    pub(super) fn next(
        &mut self,
        log: &PartitionLog,
        control: &mut dyn CleaningControl,
    ) -> Result<Option<BatchView<'_>>, CompactError> {
        if self.left() == 0 {
            return Ok(None);
        }
        self.fill(PEEK_SIZE, log, control)?;
        let size = match peek(&self.bytes[self.used..]) {
            Ok(head) => head.size_in_bytes,
            Err(error) => return Err(self.damaged(&error.to_string())),
        };
        self.fill(size, log, control)?;
        let (from, position) = (self.used, self.position());
        self.used += size;
        let damaged = |reason: String| CompactError::Damaged { path: self.path.clone(), position, reason };
        let batch = BatchView::parse(&self.bytes[from..]).map_err(|error: FramingError| damaged(error.to_string()))?;
        if !batch.crc_is_valid() {
            return Err(damaged("the checksum of the batch does not match".to_owned()));
        }
        if batch.header().last_offset_delta < 0 || batch.header().base_offset < Offset::ZERO {
            return Err(damaged("the offsets of the batch are negative".to_owned()));
        }
        Ok(Some(batch))
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
