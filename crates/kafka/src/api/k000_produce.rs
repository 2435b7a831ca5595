//! Produce (0), versions 3-13: appends one batch to each partition named.
//!
//! - v3: record batches of magic 2 only. v7: zstd. v8: record errors. v9: flexible. v10: leader hints (one node has none).
//!   v12: as v11 for who has no transactions. v13: topics by id.
//! - acks: 0 (no answer; an error ends the connection), 1 and -1 (answered when the records are committed as the topic's
//!   durability asks).
//! - Never creates a topic.

use std::borrow::Cow;
use std::time::Duration;

use mainstem_broker::{Commit, Partition, Topic};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_record::{BatchView, ValidationError};
use mainstem_store::{AppendError, Appended, Origin};
use mainstem_types::{PartitionIndex, TimestampMs};

use crate::door::{Connection, Door};
use crate::errors::append_error_code;
use crate::registry::Api;
use crate::reply::{CloseReason, Handled, Reply};
use crate::request::Request;

/// Versions 0-2 are advertised and refused, see [`Api::advertised_min_version`].
pub const API: Api = Api::new(0, "Produce", 3..=13, handle).advertised_from(0);

/// Kafka's own admin client may write internal topics (its console tools do).
const ADMIN_CLIENT_ID: &str = "__admin_client";

fn handle(door: &Door, _connection: &mut Connection, request: Request) -> Result<Handled, CloseReason> {
    let message: ProduceRequest<'_> = request.decode()?;
    let work = Work {
        door,
        request: &request,
        acks: message.acks,
        transactional: message.transactional_id.is_some(),
        now: door.broker.clock().wall_ms(),
    };
    let mut waits = Vec::new();
    let topics = message.topic_data.iter().enumerate();
    let responses = topics.map(|(place, topic)| work.topic(place, topic, &mut waits)).collect();
    let (acks, timeout_ms) = (message.acks, message.timeout_ms);
    let response = ProduceResponse { responses, ..Default::default() };
    if acks == 0 {
        return Ok(Handled::Ready(fire_and_forget(&response)));
    }
    if waits.is_empty() {
        return Ok(Handled::Ready(request.reply(&response)));
    }
    Ok(Handled::waiting(async move {
        let response = wait_for_commits(response, waits, timeout_ms).await;
        request.reply(&response)
    }))
}

/// acks=0 has no answer; what went wrong can only be told by ending the connection.
fn fire_and_forget(response: &ProduceResponse<'_>) -> Reply {
    let failed =
        response.responses.iter().flat_map(|topic| topic.partition_responses.iter()).find(|p| p.error_code != 0);
    match failed {
        None => Reply::Nothing,
        Some(partition) => {
            let code = ErrorCode(partition.error_code);
            let detail = partition.error_message.as_deref().unwrap_or_default();
            Reply::Close(CloseReason::FireAndForgetFailed(format!("{} {detail}", code.name())))
        }
    }
}

/// Where in the response a wait belongs.
struct Wait {
    topic: usize,
    partition: usize,
    commit: Commit,
}

async fn wait_for_commits(
    mut response: ProduceResponse<'static>,
    waits: Vec<Wait>,
    timeout_ms: i32,
) -> ProduceResponse<'static> {
    let deadline = tokio::time::Instant::now() + Duration::from_millis(timeout_ms.max(0) as u64);
    for wait in waits {
        let error = match tokio::time::timeout_at(deadline, wait.commit.wait()).await {
            Ok(Ok(())) => continue,
            Ok(Err(_)) => ErrorCode::KAFKA_STORAGE_ERROR,
            Err(_) => ErrorCode::REQUEST_TIMED_OUT,
        };
        let partition = &mut response.responses[wait.topic].partition_responses[wait.partition];
        *partition = failure(partition.index, error, Some(error.message().to_owned()));
    }
    response
}

/// What the partitions of one request share.
struct Work<'r> {
    door: &'r Door,
    request: &'r Request,
    acks: i16,
    transactional: bool,
    now: TimestampMs,
}

/// Why a partition was refused before its log was asked.
type Refusal = (ErrorCode, Option<String>);

impl Work<'_> {
    fn topic(&self, place: usize, data: &TopicProduceData<'_>, waits: &mut Vec<Wait>) -> TopicProduceResponse<'static> {
        let topics = self.door.broker.topics();
        let by_id = self.request.version >= 13;
        let topic = if by_id { topics.by_id(data.topic_id) } else { topics.by_name(&data.name) };
        let unknown = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let mut response = TopicProduceResponse {
            name: Cow::Owned(data.name.as_ref().to_owned()),
            topic_id: data.topic_id,
            partition_responses: Vec::with_capacity(data.partition_data.len()),
        };
        for partition in &data.partition_data {
            let (answer, commit) = match topic {
                None => (failure(partition.index, unknown, None), Commit::Done),
                Some(topic) => self.partition(topic, partition),
            };
            if matches!(commit, Commit::Waiting(_)) {
                waits.push(Wait { topic: place, partition: response.partition_responses.len(), commit });
            }
            response.partition_responses.push(answer);
        }
        response
    }

    fn partition(&self, topic: &Topic, data: &PartitionProduceData<'_>) -> (PartitionProduceResponse<'static>, Commit) {
        let partition = match self.admit(topic, data) {
            Ok(partition) => partition,
            Err((code, message)) => return (failure(data.index, code, message), Commit::Done),
        };
        match self.append(partition, data) {
            Ok(appended) if self.acks == 0 => (success(data.index, &appended), Commit::Done),
            Ok(appended) => (success(data.index, &appended), partition.committed(appended.next_offset())),
            Err(error) => (append_failure(data.index, &error, partition), Commit::Done),
        }
    }

    fn admit<'t>(&self, topic: &'t Topic, data: &PartitionProduceData<'_>) -> Result<&'t Partition, Refusal> {
        if !(-1..=1).contains(&self.acks) {
            return Err((ErrorCode::INVALID_REQUIRED_ACKS, None));
        }
        if topic.is_internal() && self.request.client_id.as_deref() != Some(ADMIN_CLIENT_ID) {
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some(format!("{} belongs to the broker", topic.name))));
        }
        let partition =
            topic.partition(PartitionIndex(data.index)).ok_or((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None))?;
        if self.transactional || is_transactional(data) {
            return Err((ErrorCode::INVALID_TXN_STATE, Some("this broker has no transactions".to_owned())));
        }
        if self.acks == -1 {
            let required = topic.config.min_insync_replicas.max(1) as usize;
            partition
                .check_min_in_sync(required)
                .map_err(|error| (ErrorCode::NOT_ENOUGH_REPLICAS, Some(error.to_string())))?;
        }
        Ok(partition)
    }

    fn append(&self, partition: &Partition, data: &PartitionProduceData<'_>) -> Result<Appended, AppendError> {
        // No copy: the batch is a part of the frame.
        let batch = batch_bytes(data).map_or_else(bytes::Bytes::new, |bytes| self.request.frame().slice_ref(bytes));
        partition.append(&batch, Origin::Client, self.now, self.request.version >= 7)
    }
}

fn success(index: i32, appended: &Appended) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        base_offset: appended.base_offset.0,
        log_append_time_ms: appended.append_time.0,
        log_start_offset: appended.log_start.0,
        ..Default::default()
    }
}

fn failure(index: i32, code: ErrorCode, message: Option<String>) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        error_code: code.0,
        base_offset: -1,
        error_message: message.map(Cow::Owned),
        ..Default::default()
    }
}

fn append_failure(index: i32, error: &AppendError, partition: &Partition) -> PartitionProduceResponse<'static> {
    let mut response = failure(index, append_error_code(error), Some(error.to_string()));
    if tells_log_start(error) {
        response.log_start_offset = partition.log().log_start().0;
    }
    if let AppendError::Invalid(error) = error {
        response.record_errors = error
            .rejections()
            .iter()
            .map(|rejection| BatchIndexAndErrorMessage {
                batch_index: rejection.batch_index,
                batch_index_error_message: Some(Cow::Owned(rejection.to_string())),
            })
            .collect();
    }
    response
}

/// A producer is told where the log begins when the log itself refused its batch. Kafka does not say it when it refuses a
/// batch by its frame, its size or its checksum alone.
fn tells_log_start(error: &AppendError) -> bool {
    match error {
        AppendError::Invalid(ValidationError::Empty | ValidationError::Framing(_)) => false,
        AppendError::Invalid(ValidationError::MoreThanOneBatch { .. } | ValidationError::Checksum { .. }) => false,
        AppendError::Invalid(ValidationError::ZstdNotAllowed | ValidationError::TooLarge { .. }) => false,
        AppendError::Invalid(_) | AppendError::Recompression { .. } => true,
        AppendError::OutOfOrderSequence { .. }
        | AppendError::InvalidProducerEpoch { .. }
        | AppendError::InvalidTransactionState { .. } => true,
        _ => false,
    }
}

/// Whether the batch says that it belongs to a transaction. What is no batch is refused by the log, with its reason.
fn is_transactional(data: &PartitionProduceData<'_>) -> bool {
    batch_bytes(data)
        .and_then(|bytes| BatchView::parse(bytes).ok())
        .is_some_and(|view| view.header().attributes.is_transactional())
}

fn batch_bytes<'m>(data: &'m PartitionProduceData<'_>) -> Option<&'m [u8]> {
    match &data.records {
        Records::Bytes(bytes) => Some(bytes),
        Records::Null | Records::Hole(_) => None,
    }
}
