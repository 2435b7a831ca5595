//! Produce: rows 1 to 12.

use std::sync::Arc;
use std::time::Duration;

use mainstem_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use mainstem_kafka_wire::messages::produce_request::ProduceRequest;
use mainstem_kafka_wire::messages::{MetadataResponse, ProduceResponse};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_record::{BatchBuilder, BatchView, Codec, TimestampType, layout};
use mainstem_types::TimestampMs;

use crate::support::batches::{TIME_MS, at_times, batch, compressed, patched, records};
use crate::support::link::settle;
use crate::support::node::START_MS;
use crate::support::requests::{Topic, fetched, produce, produce_all, produced};
use crate::support::{Node, RequestOutcome};

fn start(configs: &[(&str, &str)]) -> (Node, Topic) {
    let node = Node::start(&[]);
    let id = node.create("t", 2, configs);
    (node, Topic { name: "t", id })
}

/// Produces and gives error code and base offset.
fn code(node: &Node, version: i16, topic: Topic, batch: &[u8]) -> (ErrorCode, i64) {
    let answer = produced(&mut node.connect(), version, topic, 0, batch);
    (ErrorCode(answer.error_code), answer.base_offset)
}

fn stored(node: &Node, topic: Topic, partition: i32) -> Vec<u8> {
    let answer = fetched(&mut node.connect(), 12, topic, partition, 0);
    answer.records.as_bytes().unwrap_or_default().to_vec()
}

#[test]
fn row_01_acks_other_than_all_one_and_none_are_refused_for_every_partition() {
    let (node, topic) = start(&[]);
    let good = batch(&["a"]);
    for acks in [-2, 2, 5] {
        let both = vec![(0, Records::borrowed(&good)), (1, Records::borrowed(&good))];
        let response: ProduceResponse<'static> = node.call(9, &produce_all(9, topic, acks, both));
        let codes: Vec<i16> = response.responses[0].partition_responses.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [21, 21]);
    }
    assert_eq!(records(&stored(&node, topic, 0)), []);
}

#[test]
fn row_01_acks_none_gets_no_answer_and_an_error_ends_the_connection() {
    let (node, topic) = start(&[]);
    let good = batch(&["a"]);
    for version in 3..=13 {
        let mut link = node.connect();
        assert_eq!(link.tell(version, &produce(version, topic, 0, 0, &good)), RequestOutcome::Nothing);
        for bad in [produce(version, Topic::UNKNOWN, 0, 0, &good), produce(version, topic, 0, 0, b"")] {
            assert_eq!(node.connect().tell(version, &bad), RequestOutcome::Closed);
        }
    }
    assert_eq!(records(&stored(&node, topic, 0)).len(), 11);
}

#[test]
fn row_02_a_partition_gets_exactly_one_batch_of_format_2() {
    let (node, topic) = start(&[]);
    let good = batch(&["a"]);
    let old = patched(good.clone(), layout::MAGIC, &[1]);
    for bad in [&b""[..], &[good.clone(), good.clone()].concat(), &old] {
        assert_eq!(code(&node, 9, topic, bad), (ErrorCode::INVALID_RECORD, -1));
    }
    let response: ProduceResponse<'static> = node.call(9, &produce_all(9, topic, -1, vec![(0, Records::Null)]));
    assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::INVALID_RECORD.0);
    assert_eq!(records(&stored(&node, topic, 0)), []);
}

#[test]
fn row_02_zstd_needs_version_7_and_the_base_offset_is_zero() {
    let (node, topic) = start(&[]);
    let zstd = compressed(Codec::Zstd, &["a"]);
    assert_eq!(code(&node, 6, topic, &zstd), (ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, -1));
    assert_eq!(code(&node, 7, topic, &zstd), (ErrorCode::NONE, 0));
    let elsewhere = patched(batch(&["a"]), layout::BASE_OFFSET, &1i64.to_be_bytes());
    assert_eq!(code(&node, 9, topic, &elsewhere), (ErrorCode::INVALID_RECORD, -1));
}

#[test]
fn row_03_the_compressed_size_with_its_header_is_bounded_by_max_message_bytes_and_by_a_segment() {
    let (node, topic) = start(&[("max.message.bytes", "200")]);
    let value = "x".repeat(400);
    assert_eq!(code(&node, 9, topic, &batch(&[&value])), (ErrorCode::MESSAGE_TOO_LARGE, -1));
    assert_eq!(code(&node, 9, topic, &compressed(Codec::Gzip, &[&value])), (ErrorCode::NONE, 0));
    let configs = [("segment.bytes", "1048576"), ("max.message.bytes", "4000000")];
    let large = Topic { name: "large", id: node.create("large", 1, &configs) };
    let huge = batch(&[&"x".repeat(1_100_000)]);
    assert_eq!(code(&node, 9, large, &huge), (ErrorCode::RECORD_LIST_TOO_LARGE, -1));
}

#[test]
fn row_03_a_batch_of_the_default_largest_size_is_taken_and_one_byte_more_is_not() {
    let (node, topic) = start(&[]);
    let of_size = |size: usize| {
        let empty = batch(&[&"x".repeat(1_000_000)]).len() - 1_000_000;
        batch(&[&"x".repeat(size - empty)])
    };
    assert_eq!(of_size(1_048_588).len(), 1_048_588);
    assert_eq!(code(&node, 9, topic, &of_size(1_048_589)), (ErrorCode::MESSAGE_TOO_LARGE, -1));
    assert_eq!(code(&node, 9, topic, &of_size(1_048_588)), (ErrorCode::NONE, 0));
}

#[test]
fn row_03_a_wrong_checksum_is_a_corrupt_message() {
    let (node, topic) = start(&[]);
    let mut bad = batch(&["a"]);
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(code(&node, 9, topic, &bad), (ErrorCode::CORRUPT_MESSAGE, -1));
    let unheard_of = patched(batch(&["a"]), layout::MAGIC, &[3]);
    assert_eq!(code(&node, 9, topic, &unheard_of), (ErrorCode::CORRUPT_MESSAGE, -1));
}

#[test]
fn row_04_what_is_wrong_with_records_fails_the_batch_and_is_listed_from_version_8() {
    let (node, compacted) = start(&[("cleanup.policy", "compact")]);
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(TIME_MS), None, Some(b"a"), &[]);
    builder.append(TimestampMs(TIME_MS), Some(b"k"), Some(b"b"), &[]);
    builder.append(TimestampMs(TIME_MS), None, Some(b"c"), &[]);
    let bad = builder.build().unwrap();
    for version in 3..=13 {
        let answer = produced(&mut node.connect(), version, compacted, 0, &bad);
        assert_eq!(answer.error_code, ErrorCode::INVALID_RECORD.0);
        let listed: Vec<i32> = answer.record_errors.iter().map(|error| error.batch_index).collect();
        assert_eq!(listed, if version >= 8 { vec![0, 2] } else { vec![] });
    }
    assert_eq!(records(&stored(&node, compacted, 0)), []);
}

#[test]
fn what_is_wrong_with_a_batch_is_told_in_words_from_version_8() {
    let (node, topic) = start(&[("max.message.bytes", "100")]);
    for (bad, word) in [(batch(&[&"x".repeat(100)]), "max.message.bytes"), (Vec::new(), "no batch")] {
        for version in 3..=13 {
            let answer = produced(&mut node.connect(), version, topic, 0, &bad);
            let message = answer.error_message.as_deref();
            assert!(message.is_some_and(|text| text.contains(word)) == (version >= 8), "{message:?}");
        }
    }
}

#[test]
fn row_04_times_are_bounded_to_one_hour_ahead_and_as_the_topic_says() {
    let (node, topic) = start(&[]);
    let hour_ms = 3_600_000;
    let times = |times: &[i64]| at_times(Codec::Lz4, times);
    assert_eq!(code(&node, 9, topic, &times(&[0, START_MS + hour_ms])), (ErrorCode::NONE, 0));
    let answer = produced(&mut node.connect(), 9, topic, 0, &times(&[0, START_MS + hour_ms + 1]));
    assert_eq!((answer.error_code, answer.record_errors[0].batch_index), (ErrorCode::INVALID_TIMESTAMP.0, 1));
    let configs = [("message.timestamp.before.max.ms", "1000"), ("message.timestamp.after.max.ms", "1000")];
    let strict = Topic { name: "strict", id: node.create("strict", 1, &configs) };
    for (delta, expected) in [(-1_001, 32), (-1_000, 0), (1_000, 0), (1_001, 32)] {
        assert_eq!(code(&node, 9, strict, &times(&[START_MS + delta])).0.0, expected, "{delta}");
    }
}

#[test]
fn row_05_the_header_of_a_clients_batch_is_checked() {
    let (node, topic) = start(&[]);
    let good = batch(&["a", "b"]);
    let i32_at = |at, value: i32| patched(good.clone(), at, &value.to_be_bytes());
    let with_producer = patched(good.clone(), layout::PRODUCER_ID, &7i64.to_be_bytes());
    let bad = [
        i32_at(layout::RECORD_COUNT, 1),
        i32_at(layout::RECORD_COUNT, 3),
        i32_at(layout::RECORD_COUNT, 0),
        i32_at(layout::LAST_OFFSET_DELTA, 2),
        patched(good.clone(), layout::ATTRIBUTES, &0x20i16.to_be_bytes()),
        with_producer,
    ];
    for bad in &bad {
        assert_eq!(code(&node, 9, topic, bad), (ErrorCode::INVALID_RECORD, -1));
    }
    assert_eq!(code(&node, 9, topic, &good), (ErrorCode::NONE, 0));
}

#[test]
fn row_06_log_append_time_stamps_the_header_and_leaves_the_records() {
    let (node, topic) = start(&[("message.timestamp.type", "LogAppendTime")]);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        node.advance(Duration::from_millis(7));
        let sent = at_times(codec, &[TIME_MS, 9_000_000_000_000]);
        let answer = produced(&mut node.connect(), 9, topic, 0, &sent);
        let now = node.broker().clock().wall_ms().0;
        assert_eq!((answer.error_code, answer.log_append_time_ms), (0, now));
        let answer = fetched(&mut node.connect(), 12, topic, 0, answer.base_offset);
        let bytes = answer.records.as_bytes().unwrap();
        let view = BatchView::parse(bytes).unwrap();
        assert!(view.crc_is_valid());
        let header = view.header();
        assert_eq!((header.timestamp_type(), header.max_timestamp.0), (TimestampType::LogAppendTime, now));
        assert_eq!(header.base_timestamp.0, TIME_MS);
        assert_eq!(view.payload(), BatchView::parse(&sent).unwrap().payload());
    }
}

#[test]
fn row_06_with_create_time_no_append_time_is_told_and_the_mark_of_the_broker_is_refused() {
    let (node, topic) = start(&[]);
    let answer = produced(&mut node.connect(), 9, topic, 0, &batch(&["a"]));
    assert_eq!((answer.error_code, answer.log_append_time_ms), (0, -1));
    let marked = patched(batch(&["a"]), layout::ATTRIBUTES, &8i16.to_be_bytes());
    assert_eq!(code(&node, 9, topic, &marked), (ErrorCode::INVALID_TIMESTAMP, -1));
}

#[test]
fn row_07_compression_type_producer_keeps_the_bytes_and_another_compresses_anew() {
    let (node, _) = start(&[]);
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let names = ["uncompressed", "gzip", "snappy", "lz4", "zstd"];
    let kept = Topic { name: "kept", id: node.create("kept", 1, &[]) };
    for codec in codecs {
        let sent = compressed(codec, &["a", "b"]);
        let base = produced(&mut node.connect(), 9, kept, 0, &sent).base_offset;
        let answer = fetched(&mut node.connect(), 12, kept, 0, base);
        let bytes = answer.records.as_bytes().unwrap();
        assert_eq!(bytes[layout::MAGIC..], sent[layout::MAGIC..], "{codec:?}");
    }
    for (target, name) in codecs.into_iter().zip(names) {
        let topic = Topic { name, id: node.create(name, 1, &[("compression.type", name)]) };
        for codec in codecs {
            let sent = compressed(codec, &["a", "bb", "ccc"]);
            let base = produced(&mut node.connect(), 9, topic, 0, &sent).base_offset;
            let answer = fetched(&mut node.connect(), 12, topic, 0, base);
            let bytes = answer.records.as_bytes().unwrap();
            assert_eq!(BatchView::parse(bytes).unwrap().codec(), Some(target), "{codec:?}");
            let expected = [(base, "a".to_owned()), (base + 1, "bb".to_owned()), (base + 2, "ccc".to_owned())];
            assert_eq!(records(bytes), expected, "{codec:?} to {target:?}");
        }
    }
}

#[test]
fn row_07_the_size_is_checked_again_after_compressing_anew() {
    let (node, topic) = start(&[("compression.type", "uncompressed"), ("max.message.bytes", "1000")]);
    let sent = compressed(Codec::Gzip, &[&"x".repeat(2_000)]);
    assert!(sent.len() < 1_000);
    assert_eq!(code(&node, 9, topic, &sent), (ErrorCode::MESSAGE_TOO_LARGE, -1));
}

#[test]
fn row_08_the_broker_stamps_leader_epoch_and_base_offset() {
    let (node, topic) = start(&[]);
    code(&node, 9, topic, &batch(&["a", "b"]));
    let node = node.restart();
    code(&node, 9, topic, &batch(&["c"]));
    let bytes = stored(&node, topic, 0);
    let first = BatchView::parse(&bytes).unwrap();
    let second = BatchView::parse(&bytes[first.size_in_bytes()..]).unwrap();
    assert_eq!((first.header().base_offset.0, second.header().base_offset.0), (0, 2));
    assert!(second.header().leader_epoch > first.header().leader_epoch);
    assert!(first.crc_is_valid() && second.crc_is_valid());
}

/// One record with value `v`, its bytes behind a literal: the least that snappy can be.
fn raw_snappy() -> Vec<u8> {
    let plain = batch(&["v"]);
    let payload = &plain[layout::RECORDS..];
    let mut bytes = plain[..layout::RECORDS].to_vec();
    bytes.push(payload.len() as u8);
    bytes.push(((payload.len() - 1) << 2) as u8);
    bytes.extend_from_slice(payload);
    let length = (bytes.len() - layout::LENGTH_OVERHEAD) as i32;
    let bytes = patched(bytes, layout::BATCH_LENGTH, &length.to_be_bytes());
    patched(bytes, layout::ATTRIBUTES, &2i16.to_be_bytes())
}

#[test]
fn row_09_snappy_is_taken_in_xerials_framing_and_raw() {
    let (node, topic) = start(&[("compression.type", "gzip")]);
    let framed = compressed(Codec::Snappy, &["v"]);
    assert_eq!(framed[layout::RECORDS..layout::RECORDS + 8], *b"\x82SNAPPY\0");
    assert_eq!(framed[layout::RECORDS + 8..layout::RECORDS + 16], [0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(code(&node, 9, topic, &framed), (ErrorCode::NONE, 0));
    assert_eq!(code(&node, 9, topic, &raw_snappy()), (ErrorCode::NONE, 1));
    assert_eq!(records(&stored(&node, topic, 0)), [(0, "v".to_owned()), (1, "v".to_owned())]);
}

#[test]
fn row_10_no_more_replicas_are_asked_for_than_a_topic_has() {
    let (node, topic) = start(&[("min.insync.replicas", "3")]);
    assert_eq!(code(&node, 9, topic, &batch(&["a"])), (ErrorCode::NONE, 0));
}

#[test]
fn row_10_a_record_that_is_not_durable_in_time_is_answered_request_timed_out() {
    let node = Node::start_without_flushes(&[]);
    let topic = Topic { name: "t", id: node.create("t", 1, &[("mainstem.durability", "disk")]) };
    let mut link = node.connect();
    let good = batch(&["a"]);
    let request = ProduceRequest { timeout_ms: 20, ..produce(9, topic, 0, -1, &good) };
    let response: ProduceResponse<'static> = link.call(9, &request);
    let answer = &response.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::REQUEST_TIMED_OUT.0, -1));
    // It is there, and acknowledged to who asks for the next after it.
    let sent = link.send(9, &produce(9, topic, 0, 1, &good));
    assert!(!sent.is_ended());
    node.flush();
    let response: ProduceResponse<'static> = link.end::<ProduceRequest<'_>, _>(9, sent).answer();
    let answer = &response.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
}

#[test]
fn row_11_produce_never_creates_a_topic() {
    let (node, topic) = start(&[]);
    let good = batch(&["a"]);
    assert_eq!(code(&node, 9, Topic::UNKNOWN, &good), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
    assert_eq!(code(&node, 13, Topic::UNKNOWN, &good), (ErrorCode::UNKNOWN_TOPIC_ID, -1));
    let answer = produced(&mut node.connect(), 13, topic, 2, &good);
    assert_eq!(answer.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
    let name = Some(std::borrow::Cow::Borrowed(Topic::UNKNOWN.name));
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name, ..Default::default() }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let response: MetadataResponse<'static> = node.call(9, &request);
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
}

#[test]
fn row_11_internal_topics_are_written_by_the_admin_client_alone() {
    let (node, _) = start(&[]);
    node.runtime.block_on(node.broker().create_offsets_topic()).unwrap();
    let internal = Topic { name: "__consumer_offsets", ..Topic::UNKNOWN };
    let mut keyed = BatchBuilder::new();
    keyed.append(TimestampMs(TIME_MS), Some(b"\0\x01"), None, &[]);
    let keyed = keyed.build().unwrap();
    assert_eq!(code(&node, 9, internal, &keyed), (ErrorCode::INVALID_TOPIC_EXCEPTION, -1));
    let mut link = node.connect();
    link.client_id = Some("__admin_client");
    assert_eq!(produced(&mut link, 9, internal, 0, &keyed).error_code, 0);
}

#[test]
fn row_12_requests_of_a_connection_are_appended_in_their_order() {
    let node = Node::start_without_flushes(&[]);
    let topic = Topic { name: "t", id: node.create("t", 1, &[("mainstem.durability", "disk")]) };
    let partition = Arc::clone(&node.broker().topics().by_name("t").unwrap().partitions[0]);
    // So that all are appended where they are handled.
    partition.log().without_folder().unwrap().get_or_create().unwrap();
    let mut link = node.connect();
    let batches: Vec<Vec<u8>> = (0..5).map(|number: i32| batch(&[&number.to_string()])).collect();
    let sent: Vec<_> = batches.iter().map(|batch| link.send(9, &produce(9, topic, 0, -1, batch))).collect();
    settle(&node.runtime);
    assert!(sent.iter().all(|sent| !sent.is_ended()), "nothing is durable yet");
    node.flush();
    for (expected, sent) in sent.into_iter().enumerate() {
        let response: ProduceResponse<'static> = link.end::<ProduceRequest<'_>, _>(9, sent).answer();
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, expected as i64));
    }
}

#[test]
fn a_broker_without_transactions_refuses_transactional_batches() {
    let (node, topic) = start(&[]);
    let mut builder = BatchBuilder::new().transactional();
    builder.append(TimestampMs(TIME_MS), None, Some(b"a"), &[]);
    let transactional = builder.build().unwrap();
    assert_eq!(code(&node, 9, topic, &transactional), (ErrorCode::INVALID_TXN_STATE, -1));
    let plain = batch(&["a"]);
    let transactional_id = Some(std::borrow::Cow::Borrowed("id"));
    let request = ProduceRequest { transactional_id, ..produce(9, topic, 0, -1, &plain) };
    let response: ProduceResponse<'static> = node.call(9, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::INVALID_TXN_STATE.0);
}
