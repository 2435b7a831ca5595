//! `mainstem bench produce`.

use std::time::Duration;

use clap::Args;
use mainstem_client::Client;

use super::load::{self, Load, Produced};
use super::measure::{Cpu, Outcome, Percentiles};
use super::options::{Common, ProducerOptions};
use super::topic::{self, BenchTopic};
use crate::Said;
use crate::cluster::parse_timeout;
use crate::output::{OutputFormat, print, print_json};

const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Send records as fast as possible, or at a rate.
#[derive(Debug, Args)]
pub struct BenchProduce {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producer: ProducerOptions,
    /// Records a second, of all producers together [default: as many as possible]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// End after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time [default: 10s, without --count]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    duration: Option<Duration>,
}

pub fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("give records a second, from 0.001 to a thousand millions".to_owned()),
    }
}

impl BenchProduce {
    pub async fn run(self) -> anyhow::Result<()> {
        measure_with_topic(&self.common, async |client, topic| self.measure(client, topic).await).await
    }

    async fn measure(&self, client: &Client, topic: &BenchTopic) -> anyhow::Result<Outcome> {
        let load = Load {
            producers: self.producer.producers,
            size: self.common.size,
            rate: self.rate,
            count: self.count,
            duration: self.duration.or_else(|| self.count.is_none().then_some(DURATION_DEFAULT)),
            stamp: None,
            config: self.producer.config(),
        };
        let cpu = Cpu::watch(topic::broker_process(client, self.common.broker_pid).await);
        let produced = load::produce(&self.common.cluster, topic, &load).await?;
        Ok(outcome_of("produce", &produced, self.common.size, &cpu))
    }
}

/// The result of producing.
pub fn outcome_of(work: &str, produced: &Produced, size: u32, cpu: &Cpu) -> Outcome {
    let outcome = cpu.outcome(work, produced.records, produced.records * u64::from(size), produced.elapsed);
    Outcome {
        errors: produced.errors,
        first_error: produced.first_error.clone(),
        ack_latency: Percentiles::of(&produced.latencies),
        ..outcome
    }
}

/// Measures with the topic of the options, which goes again if it was made, and tells the result.
pub async fn measure_with_topic(
    options: &Common,
    measure: impl AsyncFnOnce(&Client, &BenchTopic) -> anyhow::Result<Outcome>,
) -> anyhow::Result<()> {
    let client = options.cluster.connect().await?;
    let topic = BenchTopic::open(&client, options).await?;
    let outcome = measure(&client, &topic).await;
    topic.close(&client).await;
    tell(&outcome?, options.output)
}

/// Tells a result; one with failed records fails the command.
fn tell(outcome: &Outcome, format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Json => print_json(outcome)?,
        OutputFormat::Text => print(&outcome.text())?,
    }
    if outcome.errors == 0 { Ok(()) } else { Err(Said(1).into()) }
}
