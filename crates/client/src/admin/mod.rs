//! Administration: topics, their configurations, the cluster. All methods are on [`Client`](crate::Client).
//!
//! What concerns several topics gives one result for each, in the order they were given; the outer error is that of the
//! request as a whole.

mod cluster;
mod configs;
mod topics;

pub use cluster::ClusterDescription;
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
pub use topics::{CreatedTopic, NewTopic};

use crate::error::ClientError;

/// One result for each name.
pub type ByName<T> = Vec<(String, Result<T, ClientError>)>;
