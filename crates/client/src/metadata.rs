//! The known metadata of topics and brokers.

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

/// A partition and its replicas.
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
        let found = self.partitions.binary_search_by_key(&index, |partition| partition.index);
        found.ok().map(|place| &self.partitions[place])
    }

    /// Whether every partition has a leader.
    fn is_led(&self) -> bool {
        self.partitions.iter().all(|partition| partition.leader.is_some())
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
    topics: HashMap<Arc<str>, KnownTopic>,
}

#[derive(Debug)]
struct KnownTopic {
    topic: Arc<Topic>,
    learnt: Instant,
    /// Found once: it is asked for with every record, and a topic may have thousands of partitions.
    is_led: bool,
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
                let is_led = read.is_led();
                let known = KnownTopic { topic: Arc::new(read), learnt: now, is_led };
                self.topics.insert(known.topic.name.clone(), known);
            } else {
                self.topics.remove(&read.name);
            }
        }
    }

    /// A topic that was asked for not before `since`, if all its partitions have leaders.
    pub(crate) fn led_topic(&self, name: &str, since: Option<Instant>) -> Option<Arc<Topic>> {
        let known = self.topics.get(name)?;
        (known.is_led && since.is_none_or(|since| known.learnt >= since)).then(|| known.topic.clone())
    }

    pub(crate) fn forget_topic(&mut self, name: &str) {
        self.topics.remove(name);
    }
}
