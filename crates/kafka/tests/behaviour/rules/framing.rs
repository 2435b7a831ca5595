//! Headers, versions and what is malformed: §1.3 of Kafka's quirks, and row 65 as far as the door sees it.

use bytes::{BufMut, Bytes, BytesMut};
use mainstem_kafka::registry::APIS;
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest};
use mainstem_kafka_wire::{ErrorCode, Message, Reader, encode_request};

use crate::support::{Node, RequestOutcome};

/// A request header of version 1, and nothing behind it.
fn header(key: i16, version: i16) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_i32(7);
    frame.put_i16(-1);
    frame
}

fn read(outcome: RequestOutcome<Vec<u8>>, version: i16) -> ApiVersionsResponse<'static> {
    let bytes: &'static [u8] = outcome.answer().leak();
    assert_eq!(bytes[..4], 7i32.to_be_bytes());
    // Behind the correlation id comes the body: this api never has tags in its response header.
    let mut reader = Reader::new(&bytes[4..]);
    let response = ApiVersionsResponse::decode(&mut reader, version).unwrap();
    reader.finish("ApiVersionsResponse").unwrap();
    response
}

#[test]
fn quirk_1_the_response_header_of_api_versions_never_has_tags() {
    let node = Node::start(&[]);
    for version in 0..=5 {
        let request = ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..Default::default()
        };
        let request = if version >= 3 { request } else { ApiVersionsRequest::default() };
        let frame = encode_request(version, 7, None, &request).unwrap().bytes.slice(4..);
        assert_eq!(read(node.connect().raw(frame), version).error_code, 0, "{version}");
    }
}

#[test]
fn quirk_2_an_unknown_version_of_api_versions_is_answered_in_version_0_with_its_range() {
    let node = Node::start(&[]);
    for version in [6, 7, 99, i16::MAX] {
        let mut link = node.connect();
        let mut frame = header(18, version);
        frame.put_u8(0); // no tags: the header is one of version 2
        // What such a version would carry is not looked at.
        frame.put_slice(&[0xff; 40]);
        let response = read(link.raw(frame.freeze()), 0);
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
        let own = response.api_keys.iter().find(|row| row.api_key == 18).unwrap();
        assert_eq!((own.min_version, own.max_version), (0, 5));
        let again: ApiVersionsResponse<'static> = link.call(0, &ApiVersionsRequest::default());
        assert_eq!(again.error_code, 0, "the connection goes on");
    }
}

#[test]
fn quirk_6_another_api_in_an_unknown_version_ends_the_connection() {
    let node = Node::start(&[]);
    for api in APIS.iter().filter(|api| api.key != 18) {
        for version in [api.min_version - 1, api.max_version + 1] {
            let mut frame = header(api.key, version);
            frame.put_slice(&[0; 64]);
            assert_eq!(node.connect().raw(frame.freeze()), RequestOutcome::Closed, "{} {version}", api.name);
        }
    }
}

#[test]
fn quirk_7_and_8_produce_and_join_group_are_advertised_from_version_0() {
    let node = Node::start(&[]);
    let response: ApiVersionsResponse<'static> = node.call(0, &ApiVersionsRequest::default());
    for key in [0, 11] {
        assert_eq!(response.api_keys.iter().find(|row| row.api_key == key).unwrap().min_version, 0);
    }
    for version in 0..3 {
        let mut frame = header(0, version);
        frame.put_slice(&[0; 64]);
        assert_eq!(
            node.connect().raw(frame.freeze()),
            RequestOutcome::Closed,
            "Produce {version} is advertised and refused"
        );
    }
}

#[test]
fn quirk_11_and_12_what_is_advertised_is_what_is_registered_and_no_more() {
    let node = Node::start(&[]);
    let response: ApiVersionsResponse<'static> = node.call(0, &ApiVersionsRequest::default());
    let advertised: Vec<(i16, i16)> = response.api_keys.iter().map(|row| (row.api_key, row.max_version)).collect();
    let registered: Vec<(i16, i16)> = APIS.iter().map(|api| (api.key, api.max_version)).collect();
    assert_eq!(advertised, registered);
    for (key, _) in advertised {
        assert!(
            ![4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 71, 72, 73].contains(&key),
            "{key} is not for clients"
        );
    }
}

#[test]
fn section_1_4_no_feature_is_finalized_that_changes_what_clients_send() {
    let node = Node::start(&[]);
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    for version in 3..=5 {
        let response: ApiVersionsResponse<'static> = node.call(version, &request);
        let names: Vec<&str> = response.finalized_features.iter().map(|feature| feature.name.as_ref()).collect();
        for absent in ["transaction.version", "group.version", "share.version", "streams.version"] {
            assert!(!names.contains(&absent), "{absent} promises apis that are not there");
        }
    }
}

#[test]
fn row_65_what_cannot_be_read_ends_the_connection() {
    let node = Node::start(&[]);
    let whole = encode_request(4, 7, Some("client"), &ListGroupsRequest::default()).unwrap().bytes.slice(4..);
    for length in 0..whole.len() {
        assert_eq!(node.connect().raw(whole.slice(..length)), RequestOutcome::Closed, "{length} bytes");
    }
    assert!(matches!(node.connect().raw(whole), RequestOutcome::Answer(_)));
    for key in [-1, 4, 1_000, i16::MAX] {
        assert_eq!(node.connect().raw(header(key, 0).freeze()), RequestOutcome::Closed, "api {key}");
    }
    assert_eq!(node.connect().raw(Bytes::new()), RequestOutcome::Closed);
}

#[test]
fn bytes_behind_a_request_and_unknown_tags_are_passed_over() {
    let node = Node::start(&[]);
    let whole = encode_request(4, 7, Some("client"), &ListGroupsRequest::default()).unwrap().bytes.slice(4..);
    let mut longer = BytesMut::from(&whole[..]);
    longer.put_slice(b"more");
    assert!(matches!(node.connect().raw(longer.freeze()), RequestOutcome::Answer(_)));
    // The request ends with its tags: none. Here is one that nobody knows: tag 100 with three bytes.
    let mut tagged = BytesMut::from(&whole[..whole.len() - 1]);
    tagged.put_slice(&[1, 100, 3, 1, 2, 3]);
    assert!(matches!(node.connect().raw(tagged.freeze()), RequestOutcome::Answer(_)));
}
