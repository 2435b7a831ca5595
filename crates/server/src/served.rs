//! Which protocol a listener speaks: each has its own, all share the limits and the memory of the server.
//!
//! The protocol is chosen once for a connection; from then on its code is called directly, frame by frame.

use std::net::SocketAddr;
use std::sync::Arc;

use mainstem_door::Protocol;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::connection::{Connection, SharedByConnections};
use crate::limits::Place;
use crate::stop::ReactorState;

/// An accepted connection on its way to its reactor.
pub(crate) struct Accepted {
    pub stream: std::net::TcpStream,
    pub peer: SocketAddr,
    pub listener: Arc<str>,
    pub shared: Arc<SharedByConnections>,
    pub reactor: Arc<ReactorState>,
    pub place: Place,
}

/// A protocol with any connection state.
#[derive(Clone)]
pub struct Served(Arc<dyn Serve>);

impl Served {
    pub fn new<P: Protocol>(protocol: Arc<P>) -> Served {
        Served(Arc::new(One(protocol)))
    }

    pub(crate) fn serve(&self, runtime: &Handle, accepted: Accepted) {
        self.0.serve(runtime, accepted);
    }

    pub(crate) fn drain(&self) {
        self.0.drain();
    }

    /// What tells one protocol from another.
    pub(crate) fn identity(&self) -> *const () {
        self.0.identity()
    }
}

trait Serve: Send + Sync {
    fn serve(&self, runtime: &Handle, accepted: Accepted);
    fn drain(&self);
    fn identity(&self) -> *const ();
}

struct One<P>(Arc<P>);

impl<P: Protocol> Serve for One<P> {
    fn serve(&self, runtime: &Handle, accepted: Accepted) {
        let protocol = Arc::clone(&self.0);
        runtime.spawn(async move {
            let Accepted { stream, peer, listener, shared, reactor, place } = accepted;
            // The socket belongs to the runtime in which it is registered: its reactor's.
            match TcpStream::from_std(stream) {
                Ok(stream) => Connection::new(stream, (peer, listener), protocol, shared, reactor, place).run().await,
                Err(error) => tracing::debug!(%peer, "connection lost: {error}"),
            }
        });
    }

    fn drain(&self) {
        self.0.drain();
    }

    fn identity(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}
