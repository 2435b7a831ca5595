//! A broker in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mainstem_broker::Broker;
use mainstem_door::ConnectionInfo;
use mainstem_env::{Clock, ManualClock, MemFs, RealClock, SeededRng};
use mainstem_kafka::{Connection, Door};
use mainstem_kafka_wire::Message;
use mainstem_metadata::config::BrokerConfig;
use mainstem_store::StoreEnv;
use mainstem_types::{TimestampMs, TopicId};
use tokio::runtime::Runtime;

use super::link::Link;
use super::requests::create_topic;

/// What the wall clock of a node shows at its first start, in milliseconds.
pub const START_MS: i64 = 1_790_000_000_000;

/// Settings of all nodes here; a test's own come on top.
const SETTINGS: &[(&str, &str)] = &[
    ("node.id", "1"),
    ("advertised.listeners", "PLAINTEXT://127.0.0.1:19092"),
    ("offsets.topic.num.partitions", "3"),
    ("group.initial.rebalance.delay.ms", "0"),
];

enum Time {
    Manual(Arc<ManualClock>),
    Real(Arc<RealClock>),
}

impl Time {
    fn manual() -> Time {
        Time::Manual(Arc::new(ManualClock::at(TimestampMs(START_MS))))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Time::Manual(clock) => clock.clone(),
            Time::Real(clock) => clock.clone(),
        }
    }
}

pub struct Node {
    pub door: Arc<Door>,
    pub runtime: Arc<Runtime>,
    env: Arc<StoreEnv>,
    fs: MemFs,
    time: Time,
    settings: BTreeMap<String, String>,
}

impl Node {
    /// With a clock that stands still.
    pub fn start(settings: &[(&str, &str)]) -> Node {
        Self::launch(MemFs::new(), Time::manual(), &all(settings), 1)
    }

    /// With a clock that stands still, and a disk to which nothing is synced before [`flush`](Self::flush).
    pub fn start_without_flushes(settings: &[(&str, &str)]) -> Node {
        Self::launch(MemFs::new(), Time::manual(), &all(settings), 0)
    }

    /// With the clock of the machine, for what waits for timers.
    pub fn start_in_real_time(settings: &[(&str, &str)]) -> Node {
        Self::launch(MemFs::new(), Time::Real(Arc::new(RealClock::new())), &all(settings), 1)
    }

    fn launch(fs: MemFs, time: Time, settings: &BTreeMap<String, String>, flushers: usize) -> Node {
        let config = BrokerConfig::parse(settings).unwrap();
        let rng = Arc::new(SeededRng::new(1));
        let env = StoreEnv::new(Arc::new(fs.clone()), time.clock(), rng, 1 << 20, flushers).unwrap();
        let (broker, _) = Broker::start(Arc::clone(&env), Path::new("/data"), config).unwrap();
        let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
        Node { door: Arc::new(Door::new(broker)), runtime, env, fs, time, settings: settings.clone() }
    }

    /// An orderly stop, and a start on what is left.
    pub fn restart(self) -> Node {
        self.restart_with(&[])
    }

    /// As [`restart`](Self::restart), with settings changed.
    pub fn restart_with(self, settings: &[(&str, &str)]) -> Node {
        let clock = match &self.time {
            Time::Manual(clock) => Time::Manual(clock.clone()),
            Time::Real(clock) => Time::Real(clock.clone()),
        };
        let mut changed = self.settings.clone();
        changed.extend(settings.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        let fs = self.fs.clone();
        drop(self);
        Self::launch(fs, clock, &changed, 1)
    }

    pub fn broker(&self) -> &Broker {
        &self.door.broker
    }

    /// Syncs what was asked to be synced.
    pub fn flush(&self) {
        self.env.run_pending_flushes();
    }

    pub fn advance(&self, by: Duration) {
        match &self.time {
            Time::Manual(clock) => clock.advance(by),
            Time::Real(_) => panic!("the clock of this node is that of the machine"),
        }
    }

    pub fn connect(&self) -> Link {
        Link::door(self)
    }

    pub(super) fn connection(&self) -> Arc<Connection> {
        let peer = "127.0.0.1:50000".parse().unwrap();
        Arc::new(self.door.connection(ConnectionInfo { peer, listener: "PLAINTEXT".into() }))
    }

    /// Sends a request on a connection of its own and gives the answer.
    pub fn call<'q, Q: Message<'q>, R: Message<'static>>(&self, version: i16, request: &Q) -> R {
        self.connect().call(version, request)
    }

    pub fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> TopicId {
        create_topic(&mut self.connect(), name, partitions, configs)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.door.broker.shutdown();
    }
}

fn all(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    SETTINGS.iter().chain(settings).map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
