//! DeleteRecords (KIP-107): raises the log start of a partition.
//!
//! The change applies in memory at once. The broker answers when the checkpoint of log starts is on the disk, so that
//! deleted records do not come back. A later retention run removes the files.

use std::sync::Arc;

use mainstem_store::{LogStartError, OpenError};
use mainstem_types::{Offset, PartitionIndex, is_internal_topic};

use crate::broker::Broker;
use crate::partition::Partition;
use mainstem_waits::Stopped;

/// Up to where records of one partition go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsToDelete {
    pub topic: String,
    pub partition: PartitionIndex,
    /// The first offset that stays; `None`: all that is committed goes.
    pub before: Option<Offset>,
}

/// Why no records of a partition were deleted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeleteRecordsError {
    #[error("partition {topic}-{partition} does not exist")]
    Unknown { topic: String, partition: PartitionIndex },
    #[error("cannot delete records of the internal topic {0}")]
    Internal(String),
    #[error("cannot delete records of {topic}-{partition}: its cleanup.policy has no \"delete\"")]
    Policy { topic: String, partition: PartitionIndex },
    #[error(transparent)]
    LogStart(Arc<LogStartError>),
    /// They may be back after a crash.
    #[error("cannot make the log start durable: {0}")]
    Checkpoint(Arc<OpenError>),
}

impl Broker {
    /// One result a partition, in the order of `wanted`: where it begins now. Asking for less than was deleted before
    /// changes nothing.
    pub async fn delete_records(
        self: &Arc<Self>,
        wanted: Vec<RecordsToDelete>,
    ) -> Result<Vec<Result<Offset, DeleteRecordsError>>, Stopped> {
        let broker = Arc::clone(self);
        self.blocking.run(move || broker.delete_records_now(&wanted)).await
    }

    fn delete_records_now(&self, wanted: &[RecordsToDelete]) -> Vec<Result<Offset, DeleteRecordsError>> {
        let raised: Vec<_> = wanted.iter().map(|wanted| self.raise_log_start(wanted)).collect();
        let logs = raised.iter().flatten().map(|(partition, _)| (partition.log().clone(), partition.high_watermark()));
        // Of these logs alone: a disk that fails another one is not their concern.
        let mut written = self.state.folder.write_checkpoints_of(&logs.collect::<Vec<_>>()).into_iter();
        let settle = |raised: Result<(Arc<Partition>, Offset), DeleteRecordsError>| {
            let (partition, log_start) = raised?;
            match written.next() {
                Some(Err(error)) => {
                    tracing::error!(
                        "{}: deleted records may come back after a crash: {error}",
                        partition.log().partition()
                    );
                    Err(DeleteRecordsError::Checkpoint(error))
                }
                _ => Ok(log_start),
            }
        };
        raised.into_iter().map(settle).collect()
    }

    fn raise_log_start(&self, wanted: &RecordsToDelete) -> Result<(Arc<Partition>, Offset), DeleteRecordsError> {
        let (topic, partition) = (wanted.topic.clone(), wanted.partition);
        if is_internal_topic(&topic) {
            return Err(DeleteRecordsError::Internal(topic));
        }
        let topics = self.topics();
        let found = topics.by_name(&topic).and_then(|topic| topic.partition(partition));
        let Some(found) = found else { return Err(DeleteRecordsError::Unknown { topic, partition }) };
        if !found.log().config().cleanup_delete {
            return Err(DeleteRecordsError::Policy { topic, partition });
        }
        let log_start = found.delete_records(wanted.before);
        let log_start = log_start.map_err(|error| DeleteRecordsError::LogStart(Arc::new(error)))?;
        Ok((Arc::clone(found), log_start))
    }
}

impl Partition {
    /// Serves nothing below `before` any more. Gives the log start.
    fn delete_records(&self, before: Option<Offset>) -> Result<Offset, LogStartError> {
        let high_watermark = self.high_watermark();
        let log_start = self.log().raise_log_start(before.unwrap_or(high_watermark), high_watermark)?;
        self.log_start_moved();
        Ok(log_start)
    }
}
