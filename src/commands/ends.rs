//! Reading partitions up to ends that were found before, however fast others write.

use std::collections::BTreeMap;

use mainstem_client::{FetchedRecord, Fetcher, Offset, TopicPartition};

/// The end of each partition, as it was.
pub type Ends = BTreeMap<TopicPartition, Offset>;

pub fn is_before_end(record: &FetchedRecord, ends: &Ends) -> bool {
    let partition = TopicPartition { topic: record.topic.clone(), partition: record.partition };
    ends.get(&partition).is_some_and(|end| record.offset < *end)
}

/// Stops reading partitions that are read to their end, and gives them with their position.
pub fn leave_ended(fetcher: &mut Fetcher, ends: &Ends) -> Vec<(TopicPartition, Offset)> {
    let ended = |partition: &TopicPartition, position: Offset| ends.get(partition).is_none_or(|end| position >= *end);
    let ended: Vec<_> = fetcher
        .positions()
        .filter(|(partition, state)| ended(partition, state.position))
        .map(|(partition, state)| (partition.clone(), state.position))
        .collect();
    ended.iter().for_each(|(partition, _)| fetcher.unassign(partition));
    ended
}

/// Whether no partition is left to read.
pub fn is_empty(fetcher: &Fetcher) -> bool {
    fetcher.positions().next().is_none()
}
