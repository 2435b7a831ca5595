//! ListOffsets and OffsetForLeaderEpoch: rows 36 to 39.

use std::borrow::Cow;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::list_offsets_request::ListOffsetsRequest;
use mainstem_kafka_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use mainstem_kafka_wire::messages::{ListOffsetsResponse, OffsetForLeaderEpochResponse};
use mainstem_record::Codec;

use crate::support::Node;
use crate::support::batches::{TIME_MS, at_times, batch};
use crate::support::requests::{Topic, list_offsets, listed, produce, produced};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn start() -> (Node, Topic) {
    let node = Node::start(&[]);
    let id = node.create("t", 2, &[]);
    (node, Topic { name: "t", id })
}

fn append(node: &Node, topic: Topic, batch: &[u8]) {
    assert_eq!(produced(&mut node.connect(), 9, topic, 0, batch).error_code, 0);
}

/// Error, offset, timestamp.
fn look(node: &Node, version: i16, topic: Topic, partition: i32, timestamp: i64) -> (i16, i64, i64) {
    let found = listed(&mut node.connect(), version, topic, partition, timestamp);
    (found.error_code, found.offset, found.timestamp)
}

#[test]
fn row_36_special_times_and_the_versions_that_know_them() {
    let (node, topic) = start();
    append(&node, topic, &at_times(Codec::Lz4, &[TIME_MS, TIME_MS + 9, TIME_MS + 5, TIME_MS + 9]));
    for version in 1..=11 {
        let unsupported = (ErrorCode::UNSUPPORTED_VERSION.0, -1, -1);
        let since = |least: i16, answer| if version >= least { answer } else { unsupported };
        assert_eq!(look(&node, version, topic, 0, -1), (0, 4, -1), "latest");
        assert_eq!(look(&node, version, topic, 0, -2), (0, 0, -1), "earliest");
        let largest = since(7, (0, 1, TIME_MS + 9));
        assert_eq!(look(&node, version, topic, 0, -3), largest, "the first record with the largest time");
        assert_eq!(look(&node, version, topic, 0, -4), since(8, (0, 0, -1)), "earliest on the local disk");
        assert_eq!(look(&node, version, topic, 0, -5), since(9, (0, -1, -1)), "latest in tiered storage");
        assert_eq!(look(&node, version, topic, 0, -6), since(11, (0, -1, -1)), "earliest that waits for it");
        assert_eq!(look(&node, version, topic, 0, -7), unsupported);
        let empty = if version >= 7 { (0, -1, -1) } else { unsupported };
        assert_eq!(look(&node, version, topic, 1, -3), empty, "of an empty partition");
    }
}

#[test]
fn row_36_latest_is_the_high_watermark() {
    let node = Node::start_without_flushes(&[]);
    let topic = Topic { name: "t", id: node.create("t", 1, &[("mainstem.durability", "disk")]) };
    let sent = at_times(Codec::None, &[TIME_MS]);
    node.connect().tell(9, &produce(9, topic, 0, 0, &sent));
    assert_eq!(look(&node, 9, topic, 0, -1), (0, 0, -1));
    assert_eq!(look(&node, 9, topic, 0, TIME_MS), (0, -1, -1), "what is not committed is not found by time");
    assert_eq!(look(&node, 9, topic, 0, -3), (0, -1, -1));
    node.flush();
    assert_eq!(look(&node, 9, topic, 0, -1), (0, 1, -1));
    assert_eq!(look(&node, 9, topic, 0, TIME_MS), (0, 0, TIME_MS));
}

#[test]
fn row_36_read_committed_gives_the_last_stable_offset() {
    let (node, topic) = start();
    append(&node, topic, &batch(&["a", "b"]));
    for version in 2..=11 {
        let request = ListOffsetsRequest { isolation_level: 1, ..list_offsets(topic, &[(0, -1)]) };
        let response: ListOffsetsResponse<'static> = node.call(version, &request);
        assert_eq!(response.topics[0].partitions[0].offset, 2);
    }
}

#[test]
fn row_37_a_time_gives_the_first_record_at_or_after_it_with_its_own_time() {
    for codec in CODECS {
        let (node, topic) = start();
        // 0: +10, 1: +30, 2: +20 | 3: +15, 4: +50 | 5: +40
        for times in [&[10, 30, 20][..], &[15, 50], &[40]] {
            let times: Vec<i64> = times.iter().map(|delta| TIME_MS + delta).collect();
            append(&node, topic, &at_times(codec, &times));
        }
        let expected =
            [(0, 0, 10), (10, 0, 10), (11, 1, 30), (20, 1, 30), (30, 1, 30), (31, 4, 50), (40, 4, 50), (50, 4, 50)];
        for version in [1, 4, 7, 11] {
            for (target, offset, time) in expected {
                let found = look(&node, version, topic, 0, TIME_MS + target);
                assert_eq!(found, (0, offset, TIME_MS + time), "{codec:?} {version} {target}");
            }
            assert_eq!(look(&node, version, topic, 0, 0), (0, 0, TIME_MS + 10));
        }
    }
}

#[test]
fn row_37_a_time_after_all_records_is_minus_one_without_an_error() {
    let (node, topic) = start();
    append(&node, topic, &at_times(Codec::Gzip, &[TIME_MS]));
    for version in 1..=11 {
        for (partition, target) in [(0, TIME_MS + 1), (0, i64::MAX), (1, 0), (1, TIME_MS)] {
            assert_eq!(look(&node, version, topic, partition, target), (0, -1, -1));
        }
    }
}

#[test]
fn row_37_times_are_found_after_a_restart_too() {
    let (node, topic) = start();
    for number in 0..20 {
        append(&node, topic, &at_times(CODECS[number % 5], &[TIME_MS + number as i64 * 10]));
    }
    let node = node.restart();
    for number in 0..20 {
        let time = TIME_MS + number * 10;
        assert_eq!(look(&node, 9, topic, 0, time - 9), (0, number, time));
    }
}

#[test]
fn row_37_with_log_append_time_the_time_of_the_append_counts() {
    let node = Node::start(&[]);
    let id = node.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let topic = Topic { name: "t", id };
    let now = node.broker().clock().wall_ms().0;
    append(&node, topic, &at_times(Codec::Gzip, &[TIME_MS, TIME_MS + 1]));
    assert_eq!(look(&node, 9, topic, 0, TIME_MS), (0, 0, now));
    assert_eq!(look(&node, 9, topic, 0, now), (0, 0, now));
    assert_eq!(look(&node, 9, topic, 0, now + 1), (0, -1, -1));
}

#[test]
fn row_38_a_partition_that_is_named_twice_is_an_invalid_request() {
    let (node, topic) = start();
    for version in 1..=11 {
        let request = list_offsets(topic, &[(0, -1), (1, -1), (0, -2)]);
        let response: ListOffsetsResponse<'static> = node.call(version, &request);
        let codes: Vec<(i32, i16)> =
            response.topics[0].partitions.iter().map(|p| (p.partition_index, p.error_code)).collect();
        assert_eq!(codes, [(0, ErrorCode::INVALID_REQUEST.0), (1, 0)]);
    }
}

#[test]
fn list_offsets_checks_the_leader_epoch_and_tells_that_of_the_record() {
    let (node, topic) = start();
    append(&node, topic, &at_times(Codec::None, &[TIME_MS]));
    let node = node.restart();
    append(&node, topic, &at_times(Codec::None, &[TIME_MS + 1]));
    let current = listed(&mut node.connect(), 4, topic, 0, -1).leader_epoch;
    assert!(current > 0);
    for version in 4..=11 {
        assert_eq!(listed(&mut node.connect(), version, topic, 0, TIME_MS).leader_epoch, 0);
        assert_eq!(listed(&mut node.connect(), version, topic, 0, TIME_MS + 1).leader_epoch, current);
        assert_eq!(listed(&mut node.connect(), version, topic, 0, -2).leader_epoch, 0);
        for (epoch, code) in [(-1, 0), (current, 0), (current - 1, 74), (current + 1, 75)] {
            let mut request = list_offsets(topic, &[(0, -1)]);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            let response: ListOffsetsResponse<'static> = node.call(version, &request);
            assert_eq!(response.topics[0].partitions[0].error_code, code, "{version} {epoch}");
        }
    }
}

/// Error, epoch and end offset of what is known of `leader_epoch`.
fn end_of(node: &Node, version: i16, current: i32, leader_epoch: i32) -> (i16, i32, i64) {
    let partition = OffsetForLeaderPartition { partition: 0, current_leader_epoch: current, leader_epoch };
    let request = OffsetForLeaderEpochRequest {
        replica_id: -2,
        topics: vec![OffsetForLeaderTopic { topic: Cow::Borrowed("t"), partitions: vec![partition] }],
    };
    let response: OffsetForLeaderEpochResponse<'static> = node.call(version, &request);
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.leader_epoch, answer.end_offset)
}

#[test]
fn row_39_where_epochs_end() {
    let (node, topic) = start();
    append(&node, topic, &batch(&["a", "b"]));
    // Epochs without records leave gaps between those that have some.
    let node = node.restart().restart().restart();
    append(&node, topic, &batch(&["c"]));
    let current = listed(&mut node.connect(), 4, topic, 0, -1).leader_epoch;
    assert!(current > 1);
    for version in 2..=4 {
        assert_eq!(end_of(&node, version, -1, current), (0, current, 3), "the current one: the log end");
        assert_eq!(end_of(&node, version, -1, 0), (0, 0, 2), "an older one: where the next begins");
        let (error, epoch, end) = end_of(&node, version, -1, current - 1);
        assert!(error == 0 && epoch < current && end <= 2, "an older one without records: the largest up to it");
        assert_eq!(end_of(&node, version, -1, current + 1), (0, -1, -1), "one that nobody knows");
        assert_eq!(end_of(&node, version, -1, -1), (0, -1, -1), "none");
        assert_eq!(end_of(&node, version, current + 1, 0), (75, -1, -1));
        assert_eq!(end_of(&node, version, 0, 0), (74, -1, -1));
    }
}
