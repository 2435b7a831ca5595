//! Feature levels, and which version of a record a level of `metadata.version` writes.

use mainstem_kafka_wire::metadata_records::MetadataRecord;

/// The name of the feature that says how metadata is written.
pub const METADATA_VERSION: &str = "metadata.version";
/// The name of the feature that keeps eligible leaders once the in-sync set is empty.
pub const ELIGIBLE_LEADER_REPLICAS_VERSION: &str = "eligible.leader.replicas.version";

/// A feature of Kafka 4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureRange {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
}

/// What a node of Kafka 4.4 supports; registrations carry it. Upper ends are also what a fresh cluster is given, except
/// `kraft.version`, which is no level of the metadata log.
pub const KAFKA_FEATURES: [FeatureRange; 7] = [
    FeatureRange { name: "metadata.version", min: 7, max: 33 },
    FeatureRange { name: "eligible.leader.replicas.version", min: 0, max: 1 },
    FeatureRange { name: "group.version", min: 0, max: 1 },
    FeatureRange { name: "kraft.version", min: 0, max: 1 },
    FeatureRange { name: "share.version", min: 0, max: 2 },
    FeatureRange { name: "streams.version", min: 0, max: 1 },
    FeatureRange { name: "transaction.version", min: 0, max: 2 },
];

/// What this broker does: a feature of Kafka's stands here once its apis are served. Clients are told these alone.
pub const SUPPORTED_FEATURES: [FeatureRange; 2] = [
    FeatureRange { name: ELIGIBLE_LEADER_REPLICAS_VERSION, min: 0, max: 1 },
    FeatureRange { name: METADATA_VERSION, min: MetadataVersion::MINIMUM.0, max: MetadataVersion::LATEST.0 },
];

/// A level of `metadata.version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataVersion(pub i16);

impl MetadataVersion {
    /// 3.3-IV3, the least that Kafka 4.4 reads.
    pub const MINIMUM: MetadataVersion = MetadataVersion(7);
    /// 4.4-IV2, what Kafka 4.4.0 formats a folder with.
    pub const LATEST: MetadataVersion = MetadataVersion(33);

    const MIGRATION: i16 = 8;
    const TRANSACTIONS: i16 = 14;
    const CONTROLLER_REGISTRATION: i16 = 15;
    const DIRECTORIES: i16 = 17;
    pub const ELIGIBLE_LEADER_REPLICAS: i16 = 23;
    const CORDONED_DIRECTORIES: i16 = 30;

    /// Whether this level brought records, or fields of records, that the one below does not have.
    pub fn changed_records(self) -> bool {
        matches!(self.0, 7 | 8 | 11 | 13 | 14 | 15 | 17 | 23 | 30 | 32 | 33)
    }

    pub fn has_transactions(self) -> bool {
        self.0 >= Self::TRANSACTIONS
    }

    pub fn has_controller_registration(self) -> bool {
        self.0 >= Self::CONTROLLER_REGISTRATION
    }

    pub fn has_directories(self) -> bool {
        self.0 >= Self::DIRECTORIES
    }

    pub fn has_eligible_leader_replicas(self) -> bool {
        self.0 >= Self::ELIGIBLE_LEADER_REPLICAS
    }

    pub fn has_cordoned_directories(self) -> bool {
        self.0 >= Self::CORDONED_DIRECTORIES
    }
}

/// The version in which Kafka writes this record at a level of `metadata.version`: what an appender of metadata records
/// encodes it with.
pub fn record_version(record: &MetadataRecord<'_>, level: MetadataVersion) -> i16 {
    match record {
        MetadataRecord::RegisterBroker(_) if level.has_cordoned_directories() => 4,
        MetadataRecord::RegisterBroker(_) if level.has_directories() => 3,
        MetadataRecord::RegisterBroker(_) if level.0 >= MetadataVersion::MIGRATION => 2,
        MetadataRecord::RegisterBroker(_) => 1,
        MetadataRecord::Partition(_) | MetadataRecord::PartitionChange(_) if level.has_eligible_leader_replicas() => 2,
        MetadataRecord::Partition(_) | MetadataRecord::PartitionChange(_) => i16::from(level.has_directories()),
        MetadataRecord::BrokerRegistrationChange(change) if change.cordoned_log_dirs.is_some() => 3,
        MetadataRecord::BrokerRegistrationChange(change) if !change.log_dirs.is_empty() => 2,
        MetadataRecord::BrokerRegistrationChange(change) => i16::from(change.in_controlled_shutdown != 0),
        other => other.highest_version(),
    }
}
