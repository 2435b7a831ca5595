//! Fetch sessions (KIP-227) through the api; their rules as such are tested beside the code.

use mainstem_kafka_wire::messages::FetchResponse;
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest};

use crate::support::Node;
use crate::support::batches::batch;
use crate::support::link::settle;
use crate::support::requests::{Topic, fetch, forgotten, from, produced};

fn session(
    version: i16,
    topic: Topic,
    (id, epoch): (i32, i32),
    partitions: Vec<FetchPartition>,
) -> FetchRequest<'static> {
    let topics = if partitions.is_empty() { Vec::new() } else { fetch(version, topic, partitions).topics };
    FetchRequest { session_id: id, session_epoch: epoch, topics, ..fetch(version, topic, Vec::new()) }
}

/// The partitions that an answer contains.
fn answered(response: &FetchResponse<'static>) -> Vec<i32> {
    response.responses.iter().flat_map(|topic| topic.partitions.iter().map(|data| data.partition_index)).collect()
}

fn start(settings: &[(&str, &str)]) -> (Node, Topic) {
    let node = Node::start(settings);
    let id = node.create("t", 3, &[]);
    (node, Topic { name: "t", id })
}

#[test]
fn an_incremental_answer_has_only_what_changed() {
    let (node, topic) = start(&[]);
    for version in 7..=18 {
        let end = produced(&mut node.connect(), 9, topic, 1, &batch(&["a"])).base_offset + 1;
        let all = vec![from(0, 0), from(1, end), from(2, 0)];
        let opened: FetchResponse<'static> = node.call(version, &session(version, topic, (0, 0), all));
        let id = opened.session_id;
        assert!(id > 0 && answered(&opened) == [0, 1, 2]);
        let nothing: FetchResponse<'static> = node.call(version, &session(version, topic, (id, 1), vec![]));
        assert_eq!((nothing.error_code, nothing.session_id, answered(&nothing)), (0, id, vec![]));
        produced(&mut node.connect(), 9, topic, 1, &batch(&["b"]));
        let news: FetchResponse<'static> = node.call(version, &session(version, topic, (id, 2), vec![]));
        assert_eq!(answered(&news), [1]);
        let mut forget = session(version, topic, (id, 3), vec![]);
        forget.forgotten_topics_data = vec![forgotten(version, topic, vec![1])];
        let forgot: FetchResponse<'static> = node.call(version, &forget);
        assert_eq!(answered(&forgot), [0; 0]);
        let closed: FetchResponse<'static> = node.call(version, &session(version, topic, (id, -1), vec![from(2, 0)]));
        assert_eq!((closed.session_id, answered(&closed)), (0, vec![2]));
        let gone: FetchResponse<'static> = node.call(version, &session(version, topic, (id, 4), vec![]));
        assert_eq!((gone.error_code, answered(&gone)), (70, vec![]));
    }
}

#[test]
fn another_epoch_is_refused_and_leaves_the_session_as_it_was() {
    let (node, topic) = start(&[]);
    let opened: FetchResponse<'static> = node.call(12, &session(12, topic, (0, 0), vec![from(0, 0)]));
    let id = opened.session_id;
    for epoch in [2, 7, i32::MAX] {
        let refused: FetchResponse<'static> = node.call(12, &session(12, topic, (id, epoch), vec![from(1, 0)]));
        assert_eq!((refused.error_code, answered(&refused)), (71, vec![]));
    }
    let goes_on: FetchResponse<'static> = node.call(12, &session(12, topic, (id, 1), vec![]));
    assert_eq!((goes_on.error_code, goes_on.session_id, answered(&goes_on)), (0, id, vec![]));
}

#[test]
fn a_session_waits_for_news_like_any_fetch() {
    let (node, topic) = start(&[]);
    let opened: FetchResponse<'static> = node.call(13, &session(13, topic, (0, 0), vec![from(0, 0), from(1, 0)]));
    let mut link = node.connect();
    let mut request = session(13, topic, (opened.session_id, 1), vec![]);
    request.max_wait_ms = 600_000;
    let waiting = link.send(13, &request);
    settle(&node.runtime);
    assert!(!waiting.is_ended());
    produced(&mut node.connect(), 9, topic, 1, &batch(&["a"]));
    let news: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(13, waiting).answer();
    assert_eq!(answered(&news), [1]);
}

#[test]
fn a_session_misses_nothing_that_comes_between_its_fetches_or_while_it_waits() {
    let (node, topic) = start(&[]);
    let all = (0..3).map(|partition| from(partition, 0)).collect();
    let opened: FetchResponse<'static> = node.call(13, &session(13, topic, (0, 0), all));
    let (mut link, mut producer) = (node.connect(), node.connect());
    let mut read = vec![];
    for round in 0..12 {
        let partition = round * 2 % 3;
        let mut request = session(13, topic, (opened.session_id, round + 1), std::mem::take(&mut read));
        request.max_wait_ms = 600_000;
        let came_before = round % 3 == 1;
        if came_before {
            produced(&mut producer, 9, topic, partition, &batch(&["a"]));
        }
        let sent = link.send(13, &request);
        if !came_before {
            settle(&node.runtime);
            assert!(!sent.is_ended(), "round {round}");
            produced(&mut producer, 9, topic, partition, &batch(&["a"]));
        }
        let news: FetchResponse<'static> = link.end::<FetchRequest<'_>, _>(13, sent).answer();
        assert_eq!(answered(&news), [partition], "round {round}");
        let end = news.responses[0].partitions[0].high_watermark;
        assert_eq!(end, i64::from(round / 3) + 1, "round {round}: each partition has its turn");
        read.push(from(partition, end));
    }
}

#[test]
fn a_topic_that_was_made_again_is_another_one_to_a_session() {
    let (node, topic) = start(&[]);
    let opened: FetchResponse<'static> = node.call(13, &session(13, topic, (0, 0), vec![from(0, 0)]));
    node.runtime
        .block_on(node.broker().delete_topics(vec![mainstem_metadata::controller::TopicRef::Name("t".into())]))
        .unwrap();
    node.create("t", 1, &[]);
    let old: FetchResponse<'static> = node.call(13, &session(13, topic, (opened.session_id, 1), vec![]));
    assert_eq!(old.responses[0].partitions[0].error_code, 100, "the id is unknown now");
}

#[test]
fn without_slots_every_fetch_is_answered_without_a_session() {
    let (node, topic) = start(&[("max.incremental.fetch.session.cache.slots", "0")]);
    for _ in 0..3 {
        let answer: FetchResponse<'static> = node.call(12, &session(12, topic, (0, 0), vec![from(0, 0)]));
        assert_eq!((answer.error_code, answer.session_id, answered(&answer)), (0, 0, vec![0]));
    }
}

#[test]
fn a_client_that_opens_a_session_with_every_fetch_is_served_when_all_slots_are_taken() {
    let (node, topic) = start(&[("max.incremental.fetch.session.cache.slots", "4")]);
    let ids: Vec<i32> = (0..10)
        .map(|_| node.call::<_, FetchResponse<'static>>(12, &session(12, topic, (0, 0), vec![from(0, 0)])).session_id)
        .collect();
    assert!(ids[..4].iter().all(|id| *id > 0) && ids[4..].iter().all(|id| *id == 0), "{ids:?}");
}
