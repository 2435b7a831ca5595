//! A broker in memory, whose clock stands still, behind its door.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_broker::Broker;
use mainstem_door::{ConnectionInfo, Handled, Promise, Reply};
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_kafka::{Connection, Door};
use mainstem_metadata::config::BrokerConfig;
use mainstem_store::StoreEnv;
use mainstem_types::TimestampMs;
use tokio::runtime::{Builder, Runtime};

pub const DATA_DIR: &str = "/data";
const START_MS: i64 = 1_790_000_000_000;
const TAIL_CACHE_BYTES: usize = 1 << 20;

const SETTINGS: &[(&str, &str)] = &[
    ("node.id", "1"),
    ("listeners", "PLAINTEXT://127.0.0.1:19092"),
    ("offsets.topic.num.partitions", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("num.io.threads", "1"),
];

/// Long enough for another thread of the broker to do what it was asked to.
const MOMENT: Duration = Duration::from_millis(1);

pub struct Node {
    door: Arc<Door>,
    connection: Arc<Connection>,
    runtime: Runtime,
    waiting: Vec<Promise<Reply>>,
}

impl Node {
    /// `None`: the broker refuses what is in the folder.
    pub fn start(fs: &MemFs) -> Option<Node> {
        let properties: BTreeMap<_, _> = SETTINGS.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        // reason: these settings are good.
        let config = BrokerConfig::parse(&properties).expect("good settings");
        let clock = Arc::new(ManualClock::at(TimestampMs(START_MS)));
        let rng = Arc::new(SeededRng::new(1));
        let env = StoreEnv::new(Arc::new(fs.clone()), clock, rng, TAIL_CACHE_BYTES, 1).ok()?;
        let (broker, _) = Broker::start(env, Path::new(DATA_DIR), config).ok()?;
        let door = Arc::new(Door::new(broker));
        // reason: an address that is written well.
        let peer = "127.0.0.1:50000".parse().expect("an address");
        let connection = Arc::new(door.connection(ConnectionInfo { peer, listener: "PLAINTEXT".into() }));
        // reason: a machine that cannot make a runtime cannot fuzz.
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Some(Node { door, connection, runtime, waiting: Vec::new() })
    }

    /// Handles a frame. With `wait` its reply is waited for, else only for a moment; then it is `None`, and comes with
    /// [`Node::stop`].
    pub fn handle(&mut self, frame: Bytes, wait: bool) -> Option<Reply> {
        let _entered = self.runtime.enter();
        let mut promise: Promise<Reply> = match self.door.handle(&self.connection, frame) {
            Handled::Ready(reply) => return Some(reply),
            promised => Box::pin(promised.reply()),
        };
        if wait {
            return Some(self.runtime.block_on(promise));
        }
        let soon = self.runtime.block_on(async { tokio::time::timeout(MOMENT, promise.as_mut()).await });
        if soon.is_err() {
            self.waiting.push(promise);
        }
        soon.ok()
    }

    /// An orderly stop. Gives the replies that were waited for: all of them end.
    pub fn stop(self) -> Vec<Reply> {
        self.door.drain();
        self.door.broker.shutdown();
        self.waiting.into_iter().map(|promise| self.runtime.block_on(promise)).collect()
    }
}
