//! What a client sends to a broker: frames with their lengths in front, the last one as long as there are bytes. The
//! broker answers each or closes the connection, its answers are what a client can read, and it starts again on what it
//! wrote.
//!
//! The broker is in memory and new for each input, with a topic `t` of two partitions. Checksums of produced batches
//! are made right first.

use bytes::Bytes;
use mainstem_door::{Chunk, Reply};
use mainstem_env::MemFs;
use mainstem_kafka::registry;
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use mainstem_kafka_wire::messages::produce_request::ProduceRequest;
use mainstem_kafka_wire::messages::{CreatePartitionsRequest, RequestHeader, ResponseHeader};
use mainstem_kafka_wire::{Message, Reader, Records, decode_request_header, encode_request, response_header_version};

use super::batches::repair;
use super::messages::of_api;
use super::node::Node;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const JOIN_GROUP: i16 = 11;
const SYNC_GROUP: i16 = 14;
const CREATE_TOPICS: i16 = 19;
const CREATE_PARTITIONS: i16 = 37;

/// Partitions that one request may make here, and that a broker lets it make.
const PARTITIONS_MAX: i64 = 64;
const PARTITIONS_OF_A_REQUEST_MAX: i32 = 10_000;

/// Frames of one input: more find nothing that fewer do not.
const FRAMES_MAX: usize = 16;
/// What the answer to a frame of some kilobytes may take.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

pub fn run(data: &[u8]) {
    let fs = MemFs::new();
    // reason: an empty folder can be used.
    let mut node = Node::start(&fs).expect("a broker starts in an empty folder");
    create_topic(&mut node);
    let mut closed = false;
    let mut frames = frames(data).into_iter();
    while let Some(frame) = frames.next().filter(|_| !closed) {
        closed = send(&mut node, frame);
    }
    for reply in node.stop() {
        check_size(&reply);
    }
    // reason: the target exists to find this.
    Node::start(&fs).expect("a broker starts on what it wrote").stop();
}

pub(crate) fn create_topic(node: &mut Node) {
    let topic =
        CreatableTopic { name: "t".into(), num_partitions: 2, replication_factor: 1, ..CreatableTopic::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..CreateTopicsRequest::default() };
    // reason: a request that is written well.
    let frame = encode_request(7, 0, None, &request).expect("a request").bytes;
    let reply = node.handle(frame.slice(4..), true);
    assert!(matches!(reply, Some(Reply::Send(_))), "{reply:?}");
}

fn frames(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        data = rest;
        if !frame.is_empty() && frames.len() < FRAMES_MAX {
            frames.push(frame.to_vec());
        }
    }
    frames
}

/// Says whether the connection is closed.
fn send(node: &mut Node, mut frame: Vec<u8>) -> bool {
    let header = header(&frame);
    let (key, version) = header.as_ref().map_or((-1, -1), |h| (h.request_api_key, h.request_api_version));
    if makes_many_partitions(&frame, key, version) {
        return false;
    }
    if key == PRODUCE {
        repair_produced(&mut frame, version);
    }
    let correlation_id = header.map(|header| header.correlation_id);
    match node.handle(Bytes::from(frame), ends_by_itself(key)) {
        None | Some(Reply::Nothing) => false,
        Some(Reply::Close(_)) => true,
        Some(reply @ Reply::Send(_)) => {
            check_size(&reply);
            check(&reply, key, version, correlation_id);
            false
        }
    }
}

/// Whether a request is answered whatever else happens: here, new records and other members may never come.
pub(crate) fn ends_by_itself(key: i16) -> bool {
    !matches!(key, FETCH | JOIN_GROUP | SYNC_GROUP)
}

fn header(frame: &[u8]) -> Option<RequestHeader<'static>> {
    let header = decode_request_header(&mut Reader::new(frame)).ok().flatten()?;
    Some(RequestHeader { client_id: None, ..header.into_owned() })
}

fn repair_produced(frame: &mut [u8], version: i16) {
    let mut places = Vec::new();
    {
        let mut reader = Reader::new(frame);
        if !matches!(decode_request_header(&mut reader), Ok(Some(_))) {
            return;
        }
        let Ok(request) = ProduceRequest::decode(&mut reader, version) else { return };
        for partition in request.topic_data.iter().flat_map(|topic| &topic.partition_data) {
            if let Records::Bytes(bytes) = &partition.records {
                let start = bytes.as_ptr() as usize - frame.as_ptr() as usize;
                places.push(start..start + bytes.len());
            }
        }
    }
    for place in places {
        repair(&mut frame[place]);
    }
}

/// Thousands of partitions are made in some seconds, and show nothing that a few do not.
fn makes_many_partitions(frame: &[u8], key: i16, version: i16) -> bool {
    let mut reader = Reader::new(frame);
    if !matches!(decode_request_header(&mut reader), Ok(Some(_))) {
        return false;
    }
    let counts: Vec<i32> = match key {
        CREATE_TOPICS => CreateTopicsRequest::decode(&mut reader, version)
            .map(|request| request.topics.iter().map(|topic| topic.num_partitions).collect()),
        CREATE_PARTITIONS => CreatePartitionsRequest::decode(&mut reader, version)
            .map(|request| request.topics.iter().map(|topic| topic.count).collect()),
        _ => return false,
    }
    .unwrap_or_default();
    let all: i64 = counts.iter().map(|count| i64::from(*count).max(0)).sum();
    all > PARTITIONS_MAX && counts.iter().any(|count| (1..=PARTITIONS_OF_A_REQUEST_MAX).contains(count))
}

fn check_size(reply: &Reply) {
    if let Reply::Send(response) = reply {
        assert!(response.len() <= ANSWER_BYTES_MAX, "an answer of {} bytes", response.len());
    }
}

/// The answer is one that a client can read.
fn check(reply: &Reply, key: i16, version: i16, correlation_id: Option<i32>) {
    let Reply::Send(response) = reply else { return };
    let bytes = flatten(&response.chunks);
    // Only ApiVersions is answered in a version that it does not have: in version 0.
    let known = registry::find(key).is_some_and(|api| api.supports(version));
    let version = if known { version } else { 0 };
    let mut reader = Reader::new(&bytes);
    let decoded = ResponseHeader::decode(&mut reader, response_header_version(key, version).unwrap_or(0));
    assert_eq!(decoded.ok().map(|header| header.correlation_id), correlation_id);
    if let Some(entry) = of_api(key, "Response") {
        (entry.read_all)(reader.rest(), version);
    }
}

fn flatten(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            // reason: the files of these slices are in memory.
            Chunk::File(slice) => bytes.extend(slice.read().expect("a slice of a file in memory")),
        }
    }
    bytes
}
