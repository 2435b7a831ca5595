//! Listeners, reactors, configuration, shutdown. Knows no protocol: each listener has one ([`Served`]), all share
//! limits and memory.
//!
//! Guarantees:
//! - A connection belongs to one reactor (a thread with a single-threaded runtime) for its life, and never waits for a
//!   disk there.
//! - Replies leave in the order that the protocol of their connection wants.
//! - Memory is bounded: see `connection` for the bounds of one connection, `limits` for the bounds of the broker.
//! - An orderly stop answers or ends every received request.
//!
//! Numbers: frames as long as their protocol allows; 64 pipelined requests and 8 MiB of them, 64 KiB received
//! ahead, 16 MiB of replies in memory before a further request is handled, 1 MiB in one turn of a connection; 256 MiB
//! of large requests in flight over the broker; 256 MiB of replies in memory, above which the server closes the slowest
//! readers.

mod connection;
mod counters;
mod descriptors;
mod front;
mod hosts;
mod limits;
mod listener;
mod log_limit;
pub mod logging;
mod reactor;
mod served;
mod server;
pub mod settings;
mod stop;
mod traffic;

/// The receiving of frames, on its own.
pub mod frames {
    pub use crate::connection::Inbound;
}

pub use counters::Totals;
pub use descriptors::Shares;
pub use front::{BoundFront, Drained, FrontConfig, FrontError, RunningFront};
pub use listener::{Listen, ListenError, SocketOptions};
pub use served::Served;
pub use server::{ConfigWatcher, Opened, RunningServer, Server, StartError};
pub use settings::{read_config, setting_names};
pub use traffic::TrafficLog;
