//! Appending the batches of a produce request: on the reactor as long as that is little work, else in turns with other such requests
//! on the threads for heavy work.
//!
//! Numbers: on a reactor at most 256 batches of a request, whose records take 4 MiB together once they are decompressed (64 KiB each is
//! always allowed); elsewhere 20 ms a turn (and one batch at least). Of all records that are refused one by one, an answer lists 10,000.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_broker::{Broker, Commit, Partition, Topic, is_too_much_to_unpack};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_record::{BatchView, ValidationError};
use mainstem_store::{AppendError, Appended, Origin};
use mainstem_types::{PartitionIndex, TimestampMs};

use crate::errors::append_error_code;
use crate::request::Request;

/// Kafka's own admin client may write internal topics (its console tools do).
const ADMIN_CLIENT_ID: &str = "__admin_client";

const REACTOR_BATCHES_MAX: usize = 256;
const REACTOR_UNPACKED_BYTES_MAX: usize = 4 << 20;
const REACTOR_UNPACKED_BYTES_MIN: usize = 64 << 10;
const TURN: Duration = Duration::from_millis(20);
const LISTED_RECORDS_MAX: usize = 10_000;

/// What the batches of one request share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub acks: i16,
    transactional: bool,
    is_admin_client: bool,
    zstd_allowed: bool,
    by_id: bool,
    now: TimestampMs,
}

impl Terms {
    pub fn of(broker: &Broker, request: &Request, message: &ProduceRequest<'_>) -> Terms {
        Terms {
            acks: message.acks,
            transactional: message.transactional_id.is_some(),
            is_admin_client: request.client_id.as_deref() == Some(ADMIN_CLIENT_ID),
            zstd_allowed: request.version >= 7,
            by_id: request.version >= 13,
            now: broker.clock().wall_ms(),
        }
    }
}

/// Where in the response a wait belongs.
pub(crate) struct Wait {
    pub topic: usize,
    pub partition: usize,
    pub commit: Commit,
}

/// A batch that was not appended yet, and its place in the response.
struct Rest {
    topic: usize,
    partition: usize,
    target: Arc<Topic>,
    batch: Bytes,
}

/// The batches of a request, appended from the first to the last.
pub(crate) struct Batches {
    pub response: ProduceResponse<'static>,
    pub waits: Vec<Wait>,
    pub terms: Terms,
    broker: Arc<Broker>,
    rest: std::vec::IntoIter<Rest>,
    /// What the records of one batch may take here once they are decompressed; `None`: as much as the log allows.
    unpack: Option<usize>,
    listed_max: usize,
}

/// Why a partition was refused before its log was asked.
type Refusal = (ErrorCode, Option<String>);

impl Batches {
    /// Appends what is little work; the rest is for [`Batches::go_on`].
    pub fn start(broker: &Arc<Broker>, request: &Request, message: &ProduceRequest<'_>, terms: Terms) -> Batches {
        let count: usize = message.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
        let mut batches = Batches {
            response: ProduceResponse::default(),
            waits: Vec::new(),
            terms,
            broker: Arc::clone(broker),
            rest: Vec::new().into_iter(),
            unpack: Some((REACTOR_UNPACKED_BYTES_MAX / count.max(1)).max(REACTOR_UNPACKED_BYTES_MIN)),
            listed_max: LISTED_RECORDS_MAX,
        };
        let mut rest = Vec::new();
        batches.response.responses.reserve(message.topic_data.len());
        for data in &message.topic_data {
            batches.topic(request, data, count <= REACTOR_BATCHES_MAX, &mut rest);
        }
        batches.rest = rest.into_iter();
        batches.unpack = None;
        batches
    }

    /// Whether every batch was appended or refused.
    pub fn is_done(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    /// Takes a turn at the rest.
    pub fn go_on(mut self) -> Batches {
        let until = self.broker.clock().monotonic() + TURN;
        while let Some(Rest { topic, partition, target, batch }) = self.rest.next() {
            let index = self.response.responses[topic].partition_responses[partition].index;
            // Without a bound of our own, nothing is left for later.
            if let Some(answer) = self.append(&target, (topic, partition), index, &batch) {
                self.response.responses[topic].partition_responses[partition] = answer;
            }
            if self.broker.clock().monotonic() >= until {
                break;
            }
        }
        self
    }

    fn topic(&mut self, request: &Request, data: &TopicProduceData<'_>, few: bool, rest: &mut Vec<Rest>) {
        let topics = self.broker.topics();
        let topic = if self.terms.by_id { topics.by_id(data.topic_id) } else { topics.by_name(&data.name) };
        let unknown =
            if self.terms.by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let topic = topic.map(Arc::clone);
        let place = self.response.responses.len();
        let mut answers = Vec::with_capacity(data.partition_data.len());
        for partition in &data.partition_data {
            let Some(topic) = &topic else {
                answers.push(failure(partition.index, unknown, None));
                continue;
            };
            let batch = batch_of(request, partition);
            let at = (place, answers.len());
            let here = few && rest.is_empty();
            let answer = here.then(|| self.append(topic, at, partition.index, &batch)).flatten();
            answers.push(answer.unwrap_or_else(|| {
                rest.push(Rest { topic: at.0, partition: at.1, target: Arc::clone(topic), batch });
                PartitionProduceResponse { index: partition.index, ..Default::default() }
            }));
        }
        self.response.responses.push(TopicProduceResponse {
            name: Cow::Owned(data.name.as_ref().to_owned()),
            topic_id: data.topic_id,
            partition_responses: answers,
        });
    }

    /// Appends one batch and gives its answer; `None`: it takes more than may be unpacked here.
    fn append(
        &mut self,
        topic: &Topic,
        (topic_place, place): (usize, usize),
        index: i32,
        batch: &Bytes,
    ) -> Option<PartitionProduceResponse<'static>> {
        let partition = match self.terms.admit(topic, index, batch) {
            Ok(partition) => partition,
            Err((code, message)) => return Some(failure(index, code, message)),
        };
        let Terms { now, zstd_allowed, acks, .. } = self.terms;
        let unpack = self.unpack.unwrap_or(usize::MAX);
        match partition.append_within(batch, Origin::Client, now, zstd_allowed, unpack) {
            Ok(appended) => {
                if acks != 0 {
                    let commit = partition.committed(appended.next_offset());
                    if matches!(commit, Commit::Waiting(_)) {
                        self.waits.push(Wait { topic: topic_place, partition: place, commit });
                    }
                }
                Some(success(index, &appended))
            }
            Err(error) if self.unpack.is_some() && is_too_much_to_unpack(&error) => None,
            Err(error) => Some(append_failure(index, &error, partition, &mut self.listed_max)),
        }
    }
}

impl Terms {
    fn admit<'t>(&self, topic: &'t Topic, index: i32, batch: &[u8]) -> Result<&'t Partition, Refusal> {
        if !(-1..=1).contains(&self.acks) {
            return Err((ErrorCode::INVALID_REQUIRED_ACKS, None));
        }
        if topic.is_internal() && !self.is_admin_client {
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some(format!("{} belongs to the broker", topic.name))));
        }
        let partition = topic.partition(PartitionIndex(index)).ok_or((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None))?;
        if self.transactional || is_transactional(batch) {
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
}

/// The batch as a part of the frame: no copy.
fn batch_of(request: &Request, data: &PartitionProduceData<'_>) -> Bytes {
    match &data.records {
        Records::Bytes(bytes) => request.frame().slice_ref(bytes),
        Records::Null | Records::Hole(_) => Bytes::new(),
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

/// The answer for a partition to which nothing was appended.
pub(crate) fn failure(index: i32, code: ErrorCode, message: Option<String>) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        error_code: code.0,
        base_offset: -1,
        error_message: message.map(Cow::Owned),
        ..Default::default()
    }
}

fn append_failure(
    index: i32,
    error: &AppendError,
    partition: &Partition,
    listed_max: &mut usize,
) -> PartitionProduceResponse<'static> {
    let mut response = failure(index, append_error_code(error), Some(error.to_string()));
    if tells_log_start(error) {
        response.log_start_offset = partition.log().log_start().0;
    }
    if let AppendError::Invalid(error) = error {
        response.record_errors = error
            .rejections()
            .iter()
            .take(*listed_max)
            .map(|rejection| BatchIndexAndErrorMessage {
                batch_index: rejection.batch_index,
                batch_index_error_message: Some(Cow::Owned(rejection.to_string())),
            })
            .collect();
        *listed_max -= response.record_errors.len();
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
fn is_transactional(batch: &[u8]) -> bool {
    BatchView::parse(batch).is_ok_and(|view| view.header().attributes.is_transactional())
}
