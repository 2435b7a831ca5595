//! The seam between the server, which moves bytes, and a protocol, which understands them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::outbox::{Outbox, OutboxLimits};
use crate::reply::{Close, Handled};

/// The facts about a connection when it is accepted.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    pub peer: SocketAddr,
    /// The name of the listener that accepted it, for example `PLAINTEXT`.
    pub listener: Arc<str>,
}

/// Where the next frame lies in what was received: `head` bytes that only say where it ends, then `body` bytes, which
/// are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub head: usize,
    pub body: usize,
}

impl Frame {
    pub fn total(&self) -> usize {
        self.head + self.body
    }
}

/// In which order the replies of one connection leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In the order of the requests. A request is handled when all earlier replies have left, unless it may be
    /// pipelined ([`Protocol::may_pipeline`]).
    OfRequests,
    /// Each as soon as it is ready. Requests are handled as they come, while at most `requests_max` of a connection
    /// wait for their replies; past that, nothing more is received from it.
    AsReady { requests_max: usize },
}

/// A protocol that clients of a listener speak.
///
/// The server calls all of this on the reactor that owns the connection: nothing here may wait for a disk.
pub trait Protocol: Send + Sync + 'static {
    /// What the protocol keeps of one connection between its requests. It is shared, never copied: a request that is
    /// handled on another thread changes the same state.
    type Connection: Send + Sync + 'static;

    /// A client connected. `outbox` takes responses that no request asked for.
    fn connect(&self, info: ConnectionInfo, outbox: Outbox) -> Self::Connection;

    fn order(&self) -> Order {
        Order::OfRequests
    }

    /// What an outbox holds at most.
    fn outbox_limits(&self) -> OutboxLimits {
        OutboxLimits::default()
    }

    /// Where the first frame of `received` lies. `None`: that is not known yet; it must be after 64 KiB. The frame may
    /// be incomplete; its memory is taken after this answer, so this is where a frame that is too long is refused. What
    /// is too long may depend on the connection, for example on whether its client is authenticated. Called as soon as
    /// the bytes are there, which may be before earlier requests are answered.
    fn frame(&self, connection: &Self::Connection, received: &[u8]) -> Result<Option<Frame>, Close>;

    /// Puts into `head` what goes in front of a response of `response_bytes`, for example its length.
    fn put_head(&self, response_bytes: u64, head: &mut BytesMut) -> Result<(), Close>;

    /// Handles the body of one frame.
    fn handle(&self, connection: &Arc<Self::Connection>, frame: Bytes) -> Handled;

    /// With [`Order::OfRequests`]: whether the request that begins with `frame` may be handled before the replies to
    /// earlier ones have left, provided that those may be pipelined as well.
    fn may_pipeline(&self, _frame: &[u8]) -> bool {
        false
    }

    /// The server is about to stop: long polls should be answered now. Called once.
    fn drain(&self) {}
}
