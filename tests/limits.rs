//! What is as large, as long, or as many as it may be.

#[path = "hostile/wire.rs"]
#[allow(dead_code, reason = "the parts that hostile clients need")]
mod wire;

mod support;

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use mainstem_kafka_wire::messages::*;
use mainstem_record::{BatchBuilder, Codec};
use mainstem_types::TimestampMs;
use support::{Server, eventually, mainstem};
use wire::Client;

const INVALID_TOPIC: i16 = 17;
const MESSAGE_TOO_LARGE: i16 = 10;
const HUGE_BYTES: usize = 100 << 20;

fn connect(server: &Server) -> Client {
    Client::connect(server.address().parse().unwrap())
}

fn create(client: &mut Client, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> i16 {
    let created: CreateTopicsResponse<'_> = client.ask(7, &wire::create_topic(topic, partitions, configs));
    created.topics[0].error_code
}

fn produce(client: &mut Client, topic: &str, batches: &[(i32, &[u8])]) -> Vec<i16> {
    let response: ProduceResponse<'_> = client.ask(9, &wire::produce(topic, batches));
    response.responses[0].partition_responses.iter().map(|partition| partition.error_code).collect()
}

/// Records of a topic, from the beginning of each partition.
fn fetch(client: &mut Client, topic: &str, partitions: i32, bytes_max: i32) -> Vec<Bytes> {
    let mut request = wire::fetch(topic, 0..partitions);
    request.max_bytes = bytes_max;
    request.topics[0].partitions.iter_mut().for_each(|partition| partition.partition_max_bytes = bytes_max);
    let response: FetchResponse<'_> = client.ask(11, &request);
    let partitions = &response.responses[0].partitions;
    assert!(partitions.iter().all(|partition| partition.error_code == 0), "{topic}");
    partitions.iter().map(|p| Bytes::copy_from_slice(p.records.as_bytes().unwrap_or_default())).collect()
}

#[test]
fn the_longest_name_is_a_topic_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = connect(&server);
    let name = "n".repeat(249);
    assert_eq!(create(&mut client, &format!("{name}n"), 1, &[]), INVALID_TOPIC);
    for layout in ["partition", "shared"] {
        assert_eq!(create(&mut client, &name, 11, &[("mainstem.layout", layout)]), 0);
        let batch = wire::batch(Codec::None, &[b"value"]);
        assert_eq!(produce(&mut client, &name, &[(10, &batch)]), [0]);
        assert_eq!(fetch(&mut client, &name, 11, 1 << 20)[10].len(), batch.len());
        let topic = delete_topics_request::DeleteTopicState { name: Some(name.clone().into()), ..Default::default() };
        let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
        let deleted: DeleteTopicsResponse<'_> = client.ask(6, &request);
        assert_eq!(deleted.responses[0].error_code, 0, "{deleted:?}");
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_message_of_a_hundred_megabytes_is_stored_and_read_where_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--set", "socket.request.max.bytes=115343360"]);
    let mut client = connect(&server);
    for layout in ["partition", "topic"] {
        let configs = [("max.message.bytes", "110100480"), ("mainstem.layout", layout)];
        assert_eq!(create(&mut client, layout, 1, &configs), 0);
        let mut builder = BatchBuilder::new();
        builder.append(TimestampMs(1_700_000_000_000), None, Some(&vec![7; HUGE_BYTES]), &[]);
        let batch = Bytes::from(builder.build().unwrap());
        assert_eq!(produce(&mut client, layout, &[(0, &batch)]), [0], "{layout}");
        let read = fetch(&mut client, layout, 1, i32::MAX);
        assert_eq!(read[0].len(), batch.len());
        assert!(read[0][61..] == batch[61..], "{layout}: the same bytes");
    }
    assert_eq!(create(&mut client, "usual", 1, &[]), 0);
    let batch = wire::batch(Codec::None, &[&vec![7; 2 << 20]]);
    assert_eq!(produce(&mut client, "usual", &[(0, &batch)]), [MESSAGE_TOO_LARGE]);
}

/// A broker that may have so many files and connections open.
fn start_with_descriptors(count: u32, folder: &Path) -> Server {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={count}:{count}")).arg(mainstem(&[]).get_program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    Server::start_command(command)
}

/// More partitions than files may be open: those that were not used lately are closed.
#[test]
fn partitions_by_the_thousand_are_served_with_three_hundred_descriptors() {
    const PARTITIONS: i32 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let start = || start_with_descriptors(300, folder.path());
    let server = start();
    let mut client = connect(&server);
    assert_eq!(create(&mut client, "many", PARTITIONS, &[("retention.ms", "-1")]), 0);
    let batch = wire::batch(Codec::None, &[b"value"]);
    let batches: Vec<(i32, &[u8])> = (0..PARTITIONS).map(|partition| (partition, &batch[..])).collect();
    for _ in 0..2 {
        assert!(produce(&mut client, "many", &batches).iter().all(|error| *error == 0));
    }
    let sizes = |client: &mut Client| -> Vec<usize> {
        fetch(client, "many", PARTITIONS, 1 << 30).iter().map(Bytes::len).collect()
    };
    assert!(sizes(&mut client).iter().all(|size| *size == 2 * batch.len()));
    server.kill();
    let server = start();
    let mut client = connect(&server);
    assert!(sizes(&mut client).iter().all(|size| *size == 2 * batch.len()), "after a kill");
    assert!(produce(&mut client, "many", &batches).iter().all(|error| *error == 0));
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_flood_of_connections_leaves_the_logs_their_descriptors() {
    const PARTITIONS: i32 = 100;
    let folder = tempfile::tempdir().unwrap();
    let server = start_with_descriptors(64, folder.path());
    let mut client = connect(&server);
    assert_eq!(create(&mut client, "many", PARTITIONS, &[]), 0);
    let address = server.address();
    let flood: Vec<_> = (0..128).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // The broker closes those that are too many; the others stay.
    eventually("the flood is over", || {
        let is_closed = |mut stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        };
        flood.iter().filter(|stream| !is_closed(stream)).count() <= 64
    });
    let batch = wire::batch(Codec::None, &[b"value"]);
    for round in 1..=2 {
        for partition in 0..PARTITIONS {
            assert_eq!(produce(&mut client, "many", &[(partition, &batch)]), [0], "{partition}, round {round}");
        }
        let sizes = fetch(&mut client, "many", PARTITIONS, 1 << 30);
        assert!(sizes.iter().all(|records| records.len() == round * batch.len()));
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
