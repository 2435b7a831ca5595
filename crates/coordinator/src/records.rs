//! The records of `__consumer_offsets`, in Kafka's schemas.
//!
//! ```text
//! key   | kind int16 | the kind's fields
//!   0,1   group string, topic string, partition int32     OffsetCommit (0 is the legacy form of 1)
//!   2     group string                                    GroupMetadata
//!   3..23 group string, …                                 group kinds that are not served here
//! value | version int16 | the version's fields; null: tombstone
//! ```
//! Written are, as by Kafka 4.4: OffsetCommit v4 (v1 if the commit has a retention of its own), GroupMetadata v3.

mod codec;

use std::sync::Arc;

use mainstem_types::{PartitionIndex, TimestampMs};

use crate::group_type::ForeignKey;
use crate::{Blob, CommittedOffset, GroupType};

/// A member in a GroupMetadata record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    pub member_id: Arc<str>,
    pub instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// The member's metadata for the chosen protocol.
    pub subscription: Blob,
    pub assignment: Blob,
}

/// The value of a GroupMetadata record: a complete generation of a classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    pub protocol_type: Arc<str>,
    pub generation: i32,
    pub protocol: Option<Arc<str>>,
    pub leader: Option<Arc<str>>,
    /// When the group came into its state; -1 in old records.
    pub state_timestamp: TimestampMs,
    pub members: Vec<StoredMember>,
}

/// A record to append to `__consumer_offsets`. `None` as value is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetsRecord {
    OffsetCommit {
        group: Arc<str>,
        topic: Arc<str>,
        partition: PartitionIndex,
        value: Option<CommittedOffset>,
    },
    GroupMetadata {
        group: Arc<str>,
        value: Option<GroupMetadata>,
    },
    /// Removes a record of a group kind that is not served here, by its key as found.
    ForeignTombstone {
        key: Blob,
    },
}

impl OffsetsRecord {
    pub(crate) fn group_metadata(group: &Arc<str>, value: Option<GroupMetadata>) -> OffsetsRecord {
        OffsetsRecord::GroupMetadata { group: group.clone(), value }
    }

    pub(crate) fn offset_tombstone(group: &Arc<str>, topic: &Arc<str>, partition: i32) -> OffsetsRecord {
        OffsetsRecord::OffsetCommit {
            group: group.clone(),
            topic: topic.clone(),
            partition: PartitionIndex(partition),
            value: None,
        }
    }
}

/// A record as found in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundRecord {
    OffsetCommit {
        group: Arc<str>,
        topic: Arc<str>,
        partition: i32,
        value: Option<CommittedOffset>,
    },
    GroupMetadata {
        group: Arc<str>,
        value: Option<GroupMetadata>,
    },
    Foreign {
        group: Arc<str>,
        group_type: GroupType,
        key: ForeignKey,
        present: bool,
    },
    /// Of a kind that a later Kafka may have added.
    Unknown,
}

impl From<OffsetsRecord> for FoundRecord {
    /// The record as it is found once it is in the log.
    fn from(record: OffsetsRecord) -> FoundRecord {
        match record {
            OffsetsRecord::OffsetCommit { group, topic, partition, value } => {
                FoundRecord::OffsetCommit { group, topic, partition: partition.0, value }
            }
            OffsetsRecord::GroupMetadata { group, value } => FoundRecord::GroupMetadata { group, value },
            // The key was found in the log, so it can be read.
            OffsetsRecord::ForeignTombstone { key } => FoundRecord::decode(&key, None).unwrap_or(FoundRecord::Unknown),
        }
    }
}
