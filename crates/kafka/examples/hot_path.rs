//! What a produced batch and a fetched partition cost in the door and below it, counted in instructions:
//!
//! ```text
//! cargo build --release -p mainstem-kafka --example hot_path
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/hot_path produce 20000
//! ```
//!
//! The difference of two runs, divided by the difference of their counts, is free of what the start costs. The first
//! argument says what is measured, the second how often (in requests):
//!
//! | argument | each request |
//! | --- | --- |
//! | `produce` | one batch of one record of 100 bytes |
//! | `produce-many` | 100 such batches, one for each partition of a topic |
//! | `fetch` | a session of one partition, which gives one batch |
//! | `fetch-many` | a session of 100 partitions, each of which gives one batch |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::Broker;
use mainstem_door::{Chunk, ConnectionInfo, Handled, Reply};
use mainstem_env::{RealClock, RealFs, RealRng};
use mainstem_kafka::{Connection, Door};
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::{FetchResponse, ResponseHeader};
use mainstem_kafka_wire::{Message, Reader, Records, encode_request};
use mainstem_metadata::config::BrokerConfig;
use mainstem_record::BatchBuilder;
use mainstem_store::StoreEnv;
use mainstem_types::TimestampMs;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TOPIC: &str = "a-topic-of-ours";
const PARTITIONS: i32 = 100;
const RECORD_BYTES: usize = 100;

struct Node {
    door: Door,
    connection: Arc<Connection>,
    runtime: tokio::runtime::Runtime,
}

impl Node {
    fn start(folder: &std::path::Path) -> Result<Node> {
        let properties = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
        let properties: BTreeMap<String, String> = properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let config = BrokerConfig::parse(&properties)?;
        let env = StoreEnv::new(Arc::new(RealFs), Arc::new(RealClock::new()), Arc::new(RealRng), 64 << 20, 1)?;
        let (broker, _) = Broker::start(env, folder, config)?;
        let door = Door::new(broker);
        let connection =
            door.connection(ConnectionInfo { peer: "127.0.0.1:50000".parse()?, listener: "PLAINTEXT".into() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Node { door, connection: Arc::new(connection), runtime })
    }

    fn send(&mut self, frame: Bytes) -> Result<Vec<Chunk>> {
        let reply = match self.door.handle(&self.connection, frame) {
            Handled::Ready(reply) => reply,
            promised => self.runtime.block_on(promised.reply()),
        };
        match reply {
            Reply::Send(response) => Ok(response.chunks),
            other => Err(format!("{other:?}").into()),
        }
    }

    fn create_topic(&mut self) -> Result<()> {
        let topic = CreatableTopic {
            name: Cow::Borrowed(TOPIC),
            num_partitions: PARTITIONS,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
        self.send(frame(7, &request)?)?;
        Ok(())
    }

    fn produce(&mut self, partitions: i32, requests: usize) -> Result<()> {
        let batch = batch();
        let data = |index| PartitionProduceData { index, records: Records::Bytes(Cow::Borrowed(&batch)) };
        let topic = TopicProduceData {
            name: Cow::Borrowed(TOPIC),
            partition_data: (0..partitions).map(data).collect(),
            ..Default::default()
        };
        let request = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
        let frame = frame(9, &request)?;
        for _ in 0..requests {
            self.send(frame.clone())?;
        }
        Ok(())
    }

    /// Reads the first and the second batch of each partition in turns.
    fn fetch(&mut self, partitions: i32, requests: usize) -> Result<()> {
        self.produce(partitions, 2)?;
        let session_id = self.begin_session(partitions)?;
        for number in 0..requests {
            let request = fetch_request(partitions, session_id, 1 + number as i32, 1 - number as i64 % 2);
            let chunks = self.send(frame(12, &request)?)?;
            let bytes: u64 = chunks.iter().map(Chunk::len).sum();
            if bytes < partitions as u64 * RECORD_BYTES as u64 {
                return Err(format!("fetch {number} gave {bytes} bytes").into());
            }
        }
        Ok(())
    }

    fn begin_session(&mut self, partitions: i32) -> Result<i32> {
        let chunks = self.send(frame(12, &fetch_request(partitions, 0, 0, 0))?)?;
        let mut bytes = Vec::new();
        for chunk in chunks {
            match chunk {
                Chunk::Bytes(part) => bytes.extend_from_slice(&part),
                Chunk::File(slice) => bytes.extend_from_slice(&slice.read()?),
            }
        }
        let mut reader = Reader::new(&bytes);
        ResponseHeader::decode(&mut reader, 1)?;
        Ok(FetchResponse::decode(&mut reader, 12)?.session_id)
    }
}

fn fetch_request(partitions: i32, session_id: i32, session_epoch: i32, offset: i64) -> FetchRequest<'static> {
    let partition = |partition| FetchPartition {
        partition,
        fetch_offset: offset,
        // One batch is more than this, and it is given all the same: to each partition, because none of them takes all
        // room.
        partition_max_bytes: 180,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: Cow::Borrowed(TOPIC),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_id,
        session_epoch,
        topics: vec![topic],
        ..Default::default()
    }
}

fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(1_790_000_000_000), None, Some(&[b'x'; RECORD_BYTES]), &[]);
    // reason: one short record makes a batch.
    builder.build().expect("a batch").to_vec()
}

fn frame<'m, M: Message<'m>>(version: i16, message: &M) -> Result<Bytes> {
    Ok(encode_request(version, 1, Some("hot-path"), message)?.bytes.slice(4..))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("produce", String::as_str);
    let requests: usize = arguments.get(1).map_or(Ok(1000), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("mainstem-hot-path-{}", std::process::id()));
    let mut node = Node::start(&folder)?;
    node.create_topic()?;
    let done = match what {
        "produce" => node.produce(1, requests),
        "produce-many" => node.produce(PARTITIONS, requests),
        "fetch" => node.fetch(1, requests),
        "fetch-many" => node.fetch(PARTITIONS, requests),
        other => Err(format!("{other} is not measured").into()),
    };
    node.door.broker.shutdown();
    std::fs::remove_dir_all(&folder)?;
    done
}
