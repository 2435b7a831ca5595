//! Administration: topics and their records, consumer groups, configurations, the cluster. All methods are on
//! [`Client`](crate::Client).
//!
//! A method for several topics, groups or partitions returns one result for each, in the given order. The outer error
//! is that of the whole request, and the client retries only that one. It reports an error of one object at once.

mod cluster;
mod configs;
mod groups;
mod records;
mod topics;

pub use cluster::ClusterDescription;
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym};
pub use groups::{CommittedOffset, GroupDescription, GroupMember, ListedGroup};
pub(crate) use groups::{commit_request, read_commit};
pub use topics::{CreatedTopic, NewTopic};

use mainstem_types::TopicPartition;

use crate::error::ClientError;

/// One result for each name.
pub type ByName<T> = Vec<(String, Result<T, ClientError>)>;

/// One result for each partition.
pub type ByPartition<T> = Vec<(TopicPartition, Result<T, ClientError>)>;
