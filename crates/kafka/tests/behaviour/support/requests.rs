//! Requests in short. Whoever sends one says its version, because topics have names in some and ids in others.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use mainstem_kafka_wire::Records;
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use mainstem_kafka_wire::messages::fetch_response::PartitionData;
use mainstem_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use mainstem_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use mainstem_kafka_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::PartitionProduceResponse;
use mainstem_kafka_wire::messages::{CreateTopicsResponse, FetchResponse, ListOffsetsResponse, ProduceResponse};
use mainstem_types::TopicId;

use super::link::Link;

/// A topic by both of its names.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    pub name: &'static str,
    pub id: TopicId,
}

impl Topic {
    /// One that no broker knows.
    pub const UNKNOWN: Topic = Topic { name: "nowhere", id: TopicId([7; 16]) };

    fn name(self, by_id: bool) -> Cow<'static, str> {
        Cow::Borrowed(if by_id { "" } else { self.name })
    }

    fn id(self, by_id: bool) -> TopicId {
        if by_id { self.id } else { TopicId::ZERO }
    }
}

/// Creates a topic with one replica, and waits until its partitions can be read: a Kafka answers before that.
pub fn create_topic(link: &mut Link, name: &str, partitions: i32, configs: &[(&str, &str)]) -> TopicId {
    let config = |(key, value): &(&str, &str)| CreatableTopicConfig {
        name: Cow::Owned(key.to_string()),
        value: Some(Cow::Owned(value.to_string())),
    };
    let topic = CreatableTopic {
        name: Cow::Borrowed(name),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response: CreateTopicsResponse<'static> = link.call(7, &request);
    assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    for partition in 0..partitions {
        wait_until_served(link, name, partition);
    }
    response.topics[0].topic_id
}

fn wait_until_served(link: &mut Link, name: &str, partition: i32) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let wanted = ListOffsetsPartition { partition_index: partition, timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: Cow::Borrowed(name), partitions: vec![wanted] };
        let response: ListOffsetsResponse<'static> =
            link.call(5, &ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() });
        let error = response.topics[0].partitions[0].error_code;
        if error == 0 {
            return;
        }
        assert!(Instant::now() < end, "{name}-{partition}: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One batch for one partition.
pub fn produce(version: i16, topic: Topic, partition: i32, acks: i16, batch: &[u8]) -> ProduceRequest<'_> {
    produce_all(version, topic, acks, vec![(partition, Records::borrowed(batch))])
}

pub fn produce_all(version: i16, topic: Topic, acks: i16, batches: Vec<(i32, Records<'_>)>) -> ProduceRequest<'_> {
    let by_id = version >= 13;
    let data = batches.into_iter().map(|(index, records)| PartitionProduceData { index, records });
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.name(by_id),
            topic_id: topic.id(by_id),
            partition_data: data.collect(),
        }],
        ..Default::default()
    }
}

/// Produces and gives the partition's answer.
pub fn produced(
    link: &mut Link,
    version: i16,
    topic: Topic,
    partition: i32,
    batch: &[u8],
) -> PartitionProduceResponse<'static> {
    let response: ProduceResponse<'static> = link.call(version, &produce(version, topic, partition, -1, batch));
    response.responses[0].partition_responses[0].clone()
}

/// A partition of a fetch: from an offset on, with no other limit than that of the whole.
pub fn from(partition: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() }
}

/// A fetch of one topic, without a session and without a wait.
pub fn fetch(version: i16, topic: Topic, partitions: Vec<FetchPartition>) -> FetchRequest<'static> {
    fetch_all(version, vec![(topic, partitions)])
}

pub fn fetch_all(version: i16, topics: Vec<(Topic, Vec<FetchPartition>)>) -> FetchRequest<'static> {
    let by_id = version >= 13;
    let topic = |(topic, partitions): (Topic, Vec<FetchPartition>)| FetchTopic {
        topic: topic.name(by_id),
        topic_id: topic.id(by_id),
        partitions,
    };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: topics.into_iter().map(topic).collect(),
        ..Default::default()
    }
}

pub fn forgotten(version: i16, topic: Topic, partitions: Vec<i32>) -> ForgottenTopic<'static> {
    let by_id = version >= 13;
    ForgottenTopic { topic: topic.name(by_id), topic_id: topic.id(by_id), partitions }
}

/// Fetches one partition from an offset on and gives its part of the answer.
pub fn fetched(link: &mut Link, version: i16, topic: Topic, partition: i32, offset: i64) -> PartitionData<'static> {
    let response: FetchResponse<'static> = link.call(version, &fetch(version, topic, vec![from(partition, offset)]));
    assert_eq!(response.error_code, 0);
    response.responses[0].partitions[0].clone()
}

pub fn list_offsets(topic: Topic, partitions: &[(i32, i64)]) -> ListOffsetsRequest<'static> {
    let partition = |(partition_index, timestamp): &(i32, i64)| ListOffsetsPartition {
        partition_index: *partition_index,
        timestamp: *timestamp,
        ..Default::default()
    };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: Cow::Borrowed(topic.name),
            partitions: partitions.iter().map(partition).collect(),
        }],
        ..Default::default()
    }
}

/// Looks one offset up.
pub fn listed(
    link: &mut Link,
    version: i16,
    topic: Topic,
    partition: i32,
    timestamp: i64,
) -> ListOffsetsPartitionResponse {
    let response: ListOffsetsResponse<'static> = link.call(version, &list_offsets(topic, &[(partition, timestamp)]));
    response.topics[0].partitions[0].clone()
}

/// A consumer's join with one protocol, `range`, whose metadata is `subscription`.
pub fn join<'m>(group: &'m str, member: &'m str, subscription: &'m [u8]) -> JoinGroupRequest<'m> {
    JoinGroupRequest {
        group_id: Cow::Borrowed(group),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        member_id: Cow::Borrowed(member),
        protocol_type: Cow::Borrowed("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Cow::Borrowed("range"),
            metadata: Cow::Borrowed(subscription),
        }],
        ..Default::default()
    }
}
