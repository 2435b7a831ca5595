//! ListOffsets: where a partition begins and ends, and which offset a time has.

use std::collections::BTreeMap;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use mainstem_kafka_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicPartition};

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::Attempts;

/// The API's name in errors.
const API: &str = "ListOffsets";

/// Which offset is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first offset that is there.
    Earliest,
    /// The offset after the last that consumers may see.
    Latest,
    /// The record with the largest timestamp (Kafka 3.0 and later).
    MaxTimestamp,
    /// The first record of that time or later.
    Timestamp(TimestampMs),
}

impl OffsetSpec {
    fn number(self) -> i64 {
        match self {
            OffsetSpec::Latest => -1,
            OffsetSpec::Earliest => -2,
            OffsetSpec::MaxTimestamp => -3,
            OffsetSpec::Timestamp(time) => time.0,
        }
    }
}

/// Which records a reader of transactional topics sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    #[default]
    ReadUncommitted,
    ReadCommitted,
}

impl Isolation {
    pub(crate) fn number(self) -> i8 {
        self as i8
    }
}

/// An offset that a broker found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// `None` when no record is that late.
    pub offset: Option<Offset>,
    /// Of the record found; −1 for the ends of a partition.
    pub timestamp: TimestampMs,
    pub leader_epoch: LeaderEpoch,
}

type ListedOffsets = Vec<(TopicPartition, ListedOffset)>;

impl Client {
    /// Finds an offset for each partition, in the order they were given. Fails with the first that cannot be had.
    pub async fn list_offsets(
        &self,
        wanted: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<ListedOffsets, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let error = match self.list_offsets_once(wanted, isolation).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            wanted.iter().for_each(|(partition, _)| self.doubt_topic(&partition.topic, &error));
            if !attempts.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn list_offsets_once(
        &self,
        wanted: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<ListedOffsets, ClientError> {
        let mut by_leader: BTreeMap<i32, Vec<&(TopicPartition, OffsetSpec)>> = BTreeMap::new();
        for one in wanted {
            let leader = self.leader(&one.0.topic, one.0.partition).await?;
            by_leader.entry(leader.0).or_default().push(one);
        }
        let mut found = BTreeMap::new();
        for (leader, partitions) in by_leader {
            for (partition, listed) in self.list_offsets_of(NodeId(leader), &partitions, isolation).await? {
                found.insert(partition, listed);
            }
        }
        let in_order = wanted.iter().filter_map(|(partition, _)| Some((partition.clone(), *found.get(partition)?)));
        Ok(in_order.collect())
    }

    async fn list_offsets_of(
        &self,
        leader: NodeId,
        wanted: &[&(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<ListedOffsets, ClientError> {
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (partition, spec) in wanted {
            let asked = ListOffsetsPartition {
                partition_index: partition.partition.0,
                current_leader_epoch: LeaderEpoch::NONE.0,
                timestamp: spec.number(),
            };
            topics.entry(&partition.topic).or_default().push(asked);
        }
        let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsTopic { name: name.into(), partitions });
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level: isolation.number(),
            topics: topics.collect(),
            ..Default::default()
        };
        let response = self.node(leader).await?.call(&request).await?;
        let answer: ListOffsetsResponse<'_> = response.decode()?;
        wanted
            .iter()
            .map(|(partition, _)| {
                let topic = answer.topics.iter().find(|topic| topic.name == *partition.topic);
                let mut all = topic.into_iter().flat_map(|topic| &topic.partitions);
                let one = all.find(|one| one.partition_index == partition.partition.0);
                let one = one.ok_or_else(|| response.missing(format!("partition {partition}")))?;
                match ErrorCode(one.error_code) {
                    ErrorCode::NONE => Ok((
                        partition.clone(),
                        ListedOffset {
                            offset: (one.offset >= 0).then_some(Offset(one.offset)),
                            timestamp: TimestampMs(one.timestamp),
                            leader_epoch: LeaderEpoch(one.leader_epoch),
                        },
                    )),
                    code => Err(ClientError::of_broker(API, format!("partition {partition}"), code, None)),
                }
            })
            .collect()
    }
}
