//! Listening sockets: bound before the broker opens (so that port 0 gets its number in time), accepting once it is
//! open.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};
use tokio::net::TcpListener;

use crate::connection::SharedByConnections;
use crate::limits::ConnectionLimits;
use crate::served::{Accepted, Served};
use crate::stop::{Phase, ReactorState};

/// The pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener as configured: `name://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// For example `PLAINTEXT`.
    pub name: Arc<str>,
    /// A host name, an address (IPv6 without brackets), or empty for all addresses.
    pub host: String,
    /// 0 lets the system choose.
    pub port: u16,
}

/// Settings of the sockets themselves.
#[derive(Debug, Clone)]
pub struct SocketOptions {
    /// `socket.listen.backlog.size`: connections that the kernel keeps until they are accepted.
    pub backlog: i32,
    /// `socket.receive.buffer.bytes`; `None`: the system adapts it to the connection.
    pub receive_buffer_bytes: Option<usize>,
    /// `socket.send.buffer.bytes`; `None`: the system adapts it to the connection.
    pub send_buffer_bytes: Option<usize>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions { backlog: 1024, receive_buffer_bytes: None, send_buffer_bytes: None }
    }
}

impl SocketOptions {
    fn apply(&self, socket: &std::net::TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let socket = socket2::SockRef::from(socket);
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }
}

/// A listener that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("listener {name}: the host {host:?} has no address: {error}")]
    NoAddress { name: Arc<str>, host: String, error: io::Error },
    #[error(
        "listener {name}: cannot listen on {address}: {error} (is another broker running there? change `listeners`)"
    )]
    Bind { name: Arc<str>, address: SocketAddr, error: io::Error },
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub name: Arc<str>,
    pub address: SocketAddr,
    socket: std::net::TcpListener,
}

impl BoundListener {
    /// Binds to the first address of the host that can be bound.
    pub fn bind(listen: &Listen, options: &SocketOptions) -> Result<BoundListener, ListenError> {
        if listen.host.is_empty() {
            return bind_all(listen, options);
        }
        let no_address =
            |error| ListenError::NoAddress { name: Arc::clone(&listen.name), host: listen.host.clone(), error };
        let addresses = (listen.host.as_str(), listen.port).to_socket_addrs().map_err(no_address)?;
        let mut failure = no_address(io::ErrorKind::NotFound.into());
        for address in addresses {
            match bind_address(address, false, options) {
                Ok(socket) => return BoundListener::of(listen, socket, address),
                Err(error) => failure = ListenError::Bind { name: Arc::clone(&listen.name), address, error },
            }
        }
        Err(failure)
    }

    fn of(listen: &Listen, socket: std::net::TcpListener, asked: SocketAddr) -> Result<BoundListener, ListenError> {
        let name = Arc::clone(&listen.name);
        match socket.local_addr() {
            Ok(address) => Ok(BoundListener { name, address, socket }),
            Err(error) => Err(ListenError::Bind { name, address: asked, error }),
        }
    }
}

/// All addresses: IPv6 with IPv4 inside where the machine has IPv6, else IPv4.
fn bind_all(listen: &Listen, options: &SocketOptions) -> Result<BoundListener, ListenError> {
    let six = SocketAddr::from(([0u16; 8], listen.port));
    let four = SocketAddr::from(([0u8; 4], listen.port));
    match bind_address(six, true, options) {
        Ok(socket) => BoundListener::of(listen, socket, six),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(ListenError::Bind { name: Arc::clone(&listen.name), address: six, error })
        }
        Err(_) => match bind_address(four, false, options) {
            Ok(socket) => BoundListener::of(listen, socket, four),
            Err(error) => Err(ListenError::Bind { name: Arc::clone(&listen.name), address: four, error }),
        },
    }
}

fn bind_address(
    address: SocketAddr,
    both_families: bool,
    options: &SocketOptions,
) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(SocketProtocol::TCP))?;
    // A restarted broker gets its port back while connections of the old one are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!both_families)?;
    }
    // Before the connection exists, so that the window is agreed on accordingly; accepted sockets inherit it.
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(options.backlog.max(1))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The reactors that take connections, each with what its connections share.
pub(crate) type Reactors = RwLock<Vec<(tokio::runtime::Handle, Arc<ReactorState>)>>;

/// Where accepted connections go: to the reactors in turn.
pub(crate) struct Dispatcher {
    /// Those that take new connections; never empty.
    pub reactors: Arc<Reactors>,
    pub next: AtomicUsize,
    pub limits: Arc<ConnectionLimits>,
    pub sockets: SocketOptions,
    pub shared: Arc<SharedByConnections>,
}

/// Accepts connections for `served` until the server stops. Runs on the reactor of `state`.
pub(crate) async fn accept(
    listener: BoundListener,
    served: Served,
    state: Arc<ReactorState>,
    dispatcher: Arc<Dispatcher>,
) {
    let name = listener.name;
    let socket = match TcpListener::from_std(listener.socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("listener {name} cannot accept: {error}"),
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = state.reached(Phase::Draining) => return,
            accepted = socket.accept() => accepted,
        };
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => dispatcher.dispatch(stream, (peer, &name), &served),
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                if let Some(suppressed) = dispatcher.shared.log_limit.admit() {
                    tracing::warn!(
                        suppressed,
                        "listener {name} cannot accept a connection; next attempt in {} ms: {error}",
                        ACCEPT_PAUSE.as_millis()
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Errors of a connection that broke before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

impl Dispatcher {
    fn dispatch(&self, stream: std::net::TcpStream, (peer, listener): (SocketAddr, &Arc<str>), served: &Served) {
        let place = match self.limits.enter(peer.ip()) {
            Ok(place) => place,
            Err(refused) => {
                if let Some(suppressed) = self.shared.log_limit.admit() {
                    tracing::warn!(%peer, suppressed, "connection refused: {refused}");
                }
                return;
            }
        };
        let (runtime, reactor) = {
            let reactors = self.reactors.read();
            reactors[self.next.fetch_add(1, Ordering::Relaxed) % reactors.len()].clone()
        };
        let (shared, listener) = (Arc::clone(&self.shared), Arc::clone(listener));
        if let Err(error) = self.sockets.apply(&stream) {
            return tracing::debug!(%peer, "connection lost: {error}");
        }
        served.serve(&runtime, Accepted { stream, peer, listener, shared, reactor, place });
    }
}
