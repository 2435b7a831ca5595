//! DescribeTopicPartitions (75), version 0: topics and partitions in pages (KIP-966).
//!
//! - Topics come sorted by name, each once; without names, all of them. A page has at most `response_partition_limit`
//!   partitions, at most `max.request.partition.size.limit`, and room for at least one. Its cursor says where the next
//!   page begins.
//! - With a cursor, what lies before it is left out. It must be one of the names, if there are names.
//! - A name that does not exist takes no room in a page: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use mainstem_broker::{Broker, TopicMap};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use mainstem_kafka_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use mainstem_metadata::image::{PartitionImage, TopicImage};
use mainstem_types::{NodeId, is_internal_topic, validate_topic_name};

use crate::authorized;
use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;
use crate::shown_partition::ShownReplicas;

pub const API: Api = Api::new(75, "DescribeTopicPartitions", 0..=0, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeTopicPartitionsRequest<'_> = request.decode()?;
    Ok(Handled::Ready(answer(&door.broker, &request, &message)))
}

fn answer(broker: &Broker, request: &Request, message: &DescribeTopicPartitionsRequest<'_>) -> Reply {
    let (from, first_partition) =
        message.cursor.as_ref().map_or(("", 0), |c| (c.topic_name.as_ref(), c.partition_index));
    let names: BTreeSet<&str> =
        message.topics.iter().map(|topic| topic.name.as_ref()).filter(|name| *name >= from).collect();
    let cursor_is_foreign = message.cursor.is_some() && !message.topics.is_empty() && !names.contains(from);
    if cursor_is_foreign || first_partition < 0 {
        return refused(request, message);
    }
    let (image, served) = (broker.image(), broker.topics());
    let limit = message.response_partition_limit.min(broker.config().fetch.described_partitions_max);
    let left = limit.max(1) as usize;
    let node = broker.node_id();
    let mut page = Page { served: &served, node, from, first_partition, left, topics: Vec::new(), next: None };
    if message.topics.is_empty() {
        let _page_is_full = image.topics_from(from).try_for_each(|topic| page.add(&topic.name, Some(topic)));
    } else {
        let _page_is_full = names.into_iter().try_for_each(|name| page.add(name, image.topic(name)));
    }
    let response =
        DescribeTopicPartitionsResponse { topics: page.topics, next_cursor: page.next, ..Default::default() };
    request.reply(&response)
}

/// One answer in the making.
struct Page<'p> {
    served: &'p TopicMap,
    /// This one.
    node: NodeId,
    from: &'p str,
    first_partition: i32,
    /// Partitions that still have room.
    left: usize,
    topics: Vec<DescribeTopicPartitionsResponseTopic<'p>>,
    next: Option<Cursor<'p>>,
}

/// The page has no more room.
struct Full;

impl<'p> Page<'p> {
    fn add(&mut self, name: &'p str, topic: Option<&'p Arc<TopicImage>>) -> Result<(), Full> {
        if self.left == 0 {
            return self.full(name, 0);
        }
        let Some(topic) = topic else {
            self.topics.push(unknown(name));
            return Ok(());
        };
        let first = if name == self.from { self.first_partition } else { 0 };
        let mut partitions = topic.partitions.range(first..);
        let served = self.served.by_id(topic.id).map(Arc::as_ref);
        let node = self.node;
        let shown: Vec<_> =
            partitions.by_ref().take(self.left).map(|(index, image)| partition(served, node, *index, image)).collect();
        self.left -= shown.len();
        self.topics.push(DescribeTopicPartitionsResponseTopic {
            name: Some(Cow::Borrowed(name)),
            topic_id: topic.id,
            is_internal: is_internal_topic(name),
            partitions: shown,
            topic_authorized_operations: authorized::TOPIC,
            ..Default::default()
        });
        match partitions.next() {
            Some((index, _)) => self.full(name, *index),
            None => Ok(()),
        }
    }

    fn full(&mut self, name: &'p str, partition_index: i32) -> Result<(), Full> {
        self.next = Some(Cursor { topic_name: Cow::Borrowed(name), partition_index });
        Err(Full)
    }
}

fn partition(
    served: Option<&mainstem_broker::Topic>,
    node: NodeId,
    index: i32,
    image: &PartitionImage,
) -> DescribeTopicPartitionsResponsePartition {
    let ShownReplicas { leader, offline } = ShownReplicas::of(image, index, served, node);
    DescribeTopicPartitionsResponsePartition {
        error_code: 0,
        partition_index: index,
        leader_id: leader,
        leader_epoch: image.leader_epoch,
        replica_nodes: image.replicas.clone(),
        isr_nodes: image.isr.clone(),
        eligible_leader_replicas: Some(image.eligible_leader_replicas.clone()),
        last_known_elr: Some(image.last_known_eligible.clone()),
        offline_replicas: offline,
    }
}

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    let is_name = validate_topic_name(name).is_ok();
    let error = if is_name { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::INVALID_TOPIC_EXCEPTION };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.0,
        name: Some(Cow::Borrowed(name)),
        is_internal: is_internal_topic(name),
        topic_authorized_operations: authorized::TOPIC,
        ..Default::default()
    }
}

/// The cursor makes no sense: every topic that was asked for says so, as there is no other place in this message.
fn refused(request: &Request, message: &DescribeTopicPartitionsRequest<'_>) -> Reply {
    let topic = |name| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST.0,
        name: Some(Cow::Borrowed(name)),
        ..Default::default()
    };
    let topics = message.topics.iter().map(|asked| topic(asked.name.as_ref())).collect();
    request.reply(&DescribeTopicPartitionsResponse { topics, ..Default::default() })
}

#[cfg(test)]
#[path = "k075_describe_topic_partitions_tests.rs"]
mod tests;
