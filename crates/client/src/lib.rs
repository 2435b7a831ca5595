//! A small Kafka client: metadata, produce, fetch, admin.
mod admin;
mod client;
mod config;
mod connection;
mod error;
mod metadata;
mod offsets;
mod retry;
mod versions;

pub use admin::*;
pub use client::Client;
pub use config::ClientConfig;
pub use error::ClientError;
pub use metadata::{Broker, Partition, Topic};
pub use offsets::{Isolation, ListedOffset, OffsetSpec};
