//! Looking records up by their key.

use std::cmp::Reverse;

use mainstem_metadata::config::{KeyIndex, Layout};
use mainstem_store::{FindByKeyError, INDEXED_BYTES_MAX, KeyMatches, KeyQuery};
use mainstem_types::{Offset, PartitionIndex, TimestampMs};

use crate::broker::Broker;
use crate::partition::{Isolation, Partition};
use crate::topics::Topic;

/// The target of a look-up in a topic.
#[derive(Debug, Clone, Copy)]
pub struct KeyLookup<'k> {
    pub key: &'k str,
    /// `None`: in all of them.
    pub partition: Option<PartitionIndex>,
    /// The first and the last time that a record may have.
    pub from: TimestampMs,
    pub to: TimestampMs,
    pub max: usize,
    pub isolation: Isolation,
}

/// Why records were not looked up.
#[derive(Debug, thiserror::Error)]
pub enum KeyLookupError {
    #[error("topic {topic} has no key index (mainstem.key.index={value}, mainstem.layout={layout}): {advice}")]
    NoIndex { topic: String, value: &'static str, layout: &'static str, advice: &'static str },
    #[error("topic {topic} has no partition {partition} here")]
    NoPartition { topic: String, partition: PartitionIndex },
    #[error(transparent)]
    Find(#[from] FindByKeyError),
}

impl Broker {
    /// Records of a topic that have a key, newest first. What was acknowledged before is found; what readers do not get
    /// is not. Waits for the disk: to be called on [`Broker::blocking`].
    pub fn find_by_key(&self, topic: &Topic, lookup: &KeyLookup<'_>) -> Result<KeyMatches, KeyLookupError> {
        check_index(topic)?;
        let asked: Vec<&Partition> = match lookup.partition {
            None => topic.partitions.iter().map(|partition| &**partition).collect(),
            Some(index) => vec![
                topic
                    .partition(index)
                    .ok_or_else(|| KeyLookupError::NoPartition { topic: topic.name.to_string(), partition: index })?,
            ],
        };
        // By index, as the partitions are.
        let uppers: Vec<_> = asked.iter().map(|one| (one.index, one.positions().upper(lookup.isolation))).collect();
        let upper = |index: PartitionIndex| -> Option<Offset> {
            uppers.binary_search_by_key(&index, |(index, _)| *index).ok().map(|place| uppers[place].1)
        };
        let KeyLookup { key, from, to, max, .. } = *lookup;
        let with_aborted = lookup.isolation == Isolation::ReadUncommitted;
        let query = KeyQuery { key, from, to, max, with_aborted, upper: &upper };
        let (mut parts, mut bytes_left) = (Vec::new(), INDEXED_BYTES_MAX);
        for partition in &asked {
            if let Some(log) = partition.log().as_partition_log() {
                parts.push(log.find_by_key(&query, &mut bytes_left)?);
            }
        }
        if asked.iter().any(|partition| partition.log().as_group_partition().is_some()) {
            parts.extend(self.state.folder.find_by_key(topic.id, &query)?);
        }
        Ok(merge(parts, max))
    }
}

/// The newest of all.
fn merge(parts: Vec<KeyMatches>, max: usize) -> KeyMatches {
    let complete = parts.iter().all(|part| part.complete);
    let mut records: Vec<_> = parts.into_iter().flat_map(|part| part.records).collect();
    records.sort_by_key(|found| Reverse((found.timestamp, found.offset, found.partition)));
    records.truncate(max);
    KeyMatches { records, complete }
}

fn check_index(topic: &Topic) -> Result<(), KeyLookupError> {
    let config = &topic.config;
    let layout = match config.layout {
        Layout::Partition => "partition",
        Layout::Topic => "topic",
        Layout::Shared => "shared",
    };
    let value = match (config.key_index, config.layout) {
        (KeyIndex::All, _) | (KeyIndex::Headers, Layout::Topic | Layout::Shared) => return Ok(()),
        (KeyIndex::Headers, Layout::Partition) => "headers",
        (KeyIndex::None, _) => "none",
    };
    let advice = match config.layout {
        Layout::Partition => "set mainstem.key.index=all for it",
        Layout::Topic | Layout::Shared => {
            "set mainstem.key.index=all for it, and what is written from then on is found"
        }
    };
    Err(KeyLookupError::NoIndex { topic: topic.name.to_string(), value, layout, advice })
}
