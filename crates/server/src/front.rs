//! The front of a server: listeners and reactors around one door.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::connection::{ReplyBytes, Shared};
use crate::counters::Totals;
use crate::limits::{Budget, ConnectionLimits};
use crate::listener::{BoundListener, Dispatcher, Listen, ListenError, SocketOptions, accept};
use crate::log_limit::LogLimit;
use crate::protocol::Protocol;
use crate::reactor::Reactor;
use crate::stop::Phase;

/// How long connections have to notice that they must end.
const END_WAIT: Duration = Duration::from_secs(1);

/// What the server itself needs to know of the configuration.
#[derive(Debug, Clone)]
pub struct FrontConfig {
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
    /// `max.connections.per.ip.overrides`.
    pub connections_per_ip_overrides: HashMap<IpAddr, usize>,
    /// `connections.max.idle.ms`; `None`: a connection is never closed for idleness.
    pub idle: Option<Duration>,
    /// `mainstem.connection.requests.max`: pipelined requests of one connection that wait for their replies.
    pub pipelined_requests_max: usize,
    /// `mainstem.connection.output.max.bytes`: replies in memory past which no further request is handled.
    pub output_bytes_max: usize,
    /// Replies in memory over all connections, past which those go whose clients do not take them.
    pub all_output_bytes_max: u64,
    pub sockets: SocketOptions,
}

impl FrontConfig {
    /// Kafka's defaults, one reactor for each core, and 256 MiB of requests in flight (Kafka has no limit by default).
    pub fn new(listeners: Vec<Listen>) -> Self {
        FrontConfig {
            listeners,
            reactors: std::thread::available_parallelism().map_or(1, usize::from),
            request_bytes_max: 100 << 20,
            requests_in_flight_bytes_max: 256 << 20,
            connections_max: usize::MAX,
            connections_per_ip_max: usize::MAX,
            connections_per_ip_overrides: HashMap::new(),
            idle: Some(Duration::from_secs(600)),
            pipelined_requests_max: 64,
            output_bytes_max: 16 << 20,
            all_output_bytes_max: 256 << 20,
            sockets: SocketOptions::default(),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("a reactor cannot be started: {0}")]
    Reactor(io::Error),
}

/// Sockets that are bound and reactors that run, but nothing is accepted yet. Connection attempts wait in the kernel.
#[derive(Debug)]
pub struct BoundFront {
    config: FrontConfig,
    listeners: Vec<BoundListener>,
    reactors: Vec<Reactor>,
}

impl BoundFront {
    /// Binds all listeners and starts the reactors.
    pub fn bind(config: FrontConfig) -> Result<BoundFront, FrontError> {
        let listeners = config
            .listeners
            .iter()
            .map(|listen| BoundListener::bind(listen, &config.sockets))
            .collect::<Result<Vec<_>, _>>()?;
        let reactors = (0..config.reactors.max(1))
            .map(Reactor::start)
            .collect::<io::Result<Vec<_>>>()
            .map_err(FrontError::Reactor)?;
        Ok(BoundFront { config, listeners, reactors })
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
    pub fn serve<P: Protocol>(self, protocol: Arc<P>) -> RunningFront {
        let addresses = self.addresses();
        let config = self.config;
        let limits = ConnectionLimits::new(
            config.connections_max,
            config.connections_per_ip_max,
            config.connections_per_ip_overrides,
        );
        let shared = Arc::new(Shared {
            protocol: Arc::clone(&protocol),
            frame_bytes_max: config.request_bytes_max,
            idle: config.idle,
            pipelined_requests_max: config.pipelined_requests_max.max(1),
            output_bytes_max: config.output_bytes_max,
            budget: Budget::new(config.requests_in_flight_bytes_max),
            reply_bytes: ReplyBytes::new(config.all_output_bytes_max),
            log_limit: LogLimit::new(),
        });
        let dispatcher = Arc::new(Dispatcher {
            reactors: self
                .reactors
                .iter()
                .map(|reactor| (reactor.handle.clone(), Arc::clone(&reactor.state)))
                .collect(),
            next: AtomicUsize::new(0),
            limits: Arc::clone(&limits),
            sockets: config.sockets,
            shared,
        });
        for (number, listener) in self.listeners.into_iter().enumerate() {
            let reactor = &self.reactors[number % self.reactors.len()];
            reactor.handle.spawn(accept(listener, Arc::clone(&reactor.state), Arc::clone(&dispatcher)));
        }
        RunningFront { addresses, limits, reactors: self.reactors, drain: Box::new(move || protocol.drain()) }
    }
}

/// A server that accepts connections. Dropping it ends all of them at once.
pub struct RunningFront {
    addresses: Vec<(Arc<str>, SocketAddr)>,
    limits: Arc<ConnectionLimits>,
    reactors: Vec<Reactor>,
    drain: Box<dyn Fn() + Send>,
}

impl std::fmt::Debug for RunningFront {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningFront").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl RunningFront {
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
