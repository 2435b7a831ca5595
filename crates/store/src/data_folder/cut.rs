//! Cuts the end of a log, and brings the checkpoints down with it.

use mainstem_types::{Offset, TopicPartition};

use super::DataFolder;
use super::checkpoints::Checkpoints;
use crate::error::{OpenError, ReadError};
use crate::partition_log::PartitionLog;
use crate::topic_log::TopicLog;

impl DataFolder {
    /// Removes everything at and above `offset` from a partition, durably; a batch that holds `offset` goes as a whole.
    /// Gives the log end. Of a group, what was written later to its other partitions goes too: a group is one log to
    /// those who replicate it.
    pub fn truncate_to(&self, log: &TopicLog, offset: Offset) -> Result<Offset, CutError> {
        let partition = match log {
            TopicLog::Partition(log) => return self.cut_log(log, offset),
            TopicLog::Lazy(lazy) => return lazy.get().map_or(Ok(Offset::ZERO), |log| self.cut_log(log, offset)),
            TopicLog::Group(partition) => partition,
        };
        let key = (partition.topic_id(), partition.partition().partition);
        let group = self.groups().into_iter().find(|group| group.partition(key.0, key.1).is_some());
        if let Some(group) = group {
            group.truncate_to(partition.position_of(offset)?.unwrap_or(group.end_position()))?;
        }
        Ok(partition.log_end())
    }

    /// Other records will have the offsets of those that are cut. A start after a power cut takes what lies below the
    /// recovery point for durable without looking, and what lies below the high watermark for committed: so both go
    /// down before anything is cut, and no checkpoint raises them meanwhile. Where a batch begins below `offset` and
    /// goes as a whole, they follow the log end further down afterwards: a log start above the log end would be taken
    /// for records that a power cut took.
    fn cut_log(&self, log: &PartitionLog, offset: Offset) -> Result<Offset, CutError> {
        let mut checkpoints = self.checkpoints.lock();
        self.lower_checkpoints(&mut checkpoints, log, offset)?;
        let end = log.truncate_to(offset)?;
        self.lower_checkpoints(&mut checkpoints, log, end)?;
        Ok(end)
    }

    fn lower_checkpoints(
        &self,
        checkpoints: &mut Checkpoints,
        log: &PartitionLog,
        offset: Offset,
    ) -> Result<(), OpenError> {
        let partition: &TopicPartition = log.partition();
        let mut next = checkpoints.kafkas();
        if next.lower(partition, offset) {
            self.replace_kafkas(checkpoints, next)?;
            log.checkpoint_lowered(offset);
        }
        self.known.lock().lower(partition, offset);
        Ok(())
    }
}

/// Why a log was not cut.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    #[error(transparent)]
    Storage(#[from] crate::error::StorageError),
    #[error(transparent)]
    Find(#[from] ReadError),
    #[error("before the cut the checkpoints must say less: {0}")]
    Checkpoint(#[from] OpenError),
}
