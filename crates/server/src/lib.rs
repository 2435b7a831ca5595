//! Listeners, reactors, configuration, wiring, shutdown.
//!
//! What is guaranteed:
//! - A connection belongs to one reactor (a thread with a single-threaded runtime) for its life; nothing it does waits for a disk there.
//! - Replies leave in the order of the requests.
//! - Memory is bounded: see `connection` for the bounds of one connection, `limits` for those of the broker.
//! - An orderly stop answers or ends every request that was taken.
//!
//! Numbers: frames up to `socket.request.max.bytes` (100 MiB); 64 pipelined requests and 8 MiB of them, 64 KiB received
//! ahead, 16 MiB of replies in memory before a further request is handled, 1 MiB in one turn of a connection; 256 MiB of large
//! requests in flight over the broker; 256 MiB of replies in memory, past which clients that do not take theirs lose their connections.

mod connection;
mod counters;
mod descriptors;
mod front;
mod hosts;
mod limits;
mod listener;
mod log_limit;
pub mod logging;
mod node;
mod protocol;
mod reactor;
mod server;
pub mod settings;
mod stop;
mod traffic;

/// The cutting of bytes into frames, on its own.
pub mod frames {
    pub use crate::connection::{FRAME_BYTES_MIN, FrameError, Inbound, LENGTH_BYTES};
}

pub use counters::Totals;
pub use front::{BoundFront, Drained, FrontConfig, FrontError, RunningFront};
pub use listener::{Listen, ListenError, SocketOptions};
pub use protocol::{Chunk, CloseReason, ConnectionInfo, Handled, Protocol, Reply, Response};
pub use server::{Opened, RunningServer, Server, StartError};
pub use settings::{read_config, setting_names};
pub use traffic::TrafficLog;
