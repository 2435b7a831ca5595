//! The indexes of the active segment: entries in the files, and entries that wait to be written.
//!
//! Numbers: at most [`PENDING_ENTRIES_MAX`] entries wait, 6 KiB of memory; they are written when there are more, when
//! the segment is rolled, and when the log is closed. A crash before costs nothing: recovery makes them again.

use crate::formats::offset_index::OffsetIndexEntry;
use crate::formats::time_index::TimeIndexEntry;
use mainstem_record::BatchHeader;
use mainstem_types::Offset;

/// Entries that are kept in memory before they are written.
pub(crate) const PENDING_ENTRIES_MAX: usize = 256;

/// One of the two index files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexTail<E> {
    /// Entries in the file.
    pub(crate) in_file: usize,
    /// The last entry, wherever it is.
    pub(crate) last: Option<E>,
    /// Entries that are not in the file yet.
    pub(crate) pending: Vec<E>,
}

impl<E: Copy> IndexTail<E> {
    pub(crate) fn new(in_file: usize, last: Option<E>) -> Self {
        IndexTail { in_file, last, pending: Vec::new() }
    }

    pub(crate) fn push(&mut self, entry: E) {
        self.pending.push(entry);
        self.last = Some(entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.in_file + self.pending.len()
    }

    /// The pending entries are in the file now.
    pub(crate) fn written(&mut self) {
        self.in_file += self.pending.len();
        self.pending = Vec::new();
    }
}

/// The views of the active segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveIndex {
    pub(crate) base: Offset,
    pub(crate) offsets: IndexTail<OffsetIndexEntry>,
    pub(crate) times: IndexTail<TimeIndexEntry>,
    /// Bytes from the beginning of the batch that has the last offset entry.
    pub(crate) bytes_since_entry: u64,
    /// The largest timestamp, and the last offset of the first batch that has it.
    pub(crate) largest_time: Option<TimeIndexEntry>,
    /// The largest timestamp of the first batch: the age of the segment counts from it. `None`: not read yet.
    pub(crate) first_time_ms: Option<i64>,
    /// Taken off `segment.ms`.
    pub(crate) jitter_ms: i64,
}

impl ActiveIndex {
    pub(crate) fn new(base: Offset) -> Self {
        ActiveIndex {
            base,
            offsets: IndexTail::new(0, None),
            times: IndexTail::new(0, None),
            bytes_since_entry: 0,
            largest_time: None,
            first_time_ms: None,
            jitter_ms: 0,
        }
    }

    /// Takes a batch at `position` into account. Entries are made exactly where Kafka makes them.
    pub(crate) fn observe(&mut self, header: &BatchHeader, position: u64, interval_bytes: u32) {
        let relative_offset = self.relative(header.last_offset());
        let timestamp_ms = header.max_timestamp.0;
        if position == 0 {
            self.first_time_ms = Some(timestamp_ms);
        }
        if timestamp_ms >= 0 && self.largest_time.is_none_or(|largest| timestamp_ms > largest.timestamp_ms) {
            self.largest_time = Some(TimeIndexEntry { timestamp_ms, relative_offset });
        }
        if self.bytes_since_entry > u64::from(interval_bytes) {
            let entry = OffsetIndexEntry { relative_offset, position: position as u32 };
            if entry.follows(self.offsets.last) {
                self.offsets.push(entry);
            }
            self.note_largest_time();
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += header.size_in_bytes() as u64;
    }

    /// Adds a time entry for the largest timestamp so far, if it is above the last entry's: beside an offset entry, and
    /// at the end.
    pub(crate) fn note_largest_time(&mut self) {
        if let Some(largest) = self.largest_time.filter(|largest| largest.follows(self.times.last)) {
            self.times.push(largest);
        }
    }

    pub(crate) fn relative(&self, offset: Offset) -> u32 {
        // A segment is rolled before an offset would be further away than an i32 reaches.
        (offset.0 - self.base.0) as u32
    }

    /// Whether one more entry would pass `segment.index.bytes` in either file.
    pub(crate) fn is_full(&self, index_bytes: u32) -> bool {
        use crate::formats::{offset_index, time_index};
        let room = |entry_size: usize| (index_bytes as usize / entry_size).max(2);
        self.offsets.len() >= room(offset_index::ENTRY_SIZE) || self.times.len() + 1 >= room(time_index::ENTRY_SIZE)
    }

    pub(crate) fn has_many_pending(&self) -> bool {
        self.offsets.pending.len().max(self.times.pending.len()) >= PENDING_ENTRIES_MAX
    }
}
