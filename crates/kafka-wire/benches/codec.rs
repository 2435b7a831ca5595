//! What decoding a produce request and encoding a fetch response cost: `cargo bench -p mainstem-kafka-wire`.
//!
//! The cost must not depend on the size of the records, which are borrowed when decoded and left out as holes when
//! encoded.

use std::borrow::Cow;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use mainstem_kafka_wire::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use mainstem_kafka_wire::{Message, Reader, Records, Writer, encode_response};
use mainstem_types::TopicId;

/// The newest versions, by topic id.
const PRODUCE_VERSION: i16 = 13;
const FETCH_VERSION: i16 = 18;
const TOPIC: TopicId = TopicId([7; 16]);

fn encoded<'m, M: Message<'m>>(message: &M, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).expect("a message of this version");
    writer.as_bytes().to_vec()
}

fn produce_request(partitions: i32, records: &[u8]) -> ProduceRequest<'_> {
    let partition = |index| PartitionProduceData { index, records: Records::Bytes(Cow::Borrowed(records)) };
    let topic = TopicProduceData {
        topic_id: TOPIC,
        partition_data: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() }
}

fn produce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("produce");
    for (partitions, bytes) in [(1, 1 << 10), (1, 1 << 20), (100, 1 << 10)] {
        let records = vec![7; bytes];
        let request = encoded(&produce_request(partitions, &records), PRODUCE_VERSION);
        let name = format!("{partitions} partitions of {bytes} bytes");
        group.bench_with_input(BenchmarkId::new("decode the request", &name), &request, |bencher, request| {
            bencher.iter(|| black_box(ProduceRequest::decode(&mut Reader::new(request), PRODUCE_VERSION).is_ok()));
        });
    }
    for partitions in [1, 100] {
        let answer = |index| PartitionProduceResponse { index, base_offset: 1 << 40, ..Default::default() };
        let topic = TopicProduceResponse {
            topic_id: TOPIC,
            partition_responses: (0..partitions).map(answer).collect(),
            ..Default::default()
        };
        let response = ProduceResponse { responses: vec![topic], ..Default::default() };
        group.bench_function(BenchmarkId::new("encode the response", partitions), |bencher| {
            bencher.iter(|| black_box(encode_response(0, PRODUCE_VERSION, 1, &response).is_ok()));
        });
    }
    group.finish();
}

fn fetch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fetch");
    for partitions in [1, 100, 1000] {
        let wanted = |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
        let topic =
            FetchTopic { topic_id: TOPIC, partitions: (0..partitions).map(wanted).collect(), ..Default::default() };
        let request = FetchRequest { max_wait_ms: 500, topics: vec![topic], ..Default::default() };
        let request = encoded(&request, FETCH_VERSION);
        group.bench_with_input(BenchmarkId::new("decode the request", partitions), &request, |bencher, request| {
            bencher.iter(|| black_box(FetchRequest::decode(&mut Reader::new(request), FETCH_VERSION).is_ok()));
        });
        let data =
            |partition_index| PartitionData { partition_index, records: Records::Hole(1 << 20), ..Default::default() };
        let topic = FetchableTopicResponse {
            topic_id: TOPIC,
            partitions: (0..partitions).map(data).collect(),
            ..Default::default()
        };
        let response = FetchResponse { responses: vec![topic], ..Default::default() };
        group.bench_function(BenchmarkId::new("encode the response", partitions), |bencher| {
            bencher.iter(|| black_box(encode_response(1, FETCH_VERSION, 1, &response).is_ok()));
        });
    }
    group.finish();
}

criterion_group!(benches, produce, fetch);
criterion_main!(benches);
