//! The Kafka door: decodes a request, calls the broker, encodes the answer. One file an api, one registry.
//!
//! Guarantees:
//!
//! - ApiVersions advertises the APIs and versions of [`registry::APIS`], and each of them is answered.
//! - A request that cannot be read ends its connection and changes nothing.
//! - No type of the wire reaches the broker.

pub mod api;
mod authorized;
mod close;
mod context;
mod door;
mod errors;
pub mod fetch;
mod framing;
mod loggers;
mod produce;
pub mod registry;
mod request;
mod shown_partition;
mod stranger;
#[cfg(test)]
mod test_support;

pub use close::CloseReason;
pub use context::{Api, Connection, Door, Handler};
pub use door::may_pipeline;
pub use framing::{FRAME_BYTES_MIN, FrameError, LENGTH_BYTES, next_frame, put_length};
pub use loggers::{Loggers, ROOT as ROOT_LOGGER};
pub use request::Request;
pub use stranger::Stranger;
