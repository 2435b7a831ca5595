//! Consumers that wait for records that never come: what a thousand long polls cost a broker.
//!
//! ```text
//! cargo run --release -p mainstem-server --example idle_consumers -- \
//!     9092 <process id of the broker> [connections 1000] [seconds 20] [wait ms 500]
//! ```
//!
//! Each connection has a fetch session of one partition of the topic `idle`, which must be there or be made by a
//! request for its metadata, and sends the next fetch as soon as the last one is answered, as consumers do. Prints
//! polls a second, how late answers came, and what the broker used of a core meanwhile.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use mainstem_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use mainstem_kafka_wire::messages::{FetchRequest, FetchResponse, MetadataRequest, ResponseHeader};
use mainstem_kafka_wire::{Message, Reader, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOPIC: &str = "idle";
const FETCH_VERSION: i16 = 12;
const METADATA_VERSION: i16 = 9;

#[derive(Default)]
struct Counts {
    polls: AtomicU64,
    late_us: AtomicU64,
    latest_us: AtomicU64,
    /// Answers that came before their time.
    early: AtomicU64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let argument = |place: usize, default: u64| arguments.get(place).copied().unwrap_or(default);
    let (port, broker) = (argument(0, 9092) as u16, argument(1, 0));
    let (connections, seconds, wait_ms) = (argument(2, 1000), argument(3, 20), argument(4, 500));
    make_topic(port).await?;
    let counts = Arc::new(Counts::default());
    for number in 0..connections {
        let counts = Arc::clone(&counts);
        tokio::spawn(async move {
            if let Err(error) = poll(port, wait_ms as i32, &counts).await {
                eprintln!("consumer {number}: {error}");
            }
        });
        // Not all at the same moment: that would be a crowd of its own making.
        tokio::time::sleep(Duration::from_micros(wait_ms * 1000 / connections.max(1))).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (begun, cpu, polls) = (Instant::now(), cpu_seconds(broker)?, counts.polls.load(Relaxed));
    let late = counts.late_us.load(Relaxed);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (took, polls) = (begun.elapsed().as_secs_f64(), counts.polls.load(Relaxed) - polls);
    let used = cpu_seconds(broker)? - cpu;
    println!("{:.0} polls a second, {:.2} % of a core", polls as f64 / took, used / took * 100.0);
    println!("{:.2} us of the broker's CPU a poll", used / polls.max(1) as f64 * 1e6);
    let late_ms = (counts.late_us.load(Relaxed) - late) as f64 / polls.max(1) as f64 / 1000.0;
    let (latest_ms, early) = (counts.latest_us.load(Relaxed) as f64 / 1000.0, counts.early.load(Relaxed));
    println!("answers came {late_ms:.1} ms late, at the most {latest_ms:.1} ms, {early} came early");
    Ok(())
}

/// Ticks of a hundredth of a second, as Linux counts them for everybody.
fn cpu_seconds(process: u64) -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

async fn make_topic(port: u16) -> Result<(), Box<dyn Error>> {
    let topic = MetadataRequestTopic { name: Some(Cow::Borrowed(TOPIC)), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let frame = encode_request(METADATA_VERSION, 0, Some(TOPIC), &request)?.bytes;
    for _ in 0..2 {
        stream.write_all(&frame).await?;
        receive(&mut stream, &mut Vec::new()).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn poll(port: u16, wait_ms: i32, counts: &Counts) -> Result<(), Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: Cow::Borrowed(TOPIC), partitions: vec![partition], ..Default::default() };
    let mut request = FetchRequest {
        replica_id: -1,
        max_wait_ms: wait_ms,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: 0,
        topics: vec![topic],
        ..Default::default()
    };
    let mut buffer = Vec::new();
    loop {
        let asked = Instant::now();
        stream.write_all(&encode_request(FETCH_VERSION, 0, Some(TOPIC), &request)?.bytes).await?;
        receive(&mut stream, &mut buffer).await?;
        let wait = Duration::from_millis(wait_ms as u64);
        let late = asked.elapsed().saturating_sub(wait).as_micros() as u64;
        counts.early.fetch_add(u64::from(asked.elapsed() < wait), Relaxed);
        counts.late_us.fetch_add(late, Relaxed);
        counts.latest_us.fetch_max(late, Relaxed);
        counts.polls.fetch_add(1, Relaxed);
        let mut reader = Reader::new(&buffer);
        ResponseHeader::decode(&mut reader, 1)?;
        let response = FetchResponse::decode(&mut reader, FETCH_VERSION)?;
        if response.error_code != 0 {
            return Err(format!("error {}", response.error_code).into());
        }
        if response.session_id == 0 {
            // There is no room for a session, for example right after an earlier run: the next fetch names its
            // partition again.
            continue;
        }
        request.topics.clear();
        request.session_id = response.session_id;
        request.session_epoch += 1;
    }
}

async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), std::io::Error> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    buffer.resize(u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(buffer).await?;
    Ok(())
}
