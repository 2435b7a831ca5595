//! `mainstem bench consume`.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use mainstem_client::Client;

use super::load::{self, Load, Reading};
use super::measure::{Cpu, Outcome};
use super::options::{Common, ProducerOptions};
use super::produce::measure_with_topic;
use super::topic::{self, BenchTopic};
use crate::cluster::parse_timeout;

const COUNT_DEFAULT: u64 = 1_000_000;

/// Read a topic as fast as possible; without --topic, one that is filled first.
#[derive(Debug, Args)]
pub struct BenchConsume {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producer: ProducerOptions,
    /// Consumers, each with a connection and its part of the partitions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    consumers: u32,
    /// End after so many records [default: all; a topic that is filled first gets 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time, if not before
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    duration: Option<Duration>,
}

impl BenchConsume {
    pub async fn run(self) -> anyhow::Result<()> {
        measure_with_topic(&self.common, async |client, topic| self.measure(client, topic).await).await
    }

    async fn measure(&self, client: &Client, topic: &BenchTopic) -> anyhow::Result<Outcome> {
        let cluster = &self.common.cluster;
        if self.common.topic.is_none() {
            let load = Load {
                producers: self.producer.producers,
                size: self.common.size,
                rate: None,
                count: Some(self.count.unwrap_or(COUNT_DEFAULT)),
                duration: None,
                stamp: None,
                config: self.producer.config(),
            };
            let filled = load::produce(cluster, topic, &load).await?;
            ensure!(
                filled.errors == 0,
                "{} records could not be written to be read then: {}",
                filled.errors,
                filled.first_error.unwrap_or_default()
            );
        }
        let reading = Reading { consumers: self.consumers, count: self.count, duration: self.duration };
        let cpu = Cpu::watch(topic::broker_process(client, self.common.broker_pid).await);
        let consumed = load::consume(cluster, topic, reading).await?;
        Ok(cpu.outcome("consume", consumed.records, consumed.bytes, consumed.elapsed))
    }
}
