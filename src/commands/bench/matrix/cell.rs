//! One cell: a record at a time, producing all that can be, and consuming what was produced.

use std::fmt;
use std::time::Duration;

use anyhow::ensure;
use mainstem_charts::{Measured, count};
use mainstem_client::{OffsetSpec, ProducerConfig};
use serde::{Deserialize, Serialize};

use super::bed::Bed;
use crate::commands::bench::load::{self, Load};
use crate::commands::bench::measure::{BenchOutcome, Usage};
use crate::commands::bench::options::buffer_bytes;
use crate::commands::bench::pace::Pace;
use crate::commands::bench::reading::{self, Reading};

const BATCH_BYTES: usize = 128 * 1024;
const CONSUMERS_MAX: u32 = 8;
/// Consuming ends after as many times the producing.
const CONSUME_TIMES: u32 = 2;
/// The part of a cell's time in which acknowledgements are measured.
const ACK_PART: u32 = 2;
/// What a cell measures.
pub const WORKS: [&str; 3] = ["ack", "produce", "consume"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub layout: String,
    pub durability: String,
    pub partitions: i32,
    pub size: u32,
    pub producers: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { layout, durability, partitions, size, producers } = self;
        let partitions = count(*partitions as u32, "partition");
        let (size, producers) = (count(*size, "byte"), count(*producers, "producer"));
        write!(f, "{layout}, {durability}, {partitions}, {size}, {producers}")
    }
}

impl Cell {
    /// The settings of its topic.
    pub fn config(&self) -> [(String, String); 2] {
        [
            ("mainstem.layout".to_owned(), self.layout.clone()),
            ("mainstem.durability".to_owned(), self.durability.clone()),
        ]
    }
}

/// One result, as it stands in the file. The fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultLine {
    #[serde(flatten)]
    pub cell: Cell,
    pub outcome: BenchOutcome,
}

impl ResultLine {
    /// As the page of charts takes it.
    pub fn measured(&self) -> Measured<'_> {
        let (cell, outcome) = (&self.cell, &self.outcome);
        Measured {
            layout: &cell.layout,
            durability: &cell.durability,
            partitions: cell.partitions as u32,
            size: cell.size,
            producers: cell.producers,
            work: &outcome.work,
            mb_per_second: outcome.mb_per_second,
            records_per_second: outcome.records_per_second,
            ack_p50_us: outcome.ack_latency.map(|latency| latency.p50_us),
            ack_p99_us: outcome.ack_latency.map(|latency| latency.p99_us),
            client_cpu_s_per_gb: outcome.client_cpu_s_per_gb,
            broker_cpu_s_per_gb: outcome.broker_cpu_s_per_gb,
        }
    }
}

/// How much a cell does at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub duration: Duration,
    pub bytes: u64,
}

impl Limits {
    /// About how long a cell takes, without what it shares with others.
    pub fn time(&self) -> Duration {
        self.duration.mul_f64(2.2)
    }
}

/// The results of a cell, in the order of [`WORKS`].
pub async fn measure(bed: &mut Bed, cell: &Cell, limits: Limits) -> anyhow::Result<[BenchOutcome; 3]> {
    let mut load = Load {
        producers: cell.producers,
        size: cell.size,
        pace: Pace::OneAtATime,
        count: Some((limits.bytes / u64::from(cell.size)).max(1)),
        duration: Some(limits.duration / ACK_PART),
        stamp: None,
        config: ProducerConfig {
            batch_size: BATCH_BYTES,
            buffer_size: buffer_bytes(cell.producers),
            ..ProducerConfig::default()
        },
    };
    let ack = produce(bed, "ack", &load).await?;
    let consumers = cell.producers.min(CONSUMERS_MAX);
    let readers = reading::readers(&bed.cluster, &bed.topics, consumers, OffsetSpec::Latest).await?;
    load.pace = Pace::Full;
    load.duration = Some(limits.duration);
    let produced = produce(bed, "produce", &load).await?;
    let usage = Usage::watch(Some(bed.broker.process()));
    let reading = Reading { count: Some(produced.records), duration: Some(limits.duration * CONSUME_TIMES) };
    let consumed = reading::run(&bed.cluster, &bed.topics, readers, reading).await?;
    ensure!(consumed.records > 0, "none of {} records was consumed", produced.records);
    Ok([ack, produced, usage.consumed(&consumed)])
}

async fn produce(bed: &mut Bed, work: &str, load: &Load) -> anyhow::Result<BenchOutcome> {
    let usage = Usage::watch(Some(bed.broker.process()));
    let produced = load::produce(&bed.cluster, &bed.topics, load).await?;
    let outcome = usage.produced(work, &produced, load);
    bed.wrote(outcome.bytes);
    let error = outcome.first_error.clone().unwrap_or_default();
    ensure!(outcome.errors == 0, "{} records failed; the first error: {error}", outcome.errors);
    Ok(outcome)
}
