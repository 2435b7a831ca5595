//! The node of this release: Kafka's protocol on every listener, over the broker, on the real file system.

use std::path::Path;
use std::sync::Arc;

use mainstem_broker::{Broker, StoreEnv};
use mainstem_env::{RealClock, RealFs, RealRng, Signal};
use mainstem_kafka::{Door, Loggers};
use mainstem_metadata::config::BrokerConfig;
use mainstem_server::{Opened, RunningServer, Served, Server, Shares, StartError, logging};

/// The memory that the newest records of all logs together may take, beside the page cache.
const TAIL_CACHE_BYTES: usize = 64 << 20;

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Starts a node: binds, opens the data folder (`log.dirs`, which must be set), recovers, and begins to accept. A start
/// that `stop` ends early is an error that [`is_stopped`] tells from others.
pub fn start(config: BrokerConfig, stop: Arc<Signal>) -> Result<RunningServer, StartError> {
    Server::start_with(config, |config, _runtime| open(config, stop))
}

/// Whether a start ended because it was told to, in order.
pub fn is_stopped(error: &StartError) -> bool {
    let StartError::Open(error) = error else { return false };
    matches!(error.downcast_ref(), Some(mainstem_broker::StartError::Stopped))
}

fn open(config: BrokerConfig, stop: Arc<Signal>) -> Result<Opened, BoxedError> {
    let data_dir = config.log.data_dir.clone().ok_or("log.dirs is not set: name the data folder")?;
    let flush_threads = usize::try_from(config.threads.flush)?;
    let (fs, clock, rng) = (Arc::new(RealFs), Arc::new(RealClock::new()), Arc::new(RealRng));
    let env = StoreEnv::new(fs, clock, rng, TAIL_CACHE_BYTES, flush_threads)?;
    env.set_open_files_max(Shares::of_this_process().logs);
    env.set_stop(stop);
    let (broker, report) = Broker::start(env, Path::new(&data_dir), config)?;
    let kafka = Served::new(Arc::new(Door::new(Arc::clone(&broker)).with_loggers(loggers())));
    let watched = Arc::clone(&broker);
    Ok(Opened {
        protocol_of: Box::new(move |_listener| kafka.clone()),
        watch_config: Box::new(move |watcher| watched.watch_config(watcher)),
        report: report.lines,
        shutdown: Box::new(move || broker.shutdown()),
    })
}

/// The loggers of this process as clients see and change them.
fn loggers() -> Loggers {
    Loggers::new(&logging::LOGGERS, logging::levels(), Box::new(logging::set_levels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_metadata::controller::{AlterConfigOp, AlterConfigOperation};

    #[test]
    fn a_level_that_is_changed_holds_at_once() {
        logging::start().unwrap();
        let loggers = loggers();
        let set = |name: &str, level: &str| {
            let value = Some(level.to_owned());
            let operation = AlterConfigOp { key: name.to_owned(), operation: AlterConfigOperation::Set, value };
            loggers.change(&[operation], false).unwrap();
        };
        let store = || tracing::enabled!(target: "mainstem_store::flush", tracing::Level::TRACE);
        let kafka = || tracing::enabled!(target: "mainstem_kafka", tracing::Level::INFO);
        set("root", "WARN");
        assert_eq!((store(), kafka()), (false, false));
        set("mainstem_store", "TRACE");
        assert_eq!((store(), kafka()), (true, false));
        set("mainstem", "INFO");
        assert_eq!((store(), kafka()), (true, false), "a name is no prefix of another crate's");
        set("root", "INFO");
        assert_eq!((store(), kafka()), (true, true));
    }
}
