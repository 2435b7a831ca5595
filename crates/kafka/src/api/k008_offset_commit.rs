//! OffsetCommit (8), versions 2-10: a group remembers where it is. v2-4: retention time. v6: leader epoch. v7: static
//! members. v8: flexible. v9: GROUP_ID_NOT_FOUND and member epochs (KIP-848). v10: topics by id.
//!
//! - Partitions that do not exist are refused one by one; the others are committed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use mainstem_broker::TopicMap;
use mainstem_coordinator::{CommitPartition, CommitTopic, GroupError, OffsetCommitRequest as Commit};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestTopic};
use mainstem_kafka_wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{group_error_code, group_result_code};
use crate::request::Request;

pub const API: Api = Api::new(8, "OffsetCommit", 2..=10, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: OffsetCommitRequest<'_> = request.decode()?;
    let topics = door.broker.topics();
    let by_id = request.version >= 10;
    let resolved: Vec<_> = message.topics.iter().map(|topic| Resolved::of(&topics, topic, by_id)).collect();
    let known: Vec<CommitTopic<'_>> = message.topics.iter().zip(&resolved).filter_map(|(t, r)| r.commit(t)).collect();
    let response = shape(&message, &resolved, by_id);
    if known.is_empty() && !message.topics.is_empty() {
        return Ok(Handled::Ready(request.reply(&response)));
    }
    let answer = door.broker.consumer_groups().commit_offsets(&Commit {
        group_id: &message.group_id,
        generation: message.generation_id_or_member_epoch,
        member_id: &message.member_id,
        instance_id: message.group_instance_id.as_deref(),
        retention_ms: (message.retention_time_ms >= 0).then_some(message.retention_time_ms),
        reports_missing_group: request.version >= 9,
        topics: known,
    });
    drop(message);
    Ok(Handled::working(async move {
        let committed = answer.wait().await;
        reply(&request, response, &resolved, committed)
    }))
}

/// A topic of the request, with what this broker knows of it.
struct Resolved {
    name: String,
    id: TopicId,
    /// `None`: there is no such topic.
    partition_count: Option<i32>,
}

impl Resolved {
    fn of(topics: &TopicMap, wanted: &OffsetCommitRequestTopic<'_>, by_id: bool) -> Resolved {
        let topic = if by_id { topics.by_id(wanted.topic_id) } else { topics.by_name(&wanted.name) };
        match topic {
            Some(topic) => Resolved {
                name: topic.name.as_ref().to_owned(),
                id: topic.id,
                partition_count: Some(topic.partitions.len() as i32),
            },
            None => Resolved { name: wanted.name.as_ref().to_owned(), id: wanted.topic_id, partition_count: None },
        }
    }

    fn has(&self, partition: i32) -> bool {
        self.partition_count.is_some_and(|count| (0..count).contains(&partition))
    }

    /// The partitions of the topic that exist.
    fn commit<'m>(&'m self, wanted: &'m OffsetCommitRequestTopic<'_>) -> Option<CommitTopic<'m>> {
        let partitions: Vec<_> = wanted
            .partitions
            .iter()
            .filter(|partition| self.has(partition.partition_index))
            .map(|partition| CommitPartition {
                partition: PartitionIndex(partition.partition_index),
                offset: Offset(partition.committed_offset),
                leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                metadata: partition.committed_metadata.as_deref(),
            })
            .collect();
        (!partitions.is_empty()).then(|| CommitTopic { name: &self.name, topic_id: self.id, partitions })
    }
}

/// The answer without the coordinator's results: what does not exist has its error, the rest has none.
fn shape(message: &OffsetCommitRequest<'_>, resolved: &[Resolved], by_id: bool) -> OffsetCommitResponse<'static> {
    let unknown_topic = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
    let topics = message.topics.iter().zip(resolved).map(|(topic, resolved)| OffsetCommitResponseTopic {
        name: Cow::Owned(topic.name.as_ref().to_owned()),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: match resolved.partition_count {
                    None => unknown_topic.0,
                    Some(_) if !resolved.has(partition.partition_index) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                    Some(_) => 0,
                },
            })
            .collect(),
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

/// Puts the coordinator's results in.
fn reply(
    request: &Request,
    mut response: OffsetCommitResponse<'static>,
    resolved: &[Resolved],
    committed: Result<Vec<mainstem_coordinator::CommittedTopic>, GroupError>,
) -> Reply {
    let (results, all) = match &committed {
        Ok(topics) => {
            let each = topics.iter().flat_map(|t| {
                t.partitions.iter().map(|p| ((t.name.as_str(), p.partition.0), group_result_code(&p.result)))
            });
            (each.collect::<HashMap<_, _>>(), None)
        }
        Err(error) => (HashMap::new(), Some(group_error_code(error))),
    };
    for (topic, resolved) in response.topics.iter_mut().zip(resolved) {
        for partition in topic.partitions.iter_mut().filter(|partition| partition.error_code == 0) {
            let own = results.get(&(resolved.name.as_str(), partition.partition_index)).copied();
            partition.error_code = all.or(own).unwrap_or(ErrorCode::NONE).0;
        }
    }
    request.reply(&response)
}
