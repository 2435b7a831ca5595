use mainstem_kafka_wire::messages::DeleteRecordsResponse;
use mainstem_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use mainstem_record::{BatchBuilder, RecordHeader};

use super::*;
use crate::test_support::TestDoor;

const TIME: i64 = 1_790_000_000_000;
const LAYOUTS: [&str; 3] = ["partition", "topic", "shared"];

fn node() -> TestDoor {
    TestDoor::start(&[("mainstem.shared.groups", "2")])
}

fn create(kafka: &TestDoor, layout: &'static str, key_index: &'static str) -> TopicId {
    kafka.create_with(layout, 2, &[("mainstem.layout", layout), ("mainstem.key.index", key_index)])
}

/// A record of this key and this many milliseconds after the first one's time.
fn put(kafka: &TestDoor, topic: &str, partition: i32, key: &str, after_ms: i64) {
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(TIME + after_ms), Some(key.as_bytes()), Some(b"value"), &[]);
    kafka.produce_batch(topic, partition, &builder.build().unwrap());
}

fn asked(topic: &'static str, key: &'static str) -> FindByKeyRequest<'static> {
    FindByKeyRequest { topic_name: Some(topic.into()), key: key.as_bytes().into(), ..Default::default() }
}

fn find(kafka: &TestDoor, request: &FindByKeyRequest<'static>) -> FindByKeyResponse<'static> {
    kafka.call(0, request)
}

/// Partition, offset, and milliseconds after the first one's time.
fn found(kafka: &TestDoor, request: &FindByKeyRequest<'static>) -> Vec<(i32, i64, i64)> {
    let response = find(kafka, request);
    assert_eq!((response.error_code, &response.error_message, response.is_complete), (0, &None, true));
    response.records.iter().map(|one| (one.partition_index, one.offset, one.timestamp - TIME)).collect()
}

#[test]
fn what_was_acknowledged_is_found_newest_first_in_every_layout() {
    let kafka = node();
    for layout in LAYOUTS {
        let id = create(&kafka, layout, "all");
        assert_eq!(found(&kafka, &asked(layout, "a")), []);
        for after_ms in 0..10 {
            put(&kafka, layout, after_ms as i32 % 2, if after_ms < 6 { "a" } else { "b" }, after_ms);
            let newest = found(&kafka, &asked(layout, if after_ms < 6 { "a" } else { "b" }))[0];
            assert_eq!(newest, (after_ms as i32 % 2, after_ms / 2, after_ms), "{layout}");
        }
        let all = [(1, 2, 5), (0, 2, 4), (1, 1, 3), (0, 1, 2), (1, 0, 1), (0, 0, 0)];
        let a = asked(layout, "a");
        assert_eq!(found(&kafka, &a), all, "{layout}");
        let by_id = FindByKeyRequest { topic_name: None, topic_id: id, ..a.clone() };
        assert_eq!(found(&kafka, &by_id), all, "{layout}");
        assert_eq!(find(&kafka, &by_id).topic_name.as_deref(), Some(layout));
        assert_eq!(found(&kafka, &FindByKeyRequest { max_records: 2, ..a.clone() }), all[..2], "{layout}");
        let second = FindByKeyRequest { partition_index: 1, ..a.clone() };
        assert_eq!(found(&kafka, &second), [(1, 2, 5), (1, 1, 3), (1, 0, 1)], "{layout}");
        let between = FindByKeyRequest { begin_timestamp: TIME + 1, end_timestamp: TIME + 3, ..a.clone() };
        assert_eq!(found(&kafka, &between), [(1, 1, 3), (0, 1, 2), (1, 0, 1)], "{layout}");
        assert_eq!(found(&kafka, &FindByKeyRequest { isolation_level: 1, ..a.clone() }), all, "{layout}");
        assert_eq!(find(&kafka, &a).indexed_keys, INDEXED_ALL);
        delete_before(&kafka, layout, 1, 2);
        assert_eq!(found(&kafka, &a), [(1, 2, 5), (0, 2, 4), (0, 1, 2), (0, 0, 0)], "{layout}");
    }
}

fn delete_before(kafka: &TestDoor, topic: &'static str, partition_index: i32, offset: i64) {
    let partitions = vec![DeleteRecordsPartition { partition_index, offset }];
    let topics = vec![DeleteRecordsTopic { name: topic.into(), partitions }];
    let response: DeleteRecordsResponse<'static> = kafka.call(2, &DeleteRecordsRequest { topics, timeout_ms: 1000 });
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
}

#[test]
fn headers_are_found_where_headers_alone_are_indexed() {
    let kafka = node();
    create(&kafka, "shared", "headers");
    let headers = [RecordHeader::new("KEYS", Some(b"red blue")), RecordHeader::new("UNIQ_KEY", Some(b"0A"))];
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(TIME), Some(b"own"), None, &headers);
    kafka.produce_batch("shared", 0, &builder.build().unwrap());
    for (key, expected) in [("blue", 1), ("red", 1), ("0A", 1), ("own", 0), ("green", 0)] {
        assert_eq!(found(&kafka, &asked("shared", key)).len(), expected, "{key}");
    }
    assert_eq!(find(&kafka, &asked("shared", "own")).indexed_keys, INDEXED_HEADERS);
}

#[test]
fn without_an_index_the_setting_is_named() {
    let kafka = node();
    create(&kafka, "partition", "headers");
    create(&kafka, "topic", "none");
    create(&kafka, "shared", "none");
    for layout in LAYOUTS {
        let response = find(&kafka, &asked(layout, "a"));
        assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_CONFIG);
        let message = response.error_message.unwrap();
        assert!(message.contains("set mainstem.key.index=all") && message.contains(layout), "{message}");
        assert_eq!(response.topic_name.as_deref(), Some(layout));
    }
}

#[test]
fn borders_of_the_request() {
    let kafka = node();
    let id = create(&kafka, "topic", "all");
    put(&kafka, "topic", 0, "a", 0);
    let good = asked("topic", "a");
    let named = |name| FindByKeyRequest { topic_name: name, ..good.clone() };
    let refused = [
        (named(Some("nowhere".into())), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (named(Some("".into())), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (named(None), ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { topic_id: id, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { topic_id: TopicId([9; 16]), ..named(None) }, ErrorCode::UNKNOWN_TOPIC_ID),
        (FindByKeyRequest { key: (&[][..]).into(), ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { key: (&[0xff, 0xfe][..]).into(), ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { partition_index: 2, ..good.clone() }, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (FindByKeyRequest { partition_index: i32::MAX, ..good.clone() }, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (FindByKeyRequest { partition_index: -2, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { begin_timestamp: -2, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { begin_timestamp: i64::MIN, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { end_timestamp: -2, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { begin_timestamp: 8, end_timestamp: 7, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { max_records: 0, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { max_records: i32::MIN, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { isolation_level: 2, ..good.clone() }, ErrorCode::INVALID_REQUEST),
        (FindByKeyRequest { isolation_level: -1, ..good.clone() }, ErrorCode::INVALID_REQUEST),
    ];
    for (request, expected) in refused {
        let response = find(&kafka, &request);
        assert_eq!(ErrorCode(response.error_code), expected, "{request:?}");
        assert_eq!(response.records, []);
    }
    let answered = [
        FindByKeyRequest { begin_timestamp: 0, end_timestamp: i64::MAX, max_records: i32::MAX, ..good.clone() },
        FindByKeyRequest { begin_timestamp: TIME, end_timestamp: TIME, max_records: 1, ..good.clone() },
    ];
    for request in answered {
        assert_eq!(found(&kafka, &request), [(0, 0, 0)], "{request:?}");
    }
    assert_eq!(found(&kafka, &FindByKeyRequest { begin_timestamp: i64::MAX, ..good.clone() }), []);
    assert_eq!(found(&kafka, &FindByKeyRequest { end_timestamp: 0, ..good }), []);
}

#[test]
fn an_answer_has_a_thousand_records_at_most() {
    let kafka = node();
    for layout in LAYOUTS {
        create(&kafka, layout, "all");
        for partition in 0..2 {
            kafka.produce(layout, partition, 700);
        }
        let response = find(&kafka, &FindByKeyRequest { max_records: i32::MAX, ..asked(layout, "key") });
        assert_eq!((response.error_code, response.records.len()), (0, 1000), "{layout}");
    }
}

#[test]
fn a_look_up_never_waits_on_the_reactor() {
    let kafka = node();
    create(&kafka, "topic", "all");
    let frame = mainstem_kafka_wire::encode_request(0, 7, None, &asked("topic", "a")).unwrap().bytes.slice(4..);
    let handled = kafka.here().handle(frame);
    assert!(matches!(handled, Handled::Working(_)));
    assert!(matches!(kafka.here().wait(handled), Reply::Send(_)));
}
