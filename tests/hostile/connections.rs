//! More connections than there may be.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use mainstem_kafka_wire::messages::{ApiVersionsRequest, CreateTopicsResponse, ProduceResponse};
use mainstem_record::Codec;

use crate::bed::{Bed, MIB};
use crate::wire::{self, Outcome, receive, send};

/// Whether a new connection is served. One that is refused is closed at once.
fn is_served(socket: &mut TcpStream) -> bool {
    send(socket, &wire::request(0, &ApiVersionsRequest::default()));
    matches!(receive(socket), Outcome::Answer(_))
}

impl Bed {
    /// Waits until so many connections find a place at the same time.
    pub fn wait_until_served(&self, count: usize) {
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        loop {
            let mut sockets: Vec<TcpStream> = (0..count).map(|_| self.socket()).collect();
            if sockets.iter_mut().all(is_served) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "places are not given back");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_flood_beyond_max_connections_is_turned_away() {
    let bed = Bed::start(&["max.connections=100"]);
    bed.endure("max.connections", 48 * MIB, |bed| {
        bed.wait_until_served(1);
        let mut sockets: Vec<TcpStream> = (0..2000).map(|_| bed.socket()).collect();
        let served = sockets.iter_mut().filter_map(|socket| is_served(socket).then_some(())).count();
        // The calm client has one, and the one that made its topic may not have left yet.
        assert!((98..=100).contains(&served), "{served} connections were served");
        drop(sockets);
        bed.wait_until_served(90);
    });
}

#[test]
fn a_flood_from_one_address_leaves_room_for_others() {
    let bed = Bed::start(&["max.connections.per.ip=50"]);
    bed.endure("max.connections.per.ip", 48 * MIB, |bed| {
        bed.wait_until_served(1);
        let mut sockets: Vec<TcpStream> = (0..500).map(|_| bed.socket()).collect();
        let served = sockets.iter_mut().filter_map(|socket| is_served(socket).then_some(())).count();
        assert!((48..=50).contains(&served), "{served} connections were served");
        let mut other = connect_from([127, 0, 0, 2], bed.address);
        assert!(is_served(&mut other), "another address has places of its own");
    });
}

/// As many as the system lets this test have, 10,000 if it can.
#[test]
fn ten_thousand_idle_connections_cost_little() {
    // The broker gives connections half of its descriptors, less 256.
    let descriptors = raise_descriptors(21_000);
    let count = (descriptors / 2).saturating_sub(300).min(10_000) as usize;
    let bed = Bed::start_with_descriptors(descriptors);
    bed.endure(&format!("{count} idle connections"), 96 * MIB, |bed| {
        let mut sockets = Vec::with_capacity(count);
        for number in 0..count {
            let mut socket = bed.socket();
            // Half of them have said something, and got their answer.
            assert!(number % 2 == 1 || is_served(&mut socket), "connection {number}");
            sockets.push(socket);
        }
        assert!(is_served(&mut sockets[count - 1]), "the last one is served");
        let before = bed.processor_time();
        bed.wait_for_calm_requests(20);
        let used = bed.processor_time() - before;
        println!("    idle, with the calm client: {} ms of the processor for 20 requests", used.as_millis());
        // Those that never said a word are connections, too.
        assert!(is_served(&mut sockets[1]), "a silent one is served");
    });
}

/// Lets this process have so many files open, if it may; gives how many that are.
fn raise_descriptors(wanted: u64) -> u64 {
    let raised = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string(), &format!("--nofile={wanted}:{wanted}")])
        .status();
    if !raised.is_ok_and(|status| status.success()) {
        println!("not raised: the limit of open files stays as it is");
    }
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(wanted)
}

fn connect_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    socket.into()
}

/// Connections take descriptors, and so do files: the first may not starve the second.
#[test]
fn connections_without_limit_leave_descriptors_for_files() {
    let bed = Bed::start_with_descriptors(300);
    let mut client = bed.connect();
    bed.endure("descriptors", 64 * MIB, |bed| {
        let sockets: Vec<TcpStream> = (0..600).map(|_| bed.socket()).collect();
        // Files can be made, opened and written in the midst of it.
        for number in 0..10 {
            let name = format!("during-{number}");
            let created: CreateTopicsResponse<'_> = client.ask(7, &wire::create_topic(&name, 4, &[]));
            assert_eq!(created.topics[0].error_code, 0, "{created:?}");
            let batch = wire::batch(Codec::None, &[b"x"]);
            let batches: Vec<(i32, &[u8])> = (0..4).map(|partition| (partition, &batch[..])).collect();
            let produced: ProduceResponse<'_> = client.ask(9, &wire::produce(&name, &batches));
            let failed = produced.responses[0].partition_responses.iter().find(|partition| partition.error_code != 0);
            assert_eq!(failed, None);
        }
        drop(sockets);
        bed.wait_until_served(20);
    });
}
