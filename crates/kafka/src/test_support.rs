//! For the tests of the apis: a broker in memory behind a door, spoken to with encoded requests.
//!
//! Set `MAINSTEM_TEST_PEER=host:port` to send the requests of tests that start with [`TestDoor::any`] to another broker
//! instead, for example a real Kafka, and see whether it answers as the tests expect. Its topics stay behind.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::Broker;
use mainstem_door::{Chunk, Close, ConnectionInfo, Handled, Reply};
use mainstem_env::{Fault, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use mainstem_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use mainstem_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use mainstem_kafka_wire::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use mainstem_kafka_wire::messages::{
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    JoinGroupResponse, OffsetCommitResponse, OffsetFetchResponse, ProduceResponse, ResponseHeader, SyncGroupResponse,
};
use mainstem_kafka_wire::metadata_records::PartitionChangeRecord;
use mainstem_kafka_wire::{ErrorCode, Message, Reader, Records, encode_request, response_header_version};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::Decision;
use mainstem_record::BatchBuilder;
use mainstem_store::StoreEnv;
use mainstem_types::{TimestampMs, TopicId};
use parking_lot::Mutex;

use crate::context::{Connection, Door};

/// The wall clock of the test brokers when they start, in milliseconds.
const START_MS: i64 = 1_790_000_000_000;

/// A broker and one connection to it.
pub struct TestDoor {
    target: Target,
}

enum Target {
    Here(Box<Here>),
    Peer(Mutex<TcpStream>),
}

pub struct Here {
    pub door: Arc<Door>,
    pub fs: MemFs,
    pub clock: Arc<ManualClock>,
    connection: Arc<Connection>,
    runtime: tokio::runtime::Runtime,
}

impl TestDoor {
    /// A new broker in memory, with these server properties beside its number (1) and its address.
    pub fn start(settings: &[(&str, &str)]) -> TestDoor {
        Self::start_on(MemFs::new(), settings)
    }

    /// A broker in memory on a folder that an earlier one may have left.
    pub fn start_on(fs: MemFs, settings: &[(&str, &str)]) -> TestDoor {
        let own = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
        let all = own.iter().chain(settings);
        let properties: BTreeMap<String, String> = all.map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let config = BrokerConfig::parse(&properties).unwrap();
        let clock = Arc::new(ManualClock::at(TimestampMs(START_MS)));
        let env = StoreEnv::new(Arc::new(fs.clone()), clock.clone(), Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
        let (broker, _) = Broker::start(env, Path::new("/data"), config).unwrap();
        let door = Arc::new(Door::new(broker));
        let info = ConnectionInfo { peer: "127.0.0.1:50000".parse().unwrap(), listener: "PLAINTEXT".into() };
        let connection = Arc::new(door.connection(info));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        TestDoor { target: Target::Here(Box::new(Here { door, fs, clock, connection, runtime })) }
    }

    /// A broker with default settings: a new one in memory, or the peer that the environment names.
    pub fn any() -> TestDoor {
        Self::any_with(&[])
    }

    /// As [`any`](Self::any), for tests with groups: in memory, where the clock stands still, the first member of one
    /// waits for no others.
    pub fn any_with_groups() -> TestDoor {
        Self::any_with(&[("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "3")])
    }

    fn any_with(settings: &[(&str, &str)]) -> TestDoor {
        let Ok(address) = std::env::var("MAINSTEM_TEST_PEER") else { return Self::start(settings) };
        let stream = TcpStream::connect(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        TestDoor { target: Target::Peer(Mutex::new(stream)) }
    }

    /// The broker's insides. Not for tests that start with [`TestDoor::any`].
    pub fn here(&self) -> &Here {
        match &self.target {
            Target::Here(here) => here,
            Target::Peer(_) => panic!("this test looks into the broker: start it with TestDoor::start"),
        }
    }

    pub fn broker(&self) -> &Arc<Broker> {
        &self.here().door.broker
    }

    /// Whether the answers come from another broker, which may word its messages differently.
    pub fn is_peer(&self) -> bool {
        matches!(self.target, Target::Peer(_))
    }

    /// A name that no other run has used: a peer keeps its topics.
    pub fn fresh(&self, name: &str) -> String {
        match &self.target {
            Target::Here(_) => name.to_owned(),
            Target::Peer(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
                format!("{name}-{}", now.as_nanos())
            }
        }
    }

    /// A change is in effect when the answer comes. A peer may need a moment longer.
    pub fn settle(&self) {
        if self.is_peer() {
            std::thread::sleep(std::time::Duration::from_millis(1000));
        }
    }

    /// The metadata says that a partition has these replicas, all in sync, and this leader.
    pub fn place(&self, topic: &str, partition_id: i32, replicas: &[i32], leader: i32) {
        let topic_id = self.broker().image().topic_id(topic).unwrap();
        let (replicas, isr) = (Some(replicas.to_vec()), Some(replicas.to_vec()));
        let change = PartitionChangeRecord { topic_id, partition_id, replicas, isr, leader, ..Default::default() };
        let changed = self.broker().change_metadata(|_, _, _| Decision { records: vec![change.into()], reply: () });
        self.here().runtime.block_on(changed).unwrap();
    }

    /// Creates a topic with one replica and returns its id.
    pub fn create(&self, name: &str, partitions: i32) -> TopicId {
        self.create_with(name, partitions, &[])
    }

    /// As [`create`](Self::create), with settings.
    /// Deletes a topic, and one of its partitions, which was written to, leaves its folder behind.
    pub fn delete_and_leave(&self, topic: &str, partition: i32) {
        self.produce(topic, partition, 1);
        let folder = format!("{topic}-{partition}");
        self.here().fs.plan_fault(Fault::of(OpKind::Rename, 1).on(&folder));
        let topic_names = vec![topic.to_owned().into()];
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 1000, ..Default::default() };
        let response: DeleteTopicsResponse<'static> = self.call(5, &request);
        assert_eq!(response.responses[0].error_code, 0);
        self.here().fs.clear_faults();
    }

    pub fn create_with(&self, name: &str, partitions: i32, configs: &[(&'static str, &'static str)]) -> TopicId {
        let set = |(key, value): &(&'static str, &'static str)| CreatableTopicConfig {
            name: Cow::Borrowed(*key),
            value: Some(Cow::Borrowed(*value)),
        };
        let topic = CreatableTopic {
            name: Cow::Borrowed(name),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.iter().map(set).collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let response: CreateTopicsResponse<'static> = self.call(7, &request);
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
        self.settle();
        response.topics[0].topic_id
    }

    /// Produces `count` records of a few bytes, one batch. Gives the offset of the first.
    pub fn produce(&self, topic: &str, partition: i32, count: usize) -> i64 {
        let mut builder = BatchBuilder::new();
        for number in 0..count {
            builder.append(TimestampMs(START_MS), Some(b"key"), Some(format!("value {number}").as_bytes()), &[]);
        }
        self.produce_batch(topic, partition, &builder.build().unwrap())
    }

    /// Produces a batch as it is. Gives the offset of its first record.
    pub fn produce_batch(&self, topic: &str, partition: i32, batch: &[u8]) -> i64 {
        let data = PartitionProduceData { index: partition, records: Records::Bytes(batch.into()) };
        let topic = TopicProduceData { name: topic.into(), partition_data: vec![data], ..Default::default() };
        let request = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
        let response: ProduceResponse<'static> = self.call(9, &request);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0, "{response:?}");
        partition.base_offset
    }

    /// Makes sure that this broker coordinates groups.
    pub fn serve_groups(&self) {
        let request = FindCoordinatorRequest { coordinator_keys: vec!["group".into()], ..Default::default() };
        for _ in 0..100 {
            let response: FindCoordinatorResponse<'static> = self.call(4, &request);
            if response.coordinators[0].error_code == 0 {
                return;
            }
            self.settle();
        }
        panic!("there is no coordinator");
    }

    /// Commits an offset of a group without members.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let partition = OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            committed_metadata: Some("".into()),
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic { name: topic.into(), partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest { group_id: group.into(), topics: vec![topic], ..Default::default() };
        for _ in 0..1000 {
            let response: OffsetCommitResponse<'static> = self.call(8, &request);
            match ErrorCode(response.topics[0].partitions[0].error_code) {
                ErrorCode::NONE => return,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::NOT_COORDINATOR => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                error => panic!("{error:?}"),
            }
        }
        panic!("the coordinator does not load");
    }

    /// The offset that a group has committed; -1: none.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> i64 {
        let topic = OffsetFetchRequestTopic { name: topic.into(), partition_indexes: vec![partition] };
        let request = OffsetFetchRequest { group_id: group.into(), topics: Some(vec![topic]), ..Default::default() };
        for _ in 0..1000 {
            let response: OffsetFetchResponse<'static> = self.call(7, &request);
            match ErrorCode(response.error_code) {
                ErrorCode::NONE => return response.topics[0].partitions[0].committed_offset,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::NOT_COORDINATOR => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                error => panic!("{error:?}"),
            }
        }
        panic!("the coordinator does not load");
    }

    /// Joins a new group as its only member, which reads `topics`, and gets its assignment. Gives the member's id.
    pub fn join_alone(&self, group: &str, topics: &[&str]) -> String {
        let mut subscription = vec![0, 0];
        subscription.extend((topics.len() as u32).to_be_bytes());
        for topic in topics {
            subscription.extend((topic.len() as u16).to_be_bytes());
            subscription.extend(topic.as_bytes());
        }
        subscription.extend((-1i32).to_be_bytes());
        let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: (&subscription[..]).into() };
        let join = JoinGroupRequest {
            group_id: group.into(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let joined: JoinGroupResponse<'static> = self.call(3, &join);
        assert_eq!(joined.error_code, 0, "{joined:?}");
        let assignment =
            SyncGroupRequestAssignment { member_id: joined.member_id.clone(), assignment: (&[][..]).into() };
        let sync = SyncGroupRequest {
            group_id: group.into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            assignments: vec![assignment],
            ..Default::default()
        };
        let synced: SyncGroupResponse<'static> = self.call(1, &sync);
        assert_eq!(synced.error_code, 0, "{synced:?}");
        joined.member_id.into_owned()
    }

    /// Sends a request and reads its response, both in this version.
    pub fn call<'q, Q: Message<'q>, R: Message<'static>>(&self, version: i16, request: &Q) -> R {
        self.try_call(version, request).unwrap_or_else(|reason| panic!("{} {version}: closed: {reason}", Q::NAME))
    }

    /// As [`call`](Self::call), for requests that may end the connection.
    pub fn try_call<'q, Q: Message<'q>, R: Message<'static>>(&self, version: i16, request: &Q) -> Result<R, Close> {
        let encoded = encode_request(version, 7, Some("test"), request).unwrap();
        let response = self.exchange(encoded.bytes.slice(4..))?.expect("a response");
        // Leaked, so that the decoded message may borrow from it. Tests are short.
        let bytes: &'static [u8] = Box::leak(response.into_boxed_slice());
        let mut reader = Reader::new(bytes);
        let header_version = response_header_version(Q::API_KEY.unwrap(), version).unwrap();
        assert_eq!(ResponseHeader::decode(&mut reader, header_version).unwrap().correlation_id, 7);
        let message = R::decode(&mut reader, version).unwrap();
        reader.finish(R::NAME).unwrap();
        Ok(message)
    }

    /// Sends a frame without its length. Nothing comes back for a request that wants no answer.
    pub fn exchange(&self, frame: Bytes) -> Result<Option<Vec<u8>>, Close> {
        match &self.target {
            Target::Here(here) => here.exchange(frame),
            Target::Peer(stream) => Ok(Some(exchange_over(&mut stream.lock(), &frame))),
        }
    }
}

impl Here {
    /// Hands a frame to the door without waiting for the reply.
    pub fn handle(&self, frame: Bytes) -> Handled {
        self.door.handle(&self.connection, frame)
    }

    /// Waits for a reply, with the runtime of the test.
    pub fn wait(&self, handled: Handled) -> Reply {
        match handled {
            Handled::Ready(reply) => reply,
            promised => self.runtime.block_on(promised.reply()),
        }
    }

    fn exchange(&self, frame: Bytes) -> Result<Option<Vec<u8>>, Close> {
        match self.wait(self.handle(frame)) {
            Reply::Nothing => Ok(None),
            Reply::Close(reason) => Err(reason),
            Reply::Send(response) => Ok(Some(flatten(response.chunks))),
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.door.broker.shutdown();
    }
}

/// All chunks in a row, with the bytes of the files.
fn flatten(chunks: Vec<Chunk>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(part) => bytes.extend_from_slice(&part),
            Chunk::File(slice) => {
                let start = bytes.len();
                bytes.resize(start + slice.len as usize, 0);
                slice.file.read_exact_at(&mut bytes[start..], slice.position).unwrap();
            }
        }
    }
    bytes
}

fn exchange_over(stream: &mut TcpStream, frame: &[u8]) -> Vec<u8> {
    stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut response = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut response).unwrap();
    response
}
