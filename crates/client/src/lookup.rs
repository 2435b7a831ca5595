//! FindByKey: the positions of a topic's records with a key. Only Mainstem has this request.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{FindByKeyRequest, FindByKeyResponse};
use mainstem_types::{NodeId, Offset, PartitionIndex, TimestampMs};

use crate::client::Client;
use crate::error::ClientError;
use crate::offsets::Isolation;
use crate::retry::Attempts;

const API: &str = "FindByKey";
/// "All partitions", "any time".
const ANY: i32 = -1;

/// Which records are looked for.
#[derive(Debug, Clone)]
pub struct KeySearch {
    /// UTF-8; others are in no index.
    pub key: String,
    pub partition: Option<PartitionIndex>,
    /// The first and the last time that a record may have.
    pub from: Option<TimestampMs>,
    pub to: Option<TimestampMs>,
    /// So many of the newest; a broker gives 1,000 at most.
    pub max: i32,
    pub isolation: Isolation,
}

impl KeySearch {
    /// The newest 100 records with the key.
    pub fn new(key: impl Into<String>) -> KeySearch {
        KeySearch { key: key.into(), partition: None, from: None, to: None, max: 100, isolation: Isolation::default() }
    }
}

/// Where a record is that has the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundByKey {
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub timestamp: TimestampMs,
}

/// Which keys the index of a topic has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexedKeys {
    /// The words of the record header `KEYS`, and the record header `UNIQ_KEY`.
    Headers,
    /// The keys of records, too.
    All,
}

/// The found records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMatches {
    /// Newest first.
    pub records: Vec<FoundByKey>,
    /// `false`: so many records have the key, or one with the same hash, that older ones were not looked at.
    pub complete: bool,
    pub indexed: IndexedKeys,
}

impl Client {
    /// Finds records by their key. [`ClientError::Unsupported`] from brokers that are no Mainstem.
    pub async fn find_by_key(&self, topic: &str, search: &KeySearch) -> Result<KeyMatches, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let error = match self.find_by_key_once(topic, search).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            self.doubt_topic(topic, &error);
            if !attempts.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn find_by_key_once(&self, topic: &str, search: &KeySearch) -> Result<KeyMatches, ClientError> {
        let known = self.topic(topic).await?;
        let leaders: BTreeSet<i32> = match search.partition {
            Some(partition) => BTreeSet::from([self.leader(topic, partition).await?.0]),
            None => known.partitions.iter().filter_map(|partition| partition.leader).map(|node| node.0).collect(),
        };
        let mut all = KeyMatches { records: Vec::new(), complete: true, indexed: IndexedKeys::All };
        for leader in leaders {
            let found = self.find_by_key_of(NodeId(leader), topic, search).await?;
            all.records.extend(found.records);
            all.complete &= found.complete;
            all.indexed = found.indexed;
        }
        all.records.sort_by_key(|found| Reverse((found.timestamp, found.offset, found.partition)));
        all.records.truncate(usize::try_from(search.max).unwrap_or(0));
        Ok(all)
    }

    async fn find_by_key_of(&self, leader: NodeId, topic: &str, search: &KeySearch) -> Result<KeyMatches, ClientError> {
        let time = |time: Option<TimestampMs>| time.map_or(i64::from(ANY), |time| time.0);
        let request = FindByKeyRequest {
            topic_name: Some(topic.into()),
            key: search.key.as_bytes().into(),
            partition_index: search.partition.map_or(ANY, |partition| partition.0),
            begin_timestamp: time(search.from),
            end_timestamp: time(search.to),
            max_records: search.max,
            isolation_level: search.isolation.number(),
            ..Default::default()
        };
        let response = self.node(leader).await?.call(&request).await?;
        let answer: FindByKeyResponse<'_> = response.decode()?;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let subject = format!("topic {topic}");
            return Err(ClientError::of_broker(API, subject, code, answer.error_message.as_deref()));
        }
        let found = answer.records.iter().map(|found| FoundByKey {
            partition: PartitionIndex(found.partition_index),
            offset: Offset(found.offset),
            timestamp: TimestampMs(found.timestamp),
        });
        Ok(KeyMatches {
            records: found.collect(),
            complete: answer.is_complete,
            indexed: if answer.indexed_keys == 1 { IndexedKeys::Headers } else { IndexedKeys::All },
        })
    }
}
