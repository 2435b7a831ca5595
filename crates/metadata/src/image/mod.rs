//! The cluster image: everything that the metadata log says, as of one offset.
//!
//! Guarantees:
//! - The only way in is [`ClusterImage::replay`], live and at start.
//! - [`ClusterImage::to_records`] loses nothing: replaying its records gives the same image.
//! - Records between BeginTransaction and EndTransaction become visible together, at the end.
//! - A clone is a handful of reference counts; a change copies only the maps and entries it touches when a reader still
//!   holds them (the map of topics holds one pointer a topic).

mod cluster;
mod delta;
mod error;
mod features;
mod parts;
mod replay;
mod snapshot;
mod topics;
mod unit_role;

pub use cluster::{ClusterImage, ProducerIds};
pub use delta::ImageDelta;
pub use error::ReplayError;
pub use features::{
    ELIGIBLE_LEADER_REPLICAS_VERSION, FeatureRange, KAFKA_FEATURES, METADATA_VERSION, MetadataVersion,
    SUPPORTED_FEATURES, record_version,
};
pub use parts::{BrokerRegistration, ConfigResource, QuotaEntity};
pub use topics::{DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, NO_LEADER, PartitionImage, TopicImage};
pub use unit_role::{UnitDisagrees, UnitRole};
