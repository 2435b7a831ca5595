//! The floor under `idle_consumers`: a server of one thread that does for each poll what the kernel cannot be spared,
//! one receive and one send, and nothing else. It answers each fetch with the same bytes, 500 ms later, at whole
//! multiples of 16 ms as the broker does.
//!
//! ```text
//! cargo run --release -p mainstem-server --example idle_floor -- 19092
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::Buf;
use mainstem_kafka::Request;
use mainstem_kafka_wire::encode_request;
use mainstem_kafka_wire::messages::{FetchRequest, FetchResponse};
use rustix::event::{Timespec, epoll};

const TICK: Duration = Duration::from_millis(16);
const WAIT: Duration = Duration::from_millis(500);
const FETCH: [u8; 2] = [0, 1];
const FETCH_VERSION: i16 = 12;
const LISTENER: u64 = u64::MAX;

/// What is said to every fetch of a session that has nothing new: a frame with its length.
fn answer() -> Result<Vec<u8>, Box<dyn Error>> {
    let frame = encode_request(FETCH_VERSION, 0, None, &FetchRequest::default())?.bytes.slice(4..);
    let request = Request::parse(frame)?.ok_or("no request")?;
    let mainstem_door::Reply::Send(response) = request.reply(&FetchResponse { session_id: 1, ..Default::default() })
    else {
        return Err("no answer".into());
    };
    let mut bytes = (response.len() as u32).to_be_bytes().to_vec();
    for chunk in response.chunks {
        if let mainstem_door::Chunk::Bytes(mut part) = chunk {
            bytes.extend_from_slice(&part.copy_to_bytes(part.len()));
        }
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).as_deref().unwrap_or("19092").parse()?;
    let answer = answer()?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener.as_fd(), epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<TcpStream> = Vec::new();
    let mut due: VecDeque<(Instant, usize)> = VecDeque::new();
    let (begun, mut buffer) = (Instant::now(), vec![0; 4096]);
    let mut events = Vec::with_capacity(1024);
    println!("process {}", std::process::id());
    loop {
        let wait = due.front().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let wait = wait.map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() });
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), wait.as_ref())?;
        for event in &events {
            if event.data.u64() == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let number = epoll::EventData::new_u64(connections.len() as u64);
                epoll::add(&poll, stream.as_fd(), number, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
                connections.push(stream);
                continue;
            }
            let number = event.data.u64() as usize;
            match connections[number].read(&mut buffer) {
                Ok(0) => continue,
                Ok(received) if buffer[4..received].starts_with(&FETCH) => {
                    let ticks = (begun.elapsed() + WAIT).as_nanos().div_ceil(TICK.as_nanos());
                    due.push_back((begun + TICK * ticks as u32, number));
                }
                Ok(_) => connections[number].write_all(&answer)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Its client is gone: the measurement is over.
                Err(_) => {}
            }
        }
        while due.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            if let Some((_, number)) = due.pop_front() {
                // As above.
                let _ = connections[number].write_all(&answer);
            }
        }
    }
}
