//! The state of a partition: a pure function of its entries in the commit log.

use mainstem_record::BatchHeader;
use mainstem_types::{LeaderEpoch, Offset, Position, TimestampMs, TopicId};
use std::time::Duration;

use super::queue::Queue;
use super::run::Run;
use super::time_marks::TimeMarks;
use crate::formats::group_checkpoint::{PartitionState, Share};
use crate::formats::queue_entry::QueueEntry;
use crate::formats::transaction_index::AbortedTransaction;
use crate::views::epochs::Epochs;
use crate::views::inspect::Inspected;
use crate::views::producers::{Producers, TransactionEnd};
use mainstem_types::PartitionIndex;

/// An entry of the commit log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// The file that holds it.
    pub(crate) segment: u64,
    pub(crate) position: Position,
    pub(crate) size: u32,
}

/// The views of a partition's records, made from the entries of the commit log.
#[derive(Debug)]
pub(crate) struct PartitionViews {
    pub(crate) log_start: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) queue: Queue,
    pub(crate) last: QueueEntry,
    pub(crate) epochs: Epochs,
    pub(crate) producers: Producers,
    /// Ascending by the offset of the marker.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// Ascending; never empty files.
    pub(crate) shares: Vec<Share>,
    pub(crate) marks: TimeMarks,
    /// Monotonic time of the oldest append that no flush covers.
    pub(crate) dirty_since: Option<Duration>,
    /// The log end when it was last asked whether the partition is idle.
    pub(crate) idle_end: Offset,
    pub(crate) closed: bool,
    /// Nothing is known from a checkpoint: the first entry seen tells where the partition begins.
    pub(crate) from_nothing: bool,
}

impl PartitionViews {
    pub(crate) fn new(queue: Queue) -> PartitionViews {
        PartitionViews {
            log_start: Offset::ZERO,
            next_offset: Offset::ZERO,
            queue,
            last: QueueEntry::default(),
            epochs: Epochs::default(),
            producers: Producers::default(),
            aborted: Vec::new(),
            shares: Vec::new(),
            marks: TimeMarks::default(),
            dirty_since: None,
            idle_end: Offset::NONE,
            closed: false,
            from_nothing: true,
        }
    }

    /// Of a partition that begins now.
    pub(crate) fn created(queue: Queue) -> PartitionViews {
        PartitionViews { from_nothing: false, ..PartitionViews::new(queue) }
    }

    /// As a checkpoint tells it.
    pub(crate) fn restore(queue: Queue, known: &PartitionState) -> PartitionViews {
        PartitionViews {
            log_start: known.log_start,
            next_offset: known.next_offset,
            last: QueueEntry { position: known.last_position, size: known.last_size, tag_hash: 0 },
            epochs: Epochs::new(known.epochs.clone()),
            producers: Producers::from_snapshot(&known.producers, known.next_offset),
            aborted: known.aborted.clone(),
            shares: known.shares.clone(),
            marks: TimeMarks::restore(known.mark_offsets, known.marks.clone()),
            from_nothing: false,
            ..PartitionViews::new(queue)
        }
    }

    pub(crate) fn snapshot(&self, topic_id: TopicId, partition: PartitionIndex) -> PartitionState {
        PartitionState {
            topic_id,
            partition,
            log_start: self.log_start,
            next_offset: self.next_offset,
            last_position: self.last.position,
            last_size: self.last.size,
            mark_offsets: self.marks.full_offsets(),
            epochs: self.epochs.entries().to_vec(),
            producers: self.producers.snapshot(),
            aborted: self.aborted.clone(),
            shares: self.shares.clone(),
            marks: self.marks.entries().to_vec(),
        }
    }

    /// The state covers everything before this position.
    pub(crate) fn end_position(&self) -> Position {
        self.last.end()
    }

    /// Takes a batch into account that is in the commit log. What is covered already changes nothing.
    pub(crate) fn observe(
        &mut self,
        header: &BatchHeader,
        marker: Option<TransactionEnd>,
        placed: &Placed,
        inspected: Inspected,
    ) {
        let count = (header.last_offset_delta + 1) as u32;
        let first = header.base_offset;
        if self.from_nothing {
            self.from_nothing = false;
            self.log_start = self.log_start.max(first);
            self.queue.skip_to(first);
        }
        let tags = inspected.tags;
        self.queue.push(Run { first: first.0, count, size: placed.size, position: placed.position, tags });
        if header.next_offset() <= self.next_offset {
            return;
        }
        self.next_offset = header.next_offset();
        self.last = QueueEntry { position: placed.position, size: placed.size, tag_hash: 0 };
        self.epochs.assign(header.leader_epoch, first);
        match marker {
            None => self.producers.observe(header),
            Some(end) => self.aborted.extend(self.producers.observe_marker(header, end)),
        }
        self.marks.observe(first, header.max_timestamp.0);
        self.add_share(header, placed);
    }

    fn add_share(&mut self, header: &BatchHeader, placed: &Placed) {
        let time = header.max_timestamp.0;
        match self.shares.last_mut().filter(|share| share.segment == placed.segment) {
            Some(share) => {
                share.bytes += u64::from(placed.size);
                share.newest_ms = share.newest_ms.max(time);
            }
            None => self.shares.push(Share {
                segment: placed.segment,
                first_offset: header.base_offset,
                bytes: u64::from(placed.size),
                newest_ms: time,
            }),
        }
    }

    /// Nothing below `offset` is served any more.
    pub(crate) fn raise_log_start(&mut self, offset: Offset) {
        if offset <= self.log_start {
            return;
        }
        self.log_start = offset;
        self.epochs.truncate_start(offset);
        self.aborted.retain(|aborted| aborted.last_offset >= offset);
        let gone = self.shares.partition_point(|share| share.first_offset <= offset);
        // The share that holds the offset stays; past the end, none does.
        let gone = if offset >= self.next_offset { gone } else { gone.saturating_sub(1) };
        self.shares.drain(..gone);
        self.marks.raise_start(offset);
        self.check();
    }

    /// Files of the commit log below are not needed by this partition.
    pub(crate) fn first_segment(&self) -> Option<u64> {
        self.shares.first().map(|share| share.segment)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.shares.iter().map(|share| share.bytes).sum()
    }

    /// Forgets an epoch that began at the end of the log.
    pub(crate) fn forget_empty_epoch(&mut self) {
        self.epochs.truncate_end(self.next_offset);
    }

    pub(crate) fn epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.epoch_for(offset)
    }

    pub(crate) fn newest_time(&self) -> Option<TimestampMs> {
        self.shares.iter().map(|share| share.newest_ms).max().map(TimestampMs)
    }

    /// Takes the order of positions for granted nowhere else.
    pub(crate) fn check(&self) {
        debug_assert!(
            self.log_start <= self.next_offset,
            "log start {} must not pass the log end {}",
            self.log_start,
            self.next_offset
        );
    }
}
