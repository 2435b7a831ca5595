//! The seam between the server, which moves frames, and a door, which answers them.

use bytes::Bytes;

pub use mainstem_broker::ConfigWatcher;
pub use mainstem_kafka::{Chunk, CloseReason, ConnectionInfo, Handled, Reply, Response};

/// A protocol whose frames begin with four bytes of length.
///
/// The server calls [`handle`](Protocol::handle) on the reactor that owns the connection: it must never wait for a disk.
pub trait Protocol: Send + Sync + 'static {
    /// What the door keeps between the requests of one connection.
    type Connection: Send + 'static;

    /// A client connected.
    fn connect(&self, info: ConnectionInfo) -> Self::Connection;

    /// Handles one request frame (without its four bytes of length).
    fn handle(&self, connection: &mut Self::Connection, frame: Bytes) -> Handled;

    /// Whether the request that begins with `frame` may be handled before the replies to earlier ones have left, provided
    /// that those may be pipelined as well. `frame` may be incomplete.
    fn may_pipeline(&self, frame: &[u8]) -> bool;

    /// Tells `watcher` the settings, and again whenever they change.
    fn watch_config(&self, _watcher: ConfigWatcher) {}

    /// The server is about to stop: long waits should be answered now. Called once.
    fn drain(&self) {}
}
