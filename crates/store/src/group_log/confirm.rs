//! What a consume queue says is confirmed by the commit log before it is served: a queue is a view without checksums.
//!
//! The head of each entry tells whose it is, how long it is, and which offsets it has, under a checksum. Where the two
//! do not agree, either may be damaged: the commit log is gone through from the file on in which the offset lies. That
//! is slow, but right: what is whole is found, and what is not there is lost. Lost offsets are remembered, up to
//! [`LOST_MAX`] ranges of a partition.

use std::sync::atomic::Ordering;

use mainstem_record::{BatchHeader, BatchView, HEADER_SIZE as BATCH_HEADER_SIZE};
use mainstem_types::{Offset, Position};

use super::entry_reader::EntryReader;
use super::partition::{GroupPartition, LostRecords};
use super::queue::Span;
use super::{commit_log, resync};
use crate::error::ReadError;
use crate::formats::commit_log_entry::{EntryError, EntryHeader, EntryKind, HEADER_SIZE};

/// The head of an entry, and that of its batch.
pub(super) const HEAD_SIZE: usize = HEADER_SIZE + BATCH_HEADER_SIZE;

/// Which offset the next batch has to have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// None in particular.
    Any,
    /// Among its offsets.
    Within(Offset),
    /// As its first one.
    First(Offset),
}

/// More ranges than that are not remembered.
const LOST_MAX: usize = 256;

/// What a scan of the commit log found.
#[derive(Debug, Default)]
struct Scanned {
    spans: Vec<Span>,
    /// The first offset of the first whole batch, which may reach above all that may be shown.
    first: Option<Offset>,
}

impl GroupPartition {
    /// Whether the bytes, the head of an entry at least, are what the queue says is there.
    pub(super) fn confirms(&self, span: &Span, bytes: &[u8], expected: &mut Expected) -> bool {
        let Some((entry, batch)) = head(bytes) else { return false };
        let is_ours = entry.kind == self.kind() && entry.length == span.size;
        let follows = match *expected {
            Expected::Any => true,
            Expected::Within(offset) => batch.base_offset <= offset,
            Expected::First(offset) => batch.base_offset == offset,
        };
        *expected = Expected::First(batch.next_offset());
        let (last, end) = (Offset(span.last_offset), batch.last_offset());
        // A consumer goes on behind the last offset that the batch says it has: one too high would hide the next ones.
        let ends = if span.is_complete { last == end } else { last <= end };
        is_ours && follows && batch.base_offset <= last && ends
    }

    fn kind(&self) -> EntryKind {
        EntryKind::Batch { topic_id: self.topic_id, partition: self.partition.partition }
    }

    /// As [`GroupPartition::spans`], confirmed, for readers that may wait.
    pub(super) fn confirmed_spans(&self, from: Offset, upper: Offset, bytes_max: u64) -> Result<Vec<Span>, ReadError> {
        let spans = self.spans(from, upper, bytes_max, true)?;
        let mut reader = self.core.log.reader(true);
        let (mut head, mut expected) = ([0; HEAD_SIZE], Expected::Within(from));
        let mut confirmed = |span: &Span, expected: &mut Expected| {
            reader.read(span.position, &mut head).is_ok_and(|read| read) && self.confirms(span, &head, expected)
        };
        let count = spans.iter().take_while(|span| confirmed(span, &mut expected)).count();
        if from >= upper || count > 0 {
            return Ok(spans[..count].to_vec());
        }
        let found = self.scan(from, upper, bytes_max)?.spans;
        // Between two damaged places the queue alone may lead to an entry.
        let queued = spans.iter().position(|span| confirmed(span, &mut Expected::Any));
        match queued.filter(|at| found.first().is_none_or(|found| spans[*at].position < found.position)) {
            Some(at) => Ok(vec![spans[at]]),
            None => Ok(found),
        }
    }

    /// The whole batches that lie in `from..upper`, for a reader whom the queue led to nothing. They begin with the
    /// batch of `from`: if the commit log has no such batch, that is an error.
    pub(super) fn spans_despite_damage(
        &self,
        from: Offset,
        upper: Offset,
        bytes_max: u64,
        queued: Option<&Span>,
    ) -> Result<Vec<Span>, ReadError> {
        let known = self.lost.lock().iter().find(|lost| lost.offsets.contains(&from.0)).map(|lost| lost.position);
        if let Some(position) = known {
            return Err(self.corrupt(position));
        }
        let Scanned { spans, first } = self.scan(from, upper, bytes_max)?;
        let first = first.unwrap_or(upper);
        if first <= from {
            if !spans.is_empty() {
                self.say_that_queue_is_wrong();
            }
            return Ok(spans);
        }
        let position = queued.map_or(Position::ZERO, |span| span.position);
        let error = self.corrupt(position);
        tracing::error!(partition = %self.partition, "records {from} to {} cannot be read: {error}", first.plus(-1));
        let mut lost = self.lost.lock();
        if lost.len() >= LOST_MAX {
            lost.remove(0);
        }
        lost.push(LostRecords { offsets: from.0..first.0, position });
        Err(error)
    }

    fn say_that_queue_is_wrong(&self) {
        if !self.queue_is_wrong.swap(true, Ordering::Relaxed) {
            tracing::error!(
                partition = %self.partition,
                "{} is damaged: the broker searches the commit log instead, which is slow; stop the node and remove the file, and the next start rebuilds it",
                self.core.queue_dir(&self.partition).display()
            );
        }
    }

    /// The whole batches that lie in `from..upper`, about as many as `bytes_max` has room for, at least one; by the
    /// commit log alone. What is damaged is passed over.
    fn scan(&self, from: Offset, upper: Offset, bytes_max: u64) -> Result<Scanned, ReadError> {
        let begin = {
            let state = self.state.lock();
            let share = state.shares.partition_point(|share| share.first_offset <= from).saturating_sub(1);
            state.shares.get(share).map(|share| share.segment)
        };
        let mut scanned = Scanned::default();
        let Some(mut position) = begin.map(Position) else { return Ok(scanned) };
        let (end, kind) = (self.core.log.end().position(), self.kind());
        let mut reader = self.core.log.reader(true);
        let mut bytes = 0;
        while position < end && (scanned.spans.is_empty() || bytes <= bytes_max) {
            let (entry, batch) = match self.entry_head(&mut reader, position) {
                Ok(head) => head,
                Err(ReadError::Corrupt { .. }) => match self.go_on_behind(position)? {
                    Some(next) => {
                        position = next;
                        continue;
                    }
                    None => break,
                },
                Err(error) => return Err(error),
            };
            if let Some(batch) = batch.filter(|_| entry.kind == kind) {
                let last_offset = batch.last_offset();
                if last_offset >= from && self.is_whole(position, entry.length)? {
                    scanned.first.get_or_insert(batch.base_offset);
                    if last_offset >= upper {
                        break;
                    }
                    let (size, last_offset) = (entry.length, last_offset.0);
                    scanned.spans.push(Span { position, size, last_offset, is_complete: true });
                    bytes += u64::from(size);
                }
            }
            position = position.plus(entry.length.into());
        }
        Ok(scanned)
    }

    fn go_on_behind(&self, damaged: Position) -> Result<Option<Position>, ReadError> {
        let journal = &self.core.log.journal;
        let damaged = self.core.log.location(damaged).map_err(|error| self.unreadable(error))?;
        let next = resync::go_on_behind(journal, damaged).map_err(|error| self.unreadable(error))?;
        Ok(next.map(commit_log::position_of))
    }

    /// Whether the batch of an entry is as it was written. One that is not has no records any more, and is passed over.
    fn is_whole(&self, position: Position, size: u32) -> Result<bool, ReadError> {
        let bytes = self.core.log.batch(position, size).map_err(|error| self.unreadable(error))?;
        let whole = BatchView::parse(&bytes).is_ok_and(|view| view.crc_is_valid());
        if !whole {
            tracing::error!(partition = %self.partition, "records are lost: {}", self.corrupt(position));
        }
        Ok(whole)
    }

    fn entry_head(
        &self,
        reader: &mut EntryReader<'_>,
        position: Position,
    ) -> Result<(EntryHeader, Option<BatchHeader>), ReadError> {
        let mut bytes = [0; HEAD_SIZE];
        let short = &mut bytes[..HEADER_SIZE];
        reader.read(position, short).map_err(|error| self.unreadable(error))?;
        match EntryHeader::decode(short) {
            // A blank may be all that its file has left.
            Ok(blank) => return Ok((blank, None)),
            Err(EntryError::Damaged(_)) => return Err(self.corrupt(position)),
            Err(EntryError::Partial { .. }) => {}
        }
        reader.read(position, &mut bytes).map_err(|error| self.unreadable(error))?;
        let (entry, batch) = head(&bytes).ok_or_else(|| self.corrupt(position))?;
        Ok((entry, Some(batch)))
    }

    /// The entry at a position is not what was written there.
    pub(super) fn corrupt(&self, position: Position) -> ReadError {
        let segment = self.core.log.segment_of(position).map_or(0, |segment| segment.0);
        ReadError::Corrupt {
            partition: self.partition.clone(),
            offset: self.log_start(),
            path: self.core.log.journal.dir().join(format!("{segment:020}")),
            position: position.0 - segment,
        }
    }
}

fn head(bytes: &[u8]) -> Option<(EntryHeader, BatchHeader)> {
    let entry = EntryHeader::decode(bytes).ok()?;
    let batch = bytes.get(HEADER_SIZE..)?.first_chunk::<BATCH_HEADER_SIZE>()?;
    Some((entry, BatchHeader::read(batch)))
}
