//! OffsetDelete (47), version 0 (KIP-496): forgets single offsets of a group.
//!
//! - Topics that a member of the group reads are GROUP_SUBSCRIBED_TO_TOPIC, partitions that do not exist
//!   UNKNOWN_TOPIC_OR_PARTITION; the others are done.
//! - An error of the group as a whole comes without topics.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use mainstem_broker::TopicMap;
use mainstem_coordinator::{DeletedOffsets, GroupError, OffsetDeleteRequest as Delete, TopicPartitions};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestTopic};
use mainstem_kafka_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use mainstem_types::PartitionIndex;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{group_error_code, group_result_code};
use crate::request::Request;

pub const API: Api = Api::new(47, "OffsetDelete", 0..=0, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: OffsetDeleteRequest<'_> = request.decode()?;
    let topics = door.broker.topics();
    let known = message.topics.iter().map(|topic| existing(&topics, topic));
    let known: Vec<TopicPartitions<'_>> = known.filter(|topic| !topic.partitions.is_empty()).collect();
    let answer =
        door.broker.consumer_groups().delete_offsets(&Delete { group_id: message.group_id.as_ref(), topics: known });
    drop((message, topics));
    Ok(Handled::working(async move {
        let deleted = answer.wait().await;
        reply(&request, deleted).unwrap_or_else(Reply::close)
    }))
}

/// Those partitions of a topic that exist.
fn existing<'m>(topics: &TopicMap, wanted: &'m OffsetDeleteRequestTopic<'_>) -> TopicPartitions<'m> {
    let indexes = wanted.partitions.iter().map(|partition| PartitionIndex(partition.partition_index));
    let partitions = match topics.by_name(&wanted.name) {
        Some(topic) => indexes.filter(|index| topic.partition(*index).is_some()).collect(),
        None => Vec::new(),
    };
    TopicPartitions { name: wanted.name.as_ref(), partitions }
}

fn reply(request: &Request, deleted: Result<Vec<DeletedOffsets>, GroupError>) -> Result<Reply, CloseReason> {
    let deleted = match deleted {
        Ok(deleted) => deleted,
        Err(error) => {
            let error_code = group_error_code(&error).0;
            return Ok(request.reply(&OffsetDeleteResponse { error_code, ..Default::default() }));
        }
    };
    let mut codes: HashMap<(&str, i32), ErrorCode> = HashMap::new();
    for topic in &deleted {
        let results = topic.partitions.iter();
        codes.extend(results.map(|one| ((topic.name.as_str(), one.partition.0), group_result_code(&one.result))));
    }
    let message: OffsetDeleteRequest<'_> = request.decode()?;
    let code = |topic: &str, index: i32| {
        codes.get(&(topic, index)).copied().unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION).0
    };
    let topics = message.topics.iter().map(|topic| OffsetDeleteResponseTopic {
        name: Cow::Borrowed(topic.name.as_ref()),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: code(&topic.name, partition.partition_index),
            })
            .collect(),
    });
    Ok(request.reply(&OffsetDeleteResponse { topics: topics.collect(), ..Default::default() }))
}

#[cfg(test)]
#[path = "k047_offset_delete_tests.rs"]
mod tests;
