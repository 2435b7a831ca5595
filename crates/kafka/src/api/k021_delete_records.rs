//! DeleteRecords (21), versions 0-2 (KIP-107): raises the log start of partitions. v2: flexible.
//!
//! - -1 asks for everything below the high watermark; other negative offsets, and those above it, are
//!   OFFSET_OUT_OF_RANGE.
//! - An offset at or below the start changes nothing. The answer has the new log start, which is durable.
//! - Topics that are only compacted are POLICY_VIOLATION, internal ones INVALID_TOPIC_EXCEPTION.
//! - Nothing waits for other replicas, so `timeout_ms` has nothing to limit.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::{DeleteRecordsError, RecordsToDelete};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::DeleteRecordsRequest;
use mainstem_kafka_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use mainstem_store::LogStartError;
use mainstem_types::{Offset, PartitionIndex};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(21, "DeleteRecords", 0..=2, handle);

/// "All that is committed."
const HIGH_WATERMARK: i64 = -1;
/// The low watermark of a partition that has none.
const NO_LOW_WATERMARK: i64 = -1;

type Deleted = Vec<Result<Offset, DeleteRecordsError>>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DeleteRecordsRequest<'_> = request.decode()?;
    let wanted = message.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| RecordsToDelete {
            topic: topic.name.as_ref().to_owned(),
            partition: PartitionIndex(partition.partition_index),
            before: (partition.offset != HIGH_WATERMARK).then_some(Offset(partition.offset)),
        })
    });
    let wanted: Vec<RecordsToDelete> = wanted.collect();
    drop(message);
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        match broker.delete_records(wanted).await {
            Ok(deleted) => answer(&request, deleted).unwrap_or_else(Reply::close),
            Err(stopped) => Reply::close(stopped),
        }
    }))
}

/// The results in the shape of the request.
fn answer(request: &Request, deleted: Deleted) -> Result<Reply, CloseReason> {
    let message: DeleteRecordsRequest<'_> = request.decode()?;
    let mut deleted = deleted.into_iter();
    let topics = message.topics.iter().map(|topic| {
        let results = topic.partitions.iter().zip(deleted.by_ref());
        DeleteRecordsTopicResult {
            name: Cow::Borrowed(topic.name.as_ref()),
            partitions: results.map(|(partition, result)| result_of(partition.partition_index, &result)).collect(),
        }
    });
    Ok(request.reply(&DeleteRecordsResponse { topics: topics.collect(), ..Default::default() }))
}

fn result_of(partition_index: i32, result: &Result<Offset, DeleteRecordsError>) -> DeleteRecordsPartitionResult {
    let (low_watermark, error) = match result {
        Ok(log_start) => (log_start.0, ErrorCode::NONE),
        Err(error) => (NO_LOW_WATERMARK, error_code(error)),
    };
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code: error.0 }
}

fn error_code(error: &DeleteRecordsError) -> ErrorCode {
    match error {
        DeleteRecordsError::Unknown { .. } => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        DeleteRecordsError::Internal(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
        DeleteRecordsError::Policy { .. } => ErrorCode::POLICY_VIOLATION,
        DeleteRecordsError::LogStart(error) => match **error {
            LogStartError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
            LogStartError::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        },
        DeleteRecordsError::Checkpoint(_) => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}

#[cfg(test)]
#[path = "k021_delete_records_tests.rs"]
mod tests;
