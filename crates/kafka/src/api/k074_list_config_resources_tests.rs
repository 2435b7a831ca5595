use std::collections::BTreeSet;

use super::*;
use crate::test_support::TestDoor;

fn list(kafka: &TestDoor, version: i16, kinds: &[i8]) -> (ErrorCode, BTreeSet<(i8, String)>) {
    let request = ListConfigResourcesRequest { resource_types: kinds.to_vec() };
    let response: ListConfigResourcesResponse<'static> = kafka.call(version, &request);
    let name = |listed: &Listed<'_>| (listed.resource_type, listed.resource_name.as_ref().to_owned());
    (ErrorCode(response.error_code), response.config_resources.iter().map(name).collect())
}

#[test]
fn all_kinds_or_those_that_are_asked_for() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("resources");
    kafka.create(&name, 1);
    let (error, all) = list(&kafka, 1, &[]);
    assert_eq!(error, ErrorCode::NONE);
    for expected in [(TOPIC, name.as_str()), (BROKER, "1"), (BROKER_LOGGER, "1")] {
        assert!(all.contains(&(expected.0, expected.1.to_owned())), "{expected:?} of {all:?}");
    }
    assert!(all.iter().all(|(kind, _)| [TOPIC, BROKER, BROKER_LOGGER].contains(kind)), "{all:?}");
    let topics: BTreeSet<_> = all.iter().filter(|(kind, _)| *kind == TOPIC).cloned().collect();
    assert_eq!(list(&kafka, 1, &[TOPIC, TOPIC]), (ErrorCode::NONE, topics));
    assert_eq!(list(&kafka, 1, &[BROKER]), (ErrorCode::NONE, [(BROKER, "1".to_owned())].into()));
    assert_eq!(list(&kafka, 1, &[CLIENT_METRICS, GROUP]), (ErrorCode::NONE, [].into()));
}

#[test]
fn version_0_is_about_client_metrics_alone() {
    assert_eq!(list(&TestDoor::any(), 0, &[]), (ErrorCode::NONE, [].into()));
}

#[test]
fn there_are_no_other_kinds() {
    let kafka = TestDoor::any();
    for kind in [0, 1, 7, 64, -1] {
        assert_eq!(list(&kafka, 1, &[TOPIC, kind]), (ErrorCode::UNSUPPORTED_VERSION, [].into()), "{kind}");
    }
}
