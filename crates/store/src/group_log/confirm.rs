//! What a consume queue says is confirmed by the commit log before it is served: a queue is a view without checksums.
//!
//! The head of each entry tells whose it is, how long it is, and which offsets it has, under a checksum. Where the queue is wrong, the
//! commit log is gone through from the file on in which the offset lies: slow, but right.

use std::sync::atomic::Ordering;

use mainstem_record::{BatchHeader, BatchView, HEADER_SIZE as BATCH_HEADER_SIZE};
use mainstem_types::{Offset, Position};

use super::GroupPartition;
use super::entry_reader::EntryReader;
use super::queue::Span;
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
        let last = Offset(span.last_offset);
        is_ours && follows && batch.base_offset <= last && last <= batch.last_offset()
    }

    fn kind(&self) -> EntryKind {
        EntryKind::Batch { topic_id: self.topic_id, partition: self.partition.partition }
    }

    /// As [`GroupPartition::spans`], confirmed, for readers that may wait.
    pub(super) fn confirmed_spans(&self, from: Offset, upper: Offset, bytes_max: u64) -> Result<Vec<Span>, ReadError> {
        let spans = self.spans(from, upper, bytes_max, true)?;
        let mut reader = self.core.log.reader(true);
        let (mut head, mut expected) = ([0; HEAD_SIZE], Expected::Within(from));
        let mut confirmed = |span: &Span| {
            reader.read(span.position, &mut head).is_ok_and(|read| read) && self.confirms(span, &head, &mut expected)
        };
        match (from >= upper || !spans.is_empty()) && spans.iter().all(&mut confirmed) {
            true => Ok(spans),
            false => self.spans_by_scan(from, upper, bytes_max),
        }
    }

    /// The batches that lie in `from..upper`, about as many as `bytes_max` has room for, at least one; by the commit log alone.
    pub(super) fn spans_by_scan(&self, from: Offset, upper: Offset, bytes_max: u64) -> Result<Vec<Span>, ReadError> {
        if !self.queue_is_wrong.swap(true, Ordering::Relaxed) {
            tracing::error!(
                partition = %self.partition,
                "{} is damaged: records are looked for in the commit log, which is slow; remove it while the node is stopped, and it is made again",
                self.core.queue_dir(&self.partition).display()
            );
        }
        let begin = {
            let state = self.state.lock();
            let share = state.shares.partition_point(|share| share.first_offset <= from).saturating_sub(1);
            state.shares.get(share).map(|share| share.segment)
        };
        let Some(mut position) = begin.map(Position) else { return Ok(Vec::new()) };
        let (end, kind) = (self.core.log.end().position(), self.kind());
        let mut reader = self.core.log.reader(true);
        let (mut spans, mut bytes) = (Vec::new(), 0);
        while position < end && (spans.is_empty() || bytes <= bytes_max) {
            let (entry, batch) = self.entry_head(&mut reader, position)?;
            if let Some(batch) = batch.filter(|_| entry.kind == kind) {
                if batch.last_offset() >= upper {
                    break;
                }
                if batch.last_offset() >= from && self.is_whole(position, entry.length)? {
                    spans.push(Span { position, size: entry.length, last_offset: batch.last_offset().0 });
                    bytes += u64::from(entry.length);
                }
            }
            position = position.plus(entry.length.into());
        }
        Ok(spans)
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
