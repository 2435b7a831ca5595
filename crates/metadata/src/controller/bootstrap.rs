//! The first records of a fresh cluster, as Kafka 4.4.0 writes them.

use std::borrow::Cow;

use mainstem_kafka_wire::metadata_records::{
    BeginTransactionRecord, ConfigRecord, EndTransactionRecord, FeatureLevelRecord, MetadataRecord,
};

use crate::image::{
    ConfigResource, ELIGIBLE_LEADER_REPLICAS_VERSION, KAFKA_FEATURES, METADATA_VERSION, MetadataVersion,
};

/// The feature levels of a fresh cluster: what Kafka's `format` command writes into the first snapshot
/// (`00000000000000000000-0000000000.checkpoint`), between its header and its footer.
pub fn format_records() -> Vec<MetadataRecord<'static>> {
    let finalized = KAFKA_FEATURES.iter().filter(|feature| feature.name != "kraft.version");
    let record = |name, feature_level| FeatureLevelRecord { name: Cow::Borrowed(name), feature_level }.into();
    finalized.map(|feature| record(feature.name, feature.max)).collect()
}

/// What the first start of a cluster appends when no levels were chosen for it: those of [`format_records`].
pub fn bootstrap_records() -> Vec<MetadataRecord<'static>> {
    bootstrap_records_of(format_records())
}

/// What the first start of a cluster appends: the records that the folder was formatted with (levels of features,
/// users), and `min.insync.replicas=1` where eligible replicas are kept; in one transaction where the level of
/// `metadata.version` has them.
pub fn bootstrap_records_of(format: Vec<MetadataRecord<'static>>) -> Vec<MetadataRecord<'static>> {
    let level = |name: &str| {
        // The last one counts.
        let found = format.iter().rev().find_map(|record| match record {
            MetadataRecord::FeatureLevel(feature) if feature.name == name => Some(feature.feature_level),
            _ => None,
        });
        found.unwrap_or(0)
    };
    let with_transaction = MetadataVersion(level(METADATA_VERSION)).has_transactions();
    let with_eligible = level(ELIGIBLE_LEADER_REPLICAS_VERSION) > 0;
    let mut records = Vec::with_capacity(format.len() + 3);
    if with_transaction {
        records.push(BeginTransactionRecord { name: Some(Cow::Borrowed("Bootstrap records")) }.into());
    }
    records.extend(format);
    if with_eligible {
        let min_in_sync = ConfigRecord {
            resource_type: ConfigResource::BROKER,
            resource_name: Cow::Borrowed(""),
            name: Cow::Borrowed("min.insync.replicas"),
            value: Some(Cow::Borrowed("1")),
        };
        records.push(min_in_sync.into());
    }
    if with_transaction {
        records.push(EndTransactionRecord {}.into());
    }
    records
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{apply, kinds};
    use super::super::{Controller, bootstrap_records};
    use super::*;

    #[test]
    fn a_fresh_cluster_has_the_levels_of_kafka_4_4() {
        let records = bootstrap_records();
        assert_eq!(kinds(&records), [23, 12, 12, 12, 12, 12, 12, 4, 24]);
        let mut controller = Controller::default();
        assert!(!controller.image().is_bootstrapped());
        apply(&mut controller, &records);
        let features: Vec<(String, i16)> =
            controller.image().features().iter().map(|(name, level)| (name.clone(), *level)).collect();
        let expected = [
            ("eligible.leader.replicas.version", 1),
            ("group.version", 1),
            ("metadata.version", 33),
            ("share.version", 2),
            ("streams.version", 1),
            ("transaction.version", 2),
        ];
        assert_eq!(features, expected.map(|(name, level)| (name.to_string(), level)));
        assert!(controller.image().is_bootstrapped() && !controller.image().in_transaction());
    }
    #[test]
    fn an_older_level_has_neither_transaction_nor_eligible_replicas() {
        let level = |name: &'static str, feature_level| FeatureLevelRecord { name: name.into(), feature_level }.into();
        assert_eq!(kinds(&bootstrap_records_of(vec![level("metadata.version", 7)])), [12]);
        assert_eq!(kinds(&bootstrap_records_of(vec![level("metadata.version", 25)])), [23, 12, 24]);
        let mut controller = Controller::default();
        apply(&mut controller, &bootstrap_records_of(vec![level("metadata.version", 7)]));
        assert!(controller.image().is_bootstrapped() && !controller.image().in_transaction());
    }
}
