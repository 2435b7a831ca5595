//! Bytes on sockets: requests well-formed and not.

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use mainstem_kafka_wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader};
use mainstem_kafka_wire::{Message, Reader, Records, encode_request, response_header_version};
use mainstem_record::{BatchBuilder, Codec};
use mainstem_types::TimestampMs;

use crate::support::PATIENCE;

pub fn socket(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A request as it goes to the socket.
pub fn request<'q, Q: Message<'q>>(version: i16, request: &Q) -> Bytes {
    encode_request(version, 7, Some("hostile"), request).unwrap().bytes
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer without its length.
    Answer(Vec<u8>),
    Closed,
}

/// Reads one answer, or the end of the connection.
pub fn receive(stream: &mut TcpStream) -> Outcome {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if is_closed(&error) => return Outcome::Closed,
        Err(error) => panic!("neither an answer nor the end: {error}"),
    }
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    match stream.read_exact(&mut answer) {
        Ok(()) => Outcome::Answer(answer),
        Err(error) if is_closed(&error) => Outcome::Closed,
        Err(error) => panic!("half an answer: {error}"),
    }
}

pub fn is_closed(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Sends bytes that the broker may refuse to take to their end.
pub fn send(stream: &mut TcpStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Ok(()) => {}
        Err(error) if is_closed(&error) => {}
        Err(error) => panic!("not sent: {error}"),
    }
}

/// A connection that speaks the protocol as it should be.
pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client { stream: socket(address) }
    }

    pub fn ask<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16, message: &Q) -> R {
        self.stream.write_all(&request(version, message)).unwrap();
        self.answer::<Q, R>(version)
    }

    pub fn answer<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16) -> R {
        match receive(&mut self.stream) {
            Outcome::Answer(bytes) => decode::<Q, R>(version, bytes),
            Outcome::Closed => panic!("{} {version}: the connection was closed", Q::NAME),
        }
    }
}

pub fn decode<'q, Q: Message<'q>, R: Message<'static>>(version: i16, answer: Vec<u8>) -> R {
    // Leaked, so that what is decoded may borrow from it: tests are short.
    let bytes: &'static [u8] = answer.leak();
    let mut reader = Reader::new(bytes);
    let header_version = response_header_version(Q::API_KEY.unwrap(), version).unwrap();
    ResponseHeader::decode(&mut reader, header_version).unwrap();
    R::decode(&mut reader, version).unwrap()
}

/// All apis that the broker has: key, least and greatest version.
pub fn apis(client: &mut Client) -> Vec<(i16, i16, i16)> {
    let response: ApiVersionsResponse<'_> = client.ask(0, &ApiVersionsRequest::default());
    response.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect()
}

pub fn create_topic(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreateTopicsRequest<'static> {
    let config = |(key, value): &(&str, &str)| CreatableTopicConfig {
        name: Cow::Owned(key.to_string()),
        value: Some(Cow::Owned(value.to_string())),
    };
    let topic = CreatableTopic {
        name: Cow::Owned(name.to_owned()),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() }
}

/// One record for each value, the same number of milliseconds after now.
pub fn batch(codec: Codec, values: &[&[u8]]) -> Bytes {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let mut builder = BatchBuilder::new().codec(codec);
    for value in values {
        builder.append(TimestampMs(now), None, Some(value), &[]);
    }
    builder.build().unwrap().into()
}

/// Batches for partitions of a topic, acks=all.
pub fn produce<'b>(topic: &'b str, batches: &[(i32, &'b [u8])]) -> ProduceRequest<'b> {
    let data =
        batches.iter().map(|(index, batch)| PartitionProduceData { index: *index, records: Records::borrowed(batch) });
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: Cow::Borrowed(topic),
            partition_data: data.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A fetch of partitions of one topic from their beginning, without a session and without a wait.
pub fn fetch(topic: &str, partitions: impl Iterator<Item = i32>) -> FetchRequest<'_> {
    let partition = |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: Cow::Borrowed(topic),
            partitions: partitions.map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}
