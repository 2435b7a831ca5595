//! Producing: records are collected into batches for each partition and sent to its leader.
//!
//! Guarantees: records of one partition are written in the order in which they were sent, also when a batch has to be
//! sent again; with `idempotent`, none is written twice by that. The producer reports the result of each record exactly
//! once. `buffer_size` bounds the waiting records in memory; above it [`Producer::send`] waits.
//!
//! One batch of a partition is in flight at a time; meanwhile the next one fills. Partitions do not wait for each
//! other.

mod batch;
mod partitioner;
mod pending;
mod worker;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mainstem_kafka_wire::ErrorCode;
use mainstem_record::{BatchBuilder, Codec, RecordHeader};
use mainstem_types::{Offset, PartitionIndex, TimestampMs, TopicPartition};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::ClientError;
use batch::Identity;
use partitioner::{Sticky, partition_of_key};
use pending::Pending;
use worker::Command;

/// Whose confirmation a batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acks {
    /// Nobody's: the broker sends no answer, and offsets stay unknown.
    None,
    /// The leader's.
    Leader,
    /// All in-sync replicas'.
    #[default]
    All,
}

impl Acks {
    fn number(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// Settings of a [`Producer`].
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    pub acks: Acks,
    pub codec: Codec,
    /// The codec's own default, if `None`.
    pub level: Option<i32>,
    /// How long a batch waits for more records. Zero sends a batch at once.
    pub linger: Duration,
    /// A batch is closed when its records reach this, uncompressed.
    pub batch_size: usize,
    /// Records in memory, sent and not yet confirmed.
    pub buffer_size: usize,
    /// The broker recognises batches that come twice. Needs `Acks::All`, which it implies.
    pub idempotent: bool,
    /// After a record of a partition that was not written, or is not known to be, no later one of it is: those fail
    /// with [`ProduceError::Halted`].
    pub halt_on_failure: bool,
    /// How long a record may wait for the broker, with all attempts: from when it was handed over, or from the broker's
    /// last answer for its partition.
    pub delivery_timeout: Duration,
}

impl Default for ProducerConfig {
    /// All replicas, no compression, no linger, 256 KiB batches, 32 MiB of memory, not idempotent, going on after
    /// failures, 120 s.
    fn default() -> Self {
        ProducerConfig {
            acks: Acks::All,
            codec: Codec::None,
            level: None,
            linger: Duration::ZERO,
            batch_size: 256 * 1024,
            buffer_size: 32 << 20,
            idempotent: false,
            halt_on_failure: false,
            delivery_timeout: Duration::from_secs(120),
        }
    }
}

/// A record to send. Only the topic is needed.
#[derive(Debug, Clone, Default)]
pub struct NewRecord {
    pub topic: Arc<str>,
    /// `None`: by key, or any.
    pub partition: Option<PartitionIndex>,
    pub key: Option<Bytes>,
    /// `None` is a tombstone.
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Option<Bytes>)>,
    /// `None`: the time of sending.
    pub timestamp: Option<TimestampMs>,
}

impl NewRecord {
    pub fn new(topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        NewRecord {
            topic: topic.into(),
            key: key.map(Bytes::copy_from_slice),
            value: value.map(Bytes::copy_from_slice),
            ..Default::default()
        }
    }

    fn headers(&self) -> Vec<RecordHeader<'_>> {
        self.headers.iter().map(|(key, value)| RecordHeader::new(key, value.as_deref())).collect()
    }

    fn size_max(&self) -> usize {
        BatchBuilder::record_size_max(self.key.as_deref(), self.value.as_deref(), &self.headers())
    }
}

/// Where a record was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub partition: TopicPartition,
    /// `None` with [`Acks::None`].
    pub offset: Option<Offset>,
    /// The broker's, when the topic has LogAppendTime; else the record's.
    pub timestamp: TimestampMs,
}

/// Why a record was not written, or is not known to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the record has about {size} bytes and the producer's buffer {limit}; raise buffer_size")]
    TooLarge { size: usize, limit: usize },
    #[error("{partition} refused record {index} of the batch: {message}")]
    Rejected { partition: TopicPartition, index: i32, message: String },
    #[error("{partition} refused the batch because of other records in it: {code}: {message}")]
    Neighbour { partition: TopicPartition, code: ErrorCode, message: String },
    #[error("{partition} did not confirm within {timeout_ms} ms ({last}); the record may or may not be written")]
    TimedOut { partition: TopicPartition, timeout_ms: u64, last: String },
    #[error("{partition} gave no answer for {timeout_ms} ms; the record was not sent")]
    Expired { partition: TopicPartition, timeout_ms: u64 },
    #[error("the batch cannot be built: {0}")]
    Build(#[from] mainstem_record::BuildError),
    #[error("{partition}: not sent, because a record before it was not written")]
    Halted { partition: TopicPartition },
    #[error("the producer was closed before the record was written")]
    Closed,
}

/// The fate of a record: await it. Dropping it does not stop the record.
#[derive(Debug)]
pub struct Delivery {
    receiver: oneshot::Receiver<Result<Receipt, ProduceError>>,
}

impl Future for Delivery {
    type Output = Result<Receipt, ProduceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|fate| fate.unwrap_or(Err(ProduceError::Closed)))
    }
}

/// Sends records. Clones share batches and settings. The module's documentation has the guarantees.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerState>,
}

struct ProducerState {
    client: Client,
    config: Arc<ProducerConfig>,
    identity: Arc<Identity>,
    memory: Arc<Semaphore>,
    sticky: Mutex<Sticky>,
    workers: Mutex<HashMap<TopicPartition, mpsc::UnboundedSender<Command>>>,
}

impl Client {
    pub fn producer(&self, mut config: ProducerConfig) -> Producer {
        if config.idempotent {
            config.acks = Acks::All;
        }
        config.buffer_size = config.buffer_size.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        let inner = ProducerState {
            client: self.clone(),
            identity: Arc::new(Identity::new(config.idempotent)),
            memory: Arc::new(Semaphore::new(config.buffer_size)),
            config: Arc::new(config),
            sticky: Mutex::default(),
            workers: Mutex::default(),
        };
        Producer { inner: Arc::new(inner) }
    }
}

impl Producer {
    /// Hands a record over. Waits when the buffer is full or the topic is not known yet, not for the broker's answer:
    /// that is what the [`Delivery`] is for. Records of one partition keep the order of the calls.
    pub async fn send(&self, record: NewRecord) -> Result<Delivery, ProduceError> {
        let inner = &self.inner;
        let size = record.size_max();
        let limit = inner.config.buffer_size;
        if size > limit {
            return Err(ProduceError::TooLarge { size, limit });
        }
        let topic = inner.client.topic(&record.topic).await?;
        let memory = inner.memory.clone().acquire_many_owned(size as u32).await;
        let memory = memory.map_err(|_| ProduceError::Closed)?;
        let partition = match (record.partition, &record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of_key(key, topic.partitions.len()),
            (None, None) => inner.sticky.lock().partition(&topic, size, inner.config.batch_size),
        };
        let partition = TopicPartition { topic: topic.name.clone(), partition };
        let (fate, receiver) = oneshot::channel();
        let timestamp = record.timestamp.unwrap_or_else(wall_clock);
        let since = Instant::now();
        self.hand_over(partition, Command::Record(Pending { record, timestamp, since, size, fate, _memory: memory }))?;
        Ok(Delivery { receiver })
    }

    /// Waits until everything handed over so far has been told its fate.
    pub async fn flush(&self) {
        let waits: Vec<_> = {
            let workers = self.inner.workers.lock();
            let ask = |worker: &mpsc::UnboundedSender<Command>| {
                let (done, receiver) = oneshot::channel();
                // A worker that is gone has nothing left to flush; its receiver says so at once.
                let _ = worker.send(Command::Flush(done));
                receiver
            };
            workers.values().map(ask).collect()
        };
        for wait in waits {
            // An error means the same: that worker is done.
            let _ = wait.await;
        }
    }

    fn hand_over(&self, partition: TopicPartition, command: Command) -> Result<(), ProduceError> {
        let inner = &self.inner;
        let mut workers = inner.workers.lock();
        let worker = workers.entry(partition).or_insert_with_key(|partition| {
            let (sender, commands) = mpsc::unbounded_channel();
            let sending = batch::Sending {
                client: inner.client.clone(),
                config: inner.config.clone(),
                identity: inner.identity.clone(),
                partition: partition.clone(),
            };
            tokio::spawn(worker::run(sending, commands));
            sender
        });
        worker.send(command).map_err(|_| ProduceError::Closed)
    }
}

fn wall_clock() -> TimestampMs {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    TimestampMs(since_epoch.map_or(0, |since| since.as_millis() as i64))
}
