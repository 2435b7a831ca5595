//! Sending one batch until it is written, refused, or out of time; and telling each record.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::PartitionProduceResponse;
use mainstem_kafka_wire::messages::{InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_record::BatchBuilder;
use mainstem_types::{Offset, ProducerEpoch, ProducerId, TimestampMs, TopicPartition};
use tokio::time::Instant;

use super::pending::Pending;
use super::{Acks, ProduceError, ProducerConfig, Receipt};
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::Retry;

const API: &str = "Produce";

/// The producer id that all partitions share, if the producer is idempotent.
pub(super) struct Identity {
    wanted: bool,
    current: tokio::sync::Mutex<Option<Producing>>,
}

/// A producer id with its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Producing {
    id: ProducerId,
    epoch: ProducerEpoch,
}

/// The sequence that a partition's next batch begins with, under which producer id.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    of: Option<Producing>,
    next: i32,
}

impl Sequence {
    /// Counts on; after `i32::MAX` comes 0.
    fn advance(&mut self, records: usize) {
        let next = i64::from(self.next) + records as i64;
        self.next = (next % (i64::from(i32::MAX) + 1)) as i32;
    }
}

impl Identity {
    pub(super) fn new(wanted: bool) -> Self {
        Identity { wanted, current: tokio::sync::Mutex::default() }
    }

    async fn get(&self, client: &Client) -> Result<Option<Producing>, ClientError> {
        if !self.wanted {
            return Ok(None);
        }
        let mut current = self.current.lock().await;
        if current.is_none() {
            *current = Some(ask_producer_id(client).await?);
        }
        Ok(*current)
    }

    /// Lets the next batch begin under a new id: after a batch whose fate is unknown, or that the broker cannot place.
    async fn renew(&self, stale: Option<Producing>) {
        let mut current = self.current.lock().await;
        if *current == stale {
            *current = None;
        }
    }
}

async fn ask_producer_id(client: &Client) -> Result<Producing, ClientError> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        producer_id: ProducerId::NONE.0,
        producer_epoch: ProducerEpoch::NONE.0,
        ..Default::default()
    };
    let response = client.any_broker().await?.call(&request).await?;
    let answer: InitProducerIdResponse = response.decode()?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => {
            Ok(Producing { id: ProducerId(answer.producer_id), epoch: ProducerEpoch(answer.producer_epoch) })
        }
        code => Err(ClientError::of_broker("InitProducerId", "the producer", code, None)),
    }
}

/// The parts that sending a partition's batches needs.
pub(super) struct Sending {
    pub(super) client: Client,
    pub(super) config: Arc<ProducerConfig>,
    pub(super) identity: Arc<Identity>,
    pub(super) partition: TopicPartition,
}

/// How a batch ended.
enum BatchOutcome {
    Written {
        base_offset: Option<Offset>,
        append_time: Option<TimestampMs>,
    },
    /// The broker did not write it.
    Refused(Refusal),
    /// Nobody knows whether it was written.
    Unknown(ProduceError),
}

impl BatchOutcome {
    /// Whether the broker has decided about the batch.
    fn is_answer(&self) -> bool {
        match self {
            BatchOutcome::Written { .. } => true,
            BatchOutcome::Refused(Refusal { error: ProduceError::Client(error), .. }) => {
                error.code().is_some() && !error.is_retriable()
            }
            BatchOutcome::Refused(_) | BatchOutcome::Unknown(_) => false,
        }
    }
}

struct Refusal {
    error: ProduceError,
    /// The records that are to blame, by index in the batch, when the broker named any.
    rejected: Vec<(i32, String)>,
}

impl Refusal {
    fn of(error: ProduceError) -> BatchOutcome {
        BatchOutcome::Refused(Refusal { error, rejected: Vec::new() })
    }

    fn is_too_large(&self) -> bool {
        let code = match &self.error {
            ProduceError::Client(error) => error.code(),
            _ => None,
        };
        code == Some(ErrorCode::MESSAGE_TOO_LARGE)
    }

    /// The result for the record of that index.
    fn told(&self, index: i32, partition: &TopicPartition) -> ProduceError {
        let partition = partition.clone();
        if let Some((_, message)) = self.rejected.iter().find(|(rejected, _)| *rejected == index) {
            return ProduceError::Rejected { partition, index, message: message.clone() };
        }
        match &self.error {
            ProduceError::Client(ClientError::Broker { code, message, .. }) if !self.rejected.is_empty() => {
                ProduceError::Neighbour { partition, code: *code, message: message.clone() }
            }
            other => other.clone(),
        }
    }
}

impl Sending {
    /// Sends records as one batch, or as several when the broker finds it too large, and tells each its fate.
    ///
    /// `answered` is when the broker last answered for the partition: records that queue behind a slow broker have
    /// time, those behind a silent one do not wait for one another. `false` when not all of them are written.
    pub(super) async fn deliver(
        &self,
        records: VecDeque<Pending>,
        sequence: &mut Sequence,
        answered: &mut Option<Instant>,
    ) -> bool {
        let mut batches = VecDeque::from([records]);
        let mut failed = false;
        while let Some(mut records) = batches.pop_front() {
            if failed && self.config.halt_on_failure {
                self.refuse(records);
                continue;
            }
            let since = records.front().map(|oldest| oldest.since).max(*answered).unwrap_or_else(Instant::now);
            let deadline = since + self.config.delivery_timeout;
            let outcome = if Instant::now() < deadline {
                self.deliver_batch(&records, sequence, deadline).await
            } else {
                self.expired()
            };
            if outcome.is_answer() {
                *answered = Some(Instant::now());
            }
            match outcome {
                BatchOutcome::Refused(refusal) if refusal.is_too_large() && records.len() > 1 => {
                    let second = records.split_off(records.len() / 2);
                    batches.push_front(second);
                    batches.push_front(records);
                }
                outcome => {
                    failed |= !matches!(outcome, BatchOutcome::Written { .. });
                    self.tell(records, outcome);
                }
            }
        }
        !failed
    }

    /// Tells records that they stay unsent, because of one before them.
    pub(super) fn refuse(&self, records: VecDeque<Pending>) {
        self.tell(records, Refusal::of(ProduceError::Halted { partition: self.partition.clone() }));
    }

    async fn deliver_batch(
        &self,
        records: &VecDeque<Pending>,
        sequence: &mut Sequence,
        deadline: Instant,
    ) -> BatchOutcome {
        let mut retry = Retry::within(self.client.config(), deadline.saturating_duration_since(Instant::now()));
        let mut built: Option<Bytes> = None;
        loop {
            let error = match self.attempt(records, sequence, &mut built).await {
                Ok(written @ BatchOutcome::Written { .. }) => {
                    sequence.advance(records.len());
                    return written;
                }
                Ok(other) => return other,
                Err(ProduceError::Client(error)) => error,
                Err(other) => return Refusal::of(other),
            };
            self.client.doubt_topic(&self.partition.topic, &error);
            let out_of_place = error.code().is_some_and(is_out_of_place);
            if !out_of_place && error.is_retriable() && retry.pause().await {
                continue;
            }
            let written_perhaps = built.is_some() && error.is_retriable();
            if out_of_place || written_perhaps {
                self.identity.renew(sequence.of).await;
            }
            return self.final_failure(error, written_perhaps);
        }
    }

    fn expired(&self) -> BatchOutcome {
        let timeout_ms = self.config.delivery_timeout.as_millis() as u64;
        Refusal::of(ProduceError::Expired { partition: self.partition.clone(), timeout_ms })
    }

    fn final_failure(&self, error: ClientError, written_perhaps: bool) -> BatchOutcome {
        if written_perhaps {
            return BatchOutcome::Unknown(ProduceError::TimedOut {
                partition: self.partition.clone(),
                timeout_ms: self.config.delivery_timeout.as_millis() as u64,
                last: error.to_string(),
            });
        }
        Refusal::of(error.into())
    }

    /// Builds the batch the first time (its sequence must not change afterwards) and sends it once.
    async fn attempt(
        &self,
        records: &VecDeque<Pending>,
        sequence: &mut Sequence,
        built: &mut Option<Bytes>,
    ) -> Result<BatchOutcome, ProduceError> {
        let batch = match built {
            Some(batch) => batch.clone(),
            None => {
                let producing = self.identity.get(&self.client).await?;
                if sequence.of != producing {
                    *sequence = Sequence { of: producing, next: 0 };
                }
                built.insert(self.build(records, sequence)?).clone()
            }
        };
        let leader = self.client.leader(&self.partition.topic, self.partition.partition).await?;
        let connection = self.client.node(leader).await?;
        let data = PartitionProduceData {
            index: self.partition.partition.0,
            records: Records::Hole(u32::try_from(batch.len()).unwrap_or(u32::MAX)),
        };
        let topic = TopicProduceData {
            name: (&*self.partition.topic).into(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: self.config.acks.number(),
            timeout_ms: self.client.timeout_ms(),
            topic_data: vec![topic],
            ..Default::default()
        };
        if self.config.acks == Acks::None {
            connection.send(&request, vec![batch]).await?;
            return Ok(BatchOutcome::Written { base_offset: None, append_time: None });
        }
        let response = connection.call_with_records(&request, vec![batch]).await?;
        let answer: ProduceResponse<'_> = response.decode()?;
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        let one = partitions.find(|one| one.index == self.partition.partition.0);
        self.read_answer(one.ok_or_else(|| response.missing(format!("partition {}", self.partition)))?)
    }

    fn read_answer(&self, answer: &PartitionProduceResponse<'_>) -> Result<BatchOutcome, ProduceError> {
        let code = ErrorCode(answer.error_code);
        // The broker has this very batch already: the attempt before this one arrived.
        if matches!(code, ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER) {
            return Ok(BatchOutcome::Written {
                base_offset: (answer.base_offset >= 0).then_some(Offset(answer.base_offset)),
                append_time: (answer.log_append_time_ms >= 0).then_some(TimestampMs(answer.log_append_time_ms)),
            });
        }
        let subject = format!("partition {}", self.partition);
        let error = ClientError::of_broker(API, subject, code, answer.error_message.as_deref());
        let rejected = answer.record_errors.iter();
        let rejected: Vec<_> = rejected
            .map(|one| (one.batch_index, one.batch_index_error_message.as_deref().unwrap_or("").to_owned()))
            .collect();
        if rejected.is_empty() {
            return Err(error.into());
        }
        Ok(BatchOutcome::Refused(Refusal { error: error.into(), rejected }))
    }

    fn build(&self, records: &VecDeque<Pending>, sequence: &Sequence) -> Result<Bytes, ProduceError> {
        let mut builder = BatchBuilder::new().codec(self.config.codec);
        if let Some(level) = self.config.level {
            builder = builder.level(level);
        }
        if let Some(Producing { id, epoch }) = sequence.of {
            builder = builder.producer(id, epoch, sequence.next);
        }
        for Pending { record, timestamp, .. } in records {
            builder.append(*timestamp, record.key.as_deref(), record.value.as_deref(), &record.headers());
        }
        Ok(builder.build()?.into())
    }

    fn tell(&self, records: VecDeque<Pending>, outcome: BatchOutcome) {
        for (index, pending) in (0..).zip(records) {
            let fate = match &outcome {
                BatchOutcome::Written { base_offset, append_time } => Ok(Receipt {
                    partition: self.partition.clone(),
                    offset: base_offset.map(|base| base.plus(i64::from(index))),
                    timestamp: append_time.unwrap_or(pending.timestamp),
                }),
                BatchOutcome::Refused(refusal) => Err(refusal.told(index, &self.partition)),
                BatchOutcome::Unknown(error) => Err(error.clone()),
            };
            // A caller that dropped the delivery does not want to know.
            let _ = pending.fate.send(fate);
        }
    }
}

/// The broker cannot fit the batch into what it knows of the producer; a new id starts afresh.
fn is_out_of_place(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            | ErrorCode::UNKNOWN_PRODUCER_ID
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
    )
}
