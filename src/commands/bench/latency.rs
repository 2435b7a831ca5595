//! `mainstem bench latency`: how long a record takes to be acknowledged, and to arrive at a consumer that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use hdrhistogram::Histogram;
use mainstem_client::{Client, Fetcher, OffsetSpec};

use super::compare::{self, CompareOptions, Measurement};
use super::latencies::{self, Percentiles};
use super::load::{self, Load, STAMP_SIZE};
use super::measure::{BenchOutcome, Usage};
use super::options::{Common, ProducerOptions};
use super::pace::Pace;
use super::produce::{Rate, parse_rate};
use super::topic::{self, BenchTopics};
use crate::cluster::parse_timeout;

/// How long the consumer waits for the rest after the last acknowledgement.
const REST_WAIT: Duration = Duration::from_secs(10);

/// Send records at a rate, and measure the time to the acknowledgement and to the consumer.
#[derive(Debug, Clone, Args)]
pub struct BenchLatency {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producer: ProducerOptions,
    /// Records a second of all producers together, or a share of the maximum, for example 50%
    #[arg(long, value_name = "N|N%", default_value = "100", value_parser = parse_rate)]
    rate: Rate,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_timeout)]
    duration: Duration,
    #[command(flatten)]
    compare: CompareOptions,
}

/// What producer and consumer tell each other.
struct LatencyRun {
    base: Instant,
    received: AtomicU64,
    /// How many records there are in all; unknown as long as some are sent.
    total: AtomicU64,
    stop: AtomicBool,
}

impl BenchLatency {
    pub async fn run(self) -> anyhow::Result<()> {
        compare::run(self).await
    }
}

impl Measurement for BenchLatency {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn producer_mut(&mut self) -> &mut ProducerOptions {
        &mut self.producer
    }

    fn consumers_mut(&mut self) -> Option<&mut u32> {
        None
    }

    fn compare(&self) -> &CompareOptions {
        &self.compare
    }

    async fn measure(&self, client: &Client, topics: &BenchTopics) -> anyhow::Result<BenchOutcome> {
        let size = self.common.size as usize;
        ensure!(size >= STAMP_SIZE, "a record needs at least {STAMP_SIZE} bytes, for its send time");
        let cluster = &self.common.cluster;
        let base = Instant::now();
        let mut load = Load {
            producers: self.producer.producers,
            size: self.common.size,
            pace: Pace::Full,
            count: self.count,
            duration: Some(self.duration),
            stamp: Some(base),
            config: self.producer.config(),
        };
        load.pace = self.rate.pace(cluster, topics, &load).await?;
        let mut fetcher = cluster.connect().await?.fetcher(cluster.fetcher_config());
        let assigned = fetcher.assign_at(&topics.targets, OffsetSpec::Latest).await;
        assigned.map_err(|error| cluster.explain_fetch(topics.name(), error))?;
        let shared = Arc::new(LatencyRun {
            base,
            received: AtomicU64::new(0),
            total: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
        });
        let arrivals = tokio::spawn(receive(fetcher, Arc::clone(&shared)));
        let usage = Usage::watch(topic::broker_process(client, self.common.broker_pid).await);
        let produced = load::produce(cluster, topics, &load).await?;
        let outcome = usage.produced("latency", &produced, &load);
        shared.total.store(produced.records, Ordering::Relaxed);
        let end_to_end = match tokio::time::timeout(REST_WAIT, arrivals).await {
            Ok(received) => received?.map_err(|error| cluster.explain_fetch(topics.name(), error))?,
            Err(_) => {
                shared.stop.store(true, Ordering::Relaxed);
                let received = shared.received.load(Ordering::Relaxed);
                anyhow::bail!("of {} acknowledged records {received} arrived within {REST_WAIT:?}", produced.records);
            }
        };
        Ok(BenchOutcome { end_to_end_latency: Percentiles::of(&end_to_end), ..outcome })
    }
}

/// Takes records until all have come.
async fn receive(mut fetcher: Fetcher, shared: Arc<LatencyRun>) -> Result<Histogram<u64>, mainstem_client::FetchError> {
    let mut latencies = latencies::histogram();
    let mut received = 0;
    while received < shared.total.load(Ordering::Relaxed) && !shared.stop.load(Ordering::Relaxed) {
        let records = fetcher.poll(Duration::from_millis(100)).await?;
        let now = shared.base.elapsed();
        for record in &records {
            let value = record.value.as_deref().unwrap_or_default();
            // Records of others in a topic of the user's have no time of ours, or a strange one.
            let Some(stamp) = value.first_chunk::<STAMP_SIZE>().map(|stamp| u64::from_be_bytes(*stamp)) else {
                continue;
            };
            if let Some(latency) = now.checked_sub(Duration::from_nanos(stamp)) {
                latencies::record(&mut latencies, latency);
                received += 1;
            }
        }
        shared.received.store(received, Ordering::Relaxed);
    }
    Ok(latencies)
}
