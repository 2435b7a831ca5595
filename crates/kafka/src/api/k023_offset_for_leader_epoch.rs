//! OffsetForLeaderEpoch (23), versions 2-4: where an epoch of a partition ends. v3: replica id, v4: flexible.
//!
//! - The current epoch ends at the log end; an older one where the next began; an epoch that was never seen and is
//!   newer than all is (-1, -1) without an error.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::Broker;
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::OffsetForLeaderEpochRequest;
use mainstem_kafka_wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use mainstem_kafka_wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::epoch_error_code;
use crate::request::Request;

pub const API: Api = Api::new(23, "OffsetForLeaderEpoch", 2..=4, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: OffsetForLeaderEpochRequest<'_> = request.decode()?;
    let topics = message.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: Cow::Borrowed(topic.topic.as_ref()),
        partitions: topic.partitions.iter().map(|wanted| partition(&door.broker, &topic.topic, wanted)).collect(),
    });
    let response = OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() };
    Ok(Handled::Ready(request.reply(&response)))
}

fn partition(broker: &Broker, topic: &str, wanted: &OffsetForLeaderPartition) -> EpochEndOffset {
    let mut response =
        EpochEndOffset { partition: wanted.partition, leader_epoch: -1, end_offset: -1, ..Default::default() };
    match end_offset(broker, topic, wanted) {
        Ok((epoch, end)) => {
            response.leader_epoch = epoch.0;
            response.end_offset = end.0;
        }
        Err(error) => response.error_code = error.0,
    }
    response
}

fn end_offset(
    broker: &Broker,
    topic: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<(LeaderEpoch, Offset), ErrorCode> {
    let topics = broker.topics();
    let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partition(PartitionIndex(wanted.partition)).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let current = LeaderEpoch(wanted.current_leader_epoch);
    partition.check_leader_epoch(current).map_err(|error| epoch_error_code(&error))?;
    Ok(partition.log().end_offset_for_epoch(LeaderEpoch(wanted.leader_epoch)))
}
