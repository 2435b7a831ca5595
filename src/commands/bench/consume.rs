//! `mainstem bench consume`.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use mainstem_client::{Client, OffsetSpec};

use super::compare::{self, CompareOptions, Measurement};
use super::load::{self, Load};
use super::measure::{BenchOutcome, Usage};
use super::options::{Common, ProducerOptions};
use super::pace::Pace;
use super::reading::{self, Reading};
use super::topic::{self, BenchTopics};
use crate::cluster::parse_timeout;

const COUNT_DEFAULT: u64 = 1_000_000;

/// Read topics as fast as possible. Without --topic, the command creates and fills topics first.
#[derive(Debug, Clone, Args)]
pub struct BenchConsume {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producer: ProducerOptions,
    /// Number of consumers; each has a connection and its share of the partitions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    consumers: u32,
    /// How many topics a consumer reads at the same time, before it goes to the next ones [default: all]
    #[arg(long, value_name = "N", conflicts_with = "topic", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    topics_at_once: Option<u32>,
    /// Stop after this many records [default: all; topics that the command fills first get 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time at the latest
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    duration: Option<Duration>,
    #[command(flatten)]
    compare: CompareOptions,
}

impl BenchConsume {
    pub async fn run(self) -> anyhow::Result<()> {
        compare::run(self).await
    }

    async fn fill(&self, topics: &BenchTopics) -> anyhow::Result<()> {
        let load = Load {
            producers: self.producer.producers,
            size: self.common.size,
            pace: Pace::Full,
            count: Some(self.count.unwrap_or(COUNT_DEFAULT)),
            duration: None,
            stamp: None,
            config: self.producer.config(),
        };
        let filled = load::produce(&self.common.cluster, topics, &load).await?;
        ensure!(
            filled.errors == 0,
            "{} records for the consumers could not be written: {}",
            filled.errors,
            filled.first_error.unwrap_or_default()
        );
        Ok(())
    }
}

impl Measurement for BenchConsume {
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
        Some(&mut self.consumers)
    }

    fn compare(&self) -> &CompareOptions {
        &self.compare
    }

    async fn measure(&self, client: &Client, topics: &BenchTopics) -> anyhow::Result<BenchOutcome> {
        let cluster = &self.common.cluster;
        if self.common.topic.is_none() {
            self.fill(topics).await?;
        }
        let readers = match self.topics_at_once {
            None => reading::readers(cluster, topics, self.consumers, OffsetSpec::Earliest).await?,
            Some(at_once) => reading::readers_in_turns(cluster, topics, self.consumers, at_once).await?,
        };
        let usage = Usage::watch(topic::broker_process(client, self.common.broker_pid).await);
        let reading = Reading { count: self.count, duration: self.duration };
        let consumed = reading::run(cluster, topics, readers, reading).await?;
        Ok(usage.consumed(&consumed))
    }
}
