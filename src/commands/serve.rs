//! `mainstem serve`: runs a node until a signal ends it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use mainstem_env::{Signal, Worker};
use mainstem_server::settings::{Arguments, Settings};
use mainstem_server::{RunningServer, TrafficLog, logging, read_config};
use tokio::sync::oneshot;

use crate::cluster::COMMAND_VARIABLES;
use crate::interrupt::Interrupt;
use crate::{node, process};

/// Where a node listens when nothing says so: not reachable from other machines.
const LISTENERS_DEFAULT: &str = "PLAINTEXT://127.0.0.1:9092";
const DATA_DIR_DEFAULT: &str = "./mainstem-data";
/// How often the log tells what went through, at level debug.
const TRAFFIC_INTERVAL: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  mainstem serve
  mainstem serve --data-dir /var/lib/mainstem --listen 0.0.0.0:9092 \\
      --set advertised.listeners=PLAINTEXT://my-host:9092
  mainstem serve --config server.toml --set mainstem.durability=disk
  mainstem serve --data-dir /var/lib/kafka      continues the folder of a stopped one-node Kafka

Output: version, addresses, data folder, durability, what recovery did. The last line is `ready`.

Exit codes:
  0  an orderly stop
  1  the start failed, or a second signal cut the stop short; the last line on standard error says why
  2  the command line is wrong";

/// Run a broker.
///
/// Settings have Kafka's names; those that only Mainstem has begin with `mainstem.`. A setting comes from the first of
/// these that has it: the command line; an environment variable (MAINSTEM_ and the key in capitals with underscores,
/// for example MAINSTEM_LOG_RETENTION_HOURS); the configuration file; the defaults.
///
/// The first SIGTERM or SIGINT stops the broker in order, the second one at once. MAINSTEM_LOG sets the log level, for
/// example MAINSTEM_LOG=debug. The log goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// A configuration file: TOML, or a Kafka file that ends in .properties
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder that holds all data (log.dirs) [default: ./mainstem-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// The address to listen on; port 0 takes any free port (listeners) [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// One setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How long an orderly stop waits for requests in flight, in seconds (mainstem.grace.ms) [default: 10]
    #[arg(long, value_name = "SECONDS")]
    grace: Option<u32>,
    /// End at once, without order, when this process ends, which is the one that started it
    #[arg(long, value_name = "PID", hide = true)]
    end_with: Option<u32>,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        // First of all: the kernel drops signals to the first process of a container that it does not handle.
        let signals = Signals::watch()?;
        self.end_with.map_or(Ok(()), process::end_with_parent)?;
        logging::start().with_context(|| format!("{} is not a valid log filter", logging::FILTER_VARIABLE))?;
        let config = read_config(&self.settings()?)?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        say(concat!("mainstem ", env!("CARGO_PKG_VERSION")));
        let server = match node::start(config, Arc::clone(&signals.stop)) {
            Err(error) if node::is_stopped(&error) => {
                tracing::info!("stopped: {error}");
                return Ok(());
            }
            started => started?,
        };
        for line in server.report() {
            say(line);
        }
        if !signals.stop.is_stopped() {
            say("ready");
        }
        serve_until(&signals.stop, &server);
        let drained = server.stop();
        tracing::info!(
            "stopped: closed {} connections, {} of them after the grace period; closed all logs",
            drained.connections,
            drained.cut
        );
        Ok(())
    }

    fn settings(self) -> anyhow::Result<Settings> {
        let mut set = self.set;
        set.extend(self.grace.map(|seconds| format!("mainstem.grace.ms={}", u64::from(seconds) * 1000)));
        let arguments = Arguments { config: self.config, data_dir: self.data_dir, listen: self.listen, set };
        // Variables that are not text can be no settings of ours.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| !COMMAND_VARIABLES.contains(&name.as_str()));
        let mut settings = Settings::collect(&arguments, environment, mainstem_server::setting_names())?;
        settings.set_default("listeners", LISTENERS_DEFAULT);
        if settings.get("log.dir").is_none() {
            settings.set_default("log.dirs", DATA_DIR_DEFAULT);
        }
        Ok(settings)
    }
}

/// A line on standard output. A broker does not end because nobody reads it.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Hears of SIGTERM and SIGINT as long as it lives.
struct Signals {
    /// Stopped by the first signal. A second one ends the process.
    stop: Arc<Signal>,
    quit: Option<oneshot::Sender<()>>,
    thread: Worker,
}

impl Signals {
    fn watch() -> anyhow::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let mut interrupt = {
            let _context = runtime.enter();
            Interrupt::watch()?
        };
        let stop = Arc::new(Signal::default());
        let (quit, mut quitted) = oneshot::channel();
        let asked = Arc::clone(&stop);
        let listen = async move {
            loop {
                let name = tokio::select! {
                    name = interrupt.next() => name,
                    _ = &mut quitted => return,
                };
                if asked.is_stopped() {
                    tracing::warn!(
                        "second signal {name}: the process ends at once; the next start will check the logs"
                    );
                    std::process::exit(1);
                }
                tracing::info!("{name}: stopping");
                asked.stop();
            }
        };
        let thread = Worker::start("signals", move |_| runtime.block_on(listen)).context("signals have no thread")?;
        Ok(Signals { stop, quit: Some(quit), thread })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.quit.take();
        self.thread.join();
    }
}

/// Waits until the stop is asked for. Each minute the log tells what went through.
fn serve_until(stop: &Signal, server: &RunningServer) {
    let mut traffic = TrafficLog::default();
    while !stop.wait(TRAFFIC_INTERVAL) {
        traffic.look(server.totals());
    }
}
