//! One measurement, or the same one with several values of something, side by side.

use anyhow::Context;
use clap::Args;
use mainstem_client::Client;
use serde::Serialize;

use super::measure::BenchOutcome;
use super::options::{Common, ProducerOptions, SIZE_MAX};
use super::topic::{self, BenchTopics};
use crate::output::{OutputFormat, Table, note, print, print_json};
use crate::{Said, Usage};

/// What options are called, where they are compared.
const OPTIONS: [&str; 5] = ["producers", "consumers", "partitions", "topics", "size"];

#[derive(Debug, Clone, Args)]
pub struct CompareOptions {
    /// Measure once for each value and compare. NAME is `producers`, `consumers`, `partitions`, `topics`, `size`, or a
    /// setting of the topic, for example mainstem.layout=partition,shared
    #[arg(long, value_name = "NAME=VALUE,VALUE…", value_parser = parse)]
    compare: Option<Comparison>,
}

#[derive(Debug, Clone)]
struct Comparison {
    name: String,
    values: Vec<String>,
}

fn parse(text: &str) -> Result<Comparison, String> {
    let wrong = || "give a name and at least two values, for example mainstem.layout=partition,shared".to_owned();
    let (name, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if name.is_empty() || values.len() < 2 || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    if !OPTIONS.contains(&name) && !name.contains('.') {
        return Err(format!("{name} is neither a topic setting nor one of {}", OPTIONS.join(", ")));
    }
    Ok(Comparison { name: name.to_owned(), values })
}

/// A bench that can be carried out with other options than were given.
pub trait Measurement: Clone {
    fn common(&self) -> &Common;
    fn common_mut(&mut self) -> &mut Common;
    fn producer_mut(&mut self) -> &mut ProducerOptions;
    /// `None`: it has no number of consumers.
    fn consumers_mut(&mut self) -> Option<&mut u32>;
    fn compare(&self) -> &CompareOptions;
    async fn measure(&self, client: &Client, topics: &BenchTopics) -> anyhow::Result<BenchOutcome>;
}

/// One of several results that are told together. The fields are stable.
#[derive(Debug, Serialize)]
struct Variant {
    /// For example `producers=64`.
    variant: String,
    /// Records a second, by those of the first variant.
    rate_ratio: Option<f64>,
    /// CPU of the broker for each GB, by that of the first variant.
    broker_cpu_ratio: Option<f64>,
    #[serde(flatten)]
    outcome: BenchOutcome,
}

/// Carries a bench out, for each value that is to be compared, and tells what came out.
pub async fn run(bench: impl Measurement) -> anyhow::Result<()> {
    let format = bench.common().output;
    let Some(Comparison { name, values }) = bench.compare().compare.clone() else {
        let outcome = measure_with_topics(&bench).await?;
        match format {
            OutputFormat::Json => print_json(&outcome)?,
            OutputFormat::Text => print(&outcome.text())?,
        }
        return fate(&[outcome]);
    };
    // What is wrong with the last value is said before the first is measured.
    let mut benches = Vec::new();
    for value in &values {
        let bench = with(&bench, &name, value)?;
        check(&bench).await.with_context(|| format!("{name}={value}"))?;
        benches.push(bench);
    }
    let mut outcomes: Vec<BenchOutcome> = Vec::new();
    for (value, bench) in values.iter().zip(benches) {
        note(&format!("{name}={value}"));
        let outcome = measure_with_topics(&bench).await.with_context(|| format!("{name}={value}"))?;
        if matches!(format, OutputFormat::Text) {
            print(&format!("{name}={value}\n{}\n", outcome.text()))?;
        }
        outcomes.push(outcome);
    }
    let told = fate(&outcomes);
    let variants = variants(&name, &values, outcomes);
    match format {
        OutputFormat::Json => print_json(&variants)?,
        OutputFormat::Text => print(&table(&variants))?,
    }
    told
}

/// Failed records fail the command.
fn fate(outcomes: &[BenchOutcome]) -> anyhow::Result<()> {
    if outcomes.iter().all(|outcome| outcome.errors == 0) { Ok(()) } else { Err(Said(1).into()) }
}

/// The bench with one thing changed.
fn with<B: Measurement>(bench: &B, name: &str, value: &str) -> anyhow::Result<B> {
    let mut bench = bench.clone();
    let number = |most: u32| match value.parse::<u32>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(Usage(format!("--compare {name}: {value} is not a number from 1 to {most}"))),
    };
    let own_topic = bench.common().topic.is_none();
    match name {
        "producers" => bench.producer_mut().producers = number(10_000)?,
        "size" => bench.common_mut().size = number(SIZE_MAX)?,
        "consumers" => match bench.consumers_mut() {
            Some(consumers) => *consumers = number(10_000)?,
            None => return Err(Usage("--compare consumers: only `bench consume` has them".to_owned()).into()),
        },
        _ if !own_topic => {
            return Err(Usage(format!("--compare {name} creates its own topics: leave out --topic")).into());
        }
        "partitions" => bench.common_mut().partitions = number(100_000)? as i32,
        "topics" => bench.common_mut().topics = number(10_000)?,
        setting => bench.common_mut().config.push((setting.to_owned(), value.to_owned())),
    }
    Ok(bench)
}

/// Whether the broker takes such topics.
async fn check(bench: &impl Measurement) -> anyhow::Result<()> {
    let Common { topic, config, cluster, .. } = bench.common();
    if topic.is_some() {
        return Ok(());
    }
    let client = cluster.connect().await?;
    topic::check_config(&client, cluster, config).await
}

/// Measures with the topics of the options, which go again if they were made.
async fn measure_with_topics(bench: &impl Measurement) -> anyhow::Result<BenchOutcome> {
    let options = bench.common();
    let client = options.cluster.connect().await?;
    let topics = BenchTopics::open(&client, options).await?;
    let outcome = bench.measure(&client, &topics).await;
    topics.close(&client).await;
    outcome
}

fn variants(name: &str, values: &[String], outcomes: Vec<BenchOutcome>) -> Vec<Variant> {
    let first = outcomes.first().map(|outcome| (outcome.records_per_second, outcome.broker_cpu_s_per_gb));
    let ratio = |value: f64, first: f64| (first > 0.0).then(|| (value / first * 1000.0).round() / 1000.0);
    let of = |(value, outcome): (&String, BenchOutcome)| Variant {
        variant: format!("{name}={value}"),
        rate_ratio: first.and_then(|(rate, _)| ratio(outcome.records_per_second, rate)),
        broker_cpu_ratio: first
            .and_then(|(_, cpu)| cpu.zip(outcome.broker_cpu_s_per_gb))
            .and_then(|(first, cpu)| ratio(cpu, first)),
        outcome,
    };
    values.iter().zip(outcomes).map(of).collect()
}

fn table(variants: &[Variant]) -> String {
    let mut table = Table::new(&[
        "VARIANT",
        "RECORDS/S",
        "RATIO",
        "MB/S",
        "ACK P50",
        "ACK P99",
        "ACK P99.9",
        "END TO END P50",
        "BROKER CPU S/GB",
        "RATIO",
    ]);
    for Variant { variant, rate_ratio, broker_cpu_ratio, outcome } in variants {
        let ratio = |ratio: &Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let ms = |us: Option<u64>| us.map_or_else(String::new, |us| format!("{:.3} ms", us as f64 / 1e3));
        let ack = outcome.ack_latency;
        table.row(vec![
            variant.clone(),
            format!("{:.0}", outcome.records_per_second),
            ratio(rate_ratio),
            format!("{:.1}", outcome.mb_per_second),
            ms(ack.map(|ack| ack.p50_us)),
            ms(ack.map(|ack| ack.p99_us)),
            ms(ack.map(|ack| ack.p999_us)),
            ms(outcome.end_to_end_latency.map(|latency| latency.p50_us)),
            outcome.broker_cpu_s_per_gb.map_or_else(String::new, |cpu| format!("{cpu:.2}")),
            ratio(broker_cpu_ratio),
        ]);
    }
    table.render("")
}

#[cfg(test)]
mod tests {
    use super::super::measure::Usage;
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_comparison_has_a_name_that_means_something_and_two_values() {
        let found = parse("mainstem.layout=partition, shared").unwrap();
        assert_eq!((found.name.as_str(), found.values.len()), ("mainstem.layout", 2));
        assert!(parse("producers=1,64").is_ok());
        for wrong in ["", "producers", "producers=1", "producers=1,", "=1,2", "speed=1,2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ratios_are_to_the_first() {
        let outcome = |seconds| Usage::watch(None).outcome("produce", 100, 1000, Duration::from_secs(seconds));
        let found = variants("producers", &["1".to_owned(), "64".to_owned()], vec![outcome(20), outcome(1)]);
        assert_eq!(found.iter().map(|one| one.rate_ratio).collect::<Vec<_>>(), [Some(1.0), Some(20.0)]);
        let text = table(&found);
        assert!(text.contains("producers=64  100        20.00"), "{text}");
    }
}
