//! What a start and a stop cost: `cargo run -p mainstem-broker --example start_cost -- DIR [create N] [kill]`.
//!
//! Starts a broker on DIR, creates N one-partition topics if asked, and stops: orderly, or as if it was killed. Says
//! how long each took.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use mainstem_broker::{Broker, StoreEnv};
use mainstem_env::{RealClock, RealFs, RealRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::NewTopic;
use mainstem_record::BatchBuilder;
use mainstem_store::Origin;
use mainstem_types::{Offset, TimestampMs};

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().ok_or("DIR is missing")?);
    let create = arguments.iter().position(|word| word == "create").and_then(|place| arguments.get(place + 1));
    let properties = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
    let properties: BTreeMap<String, String> = properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let (fs, clock, rng) = (Arc::new(RealFs), Arc::new(RealClock::new()), Arc::new(RealRng));
    let env = StoreEnv::new(fs, clock, rng, 1 << 20, 2)?;
    let begin = Instant::now();
    let (broker, report) = Broker::start(env, &folder, BrokerConfig::parse(&properties)?)?;
    println!("start: {:.1} ms ({})", begin.elapsed().as_secs_f64() * 1e3, report.lines.join("; "));
    if let Some(count) = create {
        create_topics(&broker, count.parse()?)?;
    }
    if arguments.iter().any(|word| word == "kill") {
        // As a signal would: nothing is closed.
        std::process::exit(0);
    }
    let begin = Instant::now();
    broker.shutdown();
    println!("stop: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn create_topics(broker: &Broker, count: usize) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let begin = Instant::now();
    let topics = |part: &[usize]| {
        part.iter().map(|n| NewTopic { partitions: 1, ..NewTopic::named(format!("topic-{n}")) }).collect()
    };
    for part in (0..count).collect::<Vec<_>>().chunks(5_000) {
        let created = runtime.block_on(broker.create_topics(topics(part), false))?;
        created.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    println!("{count} topics created: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    let mut batch = BatchBuilder::new();
    batch.append(TimestampMs(1_790_000_000_000), None, Some(b"one record"), &[]);
    let batch = bytes::Bytes::from(batch.build()?);
    for topic in broker.topics().iter().filter(|topic| topic.name.starts_with("topic-")) {
        for partition in &topic.partitions {
            let appended = partition.append(&batch, Origin::Client, TimestampMs(1_790_000_000_000), true)?;
            assert!(appended.base_offset >= Offset::ZERO);
        }
    }
    println!("one record each: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
