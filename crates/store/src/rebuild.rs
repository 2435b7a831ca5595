//! The views of a log, rebuilt in memory from its batches alone, to check the files next to the log.
//!
//! The same code makes the views of a running log. Nothing here does IO.

use mainstem_record::{BatchHeader, BatchView};
use mainstem_types::Offset;

use crate::formats::group_checkpoint::TimeMark;
use crate::formats::offset_index::OffsetIndexEntry;
use crate::formats::producer_snapshot::ProducerSnapshotEntry;
use crate::formats::time_index::TimeIndexEntry;
use crate::formats::transaction_index::AbortedTransaction;
use crate::partition_log::active_index::ActiveIndex;
use crate::prepare::marker_of;
use crate::views::inspect;
use crate::views::producers::Producers;

/// The two indexes of a segment.
#[derive(Debug)]
pub struct SegmentIndexes {
    index: ActiveIndex,
    interval_bytes: u32,
}

impl SegmentIndexes {
    /// Of a segment with this base offset; `interval_bytes`: `index.interval.bytes`.
    pub fn new(base: Offset, interval_bytes: u32) -> Self {
        SegmentIndexes { index: ActiveIndex::new(base), interval_bytes }
    }

    /// Takes the next batch into account, which begins at a byte of the segment.
    pub fn observe(&mut self, header: &BatchHeader, position: u64) {
        self.index.observe(header, position, self.interval_bytes);
    }

    /// The segment is complete: its largest timestamp gets an entry.
    pub fn seal(&mut self) {
        self.index.note_largest_time();
    }

    pub fn offsets(&self) -> &[OffsetIndexEntry] {
        &self.index.offsets.pending
    }

    pub fn times(&self) -> &[TimeIndexEntry] {
        &self.index.times.pending
    }

    /// The largest timestamp so far, and the last offset of the first batch that has it.
    pub fn largest_time(&self) -> Option<TimeIndexEntry> {
        self.index.largest_time
    }
}

/// The producers of a partition.
#[derive(Debug, Default)]
pub struct ProducerStates {
    producers: Producers,
}

impl ProducerStates {
    /// Takes the next batch into account. Gives the transaction that it aborts, if it is such a mark.
    pub fn observe(&mut self, view: &BatchView<'_>) -> Option<AbortedTransaction> {
        match marker_of(view).ok().flatten() {
            Some(end) => self.producers.observe_marker(view.header(), end),
            None => {
                self.producers.observe(view.header());
                None
            }
        }
    }

    /// As a snapshot has them, by producer id.
    pub fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        self.producers.snapshot()
    }
}

/// What consume queue and key index have of the records of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysAndTags {
    /// The hash of each record's tag; `None`: no record has one.
    pub tags: Option<Box<[i64]>>,
    /// The hashes under which its records are found.
    pub keys: Vec<u32>,
}

/// All that an index could have of a batch, whatever is to be indexed of its topic.
pub fn keys_and_tags(view: &BatchView<'_>, topic: &str) -> KeysAndTags {
    let inspected = inspect::inspect(view, inspect::topic_hash(topic), crate::KeyIndexing::All);
    KeysAndTags { tags: inspected.tags, keys: inspected.keys }
}

/// Whether a time mark of a list may be that of a batch: no mark that covers it is older.
pub fn time_marks_cover(marks: &[TimeMark], header: &BatchHeader) -> bool {
    let after = marks.partition_point(|mark| mark.first_offset <= header.base_offset);
    after.checked_sub(1).is_some_and(|mark| marks[mark].newest_ms >= header.max_timestamp.0)
}
