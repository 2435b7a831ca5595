//! What is known of topics and brokers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::MetadataResponse;
use mainstem_kafka_wire::messages::metadata_response::MetadataResponseTopic;
use mainstem_types::{LeaderEpoch, NodeId, PartitionIndex, TopicId};
use tokio::time::Instant;

/// A broker and where clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    pub node: NodeId,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl Broker {
    pub(crate) fn address(&self) -> String {
        // IPv6 addresses have colons of their own.
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: Arc<str>,
    /// All zero from brokers before Kafka 2.8.
    pub id: TopicId,
    pub is_internal: bool,
    /// Ascending by index.
    pub partitions: Vec<Partition>,
}

/// A partition and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub index: PartitionIndex,
    /// `None` while an election is on.
    pub leader: Option<NodeId>,
    pub leader_epoch: LeaderEpoch,
    pub replicas: Vec<NodeId>,
    pub in_sync: Vec<NodeId>,
    pub offline: Vec<NodeId>,
}

impl Topic {
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.index == index)
    }

    pub(crate) fn read(topic: &MetadataResponseTopic<'_>) -> Topic {
        let nodes = |ids: &[i32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| Partition {
                index: PartitionIndex(partition.partition_index),
                leader: (partition.leader_id >= 0).then_some(NodeId(partition.leader_id)),
                leader_epoch: LeaderEpoch(partition.leader_epoch),
                replicas: nodes(&partition.replica_nodes),
                in_sync: nodes(&partition.isr_nodes),
                offline: nodes(&partition.offline_replicas),
            })
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        let name = topic.name.as_deref().unwrap_or_default().into();
        Topic { name, id: topic.topic_id, is_internal: topic.is_internal, partitions }
    }
}

/// The cache: filled by every metadata answer, asked before every request.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) brokers: BTreeMap<i32, Broker>,
    pub(crate) controller: Option<NodeId>,
    pub(crate) cluster_id: Option<Arc<str>>,
    topics: HashMap<Arc<str>, (Arc<Topic>, Instant)>,
}

impl Known {
    /// Takes over an answer; topics that it reports with an error are forgotten.
    pub(crate) fn learn(&mut self, answer: &MetadataResponse<'_>, now: Instant) {
        let brokers = answer.brokers.iter().map(|broker| {
            let known = Broker {
                node: NodeId(broker.node_id),
                host: broker.host.to_string(),
                port: broker.port,
                rack: broker.rack.as_deref().map(str::to_owned),
            };
            (broker.node_id, known)
        });
        self.brokers = brokers.collect();
        self.controller = (answer.controller_id >= 0).then_some(NodeId(answer.controller_id));
        self.cluster_id = answer.cluster_id.as_deref().map(Arc::from);
        for topic in &answer.topics {
            let read = Topic::read(topic);
            if topic.error_code == ErrorCode::NONE.0 {
                self.topics.insert(read.name.clone(), (Arc::new(read), now));
            } else {
                self.topics.remove(&read.name);
            }
        }
    }

    /// A topic that was asked for not before `since`.
    pub(crate) fn topic(&self, name: &str, since: Option<Instant>) -> Option<Arc<Topic>> {
        let (topic, learnt) = self.topics.get(name)?;
        since.is_none_or(|since| *learnt >= since).then(|| topic.clone())
    }

    pub(crate) fn forget_topic(&mut self, name: &str) {
        self.topics.remove(name);
    }
}
