//! Reading whole batches. Small ones are copied together, neighbours in one go; large ones are slices of the commit
//! log.

use bytes::{Bytes, BytesMut};
use mainstem_journal::ReadError as JournalReadError;
use mainstem_types::{Offset, Position};

use super::GroupPartition;
use super::confirm::{Expected, HEAD_SIZE};
use super::entry_reader::EntryReader;
use super::queue::{Span, push_span};
use super::state::PartitionViews;
use crate::error::{ReadError, StorageError};
use crate::formats::commit_log_entry::HEADER_SIZE;
use crate::formats::queue_entry::{self, ENTRY_SIZE};
use crate::log_types::{ReadChunk, ReadRequest, Reading};

/// Batches up to this size are copied; sending a larger one from its file is cheaper.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Bytes that are read in one go.
const RUN_BYTES_MAX: u64 = 256 << 10;
/// What lies between two entries is read with them up to this size: that is cheaper than another system call.
const GAP_BYTES_MAX: u64 = 2 << 10;
/// Room for the heads of entries that are read in one go, unless they are very small.
const HEADS_BYTES: usize = 16 << 10;
/// Queue entries that are read in one go: first, at the least and at the most, and after that.
const ENTRIES_READ_MIN: i64 = 64;
const ENTRIES_READ: i64 = 1024;
const ENTRIES_READ_ON: i64 = 8192;

/// What became of batches that were to be copied.
enum Copied {
    All,
    /// Those before the entry at this position.
    UpTo(Position),
}

impl GroupPartition {
    /// Whole batches from `from` on. Empty at the log end and at or above `upper`. May wait for the disk.
    pub fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        self.read_with(request, true)
    }

    /// As [`GroupPartition::read`], for threads that must not wait for the disk: [`ReadError::WouldBlock`] if the
    /// answer cannot be given from memory.
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
        let mut read = self.gather(Expected::Within(request.from), &chosen(&spans, request), wait);
        let is_wrong = match &read {
            Err(ReadError::Gone { .. } | ReadError::Corrupt { .. }) => request.from >= self.log_start(),
            _ => spans.is_empty() && request.from < upper,
        };
        if is_wrong {
            if !wait {
                return Err(ReadError::WouldBlock);
            }
            let bytes_max = u64::from(request.max_bytes);
            let spans = self.spans_despite_damage(request.from, upper, bytes_max, spans.first())?;
            read = self.gather(Expected::Any, &chosen(&spans, request), true);
        }
        match read {
            // Retention was faster.
            Err(ReadError::Gone { .. }) if request.from < self.log_start() => {
                let (log_start, log_end) = (self.log_start(), self.log_end());
                let partition = self.partition.clone();
                Err(ReadError::OutOfRange { partition, offset: request.from, log_start, log_end })
            }
            read => read,
        }
    }

    /// The batches that lie in `from..upper` with all their offsets, the first of which may begin before `from`; about
    /// as many as `bytes_max` has room for, at least one.
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
        let log_end = self.log_end();
        let end = upper.plus(1).min(log_end).0;
        let (mut entries, mut entries_max) = (Vec::new(), None);
        while next < end {
            let (look, files) = {
                let state = self.state.lock();
                entries_max.get_or_insert_with(|| first_entries(&state, bytes_max));
                let look = state.queue.look(next, upper.0, bytes_max);
                let files = look.in_files.is_some().then(|| state.queue.files().clone());
                (look, files)
            };
            let (Some(range), Some(files)) = (look.in_files, files) else {
                look.spans.iter().for_each(|span| push_span(&mut spans, span.position, span.size, span.last_offset));
                break;
            };
            let range = range.start..range.end.min(range.start + entries_max.unwrap_or(ENTRIES_READ));
            entries_max = Some(ENTRIES_READ_ON);
            files.read(&self.core.env, range, wait, &mut entries).map_err(|error| self.queue_unreadable(error))?;
            if entries.len() < ENTRY_SIZE {
                if next < self.log_start().0 {
                    return Err(ReadError::Gone { partition: self.partition.clone() });
                }
                // No record has an offset in the rest of this file.
                next = files.end_of_file(next);
            }
            for entry in queue_entry::decode(&entries) {
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
        if let Some(last) = spans.last_mut() {
            last.is_complete |= last.last_offset + 1 == log_end.0;
        }
        // Of a batch that reaches to `upper` or above, not all may be shown.
        while spans.last().is_some_and(|span| span.last_offset >= upper.0) {
            spans.pop();
        }
        Ok(spans)
    }

    /// Reads the batches, in order, up to the first one that is not what the queue says. If that is the first of all,
    /// it is an error.
    fn gather(&self, mut expected: Expected, spans: &[Span], wait: bool) -> Result<Reading, ReadError> {
        let mut reading = Reading::default();
        let mut reader = self.core.log.reader(wait);
        let mut copied = BytesMut::new();
        let mut rest = spans;
        while let Some(first) = rest.first() {
            let size = first.size as usize - HEADER_SIZE;
            if size <= COPIED_BYTES_MAX {
                if copied.is_empty() {
                    // The heads of entries are there for a moment, too.
                    copied.reserve(small_bytes(rest) + HEADS_BYTES);
                }
                let file_end = reader.end_of_file(first.position).map_err(|error| self.unreadable(error))?;
                let count = neighbours(rest, file_end);
                match self.copy(&mut reader, &rest[..count], &mut copied, &mut expected)? {
                    Copied::All => rest = &rest[count..],
                    Copied::UpTo(_) if reading.bytes + copied.len() > 0 => break,
                    Copied::UpTo(position) => return Err(self.corrupt(position)),
                }
                continue;
            }
            push_copied(&mut reading, &mut copied);
            let mut head = [0; HEAD_SIZE];
            if !reader.read(first.position, &mut head).map_err(|error| self.unreadable(error))? {
                return Err(ReadError::WouldBlock);
            }
            if !self.confirms(first, &head, &mut expected) {
                match reading.bytes {
                    0 => return Err(self.corrupt(first.position)),
                    _ => break,
                }
            }
            let slice = reader.batch(first.position, first.size);
            let slice = slice.map_err(|error| self.unreadable(error))?.ok_or(ReadError::WouldBlock)?;
            reading.bytes += size;
            reading.chunks.push(ReadChunk::Slice(slice));
            rest = &rest[1..];
        }
        push_copied(&mut reading, &mut copied);
        Ok(reading)
    }

    /// Appends the batches of entries that lie close together to `copied`, up to the first one that is not confirmed:
    /// one read, from which what lies between them is taken out.
    fn copy(
        &self,
        reader: &mut EntryReader<'_>,
        spans: &[Span],
        copied: &mut BytesMut,
        expected: &mut Expected,
    ) -> Result<Copied, ReadError> {
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Ok(Copied::All) };
        let begin = first.position;
        let start = copied.len();
        copied.resize(start + last.end().bytes_since(begin).unwrap_or(0) as usize, 0);
        if !reader.read(begin, &mut copied[start..]).map_err(|error| self.unreadable(error))? {
            return Err(ReadError::WouldBlock);
        }
        let (mut to, mut outcome) = (start, Copied::All);
        for span in spans {
            let at = start + span.position.bytes_since(begin).unwrap_or(0) as usize;
            let (from, size) = (at + HEADER_SIZE, span.size as usize - HEADER_SIZE);
            if !self.confirms(span, &copied[at..at + span.size as usize], expected) {
                outcome = Copied::UpTo(span.position);
                break;
            }
            copied.copy_within(from..from + size, to);
            to += size;
        }
        copied.truncate(to);
        Ok(outcome)
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
        if error.kind() == std::io::ErrorKind::WouldBlock {
            return ReadError::WouldBlock;
        }
        let path = self.core.queue_dir(&self.partition);
        ReadError::Storage(StorageError { action: "read", path, error: error.into() })
    }
}

/// So many entries of the queue as lead to about so many bytes, if batches are as large as the partition's are on
/// average.
fn first_entries(state: &PartitionViews, bytes_max: u64) -> i64 {
    let records = state.next_offset.0.saturating_sub(state.log_start.0).max(1) as u64;
    let record_bytes = (state.size_bytes() / records).max(1);
    let wanted = bytes_max / record_bytes + bytes_max / record_bytes / 8;
    i64::try_from(wanted).unwrap_or(i64::MAX).clamp(ENTRIES_READ_MIN, ENTRIES_READ)
}

fn push_copied(reading: &mut Reading, copied: &mut BytesMut) {
    if !copied.is_empty() {
        let bytes: Bytes = copied.split().freeze();
        reading.bytes += bytes.len();
        reading.chunks.push(ReadChunk::Bytes(bytes));
    }
}

/// Bytes of the batches up to the first one that is not copied.
fn small_bytes(spans: &[Span]) -> usize {
    let sizes = spans.iter().map(|span| span.size as usize - HEADER_SIZE);
    sizes.take_while(|size| *size <= COPIED_BYTES_MAX).sum()
}

/// How many of the first entries lie close together in one file, are small, and may be read in one go.
fn neighbours(spans: &[Span], file_end: Position) -> usize {
    let mut count = 1;
    for pair in spans.windows(2) {
        let close = pair[1].position.bytes_since(pair[0].end()).is_some_and(|gap| gap <= GAP_BYTES_MAX);
        let small = pair[1].size as usize - HEADER_SIZE <= COPIED_BYTES_MAX;
        let run_bytes = pair[1].end().bytes_since(spans[0].position);
        if !close || !small || pair[1].end() > file_end || run_bytes.is_none_or(|bytes| bytes > RUN_BYTES_MAX) {
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
