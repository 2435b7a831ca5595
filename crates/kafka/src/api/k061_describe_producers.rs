//! DescribeProducers (61), version 0 (KIP-664): the remembered producers that wrote to a partition with sequence
//! numbers.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::TopicMap;
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use mainstem_kafka_wire::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use mainstem_store::ProducerSummary;
use mainstem_types::PartitionIndex;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(61, "DescribeProducers", 0..=0, handle);

/// "No transaction is open."
const NO_TRANSACTION: i64 = -1;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeProducersRequest<'_> = request.decode()?;
    let topics = door.broker.topics();
    let described = message.topics.iter().map(|topic| describe(&topics, topic)).collect();
    let response = DescribeProducersResponse { topics: described, ..Default::default() };
    Ok(Handled::Ready(request.reply(&response)))
}

fn describe<'m>(topics: &TopicMap, asked: &'m TopicRequest<'_>) -> TopicResponse<'m> {
    let invalid = mainstem_types::validate_topic_name(&asked.name).err();
    let is_known = topics.by_name(&asked.name).is_some();
    let partition = |index: &i32| {
        let found = topics.by_name(&asked.name).and_then(|topic| topic.partition(PartitionIndex(*index)));
        let mut response = PartitionResponse { partition_index: *index, ..Default::default() };
        match (found, &invalid) {
            (Some(partition), _) => response.active_producers = partition.log().producers().iter().map(state).collect(),
            (None, Some(error)) => {
                response.error_code = ErrorCode::INVALID_TOPIC_EXCEPTION.0;
                response.error_message = Some(Cow::Owned(error.to_string()));
            }
            (None, None) => {
                response.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
                response.error_message = (!is_known).then(|| "This server does not host this topic-partition.".into());
            }
        }
        response
    };
    TopicResponse {
        name: Cow::Borrowed(asked.name.as_ref()),
        partitions: asked.partition_indexes.iter().map(partition).collect(),
    }
}

fn state(producer: &ProducerSummary) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id.0,
        producer_epoch: i32::from(producer.epoch.0),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp.0,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.transaction_first_offset.map_or(NO_TRANSACTION, |offset| offset.0),
    }
}

#[cfg(test)]
#[path = "k061_describe_producers_tests.rs"]
mod tests;
