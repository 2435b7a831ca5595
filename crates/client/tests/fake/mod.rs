//! A broker in the test's own process: speaks through `kafka-wire`, keeps batches in memory, and fails on request.

// Each test program uses its own part of this.
#![allow(dead_code)]

mod groups;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use mainstem_kafka_wire::messages::*;
use mainstem_kafka_wire::{ApiKey, ErrorCode, Message, Reader, Records, decode_request_header, encode_response};
use mainstem_record::{BatchView, Stamp, StampTimestamp, stamp_in_place};
use mainstem_types::{LeaderEpoch, Offset};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What to do with the next request of an API, instead of answering it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trouble {
    /// The error in every partition or topic of the answer.
    Code(ErrorCode),
    /// Do the work, then close the connection without an answer.
    CloseAfter,
    /// Say nothing.
    Silence,
}

#[derive(Default)]
pub struct FakeState {
    pub topics: HashMap<String, Vec<Vec<Vec<u8>>>>,
    pub trouble: HashMap<i16, VecDeque<Trouble>>,
    /// API and version of each request, in order.
    pub calls: Vec<(ApiKey, i16)>,
    pub requests: HashMap<i16, Vec<Vec<u8>>>,
    /// The first version of ApiVersions that is not known here.
    pub api_versions_below: i16,
    pub aborted: Vec<(i64, i64)>,
    pub batch_size_max: usize,
    /// Highest version of an API, where it is not that of the table: an old broker.
    pub versions_most: HashMap<i16, i16>,
    /// Offsets by group, topic and partition.
    pub groups: BTreeMap<String, BTreeMap<(String, i32), i64>>,
    /// The generation of the only group that has members, and how many ids it has given out.
    pub generation: i32,
    pub ids_given: usize,
    pub left: Vec<String>,
    port: i32,
}

pub struct FakeBroker {
    pub state: Arc<Mutex<FakeState>>,
    pub address: String,
}

const VERSIONS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::PRODUCE, 3, 13),
    (ApiKey::FETCH, 4, 18),
    (ApiKey::LIST_OFFSETS, 1, 11),
    (ApiKey::METADATA, 0, 13),
    (ApiKey::API_VERSIONS, 0, 4),
    (ApiKey::OFFSET_COMMIT, 2, 10),
    (ApiKey::OFFSET_FETCH, 1, 10),
    (ApiKey::FIND_COORDINATOR, 0, 6),
    (ApiKey::DESCRIBE_GROUPS, 0, 6),
    (ApiKey::JOIN_GROUP, 1, 9),
    (ApiKey::SYNC_GROUP, 0, 5),
    (ApiKey::HEARTBEAT, 0, 4),
    (ApiKey::LEAVE_GROUP, 0, 5),
    (ApiKey::LIST_GROUPS, 0, 5),
    (ApiKey::DELETE_RECORDS, 0, 2),
    (ApiKey::DELETE_GROUPS, 0, 3),
    (ApiKey::OFFSET_DELETE, 0, 0),
    (ApiKey::CREATE_TOPICS, 2, 7),
    (ApiKey::DELETE_TOPICS, 1, 6),
    (ApiKey::INIT_PRODUCER_ID, 0, 5),
    (ApiKey::DESCRIBE_CONFIGS, 1, 4),
    (ApiKey::CREATE_PARTITIONS, 0, 3),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, 0, 1),
    (ApiKey::DESCRIBE_CLUSTER, 0, 2),
];

impl FakeBroker {
    pub async fn start() -> FakeBroker {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state =
            FakeState { api_versions_below: 99, batch_size_max: usize::MAX, port: port.into(), ..Default::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        FakeBroker { state, address: format!("127.0.0.1:{port}") }
    }

    pub fn topic(&self, name: &str, partitions: usize) {
        self.state.lock().topics.insert(name.to_owned(), vec![Vec::new(); partitions]);
    }

    pub fn trouble(&self, api: ApiKey, trouble: Trouble) {
        self.state.lock().trouble.entry(api.0).or_default().push_back(trouble);
    }

    pub fn calls_of(&self, api: ApiKey) -> usize {
        self.state.lock().calls.iter().filter(|(called, _)| *called == api).count()
    }

    /// Puts a batch at the end of a partition; its base offset is stamped.
    pub fn append(&self, topic: &str, partition: usize, batch: Vec<u8>) {
        append(&mut self.state.lock().topics.get_mut(topic).unwrap()[partition], batch);
    }

    /// The values of a partition, in order.
    pub fn values(&self, topic: &str, partition: usize) -> Vec<String> {
        let state = self.state.lock();
        let mut scratch = Vec::new();
        let mut values = Vec::new();
        for batch in &state.topics[topic][partition] {
            for record in BatchView::parse(batch).unwrap().records(&mut scratch, 1 << 24).unwrap() {
                values.push(String::from_utf8_lossy(record.unwrap().value.unwrap_or(b"null")).into_owned());
            }
        }
        values
    }
}

fn end(log: &[Vec<u8>]) -> i64 {
    log.last().map_or(0, |batch| BatchView::parse(batch).unwrap().header().next_offset().0)
}

fn append(log: &mut Vec<Vec<u8>>, mut batch: Vec<u8>) -> i64 {
    let base_offset = end(log);
    let stamp =
        Stamp { base_offset: Offset(base_offset), leader_epoch: LeaderEpoch(3), timestamp: StampTimestamp::Keep };
    stamp_in_place(&mut batch, &stamp).unwrap();
    log.push(batch);
    base_offset
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<FakeState>>) {
    while let Ok(size) = stream.read_i32().await {
        let mut frame = vec![0; size as usize];
        stream.read_exact(&mut frame).await.unwrap();
        let mut reader = Reader::new(&frame);
        let header = decode_request_header(&mut reader).unwrap().unwrap();
        let (api, version) = (ApiKey(header.request_api_key), header.request_api_version);
        let (answer, trouble) = {
            let mut state = state.lock();
            state.calls.push((api, version));
            state.requests.entry(api.0).or_default().push(reader.rest().to_vec());
            let trouble = state.trouble.get_mut(&api.0).and_then(VecDeque::pop_front);
            let code = match trouble {
                Some(Trouble::Code(code)) => code.0,
                _ => 0,
            };
            (state.answer(api, version, header.correlation_id, reader.rest(), code), trouble)
        };
        match trouble {
            Some(Trouble::CloseAfter) => return,
            Some(Trouble::Silence) => continue,
            _ => {}
        }
        match answer {
            Some(bytes) => stream.write_all(&bytes).await.unwrap(),
            // A fetch without data: as a long poll, but short.
            None if api == ApiKey::FETCH => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            None => {}
        }
    }
}

fn framed<'a, M: Message<'a>>(api: ApiKey, version: i16, id: i32, message: &M) -> Option<Vec<u8>> {
    Some(encode_response(api.0, version, id, message).unwrap().bytes.to_vec())
}

fn read<'a, M: Message<'a>>(body: &'a [u8], version: i16) -> M {
    M::decode(&mut Reader::new(body), version).unwrap()
}

impl FakeState {
    fn answer(&mut self, api: ApiKey, version: i16, id: i32, body: &[u8], code: i16) -> Option<Vec<u8>> {
        match api {
            ApiKey::API_VERSIONS => {
                let known = version < self.api_versions_below;
                let answer = self.api_versions(if known { code } else { ErrorCode::UNSUPPORTED_VERSION.0 });
                framed(api, if known { version } else { 0 }, id, &answer)
            }
            ApiKey::METADATA => framed(api, version, id, &self.metadata(read(body, version), code)),
            ApiKey::PRODUCE => {
                let request: ProduceRequest<'_> = read(body, version);
                let answer = self.produce(&request, code);
                if request.acks == 0 { None } else { framed(api, version, id, &answer) }
            }
            ApiKey::FETCH => framed(api, version, id, &self.fetch(&read(body, version), code)),
            ApiKey::LIST_OFFSETS => framed(api, version, id, &self.list_offsets(&read(body, version), code)),
            ApiKey::CREATE_PARTITIONS => framed(api, version, id, &self.create_partitions(&read(body, version))),
            ApiKey::INIT_PRODUCER_ID => {
                let request: InitProducerIdRequest<'_> = read(body, version);
                // Kafka refuses an empty one.
                assert_eq!(request.transactional_id, None);
                assert_eq!((request.producer_id, request.producer_epoch), (-1, -1));
                let answered = self.calls.iter().filter(|(called, _)| *called == api).count() as i64;
                let answer = InitProducerIdResponse {
                    error_code: code,
                    producer_id: 1000 + answered,
                    producer_epoch: 0,
                    ..Default::default()
                };
                framed(api, version, id, &answer)
            }
            ApiKey::CREATE_TOPICS => framed(api, version, id, &self.create_topics(&read(body, version), code)),
            ApiKey::DELETE_TOPICS => framed(api, version, id, &self.delete_topics(&read(body, version))),
            ApiKey::DESCRIBE_CLUSTER => framed(
                api,
                version,
                id,
                &DescribeClusterResponse { cluster_id: "fake".into(), controller_id: 1, ..Default::default() },
            ),
            ApiKey::INCREMENTAL_ALTER_CONFIGS => {
                let request: IncrementalAlterConfigsRequest<'_> = read(body, version);
                let responses = request.resources.iter().map(|resource| {
                    incremental_alter_configs_response::AlterConfigsResourceResponse {
                        error_code: code,
                        resource_name: resource.resource_name.clone(),
                        resource_type: resource.resource_type,
                        ..Default::default()
                    }
                });
                let answer = IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() };
                framed(api, version, id, &answer)
            }
            ApiKey::FIND_COORDINATOR => {
                framed(api, version, id, &self.find_coordinator(&read(body, version), version, code))
            }
            ApiKey::LIST_GROUPS => framed(api, version, id, &self.list_groups(version, code)),
            ApiKey::DESCRIBE_GROUPS => framed(api, version, id, &self.describe_groups(&read(body, version), version)),
            ApiKey::DELETE_GROUPS => framed(api, version, id, &self.delete_groups(&read(body, version))),
            ApiKey::JOIN_GROUP => framed(api, version, id, &self.join(&read(body, version), version, code)),
            ApiKey::SYNC_GROUP => framed(api, version, id, &self.sync(&read(body, version), code)),
            ApiKey::HEARTBEAT => framed(api, version, id, &self.heartbeat(&read(body, version), code)),
            ApiKey::LEAVE_GROUP => framed(api, version, id, &self.leave(&read(body, version), version)),
            ApiKey::OFFSET_FETCH => framed(api, version, id, &self.offset_fetch(&read(body, version), version, code)),
            ApiKey::OFFSET_COMMIT => framed(api, version, id, &self.offset_commit(&read(body, version), code)),
            ApiKey::OFFSET_DELETE => framed(api, version, id, &self.offset_delete(&read(body, version), code)),
            ApiKey::DELETE_RECORDS => framed(api, version, id, &self.delete_records(&read(body, version), code)),
            other => panic!("the fake has no answer to {other}"),
        }
    }

    fn metadata(&self, request: MetadataRequest<'_>, code: i16) -> MetadataResponse<'static> {
        use metadata_response::*;
        let names: Vec<String> = match request.topics {
            Some(topics) => topics.iter().map(|topic| topic.name.as_deref().unwrap().to_owned()).collect(),
            None => self.topics.keys().cloned().collect(),
        };
        let topics = names.into_iter().map(|name| {
            let partitions = (0..self.topics.get(&name).map_or(0, Vec::len) as i32).map(|partition_index| {
                MetadataResponsePartition { partition_index, leader_id: 1, leader_epoch: 3, ..Default::default() }
            });
            let unknown = if self.topics.contains_key(&name) { 0 } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0 };
            MetadataResponseTopic {
                error_code: if code != 0 { code } else { unknown },
                is_internal: name.starts_with("__"),
                partitions: partitions.collect(),
                name: Some(name.into()),
                ..Default::default()
            }
        });
        let broker =
            MetadataResponseBroker { node_id: 1, host: "127.0.0.1".into(), port: self.port, ..Default::default() };
        MetadataResponse {
            brokers: vec![broker],
            controller_id: 1,
            cluster_id: Some("fake".into()),
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn produce(&mut self, request: &ProduceRequest<'_>, code: i16) -> ProduceResponse<'static> {
        use produce_response::*;
        let responses = request.topic_data.iter().map(|topic| {
            let partition_responses = topic.partition_data.iter().map(|data| {
                let batch = data.records.as_bytes().unwrap().to_vec();
                assert!(BatchView::parse(&batch).unwrap().crc_is_valid());
                let too_large = batch.len() > self.batch_size_max;
                let error_code = if too_large { ErrorCode::MESSAGE_TOO_LARGE.0 } else { code };
                let mut base_offset = -1;
                if error_code == 0 {
                    base_offset = append(&mut self.topics.get_mut(&*topic.name).unwrap()[data.index as usize], batch);
                }
                PartitionProduceResponse { index: data.index, error_code, base_offset, ..Default::default() }
            });
            TopicProduceResponse {
                name: topic.name.to_string().into(),
                partition_responses: partition_responses.collect(),
                ..Default::default()
            }
        });
        ProduceResponse { responses: responses.collect(), ..Default::default() }
    }

    fn fetch(&self, request: &FetchRequest<'_>, code: i16) -> FetchResponse<'static> {
        use fetch_response::*;
        let responses = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let log = &self.topics[&*topic.topic][wanted.partition as usize];
                let end = end(log);
                let out = wanted.fetch_offset > end || wanted.fetch_offset < 0;
                let from =
                    |batch: &&Vec<u8>| BatchView::parse(batch).unwrap().header().last_offset().0 >= wanted.fetch_offset;
                let mut bytes: Vec<u8> = Vec::new();
                for batch in log.iter().filter(from) {
                    let room = (wanted.partition_max_bytes as usize).saturating_sub(bytes.len());
                    let whole = bytes.is_empty() || batch.len() <= room;
                    bytes.extend_from_slice(if whole { batch } else { &batch[..room] });
                    if !whole {
                        break;
                    }
                }
                let aborted = self.aborted.iter().map(|(producer_id, first_offset)| AbortedTransaction {
                    producer_id: *producer_id,
                    first_offset: *first_offset,
                });
                PartitionData {
                    partition_index: wanted.partition,
                    error_code: if out { ErrorCode::OFFSET_OUT_OF_RANGE.0 } else { code },
                    high_watermark: end,
                    last_stable_offset: end,
                    log_start_offset: 0,
                    aborted_transactions: (request.isolation_level == 1).then(|| aborted.collect()),
                    preferred_read_replica: -1,
                    records: if out || code != 0 { Records::Null } else { Records::Bytes(bytes.into()) },
                    ..Default::default()
                }
            });
            FetchableTopicResponse {
                topic: topic.topic.to_string().into(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        FetchResponse { responses: responses.collect(), ..Default::default() }
    }

    fn list_offsets(&self, request: &ListOffsetsRequest<'_>, code: i16) -> ListOffsetsResponse<'static> {
        use list_offsets_response::*;
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let log = &self.topics[&*topic.name][wanted.partition_index as usize];
                let offset = match wanted.timestamp {
                    -2 => 0,
                    -1 => end(log),
                    time => log
                        .iter()
                        .map(|batch| *BatchView::parse(batch).unwrap().header())
                        .find(|header| header.max_timestamp.0 >= time)
                        .map_or(-1, |header| header.base_offset.0),
                };
                ListOffsetsPartitionResponse {
                    partition_index: wanted.partition_index,
                    error_code: code,
                    offset,
                    timestamp: -1,
                    leader_epoch: 3,
                }
            });
            ListOffsetsTopicResponse { name: topic.name.to_string().into(), partitions: partitions.collect() }
        });
        ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn create_topics(&mut self, request: &CreateTopicsRequest<'_>, code: i16) -> CreateTopicsResponse<'static> {
        use create_topics_response::*;
        let topics = request.topics.iter().map(|topic| {
            let exists = self.topics.contains_key(&*topic.name);
            let error_code = if exists { ErrorCode::TOPIC_ALREADY_EXISTS.0 } else { code };
            if error_code == 0 && !request.validate_only {
                self.topics.insert(topic.name.to_string(), vec![Vec::new(); topic.num_partitions.max(1) as usize]);
            }
            CreatableTopicResult {
                name: topic.name.to_string().into(),
                error_code,
                num_partitions: topic.num_partitions.max(1),
                replication_factor: 1,
                ..Default::default()
            }
        });
        CreateTopicsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn create_partitions(&mut self, request: &CreatePartitionsRequest<'_>) -> CreatePartitionsResponse<'static> {
        use create_partitions_response::*;
        let results = request.topics.iter().map(|topic| {
            // Kafka counts an empty list against the partitions to add.
            assert_eq!(topic.assignments, None);
            let partitions = self.topics.get_mut(&*topic.name).unwrap();
            let grows = topic.count as usize > partitions.len();
            partitions.resize(partitions.len().max(topic.count as usize), Vec::new());
            let error_code = if grows { 0 } else { ErrorCode::INVALID_PARTITIONS.0 };
            CreatePartitionsTopicResult { name: topic.name.to_string().into(), error_code, ..Default::default() }
        });
        CreatePartitionsResponse { results: results.collect(), ..Default::default() }
    }

    fn delete_topics(&mut self, request: &DeleteTopicsRequest<'_>) -> DeleteTopicsResponse<'static> {
        use delete_topics_response::*;
        let named = request.topics.iter().filter_map(|topic| topic.name.as_deref());
        let names: Vec<_> = named.chain(request.topic_names.iter().map(|name| &**name)).map(str::to_owned).collect();
        let responses = names.into_iter().map(|name| {
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
            let error_code = if self.topics.remove(&name).is_some() { 0 } else { unknown };
            DeletableTopicResult { name: Some(name.into()), error_code, ..Default::default() }
        });
        DeleteTopicsResponse { responses: responses.collect(), ..Default::default() }
    }

    fn api_versions(&self, error_code: i16) -> ApiVersionsResponse<'static> {
        let api_keys = VERSIONS.iter().map(|(api, min_version, max_version)| api_versions_response::ApiVersion {
            api_key: api.0,
            min_version: *min_version,
            max_version: self.versions_most.get(&api.0).copied().unwrap_or(*max_version),
        });
        ApiVersionsResponse { error_code, api_keys: api_keys.collect(), ..Default::default() }
    }
}
