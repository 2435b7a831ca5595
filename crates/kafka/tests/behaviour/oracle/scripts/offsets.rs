//! ListOffsets and OffsetForLeaderEpoch.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::list_offsets_request::ListOffsetsRequest;
use mainstem_kafka_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use mainstem_kafka_wire::messages::{ListOffsetsResponse, OffsetForLeaderEpochResponse, ProduceResponse};
use mainstem_record::Codec;

use super::super::canonical::Names;
use super::super::script::Script;
use super::produce::KEPT;
use crate::support::batches::{TIME_MS, at_times};
use crate::support::requests::{Topic, list_offsets, produce};

fn append(script: &mut Script, topic: Topic, partition: i32, batch: &[u8]) {
    let response: ProduceResponse<'static> = script.link().call(9, &produce(9, topic, partition, -1, batch));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "{response:?}");
}

/// Partition 0: times that go back and forth, in batches with and without compression. Partition 1: nothing.
/// Partition 2: one record without a time.
fn timed(script: &mut Script, name: &'static str) -> Topic {
    let topic = script.create(name, 3, &[KEPT]);
    let times = |deltas: &[i64]| deltas.iter().map(|delta| TIME_MS + delta).collect::<Vec<_>>();
    append(script, topic, 0, &at_times(Codec::None, &times(&[10, 30, 20])));
    append(script, topic, 0, &at_times(Codec::Gzip, &times(&[15, 50, 40])));
    append(script, topic, 0, &at_times(Codec::Zstd, &times(&[5, 5])));
    append(script, topic, 0, &at_times(Codec::None, &times(&[50, 45])));
    append(script, topic, 2, &at_times(Codec::None, &[-1]));
    topic
}

/// Kafka puts what it refuses behind the rest.
fn sorted(response: &mut ListOffsetsResponse<'static>, _: &mut Names) {
    response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
}

fn ask(script: &mut Script, name: &str, version: i16, request: &ListOffsetsRequest<'static>) {
    script.ask_shaped(name, version, request, sorted);
}

#[test]
fn list_offsets_in_all_versions() {
    let mut script = Script::start("list_offsets_in_all_versions");
    let topic = timed(&mut script, "offsets");
    for version in 1..=11 {
        for special in -7..0 {
            let request = list_offsets(topic, &[(0, special), (1, special), (2, special)]);
            ask(&mut script, &format!("special {special}"), version, &request);
        }
        for delta in [-1, 5, 10, 11, 15, 20, 30, 31, 45, 50, 51] {
            let time = TIME_MS + delta;
            let request = list_offsets(topic, &[(0, time), (1, time), (2, time)]);
            ask(&mut script, &format!("time {delta}"), version, &request);
        }
        ask(&mut script, "time 0", version, &list_offsets(topic, &[(0, 0), (1, 0), (2, 0)]));
        ask(&mut script, "the last time", version, &list_offsets(topic, &[(0, i64::MAX)]));
        ask(&mut script, "a partition twice", version, &list_offsets(topic, &[(0, -1), (1, -1), (0, -2)]));
        ask(&mut script, "unknown partitions", version, &list_offsets(topic, &[(3, -1), (-1, -1), (0, -1)]));
        ask(&mut script, "an unknown topic", version, &list_offsets(Topic::UNKNOWN, &[(0, -1), (0, -9)]));
        if version >= 2 {
            let request = ListOffsetsRequest { isolation_level: 1, ..list_offsets(topic, &[(0, -1), (1, -1)]) };
            ask(&mut script, "read_committed", version, &request);
        }
        if version >= 4 {
            for epoch in [-1, 0, 1, 9] {
                let mut request = list_offsets(topic, &[(0, -1), (1, -2), (2, TIME_MS)]);
                for partition in &mut request.topics[0].partitions {
                    partition.current_leader_epoch = epoch;
                }
                ask(&mut script, &format!("leader epoch {epoch}"), version, &request);
            }
        }
    }
    script.finish();
}

#[test]
fn list_offsets_of_append_times() {
    let mut script = Script::start("list_offsets_of_append_times");
    let topic = script.create("offsets-append-time", 1, &[("message.timestamp.type", "LogAppendTime")]);
    append(&mut script, topic, 0, &at_times(Codec::None, &[TIME_MS, TIME_MS + 5]));
    append(&mut script, topic, 0, &at_times(Codec::Lz4, &[TIME_MS + 9, TIME_MS + 5]));
    for version in [1, 7, 11] {
        for time in [0, TIME_MS, TIME_MS + 5, i64::MAX, -1, -2] {
            let script = script.except(&["timestamp"], "the moment of the append");
            ask(script, &format!("time {time}"), version, &list_offsets(topic, &[(0, time)]));
        }
    }
    script.finish();
}

#[test]
fn offset_for_leader_epoch() {
    let mut script = Script::start("offset_for_leader_epoch");
    let topic = timed(&mut script, "epochs");
    for version in 2..=4 {
        for current in [-1, 0, 1] {
            let epoch = |partition, leader_epoch| OffsetForLeaderPartition {
                partition,
                current_leader_epoch: current,
                leader_epoch,
            };
            let partitions = vec![epoch(0, 0), epoch(1, 0), epoch(0, 1), epoch(1, 7), epoch(0, -1), epoch(9, 0)];
            let request = OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics: vec![
                    OffsetForLeaderTopic { topic: Cow::Borrowed("epochs"), partitions },
                    OffsetForLeaderTopic { topic: Cow::Borrowed(Topic::UNKNOWN.name), partitions: vec![epoch(0, 0)] },
                ],
            };
            let request = if version < 3 { OffsetForLeaderEpochRequest { replica_id: -2, ..request } } else { request };
            let name = format!("current epoch {current}");
            script.ask::<_, OffsetForLeaderEpochResponse<'static>>(&name, version, &request);
        }
    }
    let _ = topic;
    script.finish();
}
