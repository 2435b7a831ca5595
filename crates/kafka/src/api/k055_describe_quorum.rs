//! DescribeQuorum (55), versions 0-2: the voters of the metadata log, and their offsets. v1: times. v2: messages,
//! directories, addresses.
//!
//! This node is the only voter. The only partition is `__cluster_metadata-0`.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::Broker;
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::DescribeQuorumRequest;
use mainstem_kafka_wire::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use mainstem_types::CLUSTER_METADATA_TOPIC;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(55, "DescribeQuorum", 0..=2, handle);

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeQuorumRequest<'_> = request.decode()?;
    let is_metadata = match message.topics.as_slice() {
        [topic] => {
            topic.topic_name == CLUSTER_METADATA_TOPIC
                && matches!(topic.partitions.as_slice(), [partition] if partition.partition_index == 0)
        }
        _ => false,
    };
    let mut response = DescribeQuorumResponse { error_message: None, ..Default::default() };
    if is_metadata {
        let partitions = vec![metadata_log(&door.broker)];
        response.topics = vec![TopicData { topic_name: CLUSTER_METADATA_TOPIC.into(), partitions }];
        if request.version >= 2 {
            response.nodes = vec![own_node(door, connection)];
        }
    } else {
        response.topics = message
            .topics
            .iter()
            .map(|topic| TopicData {
                topic_name: Cow::Borrowed(topic.topic_name.as_ref()),
                partitions: topic.partitions.iter().map(|partition| unknown(partition.partition_index)).collect(),
            })
            .collect();
    }
    Ok(Handled::Ready(request.reply(&response)))
}

/// This node, as the client reaches it.
fn own_node(door: &Door, connection: &Connection) -> Node<'static> {
    let endpoint = door.broker.endpoint(&connection.info.listener);
    let listener = Listener {
        name: Cow::Owned(connection.info.listener.as_ref().to_owned()),
        host: Cow::Owned(endpoint.host.as_ref().to_owned()),
        port: endpoint.port,
    };
    Node { node_id: endpoint.node.0, listeners: vec![listener] }
}

fn metadata_log(broker: &Broker) -> PartitionData<'static> {
    let state = broker.metadata_log();
    // The leader has fetched from itself, and is up to date, now.
    let now = broker.clock().wall_ms().0;
    let voter = ReplicaState {
        replica_id: broker.node_id().0,
        log_end_offset: state.log_end.0,
        last_fetch_timestamp: now,
        last_caught_up_timestamp: now,
        ..Default::default()
    };
    PartitionData {
        error_message: None,
        leader_id: broker.node_id().0,
        leader_epoch: state.term.0,
        high_watermark: state.high_watermark.0,
        current_voters: vec![voter],
        ..Default::default()
    }
}

fn unknown(partition_index: i32) -> PartitionData<'static> {
    PartitionData {
        partition_index,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
        error_message: None,
        ..Default::default()
    }
}

#[cfg(test)]
#[path = "k055_describe_quorum_tests.rs"]
mod tests;
