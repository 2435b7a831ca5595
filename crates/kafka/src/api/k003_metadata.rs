//! Metadata (3), versions 0-13: brokers, topics, leaders.
//!
//! - v1: null topics ask for all, none for none (in v0, none asks for all). v2: cluster id. v4: may create topics.
//!   v5: offline replicas. v7: leader epochs. v8: authorized operations. v9: flexible. v10: topic ids. v12: lookup by
//!   id. v13: an error of the whole.
//! - A topic that is asked for twice is answered once.
//! - A topic that does not exist is created if the request and `auto.create.topics.enable` allow it; the answer is
//!   UNKNOWN_TOPIC_OR_PARTITION, and the client asks again. One that cannot be created: INVALID_TOPIC_EXCEPTION.
//! - A partition that is shown with a leader can be written and read at once.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::{Broker, Endpoint, Topic, TopicMap};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use mainstem_kafka_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use mainstem_metadata::controller::CreateTopicError;
use mainstem_metadata::image::{ClusterImage, TopicImage};
use mainstem_types::{NodeId, TopicId, is_internal_topic, validate_topic_name};

use crate::authorized::{self, operations};
use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::create_topic_error_code;
use crate::request::Request;
use crate::shown_partition::ShownReplicas;

pub const API: Api = Api::new(3, "Metadata", 0..=13, handle);

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: MetadataRequest<'_> = request.decode()?;
    if let Some(reply) = refused(&request, &message) {
        return Ok(Handled::Ready(reply));
    }
    let endpoint = door.broker.endpoint(&connection.info.listener);
    let missing = to_create(&door.broker, request.version, &message);
    let reply = answer(&door.broker, &request, &message, &endpoint, &[]);
    if missing.is_empty() {
        return Ok(Handled::Ready(reply));
    }
    drop(message);
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let failed = broker.auto_create_topics(missing).await;
        if failed.is_empty() {
            return reply;
        }
        match request.decode() {
            Ok(message) => answer(&broker, &request, &message, &endpoint, &failed),
            Err(reason) => Reply::close(reason),
        }
    }))
}

/// Before version 12 a topic has a name and no id counts.
fn refused(request: &Request, message: &MetadataRequest<'_>) -> Option<Reply> {
    let topics = message.topics.as_deref().unwrap_or_default();
    if request.version >= 12 || topics.iter().all(|topic| topic.name.is_some() && topic.topic_id.is_zero()) {
        return None;
    }
    let topic = |wanted: &'_ MetadataRequestTopic<'_>| MetadataResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST.0,
        name: Some(Cow::Owned(wanted.name.as_deref().unwrap_or_default().to_owned())),
        topic_id: wanted.topic_id,
        ..Default::default()
    };
    let topics = topics.iter().map(topic).collect();
    Some(request.reply(&MetadataResponse { topics, ..Default::default() }))
}

/// Names that the request asks for, that do not exist and that may be created now.
fn to_create(broker: &Broker, version: i16, message: &MetadataRequest<'_>) -> Vec<String> {
    let asked = version < 4 || message.allow_auto_topic_creation;
    if !asked || !broker.config().topics.auto_create {
        return Vec::new();
    }
    let image = broker.image();
    let wanted = message.topics.iter().flatten().filter(|topic| topic.topic_id.is_zero());
    let names = wanted.filter_map(|topic| topic.name.as_deref());
    names.filter(|name| image.topic(name).is_none() && validate_topic_name(name).is_ok()).map(str::to_owned).collect()
}

/// `failed`: topics that should have been created for this request, sorted by name.
fn answer(
    broker: &Broker,
    request: &Request,
    message: &MetadataRequest<'_>,
    endpoint: &Endpoint,
    failed: &[(String, CreateTopicError)],
) -> Reply {
    let (image, served) = (broker.image(), broker.topics());
    let with_operations = message.include_topic_authorized_operations;
    let view = View { image: &image, served: &served, node: endpoint.node, failed, with_operations };
    let topics = match &message.topics {
        None => view.all(),
        Some(topics) if topics.is_empty() && request.version == 0 => view.all(),
        Some(topics) => {
            let mut seen = HashSet::with_capacity(topics.len());
            let distinct = topics.iter().filter(|topic| seen.insert((topic.topic_id, topic.name.as_deref())));
            distinct.map(|topic| view.asked(topic)).collect()
        }
    };
    let response = MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: endpoint.node.0,
            host: Cow::Borrowed(&endpoint.host),
            port: i32::from(endpoint.port),
            rack: endpoint.rack.as_deref().map(Cow::Borrowed),
        }],
        cluster_id: Some(Cow::Borrowed(broker.cluster_id())),
        controller_id: endpoint.node.0,
        topics,
        cluster_authorized_operations: operations(message.include_cluster_authorized_operations, authorized::CLUSTER),
        ..Default::default()
    };
    request.reply(&response)
}

/// What a request sees of the cluster.
struct View<'v> {
    image: &'v ClusterImage,
    served: &'v TopicMap,
    /// This one.
    node: NodeId,
    failed: &'v [(String, CreateTopicError)],
    with_operations: bool,
}

impl<'v> View<'v> {
    fn all(&self) -> Vec<MetadataResponseTopic<'v>> {
        self.image.topics().map(|topic| self.topic(topic)).collect()
    }

    fn asked<'m>(&self, wanted: &'m MetadataRequestTopic<'_>) -> MetadataResponseTopic<'m>
    where
        'v: 'm,
    {
        if !wanted.topic_id.is_zero() {
            // A name beside an id is not looked at.
            return match self.image.topic_by_id(wanted.topic_id) {
                Some(topic) => self.topic(topic),
                None => self.missing(None, wanted.topic_id, ErrorCode::UNKNOWN_TOPIC_ID),
            };
        }
        let name = wanted.name.as_deref().unwrap_or_default();
        match self.image.topic(name) {
            Some(topic) => self.topic(topic),
            None => self.missing(Some(name), TopicId::ZERO, self.why_missing(name)),
        }
    }

    fn missing<'m>(&self, name: Option<&'m str>, topic_id: TopicId, error: ErrorCode) -> MetadataResponseTopic<'m> {
        MetadataResponseTopic {
            error_code: error.0,
            name: name.map(Cow::Borrowed),
            topic_id,
            is_internal: name.is_some_and(is_internal_topic),
            // A client that may do everything may do it with an absent topic, too.
            topic_authorized_operations: operations(self.with_operations && name.is_some(), authorized::TOPIC),
            ..Default::default()
        }
    }

    fn why_missing(&self, name: &str) -> ErrorCode {
        let failed = self.failed.binary_search_by(|(failed, _)| failed.as_str().cmp(name));
        match failed.ok().map(|place| &self.failed[place]) {
            Some((_, error)) => create_topic_error_code(error),
            None if validate_topic_name(name).is_err() => ErrorCode::INVALID_TOPIC_EXCEPTION,
            None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }
    }

    fn topic(&self, topic: &'v Arc<TopicImage>) -> MetadataResponseTopic<'v> {
        let served = self.served.by_id(topic.id);
        let partitions = topic.partitions.keys().map(|index| partition(topic, served, self.node, *index));
        MetadataResponseTopic {
            name: Some(Cow::Borrowed(&topic.name)),
            topic_id: topic.id,
            is_internal: is_internal_topic(&topic.name),
            partitions: partitions.collect(),
            topic_authorized_operations: operations(self.with_operations, authorized::TOPIC),
            ..Default::default()
        }
    }
}

fn partition(topic: &TopicImage, served: Option<&Arc<Topic>>, node: NodeId, index: i32) -> MetadataResponsePartition {
    let Some(image) = topic.partitions.get(&index) else { return MetadataResponsePartition::default() };
    let ShownReplicas { leader, offline } = ShownReplicas::of(image, index, served.map(Arc::as_ref), node);
    MetadataResponsePartition {
        error_code: if leader < 0 { ErrorCode::LEADER_NOT_AVAILABLE.0 } else { 0 },
        partition_index: index,
        leader_id: leader,
        leader_epoch: image.leader_epoch,
        replica_nodes: image.replicas.clone(),
        isr_nodes: image.isr.clone(),
        offline_replicas: offline,
    }
}

#[cfg(test)]
#[path = "k003_metadata_tests.rs"]
mod tests;
