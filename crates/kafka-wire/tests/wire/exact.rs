//! Bytes written by hand: holes, headers, frames, varints, tags, error codes.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use mainstem_kafka_wire::messages::{ApiVersionsResponse, HeartbeatRequest, MetadataResponse, ProduceRequest};
use mainstem_kafka_wire::metadata_records::{MetadataRecord, NoOpRecord, TopicRecord};
use mainstem_kafka_wire::records::OffsetCommitKey;
use mainstem_kafka_wire::{
    ApiKey, DecodeErrorKind, EncodeError, ErrorCode, Message, Reader, Records, Writer, decode_request_header,
    encode_key, encode_request, encode_response, read_version, request_header_version, response_header_version,
};
use mainstem_types::TopicId;

fn partition(index: i32, records: Records<'static>) -> PartitionData<'static> {
    PartitionData { partition_index: index, records, ..Default::default() }
}

fn response(records: [Records<'static>; 3]) -> FetchResponse<'static> {
    let [a, b, c] = records;
    FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic: Cow::Borrowed("t"),
            partitions: vec![partition(0, a), partition(1, b), partition(2, c)],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn holes_filled_with_the_records_give_the_bytes_of_the_records() {
    let (first, third) = (b"first".as_slice(), vec![7u8; 300]);
    for version in [4, 11, 12] {
        let with_holes = response([Records::Hole(5), Records::Hole(0), Records::Hole(300)]);
        let holes = encode_response(1, version, 9, &with_holes).unwrap();
        let full = response([Records::borrowed(first), Records::borrowed(&[]), Records::Bytes(third.clone().into())]);
        let full = encode_response(1, version, 9, &full).unwrap();
        assert_eq!(holes.holes.iter().map(|(_, length)| *length).collect::<Vec<_>>(), [5, 300]);
        assert!(full.holes.is_empty());

        let mut filled = holes.bytes[..holes.holes[0].0].to_vec();
        filled.extend(first);
        filled.extend(&holes.bytes[holes.holes[0].0..holes.holes[1].0]);
        filled.extend(&third);
        filled.extend(&holes.bytes[holes.holes[1].0..]);
        assert_eq!(filled, full.bytes, "version {version}");
        // The frame length counts the holes.
        assert_eq!(filled[..4], (filled.len() as u32 - 4).to_be_bytes());
    }
}

#[test]
fn null_records_are_written_as_such_and_a_missing_list_is_refused() {
    let mut writer = Writer::new();
    response([Records::Null, Records::Null, Records::Null]).encode(&mut writer, 4).unwrap();
    assert!(writer.holes().is_empty());
    let decoded = FetchResponse::decode(&mut Reader::new(writer.as_bytes()), 4).unwrap();
    assert!(decoded.responses[0].partitions[2].records.is_null());
    assert_eq!(decoded.responses[0].partitions[2].records.as_bytes(), None);

    let unnamed =
        mainstem_kafka_wire::messages::metadata_response::MetadataResponseTopic { name: None, ..Default::default() };
    let response = MetadataResponse { topics: vec![unnamed], ..Default::default() };
    assert!(response.encode(&mut Writer::new(), 12).is_ok());
    let field = "MetadataResponseTopic.Name";
    assert_eq!(response.encode(&mut Writer::new(), 11), Err(EncodeError::NullNotAllowed { field, version: 11 }));
}

#[test]
fn decoding_borrows_from_the_frame() {
    let request = encode_request(3, 1, Some("c"), &ProduceRequest::default()).unwrap();
    assert_eq!(request.bytes[4..8], [0, 0, 0, 3]);
    let frame =
        [&[0, 1, b'x', 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2][..], b"ab"]
            .concat();
    let produce = ProduceRequest::decode(&mut Reader::new(&frame), 3).unwrap();
    assert!(matches!(produce.transactional_id, Some(Cow::Borrowed("x"))));
    let records = produce.topic_data[0].partition_data[0].records.as_bytes().unwrap();
    assert_eq!(records, b"ab");
    assert_eq!(records.as_ptr(), frame[frame.len() - 2..].as_ptr());
}

#[test]
fn header_versions_follow_flexibility_with_the_three_exceptions() {
    for (api, version, request, response) in [
        (ApiKey::PRODUCE, 8, 1, 0),
        (ApiKey::PRODUCE, 9, 2, 1),
        (ApiKey::FETCH, 11, 1, 0),
        (ApiKey::FETCH, 12, 2, 1),
        (ApiKey::API_VERSIONS, 2, 1, 0),
        (ApiKey::API_VERSIONS, 3, 2, 0),
        // A version from the future: its header can be read.
        (ApiKey::API_VERSIONS, 99, 2, 0),
        (ApiKey::SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey::OFFSET_DELETE, 0, 1, 0),
        (ApiKey::DESCRIBE_CLUSTER, 0, 2, 1),
    ] {
        assert_eq!(request_header_version(api.0, version), Some(request), "{api} {version}");
        assert_eq!(response_header_version(api.0, version), Some(response), "{api} {version}");
    }
    assert_eq!(request_header_version(ApiKey::VOTE.0, 0), None);
    assert_eq!(response_header_version(1000, 0), None);
}

#[test]
fn the_client_id_keeps_its_short_length_in_header_2() {
    let request = HeartbeatRequest { group_id: "g".into(), member_id: "m".into(), ..Default::default() };
    let encoded = encode_request(4, 7, Some("me"), &request).unwrap();
    let header = [0, 12, 0, 4, 0, 0, 0, 7, 0, 2, b'm', b'e', 0];
    assert_eq!(encoded.bytes[4..17], header);
    assert_eq!(encoded.bytes[17..], [2, b'g', 0, 0, 0, 0, 2, b'm', 0, 0]);
    let mut reader = Reader::new(&encoded.bytes[4..]);
    let decoded = decode_request_header(&mut reader).unwrap().unwrap();
    assert_eq!(decoded.client_id.as_deref(), Some("me"));
    assert_eq!(decoded.correlation_id, 7);
    assert_eq!(HeartbeatRequest::decode(&mut reader, 4).unwrap(), request);
    // An API that is not declared: nobody can say how its header goes on.
    assert_eq!(decode_request_header(&mut Reader::new(&[0, 52, 0, 0, 0, 0, 0, 1])), Ok(None));
}

#[test]
fn unknown_tags_are_skipped() {
    // ApiVersionsResponse 3: no error, no keys, no throttle; tags 1 (epoch 5) and 77 (three bytes).
    let bytes = [0, 0, 1, 0, 0, 0, 0, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 5, 77, 3, 9, 9, 9];
    let mut reader = Reader::new(&bytes);
    let response = ApiVersionsResponse::decode(&mut reader, 3).unwrap();
    assert_eq!(response.finalized_features_epoch, 5);
    assert_eq!(reader.remaining(), 0);
    // A tag whose size is not that of its value.
    let mut wrong = bytes;
    wrong[9] = 7;
    let error = ApiVersionsResponse::decode(&mut Reader::new(&wrong), 3).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TagSizeMismatch { expected: 17, actual: 18 });
    assert_eq!(error.field, "ApiVersionsResponse.FinalizedFeaturesEpoch");
}

#[test]
fn varints_are_bounded() {
    let read = |bytes: &[u8]| Reader::new(bytes).uvarint("x").map_err(|error| error.kind);
    assert_eq!(read(&[0]), Ok(0));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(DecodeErrorKind::VarintTooLong));
    assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0]), Err(DecodeErrorKind::VarintTooLong));
    assert_eq!(read(&[0x80]), Err(DecodeErrorKind::Truncated { needed: 1, remaining: 0 }));
    for value in [0, 127, 128, 16383, 16384, u32::MAX] {
        let mut writer = Writer::new();
        writer.uvarint(value);
        assert_eq!(read(writer.as_bytes()), Ok(value));
    }
}

#[test]
fn strings_are_checked() {
    let read = |bytes: &[u8], compact| {
        let text = Reader::new(bytes).string("x", compact).map(str::len);
        text.map_err(|error| (error.kind, error.position))
    };
    assert_eq!(read(&[0, 1, 0xff], false), Err((DecodeErrorKind::NotUtf8, 2)));
    assert_eq!(read(&[4, b'a', b'b', 0xff], true), Err((DecodeErrorKind::NotUtf8, 3)));
    assert_eq!(read(&[0xff, 0xff], false), Err((DecodeErrorKind::UnexpectedNull, 2)));
    assert_eq!(read(&[0x80, 0], false), Err((DecodeErrorKind::NegativeLength(-32768), 2)));
    // 32768 bytes, compact.
    let long = [vec![0x81, 0x80, 0x02], vec![b'a'; 32768]].concat();
    assert_eq!(read(&long, true), Err((DecodeErrorKind::StringTooLong(32768), 3)));
    let text = "a".repeat(32768);
    let field = "x";
    let too_long = Err(EncodeError::TooLong { field, length: 32768 });
    assert_eq!(Writer::new().string(field, &text, true), too_long);
    assert_eq!(Writer::new().string(field, &text, false), too_long);
    assert_eq!(Writer::new().string(field, &text[1..], false), Ok(()));
}

#[test]
fn metadata_records_are_framed() {
    let record = MetadataRecord::from(TopicRecord { name: "t".into(), topic_id: TopicId([1; 16]) });
    let mut writer = Writer::new();
    record.encode_framed(&mut writer, 0).unwrap();
    let bytes = [&[1, 2, 0, 2, b't'][..], &[1; 16], &[0]].concat();
    assert_eq!(writer.as_bytes(), bytes);
    assert_eq!(MetadataRecord::decode_framed(&bytes).unwrap(), record);
    assert_eq!(MetadataRecord::decode_framed_versioned(&bytes).unwrap().1, 0);
    assert_eq!(record.api_key(), 2);
    assert_eq!(MetadataRecord::from(NoOpRecord::default()).api_key(), 20);

    let kind = |bytes: &[u8]| MetadataRecord::decode_framed(bytes).unwrap_err().kind;
    assert_eq!(kind(&[&bytes[..], &[0]].concat()), DecodeErrorKind::TrailingBytes(1));
    assert_eq!(kind(&[0, 2, 0]), DecodeErrorKind::UnknownFrameVersion(0));
    assert_eq!(kind(&[1, 99, 0]), DecodeErrorKind::UnknownRecord(99));
    assert_eq!(kind(&[1, 2, 1]), DecodeErrorKind::UnsupportedVersion(1));
    assert_eq!(kind(&[1, 0xff, 0xff, 0x03, 0]), DecodeErrorKind::VarintTooLong);
}

#[test]
fn keys_of_internal_topics_start_with_their_number() {
    let key = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition: 3 };
    let bytes = encode_key(&key).unwrap();
    assert_eq!(bytes[..], [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
    let (number, mut reader) = read_version(&bytes).unwrap();
    assert_eq!(number, 1);
    assert_eq!(OffsetCommitKey::decode(&mut reader, 0).unwrap(), key);
}

#[test]
fn error_codes_are_complete_and_named() {
    assert_eq!(ErrorCode::ALL.len(), 138);
    for (expected, code) in (-1..).zip(ErrorCode::ALL) {
        assert_eq!(code.0, expected);
        assert_ne!(code.name(), "UNNAMED");
        assert!(code.message().ends_with('.'), "{code}");
    }
    assert_eq!(ErrorCode::UNKNOWN_TOPIC_ID.0, 100);
    assert_eq!(ErrorCode::REBOOTSTRAP_REQUIRED.0, 129);
    assert!(ErrorCode::NOT_LEADER_OR_FOLLOWER.is_retriable());
    assert!(!ErrorCode::TOPIC_ALREADY_EXISTS.is_retriable());
    assert!(!ErrorCode(500).is_retriable());
    assert_eq!(ErrorCode(500).to_string(), "UNNAMED(500)");
    assert_eq!(ApiKey::ALL.iter().filter(|key| !key.is_own()).count(), 95);
    assert_eq!(ApiKey(94).name(), "UnregisterController");
    assert_eq!(ApiKey(95).name(), "Unknown");
    assert_eq!(ApiKey(20_000).name(), "FindByKey");
}
