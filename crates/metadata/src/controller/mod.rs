//! The controller: operations on the cluster as a state machine.
//!
//! An operation reads the image, and returns the records of the change and the reply. Nothing changes until the records
//! come back through [`Controller::replay`]. The broker appends the records of an operation as one batch and replays
//! them, so that the next operation sees them. [`Uncommitted`] holds the reply until the log is committed that far.

mod assignment;
mod bootstrap;
mod configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod features;
mod group_epochs;
mod lifecycle;
mod producer_ids;
mod reassignments;
mod uncommitted;
mod unregister;

use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_types::{LeaderEpoch, Offset};

pub use assignment::AssignmentError;
pub use bootstrap::{bootstrap_records, bootstrap_records_of, format_records};
pub use configs::{
    AlterConfigError, AlterConfigOp, AlterConfigOperation, ConfigAlteration, ConfigReplacement, check_config_operations,
};
pub use create_partitions::{CreatePartitionsError, NewPartitions};
pub use create_topics::{CreateTopicError, CreatedTopic, NewTopic, offsets_topic};
pub use delete_topics::{DeleteTopicError, DeletedTopic, TopicRef};
pub use features::{FeatureUpdate, UpdateFeaturesError, UpgradeKind};
pub use lifecycle::{NodeAddress, NodeStart};
pub use producer_ids::{AllocateProducerIdsError, PRODUCER_ID_BLOCK_LENGTH, ProducerIdBlock};
pub use reassignments::{ReassignError, Reassignment};
pub use uncommitted::Uncommitted;
pub use unregister::UnregisterBrokerError;

use crate::image::{ClusterImage, ImageDelta, ReplayError};

/// The most partitions that one request may add, over all its topics (Kafka's limit).
pub const MAX_PARTITIONS_PER_REQUEST: usize = 10_000;

/// What an operation wants: append these as one batch, replay them, and let the reply leave once they are committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<R> {
    /// Empty: nothing to append. The reply waits for the changes before it alone.
    pub records: Vec<MetadataRecord<'static>>,
    pub reply: R,
}

/// The image, and the operations on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Controller {
    image: ClusterImage,
}

impl Controller {
    pub fn new(image: ClusterImage) -> Self {
        Controller { image }
    }

    /// Clone it to hand it to readers: that is cheap.
    pub fn image(&self) -> &ClusterImage {
        &self.image
    }

    /// See [`ClusterImage::replay`].
    pub fn replay(
        &mut self,
        record: &MetadataRecord<'_>,
        offset: Offset,
        epoch: LeaderEpoch,
        delta: &mut ImageDelta,
    ) -> Result<(), ReplayError> {
        self.image.replay(record, offset, epoch, delta)
    }
}

#[cfg(test)]
mod test_support;
