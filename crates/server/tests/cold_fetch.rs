//! A fetch whose index entries and headers are not in memory: the disk is waited for elsewhere, never by a reactor.

mod support;

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use mainstem_broker::{Broker, Partition};
use mainstem_env::{
    Advice, DirEntry, File, Fs, MemFs, Metadata, OpenDir, OpenOptions, RealClock, Residency, SeededRng,
};
use mainstem_kafka::Door;
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use mainstem_kafka_wire::messages::fetch_response::FetchResponse;
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use mainstem_kafka_wire::{Message, Reader, Records, encode_request};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::NewTopic;
use mainstem_record::BatchBuilder;
use mainstem_server::{BoundFront, RunningFront};
use mainstem_store::{Origin, StoreEnv};
use mainstem_types::{PartitionIndex, TimestampMs};
use support::*;

/// What is cold: every read of a log or an index, once somebody said so.
#[derive(Debug, Default)]
struct Cold {
    on: AtomicBool,
    gate: Gate,
}

/// A file system in memory whose files can become cold.
#[derive(Debug)]
struct ColdFs {
    inner: MemFs,
    cold: Arc<Cold>,
}

#[derive(Debug)]
struct PartlyCold {
    inner: Arc<dyn File>,
    cold: Arc<Cold>,
    /// Files other than those of segments stay warm.
    of_segment: bool,
}

impl PartlyCold {
    fn is_cold(&self) -> bool {
        self.of_segment && self.cold.on.load(SeqCst)
    }
}

impl File for PartlyCold {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if self.is_cold() {
            self.cold.gate.pass();
        }
        self.inner.read_at(buffer, position)
    }
    fn try_read_at_nowait(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        if self.is_cold() { Ok(None) } else { self.inner.try_read_at_nowait(buffer, position) }
    }
    fn residency(&self, position: u64, len: u64) -> io::Result<Residency> {
        if self.is_cold() { Ok(Residency::Partial) } else { self.inner.residency(position, len) }
    }
    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
        self.inner.send_to(socket, position, len)
    }
    fn write_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.inner.write_vectored_at(parts, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn allocate_keep_size(&self, position: u64, len: u64) -> io::Result<()> {
        self.inner.allocate_keep_size(position, len)
    }
    fn advise(&self, position: u64, len: u64, advice: Advice) -> io::Result<()> {
        self.inner.advise(position, len, advice)
    }
    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.inner.start_writeback(position, len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Fs for ColdFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let of_segment = path.extension().is_some_and(|end| end == "log" || end == "index");
        // A folder whose blocks are not in memory: opening waits as well.
        if of_segment && self.cold.on.load(SeqCst) {
            self.cold.gate.pass();
        }
        Ok(Arc::new(PartlyCold { inner: self.inner.open(path, options)?, cold: Arc::clone(&self.cold), of_segment }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.read_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        self.inner.open_dir(path)
    }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.inner.metadata(path)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_space(path)
    }
}

struct Node {
    front: RunningFront,
    broker: Arc<Broker>,
    cold: Arc<Cold>,
}

const TOPIC: &str = "orders";
const BATCH_BYTES: usize = 200_000;
const BATCHES: i64 = 20;

impl Node {
    /// One reactor, and one partition with four megabytes in several segments.
    fn start() -> Node {
        let settings = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
        let settings: BTreeMap<_, _> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let cold = Arc::new(Cold::default());
        let fs = Arc::new(ColdFs { inner: MemFs::new(), cold: Arc::clone(&cold) });
        let env = StoreEnv::new(fs, Arc::new(RealClock::new()), Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
        let (broker, _) = Broker::start(env, Path::new("/data"), BrokerConfig::parse(&settings).unwrap()).unwrap();
        let topic =
            NewTopic { configs: vec![("segment.bytes".into(), Some("1048576".into()))], ..NewTopic::named(TOPIC) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(broker.create_topics(vec![topic], false)).unwrap().pop().unwrap().unwrap();
        let front = BoundFront::bind(config()).unwrap().serve(Arc::new(Door::new(Arc::clone(&broker))));
        let node = Node { front, broker, cold };
        (0..BATCHES).for_each(|_| node.append(BATCH_BYTES));
        assert!(node.partition().log().segment_count() > 2);
        node
    }

    fn partition(&self) -> Arc<Partition> {
        Arc::clone(self.broker.topics().by_name(TOPIC).unwrap().partition(PartitionIndex(0)).unwrap())
    }

    fn append(&self, bytes: usize) {
        let now = self.broker.clock().wall_ms();
        let mut builder = BatchBuilder::new();
        builder.append(now, None, Some(&vec![7; bytes]), &[]);
        let batch = Bytes::from(builder.build().unwrap());
        self.partition().append(&batch, Origin::Client, TimestampMs(now.0), true).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cold.gate.open();
        self.broker.shutdown();
    }
}

fn fetch(offset: i64) -> FetchRequest<'static> {
    let partition = FetchPartition {
        partition: 0,
        fetch_offset: offset,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        partition_max_bytes: 500_000,
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: 0,
        max_bytes: 500_000,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    }
}

const FETCH_VERSION: i16 = 11;

fn send<'m, M: Message<'m>>(client: &mut Client, version: i16, correlation: i32, message: &M) {
    client.send_raw(&encode_request(version, correlation, Some("test"), message).unwrap().bytes);
}

/// The bytes of records in the answer to a fetch.
fn fetched(client: &mut Client, correlation: i32) -> usize {
    let (answered, body) = client.receive();
    assert_eq!(answered, correlation);
    let response = FetchResponse::decode(&mut Reader::new(&body), FETCH_VERSION).unwrap();
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    match &partition.records {
        Records::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

#[test]
fn a_cold_fetch_delays_no_other_connection_of_its_reactor() {
    let node = Node::start();
    node.append(100);
    node.cold.on.store(true, SeqCst);
    let mut slow = Client::connect(&node.front);
    send(&mut slow, FETCH_VERSION, 1, &fetch(3));
    eventually("the look waits for the disk", || node.cold.gate.arrived.load(SeqCst) > 0);
    let mut quick = Client::connect(&node.front);
    for round in 0..50 {
        let named = ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..Default::default()
        };
        send(&mut quick, 3, round, &named);
        let (_, body) = quick.receive();
        assert_eq!(ApiVersionsResponse::decode(&mut Reader::new(&body), 3).unwrap().error_code, 0);
        // The end of the log is in memory, whatever the disk does.
        node.append(100);
        send(&mut quick, FETCH_VERSION, 1000 + round, &fetch(BATCHES + i64::from(round)));
        assert!(fetched(&mut quick, 1000 + round) > 100);
    }
    assert_eq!(node.broker.reads().waited(), 1);
    assert!(node.broker.reads().from_memory() >= 50);
    node.cold.gate.open();
    let bytes = fetched(&mut slow, 1);
    assert!((2 * BATCH_BYTES..500_000).contains(&bytes), "{bytes} bytes, where two batches fit");
    assert!(node.broker.reads().hit_ratio() > 0.9);
}

#[test]
fn a_warm_fetch_behind_the_tail_waits_for_nothing_once_the_index_is_open() {
    let node = Node::start();
    let mut client = Client::connect(&node.front);
    let mut waited = Vec::new();
    for round in 0..2 {
        for offset in (0..BATCHES).step_by(2) {
            let correlation = round * 100 + offset as i32;
            send(&mut client, FETCH_VERSION, correlation, &fetch(offset));
            assert!(fetched(&mut client, correlation) >= BATCH_BYTES);
        }
        waited.push(node.broker.reads().waited());
    }
    assert!(waited[0] > 0, "each index had to be opened once: {waited:?}");
    assert_eq!(waited[1], waited[0], "and was open the second time");
}
