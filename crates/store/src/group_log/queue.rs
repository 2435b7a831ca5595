//! The consume queue of a partition: where the batch of each offset is.
//!
//! The newest entries are in memory, one run for each batch; readers look there and in the files. Nothing is written
//! where appends are made: a queue can be made again from the commit log, so its files have to be there for a
//! checkpoint, or when memory is short.
//!
//! Numbers: a run takes 40 bytes, and 8 for each record of a batch with tags. Up to 128 runs of a queue stay that are
//! in the files too.

use std::collections::VecDeque;
use std::sync::Arc;

use mainstem_types::{Offset, Position};

use super::queue_files::QueueFiles;
use super::queue_memory::QueueMemory;
use super::run::Run;
use crate::formats::queue_entry::ENTRY_SIZE;

/// Entries that are written in one go.
const PIECE_ENTRIES_MAX: i64 = 8192;

/// Where a batch is, and the last of its offsets that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) position: Position,
    pub(crate) size: u32,
    /// The highest offset that is known to be its batch's.
    pub(crate) last_offset: i64,
    /// The batch ends with that offset: the queue, or the log end, says what follows.
    pub(crate) is_complete: bool,
}

impl Span {
    pub(crate) fn end(&self) -> Position {
        self.position.plus(self.size.into())
    }
}

/// What a reader takes away under the lock.
#[derive(Debug, Default)]
pub(crate) struct QueueLook {
    /// Batches that memory has.
    pub(crate) spans: Vec<Span>,
    /// Entries that have to be read from the files first.
    pub(crate) in_files: Option<std::ops::Range<i64>>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    files: QueueFiles,
    /// Offsets below are in the files.
    written: i64,
    end: i64,
    runs: VecDeque<Run>,
    /// The memory of the runs, as the memory of all queues counts it.
    bytes: usize,
    memory: Arc<QueueMemory>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.memory.remove(self.bytes);
        self.memory.remove_queue();
    }
}

impl Queue {
    /// A queue whose first entry will be that of `start`; below, the files have what there is.
    pub(crate) fn new(files: QueueFiles, memory: &Arc<QueueMemory>, start: Offset) -> Queue {
        memory.add_queue();
        let memory = Arc::clone(memory);
        Queue { files, written: start.0, end: start.0, runs: VecDeque::new(), bytes: 0, memory }
    }

    /// Readers keep files open under this number from now on.
    pub(crate) fn set_number(&mut self, number: u64) {
        self.files.number = number;
    }

    pub(crate) fn files(&self) -> &QueueFiles {
        &self.files
    }

    pub(crate) fn end(&self) -> Offset {
        Offset(self.end)
    }

    /// Offsets below are in the files.
    pub(crate) fn written(&self) -> Offset {
        Offset(self.written)
    }

    /// The memory that the queue takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// No offset up to `end` that has no entry has a record.
    pub(crate) fn skip_to(&mut self, end: Offset) {
        if self.written == self.end {
            self.written = self.written.max(end.0);
        }
        self.end = self.end.max(end.0);
    }

    /// Adds the entries of a batch. Those below the end are there already; offsets that are skipped have no record.
    pub(crate) fn push(&mut self, mut run: Run) {
        if run.end() <= self.end {
            return;
        }
        let known = self.end - run.first;
        if known > 0 {
            run.first = self.end;
            run.count -= known as u32;
            run.tags = run.tags.map(|tags| tags[known as usize..].into());
        }
        self.end = run.end();
        self.bytes += run.bytes();
        self.memory.add(run.bytes());
        self.runs.push_back(run);
    }

    /// Puts the first entries that are in no file into the buffer, up to offset `end`, and gives the offset of the
    /// first of them. `None`: there are none. Once they are in a file, [`Queue::wrote`] is to be told.
    pub(crate) fn unwritten(&self, end: Offset, buffer: &mut Vec<u8>) -> Option<i64> {
        buffer.clear();
        let end = self.end.min(end.0).min(self.written + PIECE_ENTRIES_MAX);
        if end <= self.written {
            return None;
        }
        buffer.reserve((end - self.written) as usize * ENTRY_SIZE);
        let mut next = self.written;
        for run in self.runs.range(self.first_unwritten()..) {
            // No record has the offsets of a gap.
            let from = run.first.clamp(next, end);
            buffer.resize(buffer.len() + (from - next) as usize * ENTRY_SIZE, 0);
            next = run.end().min(end).max(from);
            (from..next).for_each(|offset| buffer.extend_from_slice(&run.entry(offset).encode()));
            if next == end {
                break;
            }
        }
        // No record has the last offsets.
        buffer.resize(buffer.len() + (end - next) as usize * ENTRY_SIZE, 0);
        Some(self.written)
    }

    fn first_unwritten(&self) -> usize {
        self.runs.partition_point(|run| run.end() <= self.written)
    }

    /// Offsets below `end` are in the files. Up to `kept` such runs stay in memory, for readers at the tail.
    pub(crate) fn wrote(&mut self, end: Offset, kept: usize) {
        self.written = self.written.max(end.0.min(self.end));
        let written = self.first_unwritten();
        self.drop_first(written.saturating_sub(kept));
    }

    fn drop_first(&mut self, count: usize) {
        let freed: usize = self.runs.drain(..count).map(|run| run.bytes()).sum();
        self.free(freed);
        if self.runs.capacity() > 4 * self.runs.len().max(8) {
            self.runs.shrink_to(2 * self.runs.len());
        }
    }

    fn free(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.remove(bytes);
    }

    /// Forgets the entries in memory and in the files.
    pub(crate) fn release(&mut self) {
        self.drop_first(self.first_unwritten());
        self.runs.shrink_to_fit();
    }

    /// Looks for the batches of `from..upper`, and one entry more, which tells where the last one ends.
    pub(crate) fn look(&self, from: i64, upper: i64, bytes_max: u64) -> QueueLook {
        let in_memory = self.runs.front().map_or(self.end, |run| run.first);
        let mut look = QueueLook::default();
        if from < in_memory.min(self.written) {
            look.in_files = Some(from..in_memory.min(upper.saturating_add(1)).min(self.written));
            return look;
        }
        let first = self.runs.partition_point(|run| run.end() <= from);
        let mut bytes = 0;
        for run in self.runs.range(first..) {
            if run.first >= upper || bytes > bytes_max {
                break;
            }
            bytes += u64::from(run.size);
            push_span(&mut look.spans, run.position, run.size, run.end() - 1);
        }
        look
    }

    /// Cuts what is in memory: the queue ends at `end` from now on. The files are to be cut where [`Queue::written`]
    /// says then.
    pub(crate) fn truncate(&mut self, end: Offset) {
        if end.0 >= self.end {
            return;
        }
        while let Some(last) = self.runs.pop_back_if(|run| run.first >= end.0) {
            self.free(last.bytes());
        }
        if let Some(last) = self.runs.back_mut().filter(|run| run.end() > end.0) {
            last.count = (end.0 - last.first) as u32;
        }
        self.end = end.0;
        self.written = self.written.min(end.0);
    }
}

/// Adds a batch, or another of its offsets, to a list of batches.
pub(crate) fn push_span(spans: &mut Vec<Span>, position: Position, size: u32, last_offset: i64) {
    match spans.last_mut() {
        Some(last) if last.position == position => last.last_offset = last_offset,
        last => {
            if let Some(last) = last {
                last.is_complete = true;
            }
            spans.push(Span { position, size, last_offset, is_complete: false });
        }
    }
}
