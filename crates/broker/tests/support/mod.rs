//! A node on a disk in memory, what its clients did and were told, and what must hold after a stop.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

pub mod check;
pub mod client;
pub mod ledger;
pub mod scenarios;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use mainstem_broker::{Broker, Commit, Isolation, Partition, StartError, StoreEnv};
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_record::{BatchBuilder, Batches};
use mainstem_store::ReadChunk;
use mainstem_types::{Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicId};

pub use client::Client;
pub use ledger::{Acked, Ledger};

/// Every wait of a test ends after this, whatever happens.
pub const LIMIT: Duration = Duration::from_secs(30);

pub type Settings = Vec<(&'static str, &'static str)>;

/// Settings under which a test can be small: one partition of the offsets topic, no delay before files go.
pub fn settings(extra: &[(&'static str, &'static str)]) -> Settings {
    let mut all = vec![
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
        ("offsets.topic.num.partitions", "1"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("log.segment.delete.delay.ms", "0"),
        ("auto.create.topics.enable", "false"),
    ];
    all.extend_from_slice(extra);
    all
}

/// A running broker on a disk in memory. Nothing syncs by itself: [`Node::flush`] is the flusher thread.
pub struct Node {
    pub fs: MemFs,
    pub clock: Arc<ManualClock>,
    pub env: Arc<StoreEnv>,
    pub broker: Arc<Broker>,
    /// What the start said.
    pub said: Vec<String>,
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(TimestampMs(1_790_000_000_000)))
}

impl Node {
    pub fn start(fs: &MemFs, clock: &Arc<ManualClock>, settings: &Settings, seed: u64) -> Result<Node, StartError> {
        Node::start_with(fs, clock, settings, seed, 0)
    }

    /// With threads that sync by themselves.
    pub fn start_with(
        fs: &MemFs,
        clock: &Arc<ManualClock>,
        settings: &Settings,
        seed: u64,
        flusher_threads: usize,
    ) -> Result<Node, StartError> {
        count_panics();
        let properties: BTreeMap<String, String> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let config = BrokerConfig::parse(&properties).expect("settings of the test");
        let rng = Arc::new(SeededRng::new(seed));
        let fs_trait = Arc::new(fs.clone());
        let env = StoreEnv::new(fs_trait, Arc::clone(clock) as _, rng, 1 << 20, flusher_threads).expect("threads");
        let (broker, report) = Broker::start(Arc::clone(&env), Path::new("/data"), config)?;
        Ok(Node { fs: fs.clone(), clock: Arc::clone(clock), env, broker, said: report.lines })
    }

    /// Syncs what was asked for.
    pub fn flush(&self) {
        self.env.run_pending_flushes();
    }

    pub fn partition(&self, topic: TopicId, index: i32) -> Option<Arc<Partition>> {
        self.broker.topics().by_id(topic)?.partition(PartitionIndex(index)).cloned()
    }

    /// Drives a future to its end, syncing meanwhile as the flusher threads would.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let end = Instant::now() + LIMIT;
        runtime(|runtime| {
            loop {
                self.flush();
                let step = async { tokio::time::timeout(Duration::from_millis(1), &mut future).await };
                match runtime.block_on(step) {
                    Ok(value) => return value,
                    Err(_) => assert!(Instant::now() < end, "nothing answers"),
                }
            }
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Ends the threads. After a stop of the disk nothing of it reaches the disk.
        self.broker.shutdown();
    }
}

/// How many threads of brokers have panicked in this process.
pub fn broker_panics() -> usize {
    PANICS.load(Ordering::SeqCst)
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of threads that are not a test's own: nobody joins them.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let own = ["controller", "maintenance", "group-", "flush-", "io-"].iter().any(|own| name.starts_with(own));
            PANICS.fetch_add(usize::from(own), Ordering::SeqCst);
            usual(info);
        }));
    });
}

fn runtime<T>(run: impl FnOnce(&tokio::runtime::Runtime) -> T) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(run)
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime(|runtime| {
        let limited = async { tokio::time::timeout(LIMIT, future).await };
        runtime.block_on(limited).expect("nothing answers")
    })
}

/// One batch; with `producer`, an idempotent one with this epoch and first sequence.
pub fn batch(now: TimestampMs, producer: Option<(ProducerId, i16, i32)>, values: &[String]) -> bytes::Bytes {
    let mut builder = BatchBuilder::new();
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, ProducerEpoch(epoch), sequence);
    }
    for value in values {
        builder.append(now, Some(value.as_bytes()), Some(value.as_bytes()), &[]);
    }
    bytes::Bytes::from(builder.build().expect("a batch"))
}

/// Whether a record may be acknowledged, after everything that was asked for was synced.
pub fn settled(commit: Commit) -> bool {
    match commit {
        Commit::Done => true,
        Commit::Waiting(mut receiver) => match receiver.try_recv() {
            Ok(result) => result.is_ok(),
            Err(tokio::sync::oneshot::error::TryRecvError::Closed) => false,
            Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {
                panic!("everything was synced, and a reply still waits")
            }
        },
    }
}

/// A record that a consumer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub offset: i64,
    pub epoch: i32,
    pub value: String,
}

/// Everything that consumers of a partition see, from its log start on.
pub fn read_all(partition: &Partition) -> Result<Vec<Seen>, String> {
    let positions = partition.positions();
    let mut seen = Vec::new();
    let mut next = positions.log_start;
    while next < positions.high_watermark {
        let from = next;
        let read = partition.read(from, 1 << 16, true, Isolation::ReadUncommitted).map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        for chunk in &read.reading.chunks {
            match chunk {
                ReadChunk::Bytes(part) => bytes.extend_from_slice(part),
                ReadChunk::Slice(slice) => bytes.extend_from_slice(&slice.read().map_err(|e| e.to_string())?),
            }
        }
        next = parse(&bytes, positions.log_start, &mut seen)?.unwrap_or(from);
        if next == from {
            return Err(format!("nothing can be read at {from} below {positions:?}"));
        }
    }
    Ok(seen)
}

fn parse(bytes: &[u8], log_start: Offset, seen: &mut Vec<Seen>) -> Result<Option<Offset>, String> {
    let mut next = None;
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        if !batch.crc_is_valid() {
            return Err(format!("the batch at {} has a wrong checksum", batch.header().base_offset));
        }
        let mut scratch = Vec::new();
        for record in batch.records(&mut scratch, 1 << 20).map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            if record.offset >= log_start {
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                seen.push(Seen { offset: record.offset.0, epoch: batch.header().leader_epoch.0, value });
            }
        }
        next = Some(batch.header().last_offset().plus(1));
    }
    Ok(next)
}
