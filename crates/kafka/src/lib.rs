//! The Kafka door: decodes a request, calls the broker, encodes the answer. One file an api, one registry.
//!
//! Guarantees: what [`registry::APIS`] lists is what ApiVersions advertises and what is answered; a request that cannot be
//! read ends its connection and touches nothing; no type of the wire reaches the broker.

pub mod api;
mod authorized;
mod door;
mod elsewhere;
mod errors;
pub mod fetch;
mod loggers;
mod produce;
pub mod registry;
mod reply;
mod request;
#[cfg(test)]
mod test_support;
mod wait_timer;

pub use door::{Connection, ConnectionInfo, Door, may_pipeline};
pub use loggers::{Loggers, ROOT as ROOT_LOGGER};
pub use reply::{Chunk, CloseReason, Handled, Reply, Response};
pub use request::Request;
