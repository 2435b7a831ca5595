//! The folders of partitions that clients write to for the first time.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_store::{AppendError, DataFolder};
use mainstem_types::{PartitionIndex, TopicId};

use crate::partition::Partition;

/// What a folder with its first files takes, without records: the folder itself and `partition.metadata`.
const FOLDER_BYTES: usize = 2 * 4096;

/// Creates the folders of those that have none, with one sync for all of them. Gives the partitions that got none, and
/// why. Waits for the disk.
pub(crate) fn create(
    folder: &DataFolder,
    partitions: &[Arc<Partition>],
) -> HashMap<(TopicId, PartitionIndex), AppendError> {
    let mut refused = HashMap::new();
    let (mut logs, mut keys, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for partition in partitions {
        let Some(log) = partition.log().without_folder() else { continue };
        let key = (partition.topic_id, partition.index);
        match partition.space.take(FOLDER_BYTES) {
            Some(space) => {
                logs.push(log);
                keys.push(key);
                // Counted as written when all of them are there.
                taken.push(space);
            }
            None => _ = refused.insert(key, AppendError::DiskReserve { partition: log.partition().clone() }),
        }
    }
    let created = folder.create_folders(&logs);
    refused.extend(keys.into_iter().zip(created).filter_map(|(key, created)| Some((key, created.err()?))));
    refused
}
