//! `mainstem bench produce`.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use mainstem_client::Client;

use super::compare::{self, CompareOptions, Measurement};
use super::load::{self, Load};
use super::measure::{BenchOutcome, Usage};
use super::options::{Common, ProducerOptions};
use super::pace::Pace;
use super::topic::{self, BenchTopics};
use crate::cluster::{ClusterOptions, parse_timeout};
use crate::output::note;
use mainstem_charts::grouped;

const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// How long the most is looked for, of which a rate is a share.
const MOST_DURATION: Duration = Duration::from_secs(10);

/// Send records as fast as possible, or at a rate.
#[derive(Debug, Clone, Args)]
pub struct BenchProduce {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producer: ProducerOptions,
    /// Records a second of all producers together, or a share of the maximum, for example 50% [default: the maximum]
    #[arg(long, value_name = "N|N%", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// Each producer waits for the acknowledgement of a record before it sends the next one
    #[arg(long, conflicts_with = "rate")]
    one_at_a_time: bool,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time [default: 10s, without --count]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    duration: Option<Duration>,
    #[command(flatten)]
    compare: CompareOptions,
}

/// How many records a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    Records(f64),
    /// Of the most that is possible, which is measured first.
    Share(f64),
}

pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = match text.strip_suffix('%') {
        None => text.parse().map(Rate::Records),
        Some(percent) => percent.parse::<f64>().map(|percent| Rate::Share(percent / 100.0)),
    };
    match rate {
        Ok(Rate::Records(rate)) if (0.001..=1e9).contains(&rate) => Ok(Rate::Records(rate)),
        Ok(Rate::Share(share)) if (0.001..=1.0).contains(&share) => Ok(Rate::Share(share)),
        _ => Err("give records a second, from 0.001 to 1000000000, or a share, for example 50%".to_owned()),
    }
}

impl Rate {
    /// Measures the most that is possible, if it is a share of that.
    pub async fn pace(self, cluster: &ClusterOptions, topics: &BenchTopics, load: &Load) -> anyhow::Result<Pace> {
        let share = match self {
            Rate::Records(rate) => return Ok(Pace::Rate(rate)),
            Rate::Share(share) => share,
        };
        note(&format!("measuring the maximum for {MOST_DURATION:?}"));
        let load = Load { pace: Pace::Full, count: None, duration: Some(MOST_DURATION), stamp: None, ..load.clone() };
        let most = load::produce(cluster, topics, &load).await?;
        ensure!(
            most.errors == 0 && most.records > 0,
            "at full speed {} records failed: {}",
            most.errors,
            most.first_error.unwrap_or_default()
        );
        let most = most.records as f64 / most.elapsed.as_secs_f64();
        let rate = (most * share).max(0.001);
        note(&format!(
            "the maximum is {} records/s; measuring at {} records/s",
            grouped(most as u64),
            grouped(rate as u64)
        ));
        Ok(Pace::Rate(rate))
    }
}

impl BenchProduce {
    pub async fn run(self) -> anyhow::Result<()> {
        compare::run(self).await
    }
}

impl Measurement for BenchProduce {
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
        let cluster = &self.common.cluster;
        let mut load = Load {
            producers: self.producer.producers,
            size: self.common.size,
            pace: if self.one_at_a_time { Pace::OneAtATime } else { Pace::Full },
            count: self.count,
            duration: self.duration.or_else(|| self.count.is_none().then_some(DURATION_DEFAULT)),
            stamp: None,
            config: self.producer.config(),
        };
        if let Some(rate) = self.rate {
            load.pace = rate.pace(cluster, topics, &load).await?;
        }
        let usage = Usage::watch(topic::broker_process(client, self.common.broker_pid).await);
        let produced = load::produce(cluster, topics, &load).await?;
        Ok(usage.produced("produce", &produced, &load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_or_a_share() {
        assert_eq!(parse_rate("2000"), Ok(Rate::Records(2000.0)));
        assert_eq!(parse_rate("50%"), Ok(Rate::Share(0.5)));
        for wrong in ["", "%", "0", "0%", "101%", "-5", "fast", "NaN", "inf", "NaN%"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
