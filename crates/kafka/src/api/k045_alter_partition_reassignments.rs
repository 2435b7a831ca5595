//! AlterPartitionReassignments (45), versions 0-1: moves partitions to other nodes. v1: whether their number may
//! change.
//!
//! On one node a partition can only be asked to stay where it is, which is no error. Each partition has an answer of
//! its own.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::ControllerError;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::AlterPartitionReassignmentsRequest;
use mainstem_kafka_wire::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use mainstem_metadata::controller::{ReassignError, Reassignment};
use mainstem_types::PartitionIndex;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::controller_error_code;
use crate::request::Request;

pub const API: Api = Api::new(45, "AlterPartitionReassignments", 0..=1, handle);

type Decided = Result<Vec<Result<(), ReassignError>>, ControllerError>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: AlterPartitionReassignmentsRequest<'_> = request.decode()?;
    let wanted = message.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Reassignment {
            topic: topic.name.as_ref().to_owned(),
            partition: PartitionIndex(partition.partition_index),
            replicas: partition.replicas.clone(),
        })
    });
    let wanted: Vec<Reassignment> = wanted.collect();
    let may_change_factor = message.allow_replication_factor_change;
    drop(message);
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let decided = broker.alter_reassignments(wanted, may_change_factor).await;
        answer(&request, decided).unwrap_or_else(Reply::close)
    }))
}

/// The results in the shape of the request.
fn answer(request: &Request, decided: Decided) -> Result<Reply, CloseReason> {
    let message: AlterPartitionReassignmentsRequest<'_> = request.decode()?;
    let mut response = AlterPartitionReassignmentsResponse {
        // Kafka does not look at the request when there is nothing to do.
        allow_replication_factor_change: message.allow_replication_factor_change || message.topics.is_empty(),
        error_message: None,
        ..Default::default()
    };
    let mut results = match decided {
        Ok(results) => results.into_iter(),
        Err(error) => {
            response.error_code = controller_error_code(&error).0;
            response.error_message = Some(Cow::Owned(error.to_string()));
            return Ok(request.reply(&response));
        }
    };
    response.responses = Vec::with_capacity(message.topics.len());
    for topic in &message.topics {
        let results = topic.partitions.iter().zip(results.by_ref());
        response.responses.push(ReassignableTopicResponse {
            name: Cow::Borrowed(topic.name.as_ref()),
            partitions: results.map(|(partition, result)| result_of(partition.partition_index, result)).collect(),
        });
    }
    Ok(request.reply(&response))
}

fn result_of(partition_index: i32, result: Result<(), ReassignError>) -> ReassignablePartitionResponse<'static> {
    let error = result.err();
    ReassignablePartitionResponse {
        partition_index,
        error_code: error.as_ref().map_or(ErrorCode::NONE, error_code).0,
        error_message: error
            .filter(|error| *error != ReassignError::NotInProgress)
            .map(|error| Cow::Owned(error.to_string())),
    }
}

fn error_code(error: &ReassignError) -> ErrorCode {
    match error {
        ReassignError::UnknownTopic(_) | ReassignError::UnknownPartition { .. } => {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        }
        ReassignError::NotInProgress => ErrorCode::NO_REASSIGNMENT_IN_PROGRESS,
        ReassignError::Assignment(_) | ReassignError::Elsewhere(_) => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        ReassignError::ReplicationFactor { .. } => ErrorCode::INVALID_REPLICATION_FACTOR,
    }
}

#[cfg(test)]
#[path = "k045_alter_partition_reassignments_tests.rs"]
mod tests;
