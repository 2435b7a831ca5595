//! `mainstem bench`: how fast a broker is, and at which cost.

mod compare;
mod consume;
mod latencies;
mod latency;
mod load;
mod matrix;
mod measure;
mod options;
mod pace;
mod produce;
mod reading;
mod topic;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  mainstem bench produce --duration 10s --size 1000 --partitions 16 --producers 4
  mainstem bench produce --count 1000000 --codec zstd --acks all --topic orders
  mainstem bench consume --count 2000000
  mainstem bench latency --rate 2000 --duration 30s --config mainstem.durability=disk
  mainstem bench produce --rate 50% --duration 60s              measures latency at half the maximum rate
  mainstem bench produce --one-at-a-time --config mainstem.durability=disk --compare producers=1,64
  mainstem bench consume --topics 1000 --topics-at-once 1 --batch-bytes 1 --compare mainstem.layout=partition,shared
  mainstem bench matrix --work-dir /var/tmp/bench --quick

All of them except `matrix` work with any Kafka broker. Compare only figures of the same machine and time, and note what \
else the machine does.";

/// Measure a broker: throughput, latency, and CPU time per GB.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::BenchProduce),
    Consume(consume::BenchConsume),
    Latency(latency::BenchLatency),
    Matrix(matrix::BenchMatrix),
}

impl Bench {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Produce(produce) => runtime()?.block_on(produce.run()),
            Command::Consume(consume) => runtime()?.block_on(consume.run()),
            Command::Latency(latency) => runtime()?.block_on(latency.run()),
            Command::Matrix(matrix) => runtime()?.block_on(matrix.run()),
        }
    }
}

/// As many threads as the machine has cores: one would be the limit that is measured.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}
