//! Producers: with requests of our own, and with the client.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use mainstem_client::{Client, Codec, NewRecord, PartitionIndex, Producer, ProducerConfig, TimestampMs};
use mainstem_kafka_wire::Records;
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use mainstem_kafka_wire::messages::{InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse};
use mainstem_record::{BatchBuilder, RecordHeader};
use mainstem_types::{ProducerEpoch, ProducerId};

use crate::connection::{Connection, decode};
use crate::model::{IDENTITY_HEADER, RecordId, Topic};
use crate::random::Random;

const PRODUCE_VERSION: i16 = 9;
const INIT_VERSION: i16 = 4;
/// As many batches of one producer the broker recognises.
const WINDOW_MAX: i64 = 5;
/// The topic is not there (any more), or the broker is about to stop.
const PASSING: [i16; 4] = [3, 5, 6, 100];

pub type SharedTopic = Arc<Mutex<Topic>>;

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A batch under way.
#[derive(Clone)]
struct Batch {
    partition: i32,
    bytes: Bytes,
    ids: Vec<RecordId>,
}

/// Sends batches of its own making over a connection, several before the first answer.
///
/// With an identity it sends what was not answered again, over as many kills as it takes; without one it never does.
pub struct RawProducer {
    number: u32,
    topic: SharedTopic,
    random: Random,
    codec: Codec,
    is_idempotent: bool,
    identity: Option<(i64, i16)>,
    next_number: u64,
    sequences: HashMap<i32, i32>,
    unanswered: VecDeque<Batch>,
}

impl RawProducer {
    pub fn new(number: u32, topic: SharedTopic, mut random: Random) -> RawProducer {
        RawProducer {
            number,
            topic,
            codec: random.pick(&Codec::ALL),
            is_idempotent: random.chance(60),
            random,
            identity: None,
            next_number: 0,
            sequences: HashMap::new(),
            unanswered: VecDeque::new(),
        }
    }

    /// The broker may have forgotten the producer.
    pub fn begin_anew(&mut self) {
        self.identity = None;
        self.sequences.clear();
        self.unanswered.clear();
    }

    /// Sends what was not answered, and waits until it is.
    pub async fn settle(&mut self, address: &str) -> Result<(), String> {
        let mut connection = Connection::open(address).await.map_err(|error| error.to_string())?;
        for batch in std::mem::take(&mut self.unanswered) {
            // One after the other: all of them are among the last five.
            self.send(&mut connection, vec![batch]).await.map_err(|error| format!("not sent again: {error}"))?;
            self.receive(&mut connection).await.map_err(|error| format!("not answered again: {error}"))?;
        }
        Ok(())
    }

    /// Produces until it is told to stop, or the broker ends.
    pub async fn run(mut self, address: String, stop: Arc<AtomicBool>) -> RawProducer {
        // An error of the connection is the end of the broker, which the run notices.
        if let Ok(mut connection) = Connection::open(&address).await {
            let _ = self.produce(&mut connection, &stop).await;
        }
        if !self.is_idempotent {
            self.unanswered.clear();
        }
        self
    }

    async fn produce(&mut self, connection: &mut Connection, stop: &AtomicBool) -> std::io::Result<()> {
        while self.is_idempotent && self.identity.is_none() {
            self.identity = new_identity(connection).await?;
        }
        let window = self.random.between(1, WINDOW_MAX) as usize;
        let pause_ms = self.random.between(0, 20);
        let mut under_way = 0;
        while !stop.load(Ordering::Relaxed) && self.topic.lock().unwrap().is_live() {
            let batches = self.new_batches();
            self.send(connection, batches).await?;
            under_way += 1;
            while under_way >= window || under_way > 0 && self.random.chance(30) {
                self.receive(connection).await?;
                under_way -= 1;
            }
            tokio::time::sleep(Duration::from_millis(self.random.between(0, pause_ms) as u64)).await;
        }
        for _ in 0..under_way {
            self.receive(connection).await?;
        }
        Ok(())
    }

    fn new_batches(&mut self) -> Vec<Batch> {
        let topic = Arc::clone(&self.topic);
        let mut topic = topic.lock().unwrap();
        let count = topic.partitions.len() as i64;
        let first = self.random.between(0, count - 1);
        let several = self.random.between(1, count.min(3));
        (0..several).map(|i| self.new_batch(&mut topic, ((first + i) % count) as i32)).collect()
    }

    fn new_batch(&mut self, topic: &mut Topic, partition: i32) -> Batch {
        let mut builder = BatchBuilder::new().codec(self.codec);
        let sequence = self.sequences.entry(partition).or_default();
        if let Some((id, epoch)) = self.identity {
            builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), *sequence);
        }
        let now = now_ms();
        let ids: Vec<RecordId> = (0..self.random.between(1, 12))
            .map(|_| {
                self.next_number += 1;
                let id = RecordId { producer: self.number, number: self.next_number };
                let record = topic.new_record(partition, id, &mut self.random, now);
                let header = RecordHeader::new(IDENTITY_HEADER, Some(record.header.as_bytes()));
                let keys = RecordHeader::new("KEYS", Some(b"common other"));
                let time = TimestampMs(record.timestamp);
                builder.append(time, record.key.as_deref(), record.value.as_deref(), &[header, keys]);
                id
            })
            .collect();
        *sequence += ids.len() as i32;
        Batch { partition, bytes: builder.build().unwrap().into(), ids }
    }

    async fn send(&mut self, connection: &mut Connection, batches: Vec<Batch>) -> std::io::Result<()> {
        let name = self.topic.lock().unwrap().name.clone();
        self.unanswered.extend(batches.iter().cloned());
        let data = batches
            .iter()
            .map(|batch| PartitionProduceData { index: batch.partition, records: Records::borrowed(&batch.bytes) });
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: name.as_str().into(),
                partition_data: data.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        connection.send(PRODUCE_VERSION, &request).await
    }

    /// Takes the next answer. What it acknowledges is not sent again.
    async fn receive(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let answer = connection.receive().await?;
        let answer: ProduceResponse<'_> = decode::<ProduceRequest<'_>, _>(PRODUCE_VERSION, &answer);
        let mut topic = self.topic.lock().unwrap();
        let mut is_over = false;
        for one in answer.responses.iter().flat_map(|topic| &topic.partition_responses) {
            // Answers come in the order of the requests: it is the oldest of its partition.
            let at = self.unanswered.iter().position(|batch| batch.partition == one.index).unwrap();
            match one.error_code {
                0 => {
                    let batch = self.unanswered.remove(at).unwrap();
                    for (i, id) in batch.ids.iter().enumerate() {
                        topic.acknowledged(one.index, *id, one.base_offset + i as i64);
                    }
                }
                code if PASSING.contains(&code) => is_over = true,
                code => {
                    let batch = &self.unanswered[at];
                    let about = format!("{}-{} (topic {})", topic.name, one.index, topic.number);
                    let message = one.error_message.as_deref().unwrap_or_default();
                    let ids = (batch.ids.first(), batch.ids.last());
                    topic.violations.push(format!("{about}: a batch of {ids:?} is refused: {code} {message}"));
                    is_over = true;
                }
            }
        }
        if is_over { Err(std::io::Error::other("the partition is not served")) } else { Ok(()) }
    }
}

/// `None`: not now, try again.
async fn new_identity(connection: &mut Connection) -> std::io::Result<Option<(i64, i16)>> {
    let request = InitProducerIdRequest { producer_id: -1, producer_epoch: -1, ..Default::default() };
    let answer = connection.ask(INIT_VERSION, &request).await?;
    let answer: InitProducerIdResponse = decode::<InitProducerIdRequest<'_>, _>(INIT_VERSION, &answer);
    if answer.error_code != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        return Ok(None);
    }
    Ok(Some((answer.producer_id, answer.producer_epoch)))
}

/// An idempotent producer of the client, which lives through kills.
pub struct LibraryProducer {
    number: u32,
    topic: SharedTopic,
    producer: Producer,
    next_number: AtomicU64,
    undecided: Arc<AtomicUsize>,
    random: Mutex<Random>,
}

impl LibraryProducer {
    pub fn new(number: u32, topic: SharedTopic, client: &Client, mut random: Random) -> LibraryProducer {
        let config = ProducerConfig {
            codec: random.pick(&Codec::ALL),
            idempotent: true,
            linger: Duration::from_millis(random.between(0, 10) as u64),
            batch_size: random.between(2_000, 100_000) as usize,
            ..Default::default()
        };
        let producer = client.producer(config);
        LibraryProducer {
            number,
            topic,
            producer,
            next_number: AtomicU64::new(0),
            undecided: Arc::default(),
            random: Mutex::new(random),
        }
    }

    pub async fn run(self: Arc<Self>, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) && self.topic.lock().unwrap().is_live() {
            let count = self.random.lock().unwrap().between(1, 30);
            for _ in 0..count {
                // While the broker is down it may wait for long; what it has not taken by then is not sent.
                if tokio::time::timeout(Duration::from_millis(200), self.send()).await.is_err() {
                    break;
                }
            }
            let pause_ms = self.random.lock().unwrap().between(0, 20) as u64;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    async fn send(&self) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let id = RecordId { producer: self.number, number };
        let (partition, record) = {
            let (mut topic, mut random) = (self.topic.lock().unwrap(), self.random.lock().unwrap());
            let partition = random.between(0, topic.partitions.len() as i64 - 1) as i32;
            let record = topic.new_record(partition, id, &mut random, now_ms());
            let record = NewRecord {
                topic: topic.name.as_str().into(),
                partition: Some(PartitionIndex(partition)),
                key: record.key.map(Into::into),
                value: record.value.map(Into::into),
                headers: vec![(IDENTITY_HEADER.to_owned(), Some(record.header.into()))],
                timestamp: Some(TimestampMs(record.timestamp)),
            };
            (partition, record)
        };
        // An error here: the topic is gone, or nobody answers; nothing was sent.
        let Ok(delivery) = self.producer.send(record).await else { return };
        let (topic, undecided) = (Arc::clone(&self.topic), Arc::clone(&self.undecided));
        undecided.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let fate = delivery.await;
            let mut topic = topic.lock().unwrap();
            match fate {
                Ok(receipt) => topic.acknowledged(partition, id, receipt.offset.unwrap().0),
                Err(_) if !topic.is_live() => {}
                Err(error) => {
                    let place = format!("{}-{partition} (topic {})", topic.name, topic.number);
                    topic.violations.push(format!("{place}: {id:?} of the client's producer: {error}"));
                }
            }
            undecided.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Waits until the fate of every record is known.
    pub async fn settle(&self) -> Result<(), String> {
        let settled = async {
            self.producer.flush().await;
            while self.undecided.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, settled).await.map_err(|_| "the client's producer does not end".to_owned())
    }

    pub fn is_settled(&self) -> bool {
        self.undecided.load(Ordering::SeqCst) == 0
    }
}
