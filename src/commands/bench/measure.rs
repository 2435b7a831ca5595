//! Results: rates, latencies, CPU.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latencies::Percentiles;
use super::load::{Load, Produced};
use super::pace::Pace;
use super::reading::Consumed;
use crate::process;
use mainstem_charts::grouped;

const GIGABYTE: f64 = 1e9;
/// The part of a rate that counts as all of it.
const RATE_REACHED: f64 = 0.98;

/// What a bench measured. The fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchOutcome {
    pub work: String,
    pub records: u64,
    /// Of the records' values.
    pub bytes: u64,
    pub seconds: f64,
    pub records_per_second: f64,
    /// Millions of bytes.
    pub mb_per_second: f64,
    /// Records that were refused or lost.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Records a second that were wanted.
    pub target_rate: Option<f64>,
    /// From a record's sending, or when it was due at a rate, to its acknowledgement.
    pub ack_latency: Option<Percentiles>,
    /// From when a record was due to its arrival at a consumer.
    pub end_to_end_latency: Option<Percentiles>,
    /// From when a record was due to when the producer got it: the part of the latencies that this program is to blame
    /// for.
    pub send_delay: Option<Percentiles>,
    /// CPU seconds for each GB (1e9 bytes) of values; of short runs little can be said.
    pub client_cpu_s_per_gb: Option<f64>,
    /// `null`: the broker is not on this machine, or may not be looked at.
    pub broker_cpu_s_per_gb: Option<f64>,
    /// Bytes that the broker read from files, for each byte that was consumed.
    pub broker_reads_per_byte: Option<f64>,
}

/// What the two sides use from a moment on.
pub struct Usage {
    broker: Option<u32>,
    own_before: Duration,
    broker_before: Option<Duration>,
    reads_before: Option<u64>,
}

impl Usage {
    pub fn watch(broker: Option<u32>) -> Usage {
        Usage {
            broker,
            own_before: process::own_cpu(),
            broker_before: broker.and_then(process::cpu_of),
            reads_before: broker.and_then(process::bytes_read_by),
        }
    }

    /// The result of producing.
    pub fn produced(&self, work: &str, produced: &Produced, load: &Load) -> BenchOutcome {
        let outcome = self.outcome(work, produced.records, produced.records * u64::from(load.size), produced.elapsed);
        BenchOutcome {
            errors: produced.errors,
            first_error: produced.first_error.clone(),
            target_rate: if let Pace::Rate(rate) = load.pace { Some(round(rate)) } else { None },
            ack_latency: Percentiles::of(&produced.latencies),
            send_delay: Percentiles::of(&produced.late),
            ..outcome
        }
    }

    /// The result of consuming.
    pub fn consumed(&self, consumed: &Consumed) -> BenchOutcome {
        let read = self.broker.and_then(process::bytes_read_by).zip(self.reads_before);
        let for_each_byte = |(now, before): (u64, u64)| {
            (consumed.bytes > 0).then(|| round(now.saturating_sub(before) as f64 / consumed.bytes as f64))
        };
        let outcome = self.outcome("consume", consumed.records, consumed.bytes, consumed.elapsed);
        BenchOutcome { broker_reads_per_byte: read.and_then(for_each_byte), ..outcome }
    }

    /// What a work took, with the CPU time since.
    pub fn outcome(&self, work: &str, records: u64, bytes: u64, elapsed: Duration) -> BenchOutcome {
        let own = process::own_cpu().saturating_sub(self.own_before);
        let now = self.broker.and_then(process::cpu_of);
        let broker = now.zip(self.broker_before).map(|(now, before)| now.saturating_sub(before));
        let seconds = elapsed.as_secs_f64();
        let rate = |count: f64| if seconds > 0.0 { round(count / seconds) } else { 0.0 };
        let for_each_gigabyte =
            |cpu: Duration| (bytes > 0).then(|| (cpu.as_secs_f64() / (bytes as f64 / GIGABYTE) * 1e4).round() / 1e4);
        BenchOutcome {
            work: work.to_owned(),
            records,
            bytes,
            seconds: (seconds * 1e6).round() / 1e6,
            records_per_second: rate(records as f64),
            mb_per_second: rate(bytes as f64 / 1e6),
            errors: 0,
            first_error: None,
            target_rate: None,
            ack_latency: None,
            end_to_end_latency: None,
            send_delay: None,
            client_cpu_s_per_gb: for_each_gigabyte(own),
            broker_cpu_s_per_gb: broker.and_then(for_each_gigabyte),
            broker_reads_per_byte: None,
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl BenchOutcome {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} records, {:.1} MB in {:.2} s: {} records/s, {:.1} MB/s\n",
            self.work,
            grouped(self.records),
            self.bytes as f64 / 1e6,
            self.seconds,
            grouped(self.records_per_second as u64),
            self.mb_per_second
        );
        let latencies = [
            ("ack latency", &self.ack_latency),
            ("end to end latency", &self.end_to_end_latency),
            ("sent late by", &self.send_delay),
        ];
        for (name, found) in latencies.iter().filter_map(|(name, found)| Some((name, (*found).as_ref()?))) {
            text.push_str(&format!("{name}: {}\n", found.text()));
        }
        if let Some(ack) = &self.ack_latency {
            text.push_str(&format!("ack p99.9 is {:.1} x p50\n", ack.p999_us as f64 / ack.p50_us.max(1) as f64));
        }
        if let Some(wanted) = self.target_rate.filter(|wanted| self.records_per_second < wanted * RATE_REACHED) {
            text.push_str(&format!("the broker did not reach the rate of {} records/s\n", grouped(wanted as u64)));
        }
        let cpu = |value: Option<f64>| value.map_or("not known".to_owned(), |value| format!("{value:.3} s"));
        let (client, broker) = (cpu(self.client_cpu_s_per_gb), cpu(self.broker_cpu_s_per_gb));
        text.push_str(&format!("CPU for each GB: client {client}, broker {broker}\n"));
        if let Some(read) = self.broker_reads_per_byte {
            text.push_str(&format!("bytes the broker read from files per byte consumed: {read:.2}\n"));
        }
        if let Some(error) = &self.first_error {
            text.push_str(&format!("{} records failed; the first error: {error}\n", self.errors));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_rates_for_its_time() {
        let outcome = Usage::watch(None).outcome("produce", 1000, 2_000_000, Duration::from_secs(2));
        assert_eq!((outcome.records_per_second, outcome.mb_per_second), (500.0, 1.0));
        assert_eq!(outcome.broker_cpu_s_per_gb, None);
        assert!(outcome.text().contains("500 records/s, 1.0 MB/s"), "{}", outcome.text());
    }
}
