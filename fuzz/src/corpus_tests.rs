//! The corpus of the targets that take whole conversations: each conversation is held with a broker, and goes well.
//! With `MAINSTEM_WRITE_CORPUS=1 cargo test -p mainstem-fuzz conversations` what was said is written to `corpus/`.

use std::borrow::Cow;
use std::path::Path;

use bytes::Bytes;
use mainstem_door::{Chunk, Reply};
use mainstem_env::{Fs, MemFs};
use mainstem_kafka_wire::messages::*;
use mainstem_kafka_wire::{Message, Reader, Records, encode_request, response_header_version};
use mainstem_record::{BatchBuilder, Codec};
use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs, TopicId};

use crate::targets::kafka_handler;
use crate::targets::node::{DATA_DIR, Node};

/// A client that writes down what it sends.
struct Scribe {
    node: Node,
    fs: MemFs,
    sent: Vec<u8>,
    topic: TopicId,
}

impl Scribe {
    fn new() -> Scribe {
        let fs = MemFs::new();
        let mut scribe = Scribe { node: Node::start(&fs).unwrap(), fs, sent: Vec::new(), topic: TopicId::ZERO };
        kafka_handler::create_topic(&mut scribe.node);
        let named = metadata_request::MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![named]), ..Default::default() };
        let response: MetadataResponse<'_> = scribe.ask(12, &request).unwrap();
        scribe.topic = response.topics[0].topic_id;
        scribe.sent.clear();
        scribe
    }

    /// Sends a request and gives the answer, if it is there.
    fn ask<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16, request: &Q) -> Option<R> {
        let frame = encode_request(version, 7, Some("c"), request).unwrap().bytes;
        self.sent.extend_from_slice(&frame);
        let wait = kafka_handler::ends_by_itself(Q::API_KEY.unwrap());
        let Some(Reply::Send(response)) = self.node.handle(frame.slice(4..), wait) else { return None };
        let bytes = response.chunks.iter().flat_map(|chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.to_vec(),
            Chunk::File(slice) => slice.read().unwrap(),
        });
        let bytes: &'static [u8] = Box::leak(bytes.collect::<Vec<u8>>().into_boxed_slice());
        let mut reader = Reader::new(bytes);
        ResponseHeader::decode(&mut reader, response_header_version(Q::API_KEY.unwrap(), version).unwrap()).unwrap();
        Some(R::decode(&mut reader, version).unwrap())
    }

    fn save(self, name: &str) -> MemFs {
        self.node.stop();
        kafka_handler::run(&self.sent);
        save("kafka_handler", name, &self.sent);
        self.fs
    }
}

fn save(target: &str, name: &str, bytes: &[u8]) {
    assert!(!bytes.is_empty(), "{target}: the conversation {name} said nothing");
    if std::env::var_os("MAINSTEM_WRITE_CORPUS").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
}

fn batch(codec: Codec, producer: Option<(i64, i32)>) -> Bytes {
    let mut builder = BatchBuilder::new().codec(codec);
    if let Some((id, sequence)) = producer {
        builder = builder.producer(ProducerId(id), ProducerEpoch(0), sequence);
    }
    for n in 0..3 {
        builder.append(TimestampMs(1_790_000_000_000 + n), Some(b"key"), Some(b"valuevaluevalue"), &[]);
    }
    builder.build().unwrap().into()
}

fn produce(scribe: &Scribe, version: i16, acks: i16, batches: &[Bytes]) -> ProduceRequest<'static> {
    let by_id = version >= 13;
    let data = batches.iter().enumerate().map(|(index, batch)| produce_request::PartitionProduceData {
        index: index as i32,
        records: Records::Bytes(Cow::Owned(batch.to_vec())),
    });
    ProduceRequest {
        acks,
        timeout_ms: 1000,
        topic_data: vec![produce_request::TopicProduceData {
            name: if by_id { "".into() } else { "t".into() },
            topic_id: if by_id { scribe.topic } else { TopicId::ZERO },
            partition_data: data.collect(),
        }],
        ..Default::default()
    }
}

fn fetch(scribe: &Scribe, version: i16, session: (i32, i32)) -> FetchRequest<'static> {
    let by_id = version >= 13;
    let partition =
        |partition| fetch_request::FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_id: session.0,
        session_epoch: session.1,
        topics: vec![fetch_request::FetchTopic {
            topic: if by_id { "".into() } else { "t".into() },
            topic_id: if by_id { scribe.topic } else { TopicId::ZERO },
            partitions: vec![partition(0), partition(1)],
        }],
        ..Default::default()
    }
}

fn produce_and_fetch() {
    for (version, fetch_version, codec) in
        [(3, 4, Codec::None), (7, 7, Codec::Zstd), (9, 12, Codec::Gzip), (12, 15, Codec::Snappy), (13, 18, Codec::Lz4)]
    {
        let mut scribe = Scribe::new();
        let request = produce(&scribe, version, -1, &[batch(codec, None), batch(codec, None)]);
        let _: Option<ProduceResponse<'_>> = scribe.ask(version, &request);
        let _: Option<ProduceResponse<'_>> = scribe.ask(version, &produce(&scribe, version, 0, &[batch(codec, None)]));
        let request = fetch(&scribe, fetch_version, (0, 0));
        let response: FetchResponse<'_> = scribe.ask(fetch_version, &request).unwrap();
        let mut request = fetch(&scribe, fetch_version, (response.session_id, 1));
        request.topics[0].partitions[0].fetch_offset = 6;
        let _: Option<FetchResponse<'_>> = scribe.ask(fetch_version, &request);
        let _: Option<ProduceResponse<'_>> = scribe.ask(version, &produce(&scribe, version, 1, &[batch(codec, None)]));
        scribe.save(&format!("produce-{version}-fetch-{fetch_version}"));
    }
}

fn idempotent() {
    let mut scribe = Scribe::new();
    let request = InitProducerIdRequest { producer_id: -1, producer_epoch: -1, ..Default::default() };
    let _: Option<InitProducerIdResponse> = scribe.ask(4, &request);
    for sequence in [0, 3, 3, 9] {
        let request = produce(&scribe, 9, -1, &[batch(Codec::None, Some((0, sequence)))]);
        let _: Option<ProduceResponse<'_>> = scribe.ask(9, &request);
    }
    scribe.save("idempotent");
}

fn offsets_by_time() {
    let mut scribe = Scribe::new();
    let request = produce(&scribe, 3, 1, &[batch(Codec::Gzip, None)]);
    let _: Option<ProduceResponse<'_>> = scribe.ask(3, &request);
    for (version, timestamp) in [(1, -1), (5, -2), (7, -3), (11, 1_790_000_000_001), (8, -4), (9, -5)] {
        let wanted = list_offsets_request::ListOffsetsPartition { partition_index: 0, timestamp, ..Default::default() };
        let topic = list_offsets_request::ListOffsetsTopic { name: "t".into(), partitions: vec![wanted] };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let _: Option<ListOffsetsResponse<'_>> = scribe.ask(version, &request);
    }
    let wanted = offset_for_leader_epoch_request::OffsetForLeaderPartition {
        current_leader_epoch: 0,
        leader_epoch: 0,
        ..Default::default()
    };
    let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic { topic: "t".into(), partitions: vec![wanted] };
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
    let _: Option<OffsetForLeaderEpochResponse<'_>> = scribe.ask(4, &request);
    scribe.save("offsets");
}

fn join<'m>(member: &'m str, instance: Option<&'m str>) -> JoinGroupRequest<'m> {
    let protocol = join_group_request::JoinGroupRequestProtocol {
        name: "range".into(),
        metadata: Cow::Borrowed(&[0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 0]),
    };
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        member_id: member.into(),
        group_instance_id: instance.map(Into::into),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn group() -> MemFs {
    let mut scribe = Scribe::new();
    let find = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    let _: Option<FindCoordinatorResponse<'_>> = scribe.ask(4, &find);
    let answer: Option<JoinGroupResponse<'_>> = scribe.ask(9, &join("", None));
    let member = answer.map(|answer| answer.member_id.to_string()).unwrap_or_default();
    let _: Option<JoinGroupResponse<'_>> = scribe.ask(9, &join(&member, None));
    let assignment = sync_group_request::SyncGroupRequestAssignment {
        member_id: member.as_str().into(),
        assignment: Cow::Borrowed(b"mine"),
    };
    let sync = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member.as_str().into(),
        assignments: vec![assignment],
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        ..Default::default()
    };
    let _: Option<SyncGroupResponse<'_>> = scribe.ask(5, &sync);
    let beat = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member.as_str().into(),
        ..Default::default()
    };
    let _: Option<HeartbeatResponse> = scribe.ask(4, &beat);
    let _: Option<JoinGroupResponse<'_>> = scribe.ask(5, &join("", Some("static")));
    commit(&mut scribe, 9, 1, &member);
    let _: Option<DescribeGroupsResponse<'_>> =
        scribe.ask(6, &DescribeGroupsRequest { groups: vec!["g".into()], ..Default::default() });
    let _: Option<ListGroupsResponse<'_>> = scribe.ask(5, &ListGroupsRequest::default());
    let identity = leave_group_request::MemberIdentity { member_id: member.as_str().into(), ..Default::default() };
    let leave = LeaveGroupRequest { group_id: "g".into(), members: vec![identity], ..Default::default() };
    let _: Option<LeaveGroupResponse<'_>> = scribe.ask(5, &leave);
    scribe.save("group")
}

fn commit(scribe: &mut Scribe, version: i16, generation: i32, member: &str) {
    let by_id = version >= 10;
    let partition = offset_commit_request::OffsetCommitRequestPartition {
        committed_offset: 1,
        committed_metadata: Some("here".into()),
        ..Default::default()
    };
    let topic = offset_commit_request::OffsetCommitRequestTopic {
        name: if by_id { "".into() } else { "t".into() },
        topic_id: if by_id { scribe.topic } else { TopicId::ZERO },
        partitions: vec![partition],
    };
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: generation,
        member_id: member.into(),
        topics: vec![topic],
        ..Default::default()
    };
    let _: Option<OffsetCommitResponse<'_>> = scribe.ask(version, &request);
}

fn simple_commits() {
    let mut scribe = Scribe::new();
    let find = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
    let _: Option<FindCoordinatorResponse<'_>> = scribe.ask(2, &find);
    commit(&mut scribe, 2, -1, "");
    commit(&mut scribe, 10, -1, "");
    let topic = offset_fetch_request::OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0, 1] };
    let request = OffsetFetchRequest { group_id: "g".into(), topics: Some(vec![topic]), ..Default::default() };
    let _: Option<OffsetFetchResponse<'_>> = scribe.ask(5, &request);
    let topic = offset_fetch_request::OffsetFetchRequestTopics {
        topic_id: scribe.topic,
        partition_indexes: vec![0, 1],
        ..Default::default()
    };
    let group = offset_fetch_request::OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let _: Option<OffsetFetchResponse<'_>> = scribe.ask(10, &request);
    scribe.save("commits");
}

fn administration() -> MemFs {
    let mut scribe = Scribe::new();
    let _: Option<ApiVersionsResponse<'_>> = scribe.ask(
        4,
        &ApiVersionsRequest {
            client_software_name: "fuzz".into(),
            client_software_version: "1".into(),
            ..Default::default()
        },
    );
    let config =
        create_topics_request::CreatableTopicConfig { name: "retention.ms".into(), value: Some("1000".into()) };
    let topic = create_topics_request::CreatableTopic {
        name: "u".into(),
        num_partitions: 3,
        replication_factor: 1,
        configs: vec![config],
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    let _: Option<CreateTopicsResponse<'_>> = scribe.ask(5, &request);
    let more = create_partitions_request::CreatePartitionsTopic { name: "u".into(), count: 5, assignments: None };
    let request = CreatePartitionsRequest { topics: vec![more], timeout_ms: 1000, ..Default::default() };
    let _: Option<CreatePartitionsResponse<'_>> = scribe.ask(3, &request);
    let change = incremental_alter_configs_request::AlterableConfig {
        name: "cleanup.policy".into(),
        config_operation: 2,
        value: Some("compact".into()),
    };
    let resource = incremental_alter_configs_request::AlterConfigsResource {
        resource_type: 2,
        resource_name: "t".into(),
        configs: vec![change],
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let _: Option<IncrementalAlterConfigsResponse<'_>> = scribe.ask(1, &request);
    for (resource_type, name) in [(2, "t"), (4, "1")] {
        let resource = describe_configs_request::DescribeConfigsResource {
            resource_type,
            resource_name: name.into(),
            configuration_keys: None,
        };
        let request =
            DescribeConfigsRequest { resources: vec![resource], include_synonyms: true, include_documentation: true };
        let _: Option<DescribeConfigsResponse<'_>> = scribe.ask(4, &request);
    }
    describe_and_delete(&mut scribe);
    scribe.save("administration")
}

fn describe_and_delete(scribe: &mut Scribe) {
    let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    let _: Option<DescribeClusterResponse<'_>> = scribe.ask(2, &request);
    let topic = describe_topic_partitions_request::TopicRequest { name: "u".into() };
    let request = DescribeTopicPartitionsRequest {
        topics: vec![topic],
        response_partition_limit: 2,
        cursor: Some(describe_topic_partitions_request::Cursor { topic_name: "u".into(), partition_index: 1 }),
    };
    let _: Option<DescribeTopicPartitionsResponse<'_>> = scribe.ask(0, &request);
    let _: Option<MetadataResponse<'_>> = scribe.ask(1, &MetadataRequest { topics: None, ..Default::default() });
    let auto = metadata_request::MetadataRequestTopic { name: Some("auto".into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![auto]),
        allow_auto_topic_creation: true,
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let _: Option<MetadataResponse<'_>> = scribe.ask(9, &request);
    let gone = delete_topics_request::DeleteTopicState { name: None, topic_id: scribe.topic };
    let request = DeleteTopicsRequest { topics: vec![gone], timeout_ms: 1000, ..Default::default() };
    let _: Option<DeleteTopicsResponse<'_>> = scribe.ask(6, &request);
}

/// The records of a log, each behind the lengths that `group_replay` and `metadata_replay` want.
fn records(bytes: &[u8], with_key: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for batch in mainstem_record::Batches::new(bytes) {
        let batch = batch.unwrap();
        let mut scratch = Vec::new();
        let is_control = batch.header().attributes.is_control();
        for record in batch.records(&mut scratch, 1 << 20).unwrap().filter(|_| !is_control) {
            let record = record.unwrap();
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            if with_key {
                out.extend((key.len() as u16).to_be_bytes());
            }
            out.extend((value.len() as u16).to_be_bytes());
            out.extend(key);
            out.extend(value);
        }
    }
    out
}

/// The log of a folder, which may have been preallocated: only its batches.
fn log(fs: &MemFs, folder: &str) -> Vec<u8> {
    let bytes = fs.read_all(&Path::new(DATA_DIR).join(folder).join("00000000000000000000.log")).unwrap();
    let whole = mainstem_record::Batches::new(&bytes).map_while(Result::ok).map(|batch| batch.size_in_bytes()).sum();
    bytes[..whole].to_vec()
}

fn metadata(fs: &MemFs) {
    let log = log(fs, "__cluster_metadata-0");
    save("disk_metadata_log", "administration", &log);
    save("metadata_replay", "administration", &records(&log, false));
    let control = |kind: &mainstem_record::ControlRecord| {
        let mut builder = BatchBuilder::new();
        builder.append_control(TimestampMs(1), kind);
        builder.build().unwrap()
    };
    let header =
        control(&mainstem_record::ControlRecord::SnapshotHeader { last_contained_log_timestamp: TimestampMs(1) });
    let footer = control(&mainstem_record::ControlRecord::SnapshotFooter);
    let first = mainstem_record::Batches::new(&log).nth(1).unwrap().unwrap().as_bytes().to_vec();
    save("disk_metadata_snapshot", "whole", &[&header[..], &first, &footer].concat());
    save("disk_metadata_snapshot", "without-footer", &[header, first].concat());
}

fn frames() {
    let frame = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let literal = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    let two = [frame(b"first fr"), frame(b"the second frame")].concat();
    save("frame_reader", "two", &[&[0, 9][..], &literal(&two)].concat());
    save(
        "frame_reader",
        "cut",
        &[&[0, 9][..], &literal(&two[..3]), &literal(&two[3..15]), &literal(&two[15..])].concat(),
    );
    save("frame_reader", "negative", &[&[0, 9][..], &literal(&[0xff, 0xff, 0xff, 0xff])].concat());
    save("frame_reader", "too-long", &[&[0, 9][..], &literal(&[0x7f, 0xff, 0xff, 0xff])].concat());
    // 300,000 bytes, of which 128 KiB, then the rest come, and the beginning of another.
    let long = [&[0xff, 0xff][..], &literal(&300_000u32.to_be_bytes()), &[255, 255, 164, 1, 0]].concat();
    save("frame_reader", "long", &long);
}

#[test]
fn the_conversations_of_the_corpus_go_well() {
    produce_and_fetch();
    idempotent();
    offsets_by_time();
    let fs = group();
    save("group_replay", "group", &records(&log(&fs, "__consumer_offsets-0"), true));
    simple_commits();
    metadata(&administration());
    frames();
}

#[test]
fn a_conversation_about_keys_goes_well() {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let mut scribe = Scribe::new();
    let config = AlterableConfig { name: "mainstem.key.index".into(), value: Some("all".into()), ..Default::default() };
    let resource = AlterConfigsResource { resource_type: 2, resource_name: "t".into(), configs: vec![config] };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let _: Option<IncrementalAlterConfigsResponse<'_>> = scribe.ask(1, &request);
    let request = produce(&scribe, 9, 1, &[batch(Codec::Zstd, None)]);
    let _: Option<ProduceResponse<'_>> = scribe.ask(9, &request);
    let mut request =
        FindByKeyRequest { topic_name: Some("t".into()), key: Cow::Borrowed(b"key"), ..Default::default() };
    let found: Option<FindByKeyResponse<'_>> = scribe.ask(0, &request);
    assert_eq!(found.unwrap().records.len(), 3);
    save("kafka_request", "FindByKeyRequest-0", &encode_request(0, 7, None, &request).unwrap().bytes[4..]);
    (request.topic_name, request.topic_id) = (None, scribe.topic);
    let found: Option<FindByKeyResponse<'_>> = scribe.ask(0, &request);
    assert_eq!(found.unwrap().records.len(), 3);
    scribe.save("keys");
}
