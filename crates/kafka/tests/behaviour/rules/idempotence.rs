//! Idempotent producers: rows 13 to 16, and 18 as far as it is about them.

use std::borrow::Cow;
use std::time::Duration;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::support::Node;
use crate::support::batches::{sequenced, sequenced_at};
use crate::support::requests::{Topic, fetched, produced};

fn start() -> (Node, Topic) {
    let node = Node::start(&[]);
    let id = node.create("t", 1, &[]);
    (node, Topic { name: "t", id })
}

/// A request without a transactional id.
fn plain() -> InitProducerIdRequest<'static> {
    InitProducerIdRequest { transactional_id: None, ..Default::default() }
}

fn new_id(node: &Node) -> i64 {
    let response: InitProducerIdResponse = node.call(4, &plain());
    assert_eq!((response.error_code, response.producer_epoch), (0, 0));
    response.producer_id
}

/// Sends records and gives error code and base offset.
fn send(node: &Node, topic: Topic, (id, epoch, sequence): (i64, i16, i32), count: usize) -> (ErrorCode, i64) {
    let now = node.broker().clock().wall_ms().0;
    let sent = sequenced_at(now, id, epoch, sequence, count);
    let answer = produced(&mut node.connect(), 9, topic, 0, &sent);
    (ErrorCode(answer.error_code), answer.base_offset)
}

fn high_watermark(node: &Node, topic: Topic) -> i64 {
    fetched(&mut node.connect(), 12, topic, 0, 0).high_watermark
}

#[test]
fn row_13_a_repeated_batch_is_answered_with_its_first_offset_and_not_appended() {
    let (node, topic) = start();
    let id = new_id(&node);
    for number in 0..6 {
        assert_eq!(send(&node, topic, (id, 0, number * 2), 2), (ErrorCode::NONE, i64::from(number) * 2));
    }
    for number in 1..6 {
        assert_eq!(send(&node, topic, (id, 0, number * 2), 2), (ErrorCode::NONE, i64::from(number) * 2), "{number}");
    }
    let sixth_last = send(&node, topic, (id, 0, 0), 2);
    assert_eq!(sixth_last, (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "five batches are remembered");
    let longer = send(&node, topic, (id, 0, 10), 3);
    assert_eq!(longer, (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "the last sequence counts, too");
    assert_eq!(high_watermark(&node, topic), 12);
}

#[test]
fn row_13_what_is_remembered_survives_restarts() {
    let (mut node, topic) = start();
    let id = new_id(&node);
    for number in 0..3 {
        assert_eq!(send(&node, topic, (id, 0, number), 1), (ErrorCode::NONE, i64::from(number)));
        node = node.restart();
        // Kafka's snapshots hold the last batch of a producer; of those before it nothing is known after an orderly
        // stop.
        assert_eq!(send(&node, topic, (id, 0, number), 1), (ErrorCode::NONE, i64::from(number)));
        let gap = send(&node, topic, (id, 0, number + 2), 1);
        assert_eq!(gap, (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    }
    assert_eq!(high_watermark(&node, topic), 3);
}

#[test]
fn row_13_a_repeated_batch_with_log_append_time_gets_its_first_time() {
    let node = Node::start(&[]);
    let id = node.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let topic = Topic { name: "t", id };
    let sent = sequenced(new_id(&node), 0, 0, &["v"]);
    let first = produced(&mut node.connect(), 9, topic, 0, &sent);
    node.advance(Duration::from_secs(5));
    let second = produced(&mut node.connect(), 9, topic, 0, &sent);
    assert_eq!((second.error_code, second.base_offset), (0, first.base_offset));
    assert_eq!(second.log_append_time_ms, first.log_append_time_ms);
}

#[test]
fn row_14_sequences_follow_each_other_and_begin_again_with_zero_after_the_largest() {
    let (node, topic) = start();
    let id = new_id(&node);
    assert_eq!(send(&node, topic, (id, 0, i32::MAX - 1), 1), (ErrorCode::NONE, 0));
    assert_eq!(send(&node, topic, (id, 0, i32::MAX), 3), (ErrorCode::NONE, 1), "MAX, 0, 1");
    assert_eq!(send(&node, topic, (id, 0, i32::MAX), 3), (ErrorCode::NONE, 1), "again");
    assert_eq!(send(&node, topic, (id, 0, 3), 1), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    assert_eq!(send(&node, topic, (id, 0, 2), 1), (ErrorCode::NONE, 4));
}

#[test]
fn row_14_a_new_epoch_begins_with_zero() {
    let (node, topic) = start();
    let id = new_id(&node);
    assert_eq!(send(&node, topic, (id, 0, 0), 1), (ErrorCode::NONE, 0));
    assert_eq!(send(&node, topic, (id, 1, 1), 1), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    assert_eq!(send(&node, topic, (id, 1, 0), 1), (ErrorCode::NONE, 1));
    assert_eq!(send(&node, topic, (id, 1, 1), 1), (ErrorCode::NONE, 2));
}

#[test]
fn row_15_any_sequence_is_taken_of_a_producer_that_the_partition_does_not_know() {
    let (node, topic) = start();
    assert_eq!(send(&node, topic, (4_711, 3, 77), 1), (ErrorCode::NONE, 0));
    assert_eq!(send(&node, topic, (4_711, 3, 78), 1), (ErrorCode::NONE, 1));
    assert_eq!(send(&node, topic, (4_711, 3, 80), 1), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    node.advance(Duration::from_secs(24 * 60 * 60 + 1));
    // The silent are forgotten when they are looked through, every ten minutes, and at a start.
    let node = node.restart();
    assert_eq!(send(&node, topic, (4_711, 3, 500), 1), (ErrorCode::NONE, 2));
}

#[test]
fn row_16_an_older_epoch_is_invalid_producer_epoch_also_after_a_restart() {
    let (node, topic) = start();
    let id = new_id(&node);
    assert_eq!(send(&node, topic, (id, 5, 0), 1), (ErrorCode::NONE, 0));
    assert_eq!(send(&node, topic, (id, 4, 0), 1), (ErrorCode::INVALID_PRODUCER_EPOCH, -1));
    let node = node.restart();
    assert_eq!(send(&node, topic, (id, 4, 1), 1), (ErrorCode::INVALID_PRODUCER_EPOCH, -1));
    assert_eq!(send(&node, topic, (id, 5, 1), 1), (ErrorCode::NONE, 1));
}

#[test]
fn row_18_ids_are_fresh_and_never_given_twice_also_after_restarts() {
    let mut node = Node::start(&[]);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        for version in 0..=5 {
            let response: InitProducerIdResponse = node.call(version, &plain());
            assert_eq!((response.error_code, response.producer_epoch), (0, 0));
            assert!(seen.insert(response.producer_id), "{response:?} was given before");
        }
        node = node.restart();
    }
    // More than one block.
    assert!((0..2_500).all(|_| seen.insert(new_id(&node))));
}

#[test]
fn row_18_an_id_without_an_epoch_and_transactions_are_refused() {
    let node = Node::start(&[]);
    let named = |producer_id, producer_epoch| InitProducerIdRequest { producer_id, producer_epoch, ..plain() };
    for (id, epoch) in [(5, -1), (-1, 5)] {
        let response: InitProducerIdResponse = node.call(4, &named(id, epoch));
        assert_eq!((response.error_code, response.producer_id), (ErrorCode::INVALID_REQUEST.0, -1));
    }
    let response: InitProducerIdResponse = node.call(4, &named(5, 5));
    assert_eq!((response.error_code, response.producer_epoch), (0, 0));
    for name in ["", "transactional"] {
        let transactional_id = Some(Cow::Borrowed(name));
        let request = InitProducerIdRequest { transactional_id, transaction_timeout_ms: 60_000, ..Default::default() };
        let response: InitProducerIdResponse = node.call(4, &request);
        assert_eq!((response.error_code, response.producer_id), (ErrorCode::INVALID_REQUEST.0, -1));
    }
}
