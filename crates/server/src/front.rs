//! The front of a server: listeners and reactors around the protocols that it serves.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicUsize;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mainstem_door::Protocol;
use parking_lot::{Mutex, RwLock};

use crate::connection::{ReplyBytes, SharedByConnections};
use crate::counters::Totals;
use crate::limits::{Budget, ConnectionLimits, ConnectionMaxima};
use crate::listener::{BoundListener, Dispatcher, Listen, ListenError, Reactors, SocketOptions, accept};
use crate::log_limit::LogLimit;
use crate::reactor::Reactor;
use crate::served::Served;
use crate::stop::{Phase, ReactorState};

/// How long connections have to notice that they must end.
const END_WAIT: Duration = Duration::from_secs(1);

/// The server's own part of the configuration.
#[derive(Debug, Clone)]
pub struct FrontConfig {
    pub listeners: Vec<Listen>,
    /// `num.network.threads`.
    pub reactors: usize,
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
    /// A frame above 64 KiB has this long, and a second more for each 16 KiB, to arrive once its budget is claimed. A
    /// client that trickles cannot hold the budget.
    pub large_frame_grace: Duration,
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
            requests_in_flight_bytes_max: 256 << 20,
            connections_max: usize::MAX,
            connections_per_ip_max: usize::MAX,
            connections_per_ip_overrides: HashMap::new(),
            idle: Some(Duration::from_secs(600)),
            large_frame_grace: Duration::from_secs(30),
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
    #[error("cannot start a reactor: {0}")]
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

    /// Begins to accept connections, which all speak `protocol`.
    pub fn serve<P: Protocol>(self, protocol: Arc<P>) -> RunningFront {
        let served = Served::new(protocol);
        self.serve_each(|_| served.clone())
    }

    /// Begins to accept connections. `protocol_of` gives the protocol of a listener by its name.
    pub fn serve_each(self, protocol_of: impl Fn(&str) -> Served) -> RunningFront {
        let mut protocols: Vec<Served> = Vec::new();
        let addresses = self.addresses();
        let config = self.config;
        let limits = ConnectionLimits::new(maxima(&config));
        let shared = Arc::new(SharedByConnections {
            idle: config.idle,
            large_frame_grace: config.large_frame_grace,
            pipelined_requests_max: config.pipelined_requests_max.max(1),
            output_bytes_max: config.output_bytes_max,
            budget: Budget::new(config.requests_in_flight_bytes_max),
            reply_bytes: ReplyBytes::new(config.all_output_bytes_max),
            log_limit: LogLimit::new(),
        });
        let taking = Arc::new(RwLock::new(self.reactors.iter().map(taker).collect::<Vec<_>>()));
        let dispatcher = Arc::new(Dispatcher {
            reactors: Arc::clone(&taking),
            next: AtomicUsize::new(0),
            limits: Arc::clone(&limits),
            sockets: config.sockets,
            shared,
        });
        for (number, listener) in self.listeners.into_iter().enumerate() {
            let reactor = &self.reactors[number % self.reactors.len()];
            let served = protocol_of(&listener.name);
            if protocols.iter().all(|known| known.identity() != served.identity()) {
                protocols.push(served.clone());
            }
            reactor.handle.spawn(accept(listener, served, Arc::clone(&reactor.state), Arc::clone(&dispatcher)));
        }
        let runtime = self.reactors[0].handle.clone();
        let core = Arc::new(FrontState { limits, taking, reactors: Mutex::new(self.reactors) });
        RunningFront { addresses, runtime, core, protocols }
    }
}

fn maxima(config: &FrontConfig) -> ConnectionMaxima {
    ConnectionMaxima {
        total: config.connections_max,
        per_ip: config.connections_per_ip_max,
        overrides: config.connections_per_ip_overrides.clone(),
    }
}

fn taker(reactor: &Reactor) -> (tokio::runtime::Handle, Arc<ReactorState>) {
    (reactor.handle.clone(), Arc::clone(&reactor.state))
}

/// What goes on changing while the server runs.
struct FrontState {
    limits: Arc<ConnectionLimits>,
    /// The first of `reactors`.
    taking: Arc<Reactors>,
    /// All that were ever started: one that takes no more connections goes on serving those that it has.
    reactors: Mutex<Vec<Reactor>>,
}

/// Changes a running front, as long as there is one.
pub(crate) struct Changing(Weak<FrontState>);

impl Changing {
    /// Limits of connections and the number of reactors; the rest of the configuration stays as it was at the start.
    /// Both hold for new connections.
    pub fn apply(&self, config: &FrontConfig) {
        let Some(core) = self.0.upgrade() else { return };
        core.limits.set(maxima(config));
        let wanted = config.reactors.max(1);
        let mut reactors = core.reactors.lock();
        if reactors[0].state.phase() != Phase::Serving {
            return;
        }
        while reactors.len() < wanted {
            match Reactor::start(reactors.len()) {
                Ok(reactor) => reactors.push(reactor),
                Err(error) => {
                    tracing::error!("num.network.threads={wanted}: only {} run: {error}", reactors.len());
                    break;
                }
            }
        }
        *core.taking.write() = reactors.iter().take(wanted).map(taker).collect();
    }
}

/// A server that accepts connections. Dropping it ends all of them at once.
pub struct RunningFront {
    addresses: Vec<(Arc<str>, SocketAddr)>,
    runtime: tokio::runtime::Handle,
    core: Arc<FrontState>,
    /// Each once, however many listeners it has.
    protocols: Vec<Served>,
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

    /// The counts up to now.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for reactor in &*self.core.reactors.lock() {
            totals.add(&reactor.state.counters);
        }
        totals
    }

    #[cfg(test)]
    pub(crate) fn reactors_with_connections(&self) -> usize {
        let connections = |reactor: &Reactor| reactor.state.counters.connections.load(Ordering::Relaxed);
        self.core.reactors.lock().iter().filter(|reactor| connections(reactor) > 0).count()
    }

    /// A runtime for tasks that belong to no connection. It lives as long as the server.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    /// For changes while it runs.
    pub(crate) fn changing(&self) -> Changing {
        Changing(Arc::downgrade(&self.core))
    }

    /// Stops accepting and handling requests, answers those that were taken (a connection with long polls alone gets a
    /// second), and closes the connections; those that are not done after `grace` are cut. Blocks until none is left.
    /// The reactors go on running, for what the broker has to do at its end, until the server is dropped.
    pub fn drain(&self, grace: Duration) -> Drained {
        let deadline = Instant::now() + grace;
        let limits = &self.core.limits;
        let connections = limits.open();
        self.enter(Phase::Draining);
        self.protocols.iter().for_each(Served::drain);
        if limits.wait_until_none(deadline) {
            return Drained { connections, cut: 0 };
        }
        let cut = limits.open();
        self.enter(Phase::Ended);
        limits.wait_until_none(Instant::now() + END_WAIT);
        Drained { connections, cut }
    }

    /// [`drain`](Self::drain), and the end of the reactors.
    pub fn stop(self, grace: Duration) -> Drained {
        self.drain(grace)
    }

    fn enter(&self, phase: Phase) {
        for reactor in &*self.core.reactors.lock() {
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
