//! Little that becomes much: compressed records, and requests that ask for great answers.

use std::borrow::Cow;
use std::io::Write;

use bytes::Bytes;
use mainstem_kafka_wire::messages::*;
use mainstem_record::codec::compress;
use mainstem_record::{BatchHeader, Codec, HEADER_SIZE};

use crate::bed::{Bed, MIB};
use crate::wire::{self, Client, Outcome, receive, send};

const MESSAGE_TOO_LARGE: i16 = 10;

/// A batch of one record whose value is so many zeros, in memory only once: the header and the varints of the record in
/// front.
fn bomb(codec: Codec, zeros: usize) -> Bytes {
    let mut template = wire::batch(Codec::None, &[&[]]).to_vec();
    let header = BatchHeader::read(template[..HEADER_SIZE].try_into().unwrap());
    // Attributes, timestamp delta, offset delta, no key, the length of the value; behind it no headers.
    let mut start = vec![0, 0, 0, 1];
    varint(&mut start, zeros);
    let mut records = Vec::new();
    varint(&mut records, start.len() + zeros + 1);
    records.extend_from_slice(&start);
    records.resize(records.len() + zeros + 1, 0);
    let mut payload = Vec::new();
    compress(codec, None, &records, &mut payload).unwrap();
    let header = BatchHeader {
        attributes: header.attributes.with_codec(codec),
        batch_length: (HEADER_SIZE - 12 + payload.len()) as i32,
        ..header
    };
    template.truncate(HEADER_SIZE);
    template.copy_from_slice(&header.with_crc_over(&payload).write());
    template.extend_from_slice(&payload);
    template.into()
}

/// A zigzag varint of a number that is not negative.
fn varint(out: &mut Vec<u8>, number: usize) {
    let mut rest = number << 1;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// 256 MiB is the most that the records of a batch may take with the default of `max.message.bytes`, and with twice
/// that. Snappy cannot pack as much.
#[test]
fn records_that_unpack_to_hundreds_of_megabytes_are_refused_in_bounded_time_and_memory() {
    let bed = Bed::start(&[]);
    bed.create_topic("bombs", 1, &[("max.message.bytes", "2097152")]);
    bed.create_topic("repacked", 1, &[("max.message.bytes", "2097152"), ("compression.type", "snappy")]);
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Lz4] {
        let batch = bomb(codec, 300 << 20);
        bed.endure(&format!("300 MiB in {} bytes of {}", batch.len(), codec.name()), 64 * MIB, |bed| {
            let mut clients: Vec<Client> = (0..3).map(|_| bed.connect()).collect();
            for (number, client) in clients.iter_mut().enumerate() {
                let topic = if number == 0 { "repacked" } else { "bombs" };
                client.stream.write_all(&wire::request(9, &wire::produce(topic, &[(0, &batch)]))).unwrap();
            }
            for client in &mut clients {
                let response: ProduceResponse<'_> = client.answer::<ProduceRequest<'_>, _>(9);
                let code = response.responses[0].partition_responses[0].error_code;
                assert_eq!(code, MESSAGE_TOO_LARGE, "{response:?}");
            }
        });
    }
}

/// What is compressed again is in memory at once, so it may take 64 MiB only.
#[test]
fn records_that_are_compressed_again_are_bounded_in_memory() {
    let bed = Bed::start(&[]);
    bed.create_topic("repacked", 1, &[("compression.type", "lz4")]);
    for (size, expected) in [(40 << 20, 0), (70 << 20, MESSAGE_TOO_LARGE)] {
        let batch = bomb(Codec::Zstd, size);
        bed.endure(&format!("{} MiB to be compressed again", size >> 20), 256 * MIB, |bed| {
            let mut clients: Vec<Client> = (0..4).map(|_| bed.connect()).collect();
            for client in &mut clients {
                client.stream.write_all(&wire::request(9, &wire::produce("repacked", &[(0, &batch)]))).unwrap();
            }
            for client in &mut clients {
                let response: ProduceResponse<'_> = client.answer::<ProduceRequest<'_>, _>(9);
                assert_eq!(response.responses[0].partition_responses[0].error_code, expected, "{response:?}");
            }
        });
    }
}

#[test]
fn one_request_full_of_small_bombs_does_not_hold_up_the_others() {
    let bed = Bed::start(&[]);
    bed.create_topic("bombs", 64, &[]);
    let batch = bomb(Codec::Zstd, 24 << 20);
    bed.endure("64 batches of 24 MiB each", 192 * MIB, |bed| {
        let batches: Vec<(i32, &[u8])> = (0..64).map(|index| (index, &batch[..])).collect();
        let request = wire::request(9, &wire::produce("bombs", &batches));
        let mut client = bed.connect();
        client.stream.write_all(&request).unwrap();
        let response: ProduceResponse<'_> = client.answer::<ProduceRequest<'_>, _>(9);
        assert_eq!(response.responses[0].partition_responses.len(), 64);
    });
}

/// Sends a request, and takes an answer or the end of the connection.
fn outcome(bed: &Bed, request: &[u8]) -> Outcome {
    let mut socket = bed.socket();
    send(&mut socket, request);
    receive(&mut socket)
}

fn size(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(bytes) => format!("answered with {:.1} MiB", bytes.len() as f64 / MIB as f64),
        Outcome::Closed => "closed".to_owned(),
    }
}

/// Sends one request under the eyes of the calm client.
fn great(bed: &Bed, what: &str, memory_max: u64, request: &[u8]) {
    let mut came = String::new();
    let what = format!("{what} of {:.1} MiB", request.len() as f64 / MIB as f64);
    bed.endure(&what, memory_max, |bed| came = size(&outcome(bed, request)));
    println!("    {came}");
}

const ELEMENTS: usize = 100_000;
const GREAT_MEMORY_MAX: u64 = 320 * MIB;

#[test]
fn metadata_of_a_great_many_topics() {
    // With more replicas than there are brokers, each of the topics is refused: an answer of another kind for each
    // name.
    let bed = Bed::start(&["default.replication.factor=3"]);
    let names: Vec<String> = (0..ELEMENTS).map(|number| format!("t{number}")).collect();
    let topic = |name: &'_ String| metadata_request::MetadataRequestTopic {
        name: Some(Cow::Owned(name.clone())),
        ..Default::default()
    };
    for (create, what) in [(false, "metadata"), (true, "metadata with auto-creation")] {
        let request = MetadataRequest {
            topics: Some(names.iter().map(topic).collect()),
            allow_auto_topic_creation: create,
            ..Default::default()
        };
        great(&bed, what, GREAT_MEMORY_MAX, &wire::request(9, &request));
    }
}

#[test]
fn produce_to_the_same_partition_over_and_over() {
    let bed = Bed::start(&[]);
    bed.create_topic("many", 1, &[]);
    let batch = wire::batch(Codec::None, &[b"x"]);
    let batches: Vec<(i32, &[u8])> = (0..ELEMENTS / 2).map(|_| (0, &batch[..])).collect();
    great(&bed, "produce", GREAT_MEMORY_MAX, &wire::request(9, &wire::produce("many", &batches)));
}

#[test]
fn fetches_of_a_great_many_partitions() {
    let bed = Bed::start(&[]);
    bed.create_topic("many", 1, &[]);
    let unknown = wire::fetch("many", 0..ELEMENTS as i32);
    great(&bed, "fetch", GREAT_MEMORY_MAX, &wire::request(11, &unknown));
    let same = wire::fetch("many", std::iter::repeat_n(0, ELEMENTS));
    great(&bed, "fetch of one partition", GREAT_MEMORY_MAX, &wire::request(11, &same));
}

/// Each fetch asks for a session, and with it for the memory of what it fetched.
#[test]
fn fetch_sessions_of_great_size_are_bounded_together() {
    let bed = Bed::start(&[]);
    bed.endure("fetch sessions", GREAT_MEMORY_MAX, |bed| {
        let mut client = bed.connect();
        let request = FetchRequest { session_epoch: 0, ..wire::fetch("nowhere", 0..20_000) };
        let request = wire::request(11, &request);
        let mut sessions = 0;
        for _ in 0..6 {
            client.stream.write_all(&request).unwrap();
            let response: FetchResponse<'_> = client.answer::<FetchRequest<'_>, _>(11);
            sessions += usize::from(response.session_id != 0);
        }
        println!("    {sessions} sessions of 20,000 partitions");
    });
}

#[test]
fn offsets_and_epochs_of_a_great_many_partitions() {
    let bed = Bed::start(&[]);
    bed.create_topic("many", 1, &[]);
    let partition = |partition_index| list_offsets_request::ListOffsetsPartition {
        partition_index,
        timestamp: -1,
        ..Default::default()
    };
    let topic = list_offsets_request::ListOffsetsTopic {
        name: "many".into(),
        partitions: (0..ELEMENTS as i32).map(partition).collect(),
    };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    great(&bed, "list offsets", GREAT_MEMORY_MAX, &wire::request(5, &request));
    let partition = |_| offset_for_leader_epoch_request::OffsetForLeaderPartition { ..Default::default() };
    let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic {
        topic: "many".into(),
        partitions: (0..ELEMENTS).map(partition).collect(),
    };
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
    great(&bed, "offsets for epochs", GREAT_MEMORY_MAX, &wire::request(3, &request));
}

#[test]
fn descriptions_of_the_same_thing_over_and_over() {
    let bed = Bed::start(&[]);
    bed.create_topic("many", 1, &[]);
    let resource = |_| describe_configs_request::DescribeConfigsResource {
        resource_type: 2,
        resource_name: "many".into(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: (0..ELEMENTS).map(resource).collect(),
        include_synonyms: true,
        include_documentation: true,
    };
    great(&bed, "describe configs", GREAT_MEMORY_MAX, &wire::request(4, &request));
    commit(&bed);
    let request = DescribeGroupsRequest { groups: vec!["g".into(); ELEMENTS], ..Default::default() };
    great(&bed, "describe groups", GREAT_MEMORY_MAX, &wire::request(5, &request));
    let group =
        offset_fetch_request::OffsetFetchRequestGroup { group_id: "g".into(), topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group; ELEMENTS], ..Default::default() };
    great(&bed, "fetch offsets", GREAT_MEMORY_MAX, &wire::request(8, &request));
    let topic = describe_topic_partitions_request::TopicRequest { name: "many".into() };
    let request = DescribeTopicPartitionsRequest {
        topics: vec![topic; ELEMENTS],
        response_partition_limit: i32::MAX,
        cursor: None,
    };
    great(&bed, "describe partitions", GREAT_MEMORY_MAX, &wire::request(0, &request));
}

/// Commits an offset with as much metadata as may be.
fn commit(bed: &Bed) {
    let mut client = bed.connect();
    let find = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    loop {
        let _: FindCoordinatorResponse<'_> = client.ask(2, &find);
        let metadata = "m".repeat(4000);
        let partition = offset_commit_request::OffsetCommitRequestPartition {
            committed_offset: 1,
            committed_metadata: Some(metadata.into()),
            ..Default::default()
        };
        let topic = offset_commit_request::OffsetCommitRequestTopic {
            name: "many".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g".into(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let response: OffsetCommitResponse<'_> = client.ask(5, &request);
        if response.topics[0].partitions[0].error_code == 0 {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{response:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn administration_of_a_great_many_things() {
    let bed = Bed::start(&[]);
    let topic = |number| create_topics_request::CreatableTopic {
        name: format!("t{number}").into(),
        num_partitions: i32::MAX,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: (0..ELEMENTS / 4).map(topic).collect(), timeout_ms: 1000, ..Default::default() };
    great(&bed, "create topics", GREAT_MEMORY_MAX, &wire::request(7, &request));
    let topic = |number| delete_topics_request::DeleteTopicState {
        name: Some(format!("t{number}").into()),
        ..Default::default()
    };
    let request =
        DeleteTopicsRequest { topics: (0..ELEMENTS).map(topic).collect(), timeout_ms: 1000, ..Default::default() };
    great(&bed, "delete topics", GREAT_MEMORY_MAX, &wire::request(6, &request));
    let topic = |_| create_partitions_request::CreatePartitionsTopic {
        name: "calm".into(),
        count: i32::MAX,
        assignments: None,
    };
    let request =
        CreatePartitionsRequest { topics: (0..ELEMENTS).map(topic).collect(), timeout_ms: 1000, ..Default::default() };
    great(&bed, "create partitions", GREAT_MEMORY_MAX, &wire::request(3, &request));
    let config = |_| incremental_alter_configs_request::AlterableConfig {
        name: "retention.ms".into(),
        config_operation: 0,
        value: Some("1".into()),
    };
    let resource = incremental_alter_configs_request::AlterConfigsResource {
        resource_type: 2,
        resource_name: "calm".into(),
        configs: (0..ELEMENTS).map(config).collect(),
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    great(&bed, "alter configs", GREAT_MEMORY_MAX, &wire::request(1, &request));
}

/// A million partitions, a hundred thousand topics: one request of each.
#[test]
fn a_million_partitions_and_a_hundred_thousand_new_topics() {
    let bed = Bed::start(&[]);
    let partition = |_| offset_for_leader_epoch_request::OffsetForLeaderPartition { ..Default::default() };
    let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic {
        topic: "calm".into(),
        partitions: (0..1_000_000).map(partition).collect(),
    };
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
    great(&bed, "a million partitions", GREAT_MEMORY_MAX, &wire::request(3, &request));
    let topic = |number| create_topics_request::CreatableTopic {
        name: format!("tiny-{number}").into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = (0..ELEMENTS).map(topic).collect();
    let request = CreateTopicsRequest { topics, timeout_ms: 1000, validate_only: true };
    let mut client = bed.connect();
    bed.endure("a hundred thousand tiny topics", GREAT_MEMORY_MAX, |_| {
        let response: CreateTopicsResponse<'_> = client.ask(5, &request);
        let allowed = response.topics.iter().filter(|topic| topic.error_code == 0).count();
        assert!(allowed <= 10_000, "{allowed} topics could be created by one request");
        println!("    {allowed} of {} could be created", response.topics.len());
    });
}
