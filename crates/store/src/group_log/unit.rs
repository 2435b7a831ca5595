//! A group as a unit of replication: leader epochs over positions, the high watermark, what lies above it.

use std::sync::atomic::Ordering;

use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, Position, TopicId};

use super::GroupLog;
use super::leader_epochs::LeaderEpochs;
use crate::error::{ReplicateError, StorageError};
use crate::formats::commit_log_entry::{self, EntryError, EntryKind};
use crate::formats::group_checkpoint::EpochStart;

/// How much is read at a time where many entries are looked at.
const READ_BYTES: usize = 1 << 20;

/// A batch in the commit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBatch {
    pub topic_id: TopicId,
    pub partition: PartitionIndex,
    pub base_offset: Offset,
    pub next_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    /// Where its entry begins and ends.
    pub position: Position,
    pub end: Position,
}

impl GroupLog {
    /// This node leads the group from `epoch` on. Batches of earlier epochs are refused when this returns.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.core.check_alive()?;
        self.core.follows.store(false, Ordering::Release);
        self.core.log.begin_epoch(epoch);
        self.partitions().iter().for_each(|partition| partition.note_epoch(epoch));
        Ok(())
    }

    /// This node does not lead the group in `epoch`. Batches of its own are refused when this returns, and its files
    /// end where the leader's do.
    pub fn end_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.core.check_alive()?;
        self.core.follows.store(true, Ordering::Release);
        self.core.log.end_epoch(epoch);
        self.partitions().iter().for_each(|partition| partition.forget_empty_epoch());
        Ok(())
    }

    /// Every entry before is committed. From the last checkpoint, until [`GroupLog::set_high_watermark`] says it.
    pub fn high_watermark(&self) -> Position {
        Position(self.core.high_watermark.load(Ordering::SeqCst))
    }

    /// `Position::MAX`: every written entry is committed.
    pub fn set_high_watermark(&self, position: Position) {
        self.core.high_watermark.store(position.0, Ordering::SeqCst);
    }

    /// Where the first file of the commit log begins.
    pub fn start_position(&self) -> Position {
        self.core.log.journal.first_segment().map_or(Position::ZERO, |base| Position(base.0))
    }

    /// The highest leader epoch of an entry; -1 without entries.
    pub fn last_epoch(&self) -> Result<LeaderEpoch, ReplicateError> {
        self.know_epochs()?;
        let last = self.core.log.with_epochs(|epochs, end| epochs.before(end).last().copied());
        Ok(last.map_or(LeaderEpoch::NONE, |last| last.epoch))
    }

    /// The largest leader epoch at or below the requested one, and where it ends; for one older than all that are known
    /// the requested one, and where the oldest begins. `None`: newer than any that is known.
    pub fn end_position_for_epoch(&self, requested: LeaderEpoch) -> Result<Option<EpochStart>, ReplicateError> {
        self.know_epochs()?;
        Ok(self.core.log.with_epochs(|epochs, end| epochs.end_of(requested, end)))
    }

    /// The batches from a position on, which must be the start of an entry or the end. Reads all of them.
    pub fn batches_from(&self, from: Position) -> Result<Vec<PlacedBatch>, ReplicateError> {
        let mut batches = Vec::new();
        self.look_through(from, Position::MAX, |batch| batches.push(batch))?;
        Ok(batches)
    }

    /// A checkpoint of an earlier version says nothing about epochs: the entries before it are read once.
    fn know_epochs(&self) -> Result<(), ReplicateError> {
        let start = self.start_position();
        let known_from = self.core.log.with_epochs(|epochs, _| epochs.known_from());
        if known_from <= start {
            return Ok(());
        }
        let mut earlier = LeaderEpochs::from(start);
        self.look_through(start, known_from, |batch| earlier.observe(batch.leader_epoch, batch.position))?;
        self.core.log.with_epochs(|epochs, _| {
            // Another thread may have been first, and a cut may have come between.
            if epochs.known_from() == known_from {
                epochs.learn(earlier);
            }
        });
        Ok(())
    }

    fn look_through(
        &self,
        from: Position,
        until: Position,
        mut each: impl FnMut(PlacedBatch),
    ) -> Result<(), ReplicateError> {
        let mut position = from;
        loop {
            let piece = self.read_entries(position, READ_BYTES)?;
            let mut at = 0;
            while at < piece.len() && position < until {
                let (entry, view) = match commit_log_entry::decode(&piece[at..]) {
                    Ok(entry) => entry,
                    Err(EntryError::Partial { .. }) => return Err(self.not_next(position, "the entry is cut off")),
                    Err(EntryError::Damaged(reason)) => return Err(self.not_next(position, reason)),
                };
                let end = position.plus(entry.length.into());
                if let (EntryKind::Batch { topic_id, partition }, Some(view)) = (entry.kind, view) {
                    let header = view.header();
                    each(PlacedBatch {
                        topic_id,
                        partition,
                        base_offset: header.base_offset,
                        next_offset: header.next_offset(),
                        leader_epoch: header.leader_epoch,
                        position,
                        end,
                    });
                }
                at += entry.stored_len();
                position = end;
            }
            if piece.is_empty() || position >= until {
                return Ok(());
            }
        }
    }
}
