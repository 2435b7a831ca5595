//! Bytes that are no requests.

use std::io::{Read, Write};

use mainstem_kafka_wire::messages::{ApiVersionsRequest, MetadataRequest};

use crate::bed::{Bed, MIB};
use crate::wire::{self, Outcome, apis, receive, send};

/// A small generator of numbers (xorshift), the same ones in each run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn garbage_closes_its_connection_and_nothing_else() {
    let bed = Bed::start(&[]);
    bed.endure("garbage", 48 * MIB, |bed| {
        let mut numbers = Numbers(1);
        for length in 1..400 {
            let bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8 | 0x80).collect();
            let mut socket = bed.socket();
            send(&mut socket, &bytes);
            let _ = socket.shutdown(std::net::Shutdown::Write);
            assert_eq!(receive(&mut socket), Outcome::Closed, "{bytes:02x?}");
        }
    });
    assert_eq!(bed.log_lines("connection closed: it sent a frame of") / LOG_LINES_A_SECOND, 1, "{}", bed.log());
}

/// Of the kind that clients can cause.
const LOG_LINES_A_SECOND: usize = 5;

#[test]
fn other_protocols_get_a_hint() {
    let bed = Bed::start(&[]);
    bed.endure("other protocols", 48 * MIB, |bed| {
        for hello in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"SSH-2.0-x\r\n"] {
            for _ in 0..500 {
                let mut socket = bed.socket();
                send(&mut socket, hello);
                assert_eq!(receive(&mut socket), Outcome::Closed, "{hello:?}");
            }
        }
        for method in ["GET", "POST", "HEAD", "OPTIONS"] {
            let mut socket = bed.socket();
            send(&mut socket, format!("{method} / HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("not HTTP"), "{method}: {answer}");
        }
    });
    let tls = bed.log_lines("it sent the beginning of TLS");
    assert!((1..100).contains(&tls), "{tls} of 500 are in the log");
}

#[test]
fn the_largest_request_is_taken_and_one_byte_more_is_not() {
    let bed = Bed::start(&["socket.request.max.bytes=1048576"]);
    bed.endure("size limit", 48 * MIB, |bed| {
        // What follows a whole request in its frame is not looked at.
        let mut request = wire::request(0, &ApiVersionsRequest::default()).to_vec();
        request.resize(4 + (1 << 20), 0);
        request[..4].copy_from_slice(&(1u32 << 20).to_be_bytes());
        for _ in 0..20 {
            let mut socket = bed.socket();
            send(&mut socket, &request);
            assert!(matches!(receive(&mut socket), Outcome::Answer(_)));
            send(&mut socket, &((1u32 << 20) + 1).to_be_bytes());
            assert_eq!(receive(&mut socket), Outcome::Closed);
        }
    });
}

#[test]
fn a_length_that_cannot_be_closes_the_connection_at_once() {
    let bed = Bed::start(&["socket.request.max.bytes=1048576"]);
    bed.endure("lengths", 32 * MIB, |bed| {
        for length in [i32::MIN, -2, -1, 0, 1, 7, 1_048_577, i32::MAX - 4, i32::MAX] {
            for _ in 0..20 {
                let mut socket = bed.socket();
                socket.write_all(&length.to_be_bytes()).unwrap();
                assert_eq!(receive(&mut socket), Outcome::Closed, "{length}");
            }
        }
    });
}

#[test]
fn requests_of_unknown_apis_and_versions_close_the_connection() {
    let bed = Bed::start(&[]);
    bed.endure("unknown apis", 32 * MIB, |bed| {
        let known = apis(&mut bed.connect());
        for key in -3..200i16 {
            let versions = known.iter().find(|api| api.0 == key).map_or(-1..=8, |api| api.2 + 1..=api.2 + 3);
            for version in versions.filter(|_| key != 18) {
                let mut socket = bed.socket();
                let header = [key.to_be_bytes(), version.to_be_bytes()].concat();
                let frame = [&[0, 0, 0, 10][..], &header, &[0, 0, 0, 7, 0xff, 0xff]].concat();
                send(&mut socket, &frame);
                assert_eq!(receive(&mut socket), Outcome::Closed, "api {key} version {version}");
            }
        }
    });
}

/// In each api and version, at each place of a request, a number as great as can be.
#[test]
fn lengths_and_counts_that_lie_cost_nothing() {
    let bed = Bed::start(&[]);
    bed.endure("lies", 48 * MIB, |bed| {
        let (mut closed, mut answered) = (0, 0);
        for (key, lowest, highest) in apis(&mut bed.connect()) {
            for version in lowest..=highest {
                for place in (version as usize % 6..24).step_by(6) {
                    for lie in
                        [&[0x7f, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xff, 0x07], &[0x00, 0xff, 0xff, 0xff]]
                    {
                        let mut body = vec![0; place];
                        body.extend_from_slice(lie);
                        body.extend_from_slice(&[0; 12]);
                        match try_body(bed, key, version, &body) {
                            Outcome::Closed => closed += 1,
                            Outcome::Answer(_) => answered += 1,
                        }
                    }
                }
            }
        }
        println!("of the requests with lies {closed} closed their connection, {answered} were answered");
        assert!(closed > answered);
    });
}

fn try_body(bed: &Bed, key: i16, version: i16, body: &[u8]) -> Outcome {
    let mut frame = [key.to_be_bytes(), version.to_be_bytes()].concat();
    frame.extend_from_slice(&[0, 0, 0, 7, 0xff, 0xff]);
    frame.extend_from_slice(body);
    let mut socket = bed.socket();
    send(&mut socket, &(frame.len() as u32).to_be_bytes());
    send(&mut socket, &frame);
    // What is not answered at once (a long poll, a produce without acks) ends with the client.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    receive(&mut socket)
}

#[test]
fn requests_cut_off_anywhere_are_forgotten() {
    let bed = Bed::start(&[]);
    bed.endure("cut off", 32 * MIB, |bed| {
        let whole = wire::request(9, &MetadataRequest::default());
        for length in 0..whole.len() {
            let mut socket = bed.socket();
            send(&mut socket, &whole[..length]);
            let _ = socket.shutdown(std::net::Shutdown::Write);
            assert_eq!(receive(&mut socket), Outcome::Closed, "{length} bytes");
        }
        // Behind a whole request the rest does not matter: the answer comes first.
        let whole = wire::request(0, &ApiVersionsRequest::default());
        let mut socket = bed.socket();
        send(&mut socket, &[&whole[..], &whole[..9]].concat());
        let _ = socket.shutdown(std::net::Shutdown::Write);
        assert!(matches!(receive(&mut socket), Outcome::Answer(_)));
        assert_eq!(receive(&mut socket), Outcome::Closed);
    });
}
