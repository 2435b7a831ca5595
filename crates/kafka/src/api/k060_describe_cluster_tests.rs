use super::*;
use crate::test_support::TestDoor;

fn describe(kafka: &TestDoor, version: i16, request: &DescribeClusterRequest) -> DescribeClusterResponse<'static> {
    kafka.call(version, request)
}

#[test]
fn row_43_the_cluster_has_an_id_a_controller_that_is_alive_and_its_brokers() {
    let kafka = TestDoor::any();
    let mut ids = std::collections::BTreeSet::new();
    for version in API.min_version..=API.max_version {
        let response = describe(&kafka, version, &DescribeClusterRequest::default());
        assert_eq!((response.error_code, response.endpoint_type, response.controller_id), (0, 1, 1));
        assert_eq!(response.cluster_authorized_operations, i32::MIN);
        let broker = &response.brokers[0];
        assert_eq!((response.brokers.len(), broker.broker_id, broker.is_fenced), (1, 1, false));
        assert!(!broker.host.is_empty() && broker.port > 0 && broker.rack.is_none());
        ids.insert(response.cluster_id.into_owned());
    }
    assert_eq!(ids.len(), 1, "the cluster id is stable");
    assert_eq!(ids.first().unwrap().len(), 22);
}

#[test]
fn row_44_operations_are_listed_on_request() {
    let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    assert_eq!(describe(&TestDoor::any(), 1, &request).cluster_authorized_operations, 0b1_1111_1010_0000);
}

#[test]
fn clients_of_brokers_cannot_ask_for_controllers() {
    let kafka = TestDoor::any();
    for (endpoint_type, expected) in
        [(2, ErrorCode::MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE)]
    {
        let response = describe(&kafka, 1, &DescribeClusterRequest { endpoint_type, ..Default::default() });
        assert_eq!(ErrorCode(response.error_code), expected);
        assert!(response.error_message.is_some());
        assert!(response.brokers.is_empty());
    }
}
