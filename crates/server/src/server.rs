//! A whole node from its configuration: binds, opens its data, accepts, and ends in the opposite order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainstem_metadata::config::{BrokerConfig, Listener};

use crate::counters::Totals;
use crate::descriptors::Shares;
use crate::front::{BoundFront, Drained, FrontConfig, FrontError, RunningFront};
use crate::hosts::HostLimits;
use crate::listener::{Listen, SocketOptions};
use crate::served::Served;
use crate::traffic::Traffic;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Front(#[from] FrontError),
    #[error(
        "listener {listener}: it listens on every interface, and this machine has no host name to advertise: set advertised.listeners"
    )]
    NothingToAdvertise { listener: String },
    #[error(transparent)]
    Open(Box<dyn std::error::Error + Send + Sync>),
}

/// Is told the settings whenever they change. Must not wait.
pub type ConfigWatcher = Box<dyn Fn(&BrokerConfig) + Send + Sync>;

/// The parts that are served, and how they end.
pub struct Opened {
    /// The protocol of each listener, by the listener's name.
    pub protocol_of: Box<dyn Fn(&str) -> Served>,
    /// Called once: has the watcher told the settings as they are now, and again whenever they change.
    pub watch_config: Box<dyn FnOnce(ConfigWatcher)>,
    /// The start's findings, checks and repairs, one line each, for people.
    pub report: Vec<String>,
    /// Called once, after the last connection ended, on the thread that stops the server: closes the logs.
    pub shutdown: Box<dyn FnOnce() + Send>,
}

/// Starts nodes.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Binds the listeners, calls `open` with the configuration whose `advertised_listeners` are complete (real ports,
    /// no empty hosts) and the runtime for background tasks, and begins to accept.
    pub fn start_with(
        mut config: BrokerConfig,
        open: impl FnOnce(BrokerConfig, &tokio::runtime::Handle) -> Result<Opened, Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<RunningServer, StartError> {
        let grace = Duration::from_millis(config.connections.grace_ms.max(0) as u64);
        let hosts = HostLimits::default();
        let front = BoundFront::bind(front_config(&config, &hosts))?;
        let advertised = advertised(&config.advertised_listeners, &front.addresses())?;
        config.advertise(advertised.clone());
        let mut report = start_report(&config, &front.addresses());
        let opened = open(config, front.runtime()).map_err(StartError::Open)?;
        report.extend(opened.report);
        let front = front.serve_each(opened.protocol_of);
        let changing = front.changing();
        (opened.watch_config)(Box::new(move |config| changing.apply(&front_config(config, &hosts))));
        Ok(RunningServer { front, shutdown: opened.shutdown, advertised, report, grace })
    }
}

/// A node that serves clients. Dropping it ends the connections, but closes no log: use [`stop`](Self::stop).
pub struct RunningServer {
    front: RunningFront,
    shutdown: Box<dyn FnOnce() + Send>,
    advertised: Vec<Listener>,
    report: Vec<String>,
    grace: Duration,
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningServer").field("front", &self.front).finish_non_exhaustive()
    }
}

impl RunningServer {
    /// Names and bound addresses of the listeners.
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        self.front.addresses()
    }

    /// What clients are told, in the order of the listeners.
    pub fn advertised(&self) -> &[Listener] {
        &self.advertised
    }

    /// The result of the start, one line each, for people: addresses, data folder, durability, recovery.
    pub fn report(&self) -> &[String] {
        &self.report
    }

    pub fn totals(&self) -> Totals {
        self.front.totals()
    }

    #[cfg(test)]
    fn reactors_with_connections(&self) -> usize {
        self.front.reactors_with_connections()
    }

    /// A runtime for tasks that belong to no connection. It lives as long as the server.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        self.front.runtime()
    }

    /// An orderly stop within the grace of the configuration (`mainstem.grace.ms`).
    pub fn stop(self) -> Drained {
        let grace = self.grace;
        self.stop_within(grace)
    }

    /// An orderly stop: answers or ends the requests under way within `grace`, closes the logs, ends the reactors.
    pub fn stop_within(self, grace: Duration) -> Drained {
        let drained = self.front.drain(grace);
        tracing::info!("since the start: {}", Traffic(self.front.totals()));
        (self.shutdown)();
        drained
    }
}

fn start_report(config: &BrokerConfig, bound: &[(Arc<str>, SocketAddr)]) -> Vec<String> {
    let mut lines = Vec::new();
    for ((name, address), told) in bound.iter().zip(&config.advertised_listeners) {
        let told = if told.host.contains(':') {
            format!("[{}]:{}", told.host, told.port)
        } else {
            format!("{}:{}", told.host, told.port)
        };
        let told = if told == address.to_string() { String::new() } else { format!(", clients are told {told}") };
        lines.push(format!("listening on {address} ({name}){told}"));
    }
    if let Some(folder) = &config.log.data_dir {
        let full = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
        lines.push(format!("data folder {}", full.display()));
    }
    let durability = config.log.topic_defaults.durability.applied_to("", config);
    lines.push(format!("durability {} (default of topics): {}", durability.name(), durability.exposure()));
    lines
}

/// The part of the configuration that the front needs.
pub(crate) fn front_config(config: &BrokerConfig, hosts: &HostLimits) -> FrontConfig {
    let listeners = config.listeners.iter().map(|listener| Listen {
        name: listener.name.as_str().into(),
        host: listener.host.clone(),
        port: listener.port,
    });
    let connections = &config.connections;
    let defaults = FrontConfig::new(listeners.collect());
    let size = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
    let budget = if connections.queued_max_request_bytes > 0 {
        connections.queued_max_request_bytes
    } else {
        connections.buffer_max_bytes
    };
    FrontConfig {
        reactors: config.threads.network.map_or(defaults.reactors, |threads| size(threads.into())),
        requests_in_flight_bytes_max: u64::try_from(budget).unwrap_or(u64::MAX),
        connections_max: size(connections.max.into()).min(Shares::of_this_process().connections),
        connections_per_ip_max: size(connections.max_per_ip.into()),
        connections_per_ip_overrides: hosts.by_address(&connections.max_per_ip_overrides),
        idle: u64::try_from(connections.max_idle_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis),
        pipelined_requests_max: size(connections.requests_max.into()),
        output_bytes_max: size(connections.output_max_bytes),
        sockets: socket_options(config, &defaults.sockets),
        ..defaults
    }
}

/// Kafka's default buffers of 100 KiB and backlog of 50 are too small for a fast network: they apply only where they
/// are set.
fn socket_options(config: &BrokerConfig, defaults: &SocketOptions) -> SocketOptions {
    let connections = &config.connections;
    let set = |key: &str, bytes: i32| usize::try_from(bytes).ok().filter(|bytes| *bytes > 0 && config.is_set(key));
    SocketOptions {
        backlog: if config.is_set("socket.listen.backlog.size") {
            connections.listen_backlog
        } else {
            defaults.backlog
        },
        receive_buffer_bytes: set("socket.receive.buffer.bytes", connections.receive_buffer_bytes),
        send_buffer_bytes: set("socket.send.buffer.bytes", connections.send_buffer_bytes),
    }
}

/// Completes what clients are told: the bound port for port 0, the machine's name for "every interface".
fn advertised(wanted: &[Listener], bound: &[(Arc<str>, SocketAddr)]) -> Result<Vec<Listener>, StartError> {
    let complete = |listener: &Listener| {
        let mut listener = listener.clone();
        if let Some((_, address)) =
            bound.iter().find(|(name, _)| **name == *listener.name).filter(|_| listener.port == 0)
        {
            listener.port = address.port();
        }
        if matches!(listener.host.as_str(), "" | "0.0.0.0" | "::") {
            let nothing = || StartError::NothingToAdvertise { listener: listener.name.clone() };
            listener.host = host_name().ok_or_else(nothing)?;
            tracing::info!(
                "listener {}: advertising the address {}; set advertised.listeners to change it",
                listener.name,
                listener.host
            );
        }
        Ok(listener)
    };
    wanted.iter().map(complete).collect()
}

fn host_name() -> Option<String> {
    let system = rustix::system::uname();
    system.nodename().to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
