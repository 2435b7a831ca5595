//! Fetch.

use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest};
use mainstem_kafka_wire::messages::{FetchResponse, ProduceResponse};
use mainstem_record::Codec;

use super::super::canonical::Names;
use super::super::script::Script;
use super::produce::KEPT;
use crate::support::batches::{batch, compressed};
use crate::support::requests::{Topic, fetch, fetch_all, forgotten, from, produce};

/// Kafka puts partitions that it does not know behind the others.
fn sorted(response: &mut FetchResponse<'static>, names: &mut Names) {
    response.responses.sort_by_cached_key(|topic| (topic.topic.clone(), names.topic(topic.topic_id)));
    response.responses.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|data| data.partition_index));
}

fn ask(script: &mut Script, name: &str, version: i16, request: &FetchRequest<'static>) -> FetchResponse<'static> {
    script.ask_shaped(name, version, request, sorted)
}

fn append(script: &mut Script, topic: Topic, partition: i32, batch: &[u8]) {
    let response: ProduceResponse<'static> = script.link().call(9, &produce(9, topic, partition, -1, batch));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "{response:?}");
}

/// A topic of three partitions: three batches, one batch, nothing.
fn filled(script: &mut Script, name: &'static str) -> Topic {
    let topic = script.create(name, 3, &[KEPT]);
    append(script, topic, 0, &batch(&["a", "b", "c"]));
    append(script, topic, 0, &compressed(Codec::Lz4, &["d", "e"]));
    append(script, topic, 0, &batch(&["f"]));
    append(script, topic, 1, &batch(&["g"]));
    topic
}

#[test]
fn fetch_in_all_versions() {
    let mut script = Script::start("fetch_in_all_versions");
    let topic = filled(&mut script, "fetch");
    for version in 4..=18 {
        for offset in [0, 1, 3, 5, 6, 7, -1, -5, i64::MAX] {
            let request = fetch(version, topic, vec![from(0, offset)]);
            ask(&mut script, &format!("from {offset}"), version, &request);
        }
        let request =
            fetch(version, topic, vec![from(0, 0), from(1, 0), from(2, 0), from(2, 1), from(3, 0), from(-1, 0)]);
        ask(&mut script, "all partitions", version, &request);
        let request = fetch_all(version, vec![(Topic::UNKNOWN, vec![from(0, 0)]), (topic, vec![from(1, 0)])]);
        ask(&mut script, "an unknown topic and a known one", version, &request);
        let request = FetchRequest { isolation_level: 1, ..fetch(version, topic, vec![from(0, 0), from(0, 9)]) };
        ask(&mut script, "read_committed", version, &request);
        ask(&mut script, "nothing", version, &fetch_all(version, Vec::new()));
        if version >= 9 {
            let epoch = |partition, epoch| FetchPartition { current_leader_epoch: epoch, ..from(partition, 0) };
            let request = fetch(version, topic, vec![epoch(0, 0), epoch(1, 1), epoch(2, -2)]);
            ask(&mut script, "leader epochs", version, &request);
        }
        if version >= 12 {
            for (last, offset) in [(0, 1), (0, 0), (0, 9), (1, 1), (5, 9), (-2, 0)] {
                let wanted = FetchPartition { last_fetched_epoch: last, ..from(1, offset) };
                let name = format!("last fetched epoch {last} offset {offset}");
                ask(&mut script, &name, version, &fetch(version, topic, vec![wanted]));
            }
        }
    }
    script.finish();
}

#[test]
fn fetch_limits() {
    let mut script = Script::start("fetch_limits");
    let topic = filled(&mut script, "fetch-limits");
    let limited = |partition, limit| FetchPartition { partition_max_bytes: limit, ..from(partition, 0) };
    for version in [4, 12] {
        for limit in [0, 1, 90, 150, 1_000] {
            let both = fetch(version, topic, vec![limited(0, limit), limited(1, limit)]);
            ask(&mut script, &format!("{limit} bytes a partition"), version, &both);
            let both = FetchRequest { max_bytes: limit, ..fetch(version, topic, vec![from(0, 0), from(1, 0)]) };
            ask(&mut script, &format!("{limit} bytes"), version, &both);
            let empty_first = fetch(version, topic, vec![from(2, 0), limited(1, limit), limited(0, limit)]);
            ask(&mut script, &format!("{limit} bytes, an empty one first"), version, &empty_first);
        }
        let request =
            FetchRequest { max_bytes: i32::MAX, min_bytes: i32::MAX, ..fetch(version, topic, vec![from(0, 0)]) };
        ask(&mut script, "largest", version, &request);
    }
    script.finish();
}

#[test]
fn fetch_waits() {
    let mut script = Script::start("fetch_waits");
    let topic = filled(&mut script, "fetch-waits");
    for version in [4, 11, 18] {
        let request = FetchRequest { max_wait_ms: 50, ..fetch(version, topic, vec![from(1, 1)]) };
        ask(&mut script, "at the end", version, &request);
        let request = FetchRequest { max_wait_ms: 50, min_bytes: 1_000, ..fetch(version, topic, vec![from(1, 0)]) };
        ask(&mut script, "too little", version, &request);
        let request = FetchRequest { max_wait_ms: 60_000, ..fetch(version, topic, vec![from(1, 1), from(1, 5)]) };
        ask(&mut script, "an error does not wait", version, &request);
        let request = FetchRequest { max_wait_ms: 60_000, min_bytes: 0, ..fetch(version, topic, vec![from(1, 1)]) };
        ask(&mut script, "no bytes are enough", version, &request);
        let request = FetchRequest {
            max_wait_ms: 60_000,
            min_bytes: i32::MAX,
            max_bytes: 10,
            ..fetch(version, topic, vec![from(1, 0)])
        };
        ask(&mut script, "more bytes than may be answered are not waited for", version, &request);
        let request = FetchRequest { max_wait_ms: 50, ..fetch(version, Topic::UNKNOWN, Vec::new()) };
        ask(&mut script, "no partitions", version, &request);
    }
    script.finish();
}

#[test]
fn fetch_sessions() {
    let mut script = Script::start("fetch_sessions");
    let topic = filled(&mut script, "fetch-sessions");
    let other = filled(&mut script, "fetch-sessions-other");
    for version in [7, 12, 13, 18] {
        let session = |id, epoch, partitions| FetchRequest {
            session_id: id,
            session_epoch: epoch,
            ..fetch(version, topic, partitions)
        };
        let without = |id, epoch| FetchRequest { topics: Vec::new(), ..session(id, epoch, Vec::new()) };
        let all = || vec![from(0, 0), from(1, 1), from(2, 0)];
        let opened = ask(&mut script, "open", version, &session(0, 0, all()));
        let id = opened.session_id;
        ask(&mut script, "nothing new but what was not read", version, &without(id, 1));
        ask(&mut script, "read on", version, &session(id, 2, vec![from(0, 6)]));
        ask(&mut script, "nothing new", version, &without(id, 3));
        ask(&mut script, "an old epoch", version, &without(id, 3));
        ask(&mut script, "out of range", version, &session(id, 4, vec![from(1, 50)]));
        ask(&mut script, "still out of range", version, &without(id, 5));
        ask(&mut script, "in range again", version, &session(id, 6, vec![from(1, 1)]));
        let request = FetchRequest {
            forgotten_topics_data: vec![forgotten(version, topic, vec![0, 1, 7])],
            ..session(id, 7, vec![from(2, 0)])
        };
        ask(&mut script, "forget two", version, &request);
        let unknown =
            FetchRequest { session_id: id, session_epoch: 8, ..fetch(version, Topic::UNKNOWN, vec![from(0, 0)]) };
        ask(&mut script, "add an unknown topic", version, &unknown);
        ask(&mut script, "it is still unknown", version, &without(id, 9));
        let more = FetchRequest { session_id: id, session_epoch: 10, ..fetch(version, other, vec![from(1, 0)]) };
        ask(&mut script, "add another topic", version, &more);
        let request = FetchRequest {
            forgotten_topics_data: vec![
                forgotten(version, topic, vec![2]),
                forgotten(version, other, vec![1]),
                forgotten(version, Topic::UNKNOWN, vec![0]),
            ],
            ..without(id, 11)
        };
        ask(&mut script, "forget all", version, &request);
        ask(&mut script, "it is gone", version, &without(id, 12));
        let opened = ask(&mut script, "open again", version, &session(0, 0, all()));
        ask(&mut script, "close", version, &session(opened.session_id, -1, vec![from(1, 0)]));
        ask(&mut script, "it is closed", version, &without(opened.session_id, 1));
        let opened = ask(&mut script, "open a third", version, &session(0, 0, all()));
        let replaced = ask(&mut script, "replace it", version, &session(opened.session_id, 0, vec![from(1, 0)]));
        ask(&mut script, "it was replaced", version, &without(opened.session_id, 1));
        ask(&mut script, "close the last", version, &without(replaced.session_id, -1));
        ask(&mut script, "an unknown id", version, &without(123_456_789, 1));
        ask(&mut script, "no id", version, &without(0, 1));
        ask(&mut script, "nothing at all", version, &without(0, 0));
    }
    script.finish();
}

#[test]
fn fetch_sessions_and_topic_ids() {
    let mut script = Script::start("fetch_sessions_and_topic_ids");
    let topic = filled(&mut script, "fetch-ids");
    for (first, second) in [(12, 13), (13, 12)] {
        let session = |version, id, epoch| FetchRequest {
            session_id: id,
            session_epoch: epoch,
            ..fetch(version, topic, vec![from(1, 0)])
        };
        let opened = ask(&mut script, "open", first, &session(first, 0, 0));
        ask(&mut script, "go on otherwise", second, &session(second, opened.session_id, 1));
        ask(&mut script, "go on as before", first, &session(first, opened.session_id, 1));
        ask(&mut script, "close", first, &session(first, opened.session_id, -1));
    }
    script.finish();
}
