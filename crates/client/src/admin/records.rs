//! Deleting records from the beginning of partitions.

use std::collections::BTreeMap;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use mainstem_kafka_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use mainstem_types::{NodeId, Offset, TopicPartition};

use super::ByPartition;
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::Attempts;

const API: &str = "DeleteRecords";

impl Client {
    /// Deletes all records before an offset, for each partition; gives the first offset that is left. Done twice it
    /// does no more than once.
    pub async fn delete_records(
        &self,
        before: &[(TopicPartition, Offset)],
    ) -> Result<ByPartition<Offset>, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let error = match self.delete_records_once(before).await {
                Ok(results) => return Ok(results),
                Err(error) => error,
            };
            before.iter().for_each(|(partition, _)| self.doubt_topic(&partition.topic, &error));
            if !attempts.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn delete_records_once(
        &self,
        before: &[(TopicPartition, Offset)],
    ) -> Result<ByPartition<Offset>, ClientError> {
        let mut by_leader: BTreeMap<i32, Vec<&(TopicPartition, Offset)>> = BTreeMap::new();
        for one in before {
            let leader = self.leader(&one.0.topic, one.0.partition).await?;
            by_leader.entry(leader.0).or_default().push(one);
        }
        let mut results = BTreeMap::new();
        for (leader, wanted) in by_leader {
            for (partition, result) in self.delete_records_of(NodeId(leader), &wanted).await? {
                results.insert(partition, result);
            }
        }
        Ok(before.iter().filter_map(|(partition, _)| results.remove_entry(partition)).collect())
    }

    async fn delete_records_of(
        &self,
        leader: NodeId,
        wanted: &[&(TopicPartition, Offset)],
    ) -> Result<ByPartition<Offset>, ClientError> {
        let mut topics: BTreeMap<&str, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for (partition, offset) in wanted {
            let before = DeleteRecordsPartition { partition_index: partition.partition.0, offset: offset.0 };
            topics.entry(&partition.topic).or_default().push(before);
        }
        let topics = topics.into_iter().map(|(name, partitions)| DeleteRecordsTopic { name: name.into(), partitions });
        let request = DeleteRecordsRequest { topics: topics.collect(), timeout_ms: self.timeout_ms() };
        let response = self.node(leader).await?.call(&request).await?;
        let answer: DeleteRecordsResponse<'_> = response.decode()?;
        let mut results = Vec::with_capacity(wanted.len());
        for (partition, _) in wanted {
            let subject = format!("partition {partition}");
            let topic = answer.topics.iter().find(|topic| topic.name == *partition.topic);
            let mut all = topic.into_iter().flat_map(|topic| &topic.partitions);
            let result = match all.find(|one| one.partition_index == partition.partition.0) {
                None => Err(response.missing(subject)),
                Some(one) => match ErrorCode(one.error_code) {
                    ErrorCode::NONE => Ok(Offset(one.low_watermark)),
                    // The leader has moved: the whole is asked again.
                    code @ (ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::LEADER_NOT_AVAILABLE) => {
                        return Err(ClientError::of_broker(API, subject, code, None));
                    }
                    code => Err(ClientError::of_broker(API, subject, code, None)),
                },
            };
            results.push((partition.clone(), result));
        }
        Ok(results)
    }
}
