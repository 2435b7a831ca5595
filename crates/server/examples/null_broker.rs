//! A broker that keeps nothing: it receives, says that all is well, and forgets. What a client reaches with it is the
//! limit of the client and of the network path; the difference to a real broker is what the broker costs.
//!
//! ```text
//! cargo run --release -p mainstem-server --example null_broker -- 19092 1000
//! ```
//!
//! Every topic has as many partitions as the second argument says. Knows ApiVersions, Metadata and Produce.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mainstem_door::{Close, ConnectionInfo, Frame, Handled, Outbox, Protocol, Reply};
use mainstem_kafka::{CloseReason, Request, next_frame, put_length};
use mainstem_kafka_wire::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use mainstem_kafka_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use mainstem_kafka_wire::messages::produce_request::TopicProduceData;
use mainstem_kafka_wire::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use mainstem_kafka_wire::messages::{MetadataRequest, ProduceRequest};
use mainstem_server::{BoundFront, FrontConfig, Listen};

/// Key, first and last version of what is answered.
const APIS: [(i16, i16, i16); 3] = [(0, 3, 9), (3, 1, 9), (18, 0, 3)];

const FRAME_BYTES_MAX: usize = 100 << 20;

struct NullBroker {
    port: u16,
    partitions: i32,
}

impl Protocol for NullBroker {
    type Connection = ();

    fn connect(&self, _info: ConnectionInfo, _outbox: Outbox) {}

    fn frame(&self, _connection: &(), received: &[u8]) -> Result<Option<Frame>, Close> {
        Ok(next_frame(received, FRAME_BYTES_MAX)?)
    }

    fn put_head(&self, response_bytes: u64, head: &mut BytesMut) -> Result<(), Close> {
        Ok(put_length(response_bytes, head)?)
    }

    fn handle(&self, _connection: &Arc<()>, frame: Bytes) -> Handled {
        Handled::Ready(self.answer(frame).unwrap_or_else(Reply::close))
    }

    fn may_pipeline(&self, frame: &[u8]) -> bool {
        mainstem_kafka::may_pipeline(frame)
    }
}

impl NullBroker {
    fn answer(&self, frame: Bytes) -> Result<Reply, CloseReason> {
        let malformed = |error: &dyn std::fmt::Display| CloseReason::Malformed(error.to_string());
        let request = Request::parse(frame).map_err(|error| malformed(&error))?;
        let request = request.ok_or_else(|| malformed(&"an unknown api"))?;
        let known = APIS.iter().find(|(key, ..)| *key == request.api_key);
        let Some((_, first, last)) = known else { return Err(CloseReason::UnknownApi(request.api_key)) };
        match request.api_key {
            0 => Ok(produced(&request, &request.decode()?)),
            3 => Ok(self.metadata(&request, &request.decode()?)),
            _ => {
                let api = |(api_key, min_version, max_version): &(i16, i16, i16)| ApiVersion {
                    api_key: *api_key,
                    min_version: *min_version,
                    max_version: *max_version,
                };
                let response = ApiVersionsResponse { api_keys: APIS.iter().map(api).collect(), ..Default::default() };
                Ok(request.reply_in_version(&response, request.version.clamp(*first, *last), Vec::new()))
            }
        }
    }

    fn metadata<'r>(&self, request: &'r Request, message: &MetadataRequest<'r>) -> Reply {
        let partition = |partition_index| MetadataResponsePartition {
            partition_index,
            leader_id: 1,
            replica_nodes: vec![1],
            isr_nodes: vec![1],
            ..Default::default()
        };
        let names = message.topics.iter().flatten().filter_map(|topic| topic.name.as_deref());
        let topic = |name: &str| MetadataResponseTopic {
            name: Some(Cow::Owned(name.to_owned())),
            partitions: (0..self.partitions).map(partition).collect(),
            ..Default::default()
        };
        let node = MetadataResponseBroker {
            node_id: 1,
            host: Cow::Borrowed("127.0.0.1"),
            port: i32::from(self.port),
            ..Default::default()
        };
        let response = MetadataResponse {
            brokers: vec![node],
            controller_id: 1,
            topics: names.map(topic).collect(),
            ..Default::default()
        };
        request.reply(&response)
    }
}

fn produced<'r>(request: &'r Request, message: &ProduceRequest<'r>) -> Reply {
    let topic = |topic: &TopicProduceData<'r>| TopicProduceResponse {
        name: topic.name.clone(),
        partition_responses: topic
            .partition_data
            .iter()
            .map(|partition| PartitionProduceResponse { index: partition.index, ..Default::default() })
            .collect(),
        ..Default::default()
    };
    request.reply(&ProduceResponse { responses: message.topic_data.iter().map(topic).collect(), ..Default::default() })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().as_deref().unwrap_or("19092").parse()?;
    let partitions = arguments.next().as_deref().unwrap_or("1").parse()?;
    let listen = Listen { name: "PLAINTEXT".into(), host: "127.0.0.1".to_owned(), port };
    let front = BoundFront::bind(FrontConfig::new(vec![listen]))?;
    let _running = front.serve(Arc::new(NullBroker { port, partitions }));
    println!("ready");
    loop {
        std::thread::park();
    }
}
