//! The entries of one batch in a consume queue, as they are kept in memory.

use mainstem_types::Position;

use crate::formats::queue_entry::QueueEntry;

pub(super) const RUN_SIZE: usize = size_of::<Run>();

/// The entries of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: i64,
    pub(crate) count: u32,
    pub(crate) size: u32,
    pub(crate) position: Position,
    /// One for each record; `None`: no record has a tag.
    pub(crate) tags: Option<Box<[i64]>>,
}

impl Run {
    pub(super) fn end(&self) -> i64 {
        self.first + i64::from(self.count)
    }

    pub(super) fn entry(&self, offset: i64) -> QueueEntry {
        let tag_hash = self.tags.as_ref().and_then(|tags| tags.get((offset - self.first) as usize).copied());
        QueueEntry { position: self.position, size: self.size, tag_hash: tag_hash.unwrap_or(0) }
    }

    pub(super) fn bytes(&self) -> usize {
        RUN_SIZE + self.tags.as_ref().map_or(0, |tags| size_of_val::<[i64]>(tags))
    }
}
