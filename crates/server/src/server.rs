//! The server: listeners and reactors around one door.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::connection::Shared;
use crate::counters::Totals;
use crate::limits::{Budget, ConnectionLimits};
use crate::listener::{BoundListener, Dispatcher, Listen, ListenError, accept};
use crate::log_limit::LogLimit;
use crate::protocol::Protocol;
use crate::reactor::Reactor;
use crate::stop::Phase;

/// How long connections have to notice that they must end.
const END_WAIT: Duration = Duration::from_secs(1);

/// What the server itself needs to know of the configuration.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub listeners: Vec<Listen>,
    /// `num.network.threads`.
    pub reactors: usize,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: usize,
    /// `queued.max.request.bytes`: bytes of requests above 64 KiB that are in flight over all connections.
    pub requests_in_flight_bytes_max: u64,
    /// `max.connections`.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `connections.max.idle.ms`.
    pub idle: Duration,
}

impl ServerConfig {
    /// Kafka's defaults, one reactor for each core, and 256 MiB of requests in flight (Kafka has no limit by default).
    pub fn new(listeners: Vec<Listen>) -> Self {
        ServerConfig {
            listeners,
            reactors: std::thread::available_parallelism().map_or(1, usize::from),
            request_bytes_max: 100 << 20,
            requests_in_flight_bytes_max: 256 << 20,
            connections_max: usize::MAX,
            connections_per_ip_max: usize::MAX,
            idle: Duration::from_secs(600),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("a reactor cannot be started: {0}")]
    Reactor(io::Error),
}

/// Sockets that are bound and reactors that run, but nothing is accepted yet. Connection attempts wait in the kernel.
#[derive(Debug)]
pub struct BoundServer {
    config: ServerConfig,
    listeners: Vec<BoundListener>,
    reactors: Vec<Reactor>,
}

impl BoundServer {
    /// Binds all listeners and starts the reactors.
    pub fn bind(config: ServerConfig) -> Result<BoundServer, StartError> {
        let listeners = config.listeners.iter().map(BoundListener::bind).collect::<Result<Vec<_>, _>>()?;
        let reactors = (0..config.reactors.max(1)).map(Reactor::start).collect::<io::Result<Vec<_>>>().map_err(StartError::Reactor)?;
        Ok(BoundServer { config, listeners, reactors })
    }

    /// Names and real addresses of the listeners.
    pub fn addresses(&self) -> Vec<(Arc<str>, SocketAddr)> {
        self.listeners.iter().map(|listener| (Arc::clone(&listener.name), listener.address)).collect()
    }

    /// A runtime for tasks that belong to no connection. It lives as long as the server.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.reactors[0].handle
    }

    /// Begins to accept connections for `protocol`.
    pub fn serve<P: Protocol>(self, protocol: Arc<P>) -> RunningServer {
        let addresses = self.addresses();
        let limits = ConnectionLimits::new(self.config.connections_max, self.config.connections_per_ip_max);
        let shared = Arc::new(Shared {
            protocol: Arc::clone(&protocol),
            frame_bytes_max: self.config.request_bytes_max,
            idle: self.config.idle,
            budget: Budget::new(self.config.requests_in_flight_bytes_max),
            log_limit: LogLimit::new(),
        });
        let dispatcher = Arc::new(Dispatcher {
            reactors: self.reactors.iter().map(|reactor| (reactor.handle.clone(), Arc::clone(&reactor.state))).collect(),
            next: AtomicUsize::new(0),
            limits: Arc::clone(&limits),
            shared,
        });
        for (number, listener) in self.listeners.into_iter().enumerate() {
            let reactor = &self.reactors[number % self.reactors.len()];
            reactor.handle.spawn(accept(listener, Arc::clone(&reactor.state), Arc::clone(&dispatcher)));
        }
        RunningServer { addresses, limits, reactors: self.reactors, drain: Box::new(move || protocol.drain()) }
    }
}

/// A server that accepts connections. Dropping it ends all of them at once.
pub struct RunningServer {
    addresses: Vec<(Arc<str>, SocketAddr)>,
    limits: Arc<ConnectionLimits>,
    reactors: Vec<Reactor>,
    drain: Box<dyn Fn() + Send>,
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningServer").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl RunningServer {
    /// Names and real addresses of the listeners.
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        &self.addresses
    }

    /// What was counted up to now.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for reactor in &self.reactors {
            totals.add(&reactor.state.counters);
        }
        totals
    }

    /// A runtime for tasks that belong to no connection. It lives as long as the server.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.reactors[0].handle
    }

    /// Stops accepting and handling requests, answers those that were taken (a long poll gets a second), and closes the
    /// connections; those that are not done after `grace` are cut. Blocks until none is left. The reactors go on running,
    /// for what the broker has to do at its end, until the server is dropped.
    pub fn drain(&self, grace: Duration) -> Drained {
        let deadline = Instant::now() + grace;
        let connections = self.limits.open();
        self.enter(Phase::Draining);
        (self.drain)();
        if self.limits.wait_until_none(deadline) {
            return Drained { connections, cut: 0 };
        }
        let cut = self.limits.open();
        self.enter(Phase::Ended);
        self.limits.wait_until_none(Instant::now() + END_WAIT);
        Drained { connections, cut }
    }

    /// [`drain`](Self::drain), and the end of the reactors.
    pub fn stop(self, grace: Duration) -> Drained {
        self.drain(grace)
    }

    fn enter(&self, phase: Phase) {
        for reactor in &self.reactors {
            reactor.state.enter(phase);
        }
    }
}

/// How an orderly stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were open when it began.
    pub connections: usize,
    /// Connections that had to be cut.
    pub cut: usize,
}
