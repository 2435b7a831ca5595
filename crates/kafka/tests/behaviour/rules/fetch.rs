//! Fetch: rows 26 to 34.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::delete_topics_request::DeleteTopicsRequest;
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest};
use mainstem_kafka_wire::messages::fetch_response::PartitionData;
use mainstem_kafka_wire::messages::{DeleteTopicsResponse, FetchResponse};
use mainstem_record::{BatchView, Codec};

use crate::support::Node;
use crate::support::batches::{batch, compressed, records};
use crate::support::link::settle;
use crate::support::requests::{Topic, fetch, fetched, from, produce, produced};

/// What Java's consumer accepts in a partition of a fetch: anything else stops it.
const ACCEPTED: [i16; 14] = [0, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103, -1];

fn start() -> (Node, Topic) {
    let node = Node::start(&[]);
    let id = node.create("t", 3, &[]);
    (node, Topic { name: "t", id })
}

fn append(node: &Node, topic: Topic, partition: i32, batch: &[u8]) {
    assert_eq!(produced(&mut node.connect(), 9, topic, partition, batch).error_code, 0);
}

fn bytes(data: &PartitionData<'_>) -> Vec<u8> {
    data.records.as_bytes().unwrap_or_default().to_vec()
}

fn fetch_all(node: &Node, request: &FetchRequest<'static>) -> Vec<PartitionData<'static>> {
    let response: FetchResponse<'static> = node.call(12, request);
    response.responses.into_iter().flat_map(|topic| topic.partitions).collect()
}

#[test]
fn row_26_an_offset_beyond_the_end_or_before_the_start_is_out_of_range() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a", "b"]));
    for version in 4..=18 {
        for offset in [3, -1, i64::MAX] {
            let answer = fetched(&mut node.connect(), version, topic, 0, offset);
            assert_eq!(answer.error_code, ErrorCode::OFFSET_OUT_OF_RANGE.0);
            // As Kafka 4.4: clients ask ListOffsets for the range.
            assert_eq!((answer.high_watermark, answer.last_stable_offset), (-1, -1));
        }
        let answer = fetched(&mut node.connect(), version, topic, 0, 2);
        assert_eq!((answer.error_code, answer.high_watermark, bytes(&answer)), (0, 2, vec![]));
    }
}

#[test]
fn row_26_an_offset_between_high_watermark_and_end_is_empty_without_an_error_and_waits() {
    let node = Node::start_without_flushes(&[]);
    let topic = Topic { name: "t", id: node.create("t", 1, &[("mainstem.durability", "disk")]) };
    let (first, second) = (batch(&["a", "b"]), batch(&["c"]));
    node.connect().tell(9, &produce(9, topic, 0, 0, &first));
    for offset in [0, 1, 2] {
        let answer = fetched(&mut node.connect(), 12, topic, 0, offset);
        assert_eq!((answer.error_code, answer.high_watermark, bytes(&answer)), (0, 0, vec![]), "{offset}");
    }
    let mut link = node.connect();
    let waiting = link.send(12, &FetchRequest { max_wait_ms: 60_000, ..fetch(12, topic, vec![from(0, 1)]) });
    node.connect().tell(9, &produce(9, topic, 0, 0, &second));
    settle(&node.runtime);
    assert!(!waiting.is_ended(), "what is not durable is not seen");
    node.flush();
    let answer: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(12, waiting).answer();
    assert_eq!(records(&bytes(&answer.responses[0].partitions[0])).len(), 3);
}

#[test]
fn row_27_the_first_partition_with_data_gives_a_whole_batch_and_the_others_keep_to_the_limits() {
    let (node, topic) = start();
    let large = batch(&[&"x".repeat(500)]);
    append(&node, topic, 1, &large);
    append(&node, topic, 1, &large);
    append(&node, topic, 2, &large);
    let limited = |partition| FetchPartition { partition_max_bytes: 10, ..from(partition, 0) };
    let answers = fetch_all(&node, &fetch(12, topic, vec![from(0, 0), limited(1), limited(2)]));
    let sizes: Vec<usize> = answers.iter().map(|data| bytes(data).len()).collect();
    assert_eq!(sizes, [0, large.len(), 0]);
    let request = FetchRequest { max_bytes: 10, ..fetch(12, topic, vec![from(0, 0), from(2, 0), from(1, 0)]) };
    let sizes: Vec<usize> = fetch_all(&node, &request).iter().map(|data| bytes(data).len()).collect();
    assert_eq!(sizes, [0, large.len(), 0]);
    let both = large.len() as i32 * 2;
    let request = FetchRequest { max_bytes: both, ..fetch(12, topic, vec![from(1, 0), from(2, 0)]) };
    let sizes: Vec<usize> = fetch_all(&node, &request).iter().map(|data| bytes(data).len()).collect();
    assert_eq!(sizes, [large.len() * 2, 0]);
    let request = FetchRequest { max_bytes: both - 1, ..fetch(12, topic, vec![from(1, 0), from(2, 0)]) };
    let sizes: Vec<usize> = fetch_all(&node, &request).iter().map(|data| bytes(data).len()).collect();
    assert_eq!(sizes, [large.len(), 0], "never a part of a batch");
}

#[test]
fn row_28_whole_batches_that_contain_the_offset_are_given() {
    let (node, topic) = start();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        append(&node, topic, 0, &compressed(codec, &["a", "b", "c"]));
    }
    for offset in 0..15 {
        let answer = fetched(&mut node.connect(), 12, topic, 0, offset);
        let first = records(&bytes(&answer))[0].0;
        assert_eq!(first, offset / 3 * 3, "{offset}");
    }
}

#[test]
fn row_29_offsets_are_dense_from_zero() {
    let (node, topic) = start();
    let mut node = node;
    for _ in 0..3 {
        append(&node, topic, 0, &batch(&["a", "b"]));
        append(&node, topic, 0, &compressed(Codec::Lz4, &["c"]));
        node = node.restart();
    }
    let answer = fetched(&mut node.connect(), 12, topic, 0, 0);
    let offsets: Vec<i64> = records(&bytes(&answer)).iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, (0..9).collect::<Vec<_>>());
}

#[test]
fn row_30_a_fetch_is_answered_at_once_when_it_has_enough_may_not_wait_or_has_an_error() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a"]));
    let long = |request| FetchRequest { max_wait_ms: 600_000, ..request };
    let requests = [
        FetchRequest { max_wait_ms: 0, ..fetch(12, topic, vec![from(0, 1)]) },
        FetchRequest { max_wait_ms: -5, ..fetch(12, topic, vec![from(0, 1)]) },
        long(fetch(12, topic, vec![from(0, 0)])),
        long(FetchRequest { min_bytes: 0, ..fetch(12, topic, vec![from(0, 1)]) }),
        long(fetch(12, topic, vec![from(0, 1), from(1, 5)])),
        long(fetch(12, topic, vec![from(0, 1), from(9, 0)])),
        long(fetch(12, topic, Vec::new())),
        long(fetch(12, topic, vec![FetchPartition { current_leader_epoch: 9, ..from(0, 1) }])),
    ];
    for request in requests {
        assert!(node.connect().send(12, &request).is_ended(), "{request:?}");
    }
}

#[test]
fn row_30_a_waiting_fetch_is_woken_by_the_append_that_satisfies_it() {
    let (node, topic) = start();
    let one = batch(&["a"]);
    for version in [4, 12, 18] {
        let end = fetched(&mut node.connect(), version, topic, 1, 0).high_watermark;
        let mut link = node.connect();
        let wanted = fetch(version, topic, vec![from(0, 0), from(1, end), from(2, 0)]);
        let request = FetchRequest { max_wait_ms: 600_000, min_bytes: one.len() as i32 * 2, ..wanted };
        let waiting = link.send(version, &request);
        append(&node, topic, 1, &one);
        settle(&node.runtime);
        assert!(!waiting.is_ended(), "half of what was asked for");
        append(&node, topic, 1, &one);
        let answer: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(version, waiting).answer();
        assert_eq!(bytes(&answer.responses[0].partitions[1]).len(), one.len() * 2);
    }
}

#[test]
fn row_30_the_end_of_the_wait_is_answered_empty_and_without_an_error() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a"]));
    let request = FetchRequest { max_wait_ms: 30, min_bytes: 1_000, ..fetch(12, topic, vec![from(0, 1), from(1, 0)]) };
    let began = Instant::now();
    let answers = fetch_all(&node, &request);
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert!(answers.iter().all(|data| data.error_code == 0 && bytes(data).is_empty()), "{answers:?}");
    // With less than was asked for, it is what there is.
    let request = FetchRequest { max_wait_ms: 30, min_bytes: 1_000, ..fetch(12, topic, vec![from(0, 0)]) };
    assert_eq!(records(&bytes(&fetch_all(&node, &request)[0])).len(), 1);
}

#[test]
fn row_30_the_stop_of_the_broker_ends_all_waits() {
    let (node, topic) = start();
    let mut link = node.connect();
    let waiting = link.send(12, &FetchRequest { max_wait_ms: 600_000, ..fetch(12, topic, vec![from(0, 0)]) });
    settle(&node.runtime);
    assert!(!waiting.is_ended());
    node.door.drain();
    let answer: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(12, waiting).answer();
    assert_eq!(answer.responses[0].partitions[0].error_code, 0);
    let late = FetchRequest { max_wait_ms: 600_000, ..fetch(12, topic, vec![from(0, 0)]) };
    assert_eq!(fetch_all(&node, &late)[0].error_code, 0, "nothing waits any more");
}

#[test]
fn row_30_a_client_that_goes_away_leaves_no_waiter_behind() {
    let (node, topic) = start();
    let partition =
        Arc::clone(node.broker().topics().by_name("t").unwrap().partition(mainstem_types::PartitionIndex(0)).unwrap());
    let held_before = Arc::strong_count(&partition);
    for _ in 0..10 {
        let mut link = node.connect();
        let waiting = link.send(12, &FetchRequest { max_wait_ms: 600_000, ..fetch(12, topic, vec![from(0, 0)]) });
        settle(&node.runtime);
        waiting.abort();
        settle(&node.runtime);
    }
    assert_eq!(Arc::strong_count(&partition), held_before);
}

#[test]
fn row_31_only_codes_that_javas_consumer_accepts() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a"]));
    for version in 4..=18 {
        let mut wanted = vec![from(0, 0), from(1, -7), from(2, 9), from(3, 0), from(-1, 0)];
        if version >= 12 {
            wanted[0] = FetchPartition { current_leader_epoch: 7, ..from(0, 0) };
            wanted[1] = FetchPartition { last_fetched_epoch: 7, ..from(1, 0) };
        }
        for topic in [topic, Topic::UNKNOWN] {
            let response: FetchResponse<'static> = node.call(version, &fetch(version, topic, wanted.clone()));
            for data in &response.responses[0].partitions {
                assert!(ACCEPTED.contains(&data.error_code), "{version}: {data:?}");
            }
        }
    }
    // Also of a topic that is deleted under a waiting fetch.
    let mut link = node.connect();
    let waiting = link.send(18, &FetchRequest { max_wait_ms: 600_000, ..fetch(18, topic, vec![from(1, 0)]) });
    let topic_names = vec![std::borrow::Cow::Borrowed("t")];
    let request = DeleteTopicsRequest { topic_names, timeout_ms: 5_000, ..Default::default() };
    let response: DeleteTopicsResponse<'static> = node.call(4, &request);
    assert_eq!(response.responses[0].error_code, 0);
    let answer: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(18, waiting).answer();
    let code = answer.responses[0].partitions[0].error_code;
    assert!(code != 0 && ACCEPTED.contains(&code), "{code}");
}

#[test]
fn row_32_fields_without_meaning_are_filled_as_clients_want_them() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a"]));
    for version in 4..=18 {
        for offset in [0, 1] {
            let answer = fetched(&mut node.connect(), version, topic, 0, offset);
            assert_eq!((answer.preferred_read_replica, answer.last_stable_offset), (-1, 1));
            assert_eq!(answer.log_start_offset, if version >= 5 { 0 } else { -1 });
            assert!(!answer.records.is_null(), "empty, not null");
            assert_eq!(answer.aborted_transactions, None, "of read_uncommitted");
        }
    }
    let request = FetchRequest { isolation_level: 1, ..fetch(12, topic, vec![from(0, 0)]) };
    assert_eq!(fetch_all(&node, &request)[0].aborted_transactions, Some(vec![]));
}

#[test]
fn row_33_a_leader_epoch_that_is_too_old_is_fenced_and_one_too_new_is_unknown() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a"]));
    let node = node.restart();
    append(&node, topic, 0, &batch(&["b"]));
    let both = bytes(&fetched(&mut node.connect(), 12, topic, 0, 0));
    let second = BatchView::parse(&both[BatchView::parse(&both).unwrap().size_in_bytes()..]).unwrap();
    let current = second.header().leader_epoch.0;
    assert!(current > 0);
    let expected = [(-1, 0), (current, 0), (current - 1, 74), (0, 74), (current + 1, 75)];
    for version in 9..=18 {
        for (epoch, code) in expected {
            let wanted = FetchPartition { current_leader_epoch: epoch, ..from(0, 0) };
            let response: FetchResponse<'static> = node.call(version, &fetch(version, topic, vec![wanted]));
            assert_eq!(response.responses[0].partitions[0].error_code, code, "{version}: {epoch}");
        }
    }
}

#[test]
fn row_34_a_fetcher_that_diverged_is_told_where_and_gets_no_error() {
    let (node, topic) = start();
    append(&node, topic, 0, &batch(&["a", "b"]));
    let node = node.restart();
    append(&node, topic, 0, &batch(&["c"]));
    for version in 12..=18 {
        let wanted = FetchPartition { last_fetched_epoch: 0, ..from(0, 3) };
        let request = FetchRequest { max_wait_ms: 600_000, ..fetch(version, topic, vec![wanted]) };
        let response: FetchResponse<'static> = node.call(version, &request);
        let data = &response.responses[0].partitions[0];
        assert_eq!((data.error_code, data.high_watermark, bytes(data)), (0, 3, vec![]));
        assert_eq!((data.diverging_epoch.epoch, data.diverging_epoch.end_offset), (0, 2));
        let wanted = FetchPartition { last_fetched_epoch: 0, ..from(0, 2) };
        let response: FetchResponse<'static> = node.call(version, &fetch(version, topic, vec![wanted]));
        let data = &response.responses[0].partitions[0];
        assert_eq!((data.error_code, data.diverging_epoch.epoch), (0, -1));
        assert_eq!(records(&bytes(data)).len(), 1);
    }
}
