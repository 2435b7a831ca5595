use super::*;
use crate::test_support::TestDoor;
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

fn ask(kafka: &TestDoor, version: i16, features: &[(&str, i16, i8)]) -> UpdateFeaturesResponse<'static> {
    let update = |(name, level, upgrade_type): &(&str, i16, i8)| FeatureUpdateKey {
        feature: Cow::Owned((*name).to_owned()),
        max_version_level: *level,
        allow_downgrade: version == 0 && *upgrade_type > 1,
        upgrade_type: if version == 0 { 1 } else { *upgrade_type },
    };
    let feature_updates = features.iter().map(update).collect();
    kafka.call(version, &UpdateFeaturesRequest { feature_updates, ..Default::default() })
}

fn finalized(kafka: &TestDoor) -> Vec<(String, i16)> {
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let response: ApiVersionsResponse<'static> = kafka.call(4, &request);
    let level = |feature: &mainstem_kafka_wire::messages::api_versions_response::FinalizedFeatureKey<'_>| {
        (feature.name.to_string(), feature.max_version_level)
    };
    let mut levels: Vec<_> = response.finalized_features.iter().map(level).collect();
    levels.sort();
    levels
}

#[test]
fn a_level_that_changed_is_shown_by_api_versions() {
    for version in 0..=2 {
        let kafka = TestDoor::start(&[]);
        let elr = ("eligible.leader.replicas.version".to_owned(), 1);
        let metadata = ("metadata.version".to_owned(), 33);
        assert_eq!(finalized(&kafka), [elr, metadata.clone()], "what is served, and nothing else");
        let response = ask(&kafka, version, &[("eligible.leader.replicas.version", 0, 2)]);
        assert_eq!((response.error_code, response.results.len()), (0, usize::from(version < 2)), "{response:?}");
        assert_eq!(finalized(&kafka), [metadata]);
    }
}

#[test]
fn one_wrong_update_refuses_all() {
    let kafka = TestDoor::start(&[]);
    let before = finalized(&kafka);
    for wrong in [("transaction.version", 1, 3), ("metadata.version", 7, 3), ("metadata.version", 33, 9), ("", 1, 1)] {
        let response = ask(&kafka, 2, &[("eligible.leader.replicas.version", 0, 2), wrong]);
        assert_eq!(response.error_code, ErrorCode::INVALID_UPDATE_VERSION.0, "{wrong:?}");
        assert!(response.error_message.is_some());
    }
    assert_eq!(finalized(&kafka), before);
}
