//! Clients that are slow: to send, to read, to go away.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use mainstem_kafka_wire::messages::{ApiVersionsRequest, MetadataRequest, ProduceResponse};
use mainstem_record::Codec;

use crate::bed::{Bed, MIB};
use crate::wire::{self, Outcome, receive, send};

#[test]
fn many_clients_that_send_a_byte_a_second_cost_next_to_nothing() {
    let bed = Bed::start(&[]);
    bed.endure("slowloris", 64 * MIB, |bed| {
        let large = 100 * MIB as u32;
        let announced = [&large.to_be_bytes()[..], &wire::request(9, &MetadataRequest::default())[4..]].concat();
        // Half of them announce a request of 100 MiB.
        let mut sockets: Vec<(TcpStream, &[u8])> = Vec::new();
        let small = wire::request(0, &ApiVersionsRequest::default());
        for number in 0..1000 {
            sockets.push((bed.socket(), if number % 2 == 0 { &announced } else { &small }));
        }
        for second in 0..3 {
            let began = Instant::now();
            for (socket, bytes) in &mut sockets {
                socket.write_all(&bytes[second..=second]).unwrap();
            }
            std::thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
        }
    });
}

/// A topic of some megabytes, that a fetch of 1 MiB a time can ask for again and again.
fn fill(bed: &Bed, topic: &str) {
    bed.create_topic(topic, 1, &[]);
    let mut client = bed.connect();
    let batch = wire::batch(Codec::None, &[&[1; 1 << 19]]);
    for _ in 0..8 {
        let response: ProduceResponse<'_> = client.ask(9, &wire::produce(topic, &[(0, &batch)]));
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
}

#[test]
fn clients_that_never_read_hold_little_of_the_brokers_memory() {
    let bed = Bed::start(&[]);
    fill(&bed, "much");
    bed.endure("never reads", 128 * MIB, |bed| {
        let fetch = wire::request(11, &wire::fetch("much", 0..1)).repeat(1000);
        let metadata = wire::request(9, &MetadataRequest { topics: None, ..Default::default() }).repeat(3000);
        let mut sockets = Vec::new();
        for number in 0..60 {
            let socket = bed.socket();
            socket.set_nonblocking(true).unwrap();
            sockets.push((socket, if number % 2 == 0 { &fetch } else { &metadata }));
        }
        let begun = Instant::now();
        let mut refused = 0;
        // On a busy machine it takes a while until all buffers are full.
        while begun.elapsed() < Duration::from_secs(2) || (refused == 0 && begun.elapsed() < crate::support::PATIENCE) {
            for (socket, requests) in &mut sockets {
                match socket.write(requests) {
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(refused > 0, "the broker stops reading from clients that do not read");
    });
}

#[test]
fn clients_that_read_a_byte_at_a_time_hold_up_nobody() {
    let bed = Bed::start(&[]);
    fill(&bed, "much");
    bed.endure("reads bytes", 128 * MIB, |bed| {
        let fetch = wire::request(11, &wire::fetch("much", 0..1));
        let mut sockets: Vec<TcpStream> = (0..100).map(|_| bed.socket()).collect();
        for socket in &mut sockets {
            socket2::SockRef::from(&*socket).set_recv_buffer_size(4096).unwrap();
            send(socket, &fetch);
        }
        let mut byte = [0];
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            sockets.iter_mut().for_each(|socket| socket.read_exact(&mut byte).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn tens_of_thousands_of_pipelined_requests_are_answered_in_order() {
    let bed = Bed::start(&[]);
    bed.endure("pipelining", 64 * MIB, |bed| {
        const REQUESTS: i32 = 40_000;
        let mut socket = bed.socket();
        let mut writer = socket.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let mut request = wire::request(0, &ApiVersionsRequest::default()).to_vec();
            let mut all = Vec::new();
            for number in 0..REQUESTS {
                request[8..12].copy_from_slice(&number.to_be_bytes());
                all.extend_from_slice(&request);
            }
            writer.write_all(&all).unwrap();
        });
        for number in 0..REQUESTS {
            let Outcome::Answer(answer) = receive(&mut socket) else { panic!("closed at {number}") };
            assert_eq!(answer[..4], number.to_be_bytes());
        }
        sender.join().unwrap();
    });
}

#[test]
fn produce_requests_that_are_pipelined_without_end_are_bounded() {
    let bed = Bed::start(&[]);
    bed.create_topic("target", 1, &[]);
    bed.endure("pipelined produce", 160 * MIB, |bed| {
        let batch = wire::batch(Codec::None, &[&[1; 900 << 10]]);
        let request = wire::request(9, &wire::produce("target", &[(0, &batch)]));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (mut socket, request) = (bed.socket(), request.clone());
                std::thread::spawn(move || (0..40).for_each(|_| send(&mut socket, &request)))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn connections_that_are_half_closed_or_torn_leave_nothing_behind() {
    let bed = Bed::start(&["max.connections=600"]);
    bed.endure("half-open", 64 * MIB, |bed| {
        for round in 0..4 {
            let mut sockets: Vec<TcpStream> = (0..500).map(|_| bed.socket()).collect();
            for (number, socket) in sockets.iter_mut().enumerate() {
                match (number + round) % 4 {
                    0 => socket.shutdown(Shutdown::Write).unwrap(),
                    1 => send(socket, &[0, 0, 1]),
                    2 => tear(socket),
                    _ => send(socket, &wire::request(0, &ApiVersionsRequest::default())),
                }
            }
            // Each place is free again: else there would be no room for the next round.
            drop(sockets);
            bed.wait_until_served(500);
        }
    });
}

/// The next close sends a reset.
fn tear(socket: &TcpStream) {
    socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
}
