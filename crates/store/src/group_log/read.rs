//! Reading whole batches. Small ones are copied together, neighbours in one go; large ones are slices of the commit log.

use bytes::{Bytes, BytesMut};
use mainstem_journal::ReadError as JournalReadError;
use mainstem_types::Offset;

use super::GroupPartition;
use super::queue::{Span, push_span};
use crate::error::{ReadError, StorageError};
use crate::formats::commit_log_entry::HEADER_SIZE;
use crate::partition_log::{ReadChunk, ReadRequest, Reading};

/// Batches up to this size are copied; sending a larger one from its file is cheaper.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Bytes that are read in one go.
const RUN_BYTES_MAX: usize = 256 << 10;
/// Queue entries that are read in one go.
const ENTRIES_READ: i64 = 1024;

impl GroupPartition {
    /// Whole batches from `from` on. Empty at the log end and at or above `upper`. May wait for the disk.
    pub fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        self.read_with(request, true)
    }

    /// As [`GroupPartition::read`], for threads that must not wait for the disk: [`ReadError::WouldBlock`] if the answer cannot be given
    /// from memory.
    pub fn read_nowait(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        self.read_with(request, false)
    }

    fn read_with(&self, request: &ReadRequest, wait: bool) -> Result<Reading, ReadError> {
        let upper = {
            let state = self.state.lock();
            let (log_start, log_end) = (state.log_start, state.next_offset);
            if state.closed {
                return Err(ReadError::Closed { partition: self.partition.clone() });
            }
            if request.from < log_start || request.from > log_end {
                let partition = self.partition.clone();
                return Err(ReadError::OutOfRange { partition, offset: request.from, log_start, log_end });
            }
            request.upper.min(log_end)
        };
        let spans = self.spans(request.from, upper, u64::from(request.max_bytes), wait)?;
        match self.gather(&chosen(&spans, request), wait) {
            // Retention was faster.
            Err(ReadError::Gone { .. }) if request.from < self.log_start() => {
                let (log_start, log_end) = (self.log_start(), self.log_end());
                let partition = self.partition.clone();
                Err(ReadError::OutOfRange { partition, offset: request.from, log_start, log_end })
            }
            read => read,
        }
    }

    /// The batches that lie in `from..upper` with all their offsets, the first of which may begin before `from`; about as many as
    /// `bytes_max` has room for, at least one.
    pub(super) fn spans(
        &self,
        from: Offset,
        upper: Offset,
        bytes_max: u64,
        wait: bool,
    ) -> Result<Vec<Span>, ReadError> {
        let mut spans: Vec<Span> = Vec::new();
        let mut next = from.0;
        // One entry more, which tells whether the last batch ends before it.
        let end = upper.plus(1).min(self.log_end()).0;
        while next < end {
            let (look, files) = {
                let state = self.state.lock();
                (state.queue.look(next, upper.0, bytes_max), state.queue.files_of())
            };
            let Some(range) = look.in_files else {
                look.spans.iter().for_each(|span| push_span(&mut spans, span.position, span.size, span.last_offset));
                break;
            };
            if !wait {
                return Err(ReadError::WouldBlock);
            }
            let range = range.start..range.end.min(range.start + ENTRIES_READ);
            let entries = files.read(self.core.fs(), range).map_err(|error| self.queue_unreadable(error))?;
            if entries.is_empty() {
                if next < self.log_start().0 {
                    return Err(ReadError::Gone { partition: self.partition.clone() });
                }
                // No record has an offset in the rest of this file.
                next = files.end_of_file(next);
            }
            for entry in entries {
                if entry.size > HEADER_SIZE as u32 {
                    push_span(&mut spans, entry.position, entry.size, next);
                }
                next += 1;
            }
            // The last one may not be known to its end.
            let known = spans.len().saturating_sub(1);
            if known > 0 && spans[..known].iter().map(|span| u64::from(span.size)).sum::<u64>() > bytes_max {
                break;
            }
        }
        // Of a batch that reaches to `upper` or above, not all may be shown.
        while spans.last().is_some_and(|span| span.last_offset >= upper.0) {
            spans.pop();
        }
        Ok(spans)
    }

    /// Reads the batches, in order.
    fn gather(&self, spans: &[Span], wait: bool) -> Result<Reading, ReadError> {
        let mut reading = Reading::default();
        let mut copied = BytesMut::new();
        let mut rest = spans;
        while let Some(first) = rest.first() {
            let size = first.size as usize - HEADER_SIZE;
            if size <= COPIED_BYTES_MAX {
                let count = neighbours(rest);
                self.copy(&rest[..count], &mut copied, wait)?;
                rest = &rest[count..];
                continue;
            }
            push_copied(&mut reading, &mut copied);
            let slice = self.core.log.batch_slice(first.position, first.size, wait);
            let slice = slice.map_err(|error| self.unreadable(error))?.ok_or(ReadError::WouldBlock)?;
            if slice.len != size as u64 {
                return Err(ReadError::Gone { partition: self.partition.clone() });
            }
            reading.bytes += size;
            reading.chunks.push(ReadChunk::Slice(slice));
            rest = &rest[1..];
        }
        push_copied(&mut reading, &mut copied);
        Ok(reading)
    }

    /// Appends the batches of neighbouring entries to `copied`: one read, from which the headers between them are taken out.
    fn copy(&self, spans: &[Span], copied: &mut BytesMut, wait: bool) -> Result<(), ReadError> {
        let Some(first) = spans.first() else { return Ok(()) };
        let total: usize = spans.iter().map(|span| span.size as usize).sum();
        let start = copied.len();
        // The first header is not read at all.
        copied.resize(start + total - HEADER_SIZE, 0);
        let read = self.core.log.read(first.position + HEADER_SIZE as u64, &mut copied[start..], wait);
        if !read.map_err(|error| self.unreadable(error))? {
            return Err(ReadError::WouldBlock);
        }
        let (mut to, mut from) = (start, start);
        for span in spans {
            let size = span.size as usize - HEADER_SIZE;
            copied.copy_within(from..from + size, to);
            to += size;
            from += size + HEADER_SIZE;
        }
        copied.truncate(to);
        Ok(())
    }

    pub(super) fn unreadable(&self, error: JournalReadError) -> ReadError {
        match error {
            JournalReadError::NoSegment { .. } | JournalReadError::PastEnd { .. } => {
                ReadError::Gone { partition: self.partition.clone() }
            }
            JournalReadError::Io { path, source } => {
                ReadError::Storage(StorageError { action: "read", path, error: source.into() })
            }
        }
    }

    fn queue_unreadable(&self, error: std::io::Error) -> ReadError {
        let path = self.core.queue_dir(&self.partition);
        ReadError::Storage(StorageError { action: "read", path, error: error.into() })
    }
}

fn push_copied(reading: &mut Reading, copied: &mut BytesMut) {
    if !copied.is_empty() {
        let bytes: Bytes = copied.split().freeze();
        reading.bytes += bytes.len();
        reading.chunks.push(ReadChunk::Bytes(bytes));
    }
}

/// How many of the first entries lie one behind the other, are small, and may be read in one go.
fn neighbours(spans: &[Span]) -> usize {
    let (mut count, mut bytes) = (1, spans[0].size as usize);
    for pair in spans.windows(2) {
        let adjacent = pair[0].position + u64::from(pair[0].size) == pair[1].position;
        bytes += pair[1].size as usize;
        if !adjacent || pair[1].size as usize - HEADER_SIZE > COPIED_BYTES_MAX || bytes > RUN_BYTES_MAX {
            break;
        }
        count += 1;
    }
    count
}

/// The batches that `max_bytes` has room for.
fn chosen(spans: &[Span], request: &ReadRequest) -> Vec<Span> {
    let mut left = u64::from(request.max_bytes);
    let mut chosen = Vec::new();
    for span in spans {
        let size = u64::from(span.size) - HEADER_SIZE as u64;
        let first = chosen.is_empty() && request.min_one_batch;
        if size > left && !first {
            break;
        }
        left = left.saturating_sub(size);
        chosen.push(*span);
    }
    chosen
}
