//! The node of this release: Kafka's door over the broker, on the real file system.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::{Broker, StoreEnv};
use mainstem_env::{RealClock, RealFs, RealRng};
use mainstem_kafka::Door;
use mainstem_metadata::config::BrokerConfig;

use crate::descriptors::Shares;
use crate::logging;
use crate::protocol::{ConfigWatcher, ConnectionInfo, Handled, Protocol};
use crate::server::{Opened, RunningServer, Server, StartError};

/// The memory that the newest records of all logs together may take, beside the page cache.
const TAIL_CACHE_BYTES: usize = 64 << 20;

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl Server {
    /// Starts a node: binds, opens the data folder (`log.data_dir`, which must be set), recovers, and begins to accept.
    pub fn start(config: BrokerConfig) -> Result<RunningServer, StartError> {
        Server::start_with(config, |config, _runtime| open(config))
    }
}

fn open(config: BrokerConfig) -> Result<Opened<Door>, BoxedError> {
    let data_dir = config.log.data_dir.clone().ok_or("log.dirs is not set: name the data folder")?;
    let flush_threads = usize::try_from(config.threads.flush)?;
    let (fs, clock, rng) = (Arc::new(RealFs), Arc::new(RealClock::new()), Arc::new(RealRng));
    let env = StoreEnv::new(fs, clock, rng, TAIL_CACHE_BYTES, flush_threads)?;
    env.set_open_files_max(Shares::of_this_process().logs);
    let (broker, report) = Broker::start(env, Path::new(&data_dir), config)?;
    let protocol = Arc::new(Door::new(Arc::clone(&broker)).with_loggers(logging::loggers()));
    Ok(Opened { protocol, report: report.lines, shutdown: Box::new(move || broker.shutdown()) })
}

impl Protocol for Door {
    type Connection = mainstem_kafka::Connection;

    fn connect(&self, info: ConnectionInfo) -> Self::Connection {
        self.connection(info)
    }

    fn handle(&self, connection: &mut Self::Connection, frame: Bytes) -> Handled {
        Door::handle(self, connection, frame)
    }

    fn may_pipeline(&self, frame: &[u8]) -> bool {
        mainstem_kafka::may_pipeline(frame)
    }

    fn watch_config(&self, watcher: ConfigWatcher) {
        self.broker.watch_config(watcher);
    }

    fn drain(&self) {
        Door::drain(self);
    }
}
