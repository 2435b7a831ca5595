//! One cell of the matrix, and its results.

use std::fmt;
use std::time::Duration;

use mainstem_charts::{Measured, count};
use serde::{Deserialize, Serialize};

use crate::commands::bench::measure::BenchOutcome;

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
