//! `mainstem serve`: runs a node until a signal ends it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use mainstem_server::settings::{Arguments, Settings};
use mainstem_server::{RunningServer, TrafficLog, logging, read_config};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::COMMAND_VARIABLES;
use crate::{node, process};

/// Where a node listens when nothing says so: not reachable from other machines.
const LISTENERS_DEFAULT: &str = "PLAINTEXT://127.0.0.1:9092";
const DATA_DIR_DEFAULT: &str = "./mainstem-data";
/// When all that runs now and then has run once: the slowest of it looks at the clock each second.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
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
        self.end_with.map_or(Ok(()), process::end_with_parent)?;
        logging::start().with_context(|| format!("{} is not a valid log filter", logging::FILTER_VARIABLE))?;
        let config = read_config(&self.settings()?)?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        say(concat!("mainstem ", env!("CARGO_PKG_VERSION")));
        let server = node::start(config)?;
        for line in server.report() {
            say(line);
        }
        let signals = watch_signals(&server)?;
        say("ready");
        stop_at_signal(server, &signals)
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

/// Hears of SIGTERM and SIGINT from now on.
fn watch_signals(server: &RunningServer) -> anyhow::Result<mpsc::Receiver<&'static str>> {
    let (sender, receiver) = mpsc::channel();
    let _context = server.runtime().enter();
    for (kind, name) in [(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT")] {
        let mut signals = signal(kind).with_context(|| format!("cannot handle {name}"))?;
        let sender = sender.clone();
        server.runtime().spawn(async move { while signals.recv().await.is_some() && sender.send(name).is_ok() {} });
    }
    Ok(receiver)
}

/// Waits for a signal. What the start alone needed of the program is given back before that, and once more when every thread has run.
/// Each minute the log tells what went through.
fn wait_for_signal(server: &RunningServer, signals: &mpsc::Receiver<&'static str>) -> anyhow::Result<&'static str> {
    mainstem_env::give_back_program_pages();
    let mut traffic = TrafficLog::default();
    let mut wait = SETTLED_AFTER;
    loop {
        match signals.recv_timeout(wait) {
            Err(mpsc::RecvTimeoutError::Timeout) if wait == SETTLED_AFTER => {
                mainstem_env::give_back_program_pages();
                wait = TRAFFIC_INTERVAL;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => traffic.look(server.totals()),
            received => return received.context("the reactors ended unexpectedly"),
        }
    }
}

fn stop_at_signal(server: RunningServer, signals: &mpsc::Receiver<&'static str>) -> anyhow::Result<()> {
    let name = wait_for_signal(&server, signals)?;
    tracing::info!("{name}: stopping");
    let (stopped, done) = mpsc::channel();
    let stopping = std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
        let drained = server.stop();
        // Nobody waits any more when a second signal came.
        let _ = stopped.send(drained);
    })?;
    loop {
        match done.recv_timeout(Duration::from_millis(20)) {
            Ok(drained) => {
                tracing::info!(
                    "stopped: closed {} connections, {} of them after the grace period; closed all logs",
                    drained.connections,
                    drained.cut
                );
                return Ok(());
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                // A thread that panicked has said so itself.
                let _ = stopping.join();
                anyhow::bail!("the stop failed; the next start will check the logs");
            }
        }
        if let Ok(name) = signals.try_recv() {
            tracing::warn!("second signal {name}: the process ends at once; the next start will check the logs");
            std::process::exit(1);
        }
    }
}
