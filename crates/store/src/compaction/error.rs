//! Why a log was not compacted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mainstem_types::TopicPartition;

use crate::error::{ReadError, StorageError};

/// Why a compaction ended early. Segments that were exchanged before it stay so; unless it is `Storage`, the log goes
/// on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CompactError {
    /// The log has ended with this.
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{action} {path} failed: {error}; the log did not change, and a later pass compacts it", path = path.display())]
    Io { action: &'static str, path: PathBuf, error: Arc<io::Error> },
    #[error(
        "{path}, byte {position}: {reason}; compaction leaves the segment as it is until you repair or delete it",
        path = path.display()
    )]
    Damaged { path: PathBuf, position: u64, reason: String },
    #[error("{path} would be larger than 2 GiB; reduce segment.bytes, so that later segments are smaller", path = path.display())]
    TooLarge { path: PathBuf },
    /// The caller wanted so, or the topic is not compacted any more.
    #[error("{partition}: the compaction was stopped")]
    Stopped { partition: TopicPartition },
    #[error("{partition}: its segments were deleted or cut meanwhile; the next pass tries again")]
    Superseded { partition: TopicPartition },
    #[error("{partition} is being compacted already")]
    Busy { partition: TopicPartition },
    #[error("{partition} is closed")]
    Closed { partition: TopicPartition },
}

impl CompactError {
    pub(crate) fn io(action: &'static str, path: PathBuf, error: io::Error) -> Self {
        CompactError::Io { action, path, error: Arc::new(error) }
    }

    pub(crate) fn of_read(error: ReadError) -> Self {
        match error {
            ReadError::Storage(StorageError { action, path, error }) => CompactError::Io { action, path, error },
            ReadError::Corrupt { path, position, .. } => {
                CompactError::Damaged { path, position, reason: "the bytes are no batch".to_owned() }
            }
            ReadError::Closed { partition } => CompactError::Closed { partition },
            ReadError::Gone { partition } | ReadError::OutOfRange { partition, .. } => {
                CompactError::Superseded { partition }
            }
            // Never from a look that may wait.
            ReadError::WouldBlock => CompactError::io("read", PathBuf::new(), io::ErrorKind::WouldBlock.into()),
        }
    }
}
