//! The batches of a produce request and their answers. Of all records that are refused one by one, an answer lists
//! 10,000.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::{
    AppendTerms, AppendedBatch, BatchAppends, BatchOutcome, Broker, CommitWaits, Partition, Topic, TopicMap,
};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_record::{BatchView, ValidationError, has_transactional_bit};
use mainstem_store::{AppendError, Appended};
use mainstem_types::{PartitionIndex, TimestampMs};
use mainstem_waits::BlockingPool;

use crate::errors::append_error_code;
use crate::request::Request;

/// Kafka's own admin client may write internal topics (its console tools do).
const ADMIN_CLIENT_ID: &str = "__admin_client";

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

/// The place of a batch in the response: its topic's place, and its partition's place in the topic.
pub(crate) type Place = (usize, usize);

/// The batches of a request, appended from the first to the last, and the response as it grows.
pub(crate) struct Batches {
    pub answers: Answers,
    pub terms: Terms,
    broker: Arc<Broker>,
    appends: BatchAppends<Place>,
}

pub(crate) struct Answers {
    pub response: ProduceResponse<'static>,
    pub waits: CommitWaits<Place>,
    listed_max: usize,
}

/// Why a partition was refused before its log was asked.
type Refusal = (ErrorCode, Option<String>);

impl Batches {
    /// Appends the batches that are little work. [`Batches::go_on`] appends the rest.
    pub fn start(broker: &Arc<Broker>, request: &Request, message: &ProduceRequest<'_>, terms: Terms) -> Batches {
        let count: usize = message.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
        let mut response = ProduceResponse::default();
        response.responses.reserve(message.topic_data.len());
        let Terms { now, zstd_allowed, acks, .. } = terms;
        let mut batches = Batches {
            answers: Answers { response, waits: CommitWaits::default(), listed_max: LISTED_RECORDS_MAX },
            terms,
            broker: Arc::clone(broker),
            appends: BatchAppends::new(count, AppendTerms { now, zstd_allowed, awaits_commits: acks != 0 }),
        };
        let topics = broker.topics();
        for data in &message.topic_data {
            batches.topic(request, &topics, data);
        }
        batches
    }

    /// Whether every batch was appended or refused.
    pub fn is_done(&self) -> bool {
        self.appends.is_done()
    }

    /// The threads for the next turn at the rest.
    pub fn threads(&self) -> &Arc<BlockingPool> {
        if self.appends.wants_folders() { self.broker.blocking() } else { self.broker.heavy() }
    }

    /// Takes a turn at the rest: creates folders, or appends.
    pub fn go_on(mut self) -> Batches {
        let Batches { answers, appends, broker, .. } = &mut self;
        let tell = |place: Place, partition: &Partition, outcome| {
            let answer = answers.of(place, partition, outcome);
            answers.response.responses[place.0].partition_responses[place.1] = answer;
        };
        match appends.wants_folders() {
            true => appends.create_folders(broker, tell),
            false => appends.take_turn(broker.clock(), tell),
        }
        self
    }

    fn topic(&mut self, request: &Request, topics: &TopicMap, data: &TopicProduceData<'_>) {
        let topic = if self.terms.by_id { topics.by_id(data.topic_id) } else { topics.by_name(&data.name) };
        let unknown =
            if self.terms.by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let topic_place = self.answers.response.responses.len();
        let mut answers = Vec::with_capacity(data.partition_data.len());
        for data in &data.partition_data {
            let batch = batch_of(request, data);
            let admitted = match &topic {
                Some(topic) => self.terms.admit(topic, data.index, &batch),
                None => Err((unknown, None)),
            };
            let place = (topic_place, answers.len());
            answers.push(match admitted {
                Err((code, message)) => failure(data.index, code, message),
                Ok(partition) => match self.appends.append(place, partition, batch) {
                    Some(outcome) => self.answers.of(place, partition, outcome),
                    None => PartitionProduceResponse { index: data.index, ..Default::default() },
                },
            });
        }
        self.answers.response.responses.push(TopicProduceResponse {
            name: Cow::Owned(data.name.as_ref().to_owned()),
            topic_id: data.topic_id,
            partition_responses: answers,
        });
    }
}

impl Answers {
    fn of(&mut self, place: Place, partition: &Partition, outcome: BatchOutcome) -> PartitionProduceResponse<'static> {
        match outcome {
            Ok(AppendedBatch { appended, commit }) => {
                self.waits.add(place, commit);
                success(partition.index.0, &appended)
            }
            Err(error) => append_failure(partition.index.0, &error, partition, &mut self.listed_max),
        }
    }
}

impl Terms {
    fn admit<'t>(&self, topic: &'t Topic, index: i32, batch: &[u8]) -> Result<&'t Arc<Partition>, Refusal> {
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

/// A producer is told where the log begins when the log itself refused its batch. Kafka does not say it when it refuses
/// a batch by its frame, its size or its checksum alone.
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

/// Whether the batch says that it belongs to a transaction. The log refuses bytes that are no batch, and says why.
fn is_transactional(batch: &[u8]) -> bool {
    has_transactional_bit(batch)
        && BatchView::parse(batch).is_ok_and(|view| view.header().attributes.is_transactional())
}
