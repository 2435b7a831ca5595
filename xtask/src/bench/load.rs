//! The rows: what load each one is, and what `mainstem bench` says of it.

use super::options::Options;
use super::peers::{Peer, Work};
use crate::command;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;

/// Bytes of a record that is no small one.
const RECORD_BYTES: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Producers at full speed, each to a partition of its own.
    Produce { producers: u32, record_bytes: u64 },
    /// Consumers at full speed, each of a partition of its own, which is filled first.
    Consume { consumers: u32 },
    /// One producer at a rate, one consumer.
    Latency { records_per_second: u32 },
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    load: Load,
    /// The floor that the row is compared with.
    pub floor: Option<Work>,
}

/// What one round of a row gave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    pub cpu_s_per_gb: Option<f64>,
    pub mb_per_second: Option<f64>,
    pub ack_us: Option<[f64; 2]>,
    pub end_to_end_us: Option<[f64; 2]>,
}

impl Figures {
    pub fn of_cpu(cpu_s_per_gb: f64) -> Figures {
        Figures { cpu_s_per_gb: Some(cpu_s_per_gb), ..Figures::default() }
    }

    /// Reads the JSON document of `mainstem bench`.
    fn read(text: &str) -> Result<Figures> {
        let document: Value = serde_json::from_str(text).context("`mainstem bench` printed no JSON")?;
        let errors = document["errors"].as_u64().unwrap_or_default();
        ensure!(errors == 0, "{errors} records failed; the first error: {}", document["first_error"]);
        let latency = |name: &str| {
            let of = |field: &str| document[name][field].as_f64();
            Some([of("p50_us")?, of("p99_us")?])
        };
        Ok(Figures {
            cpu_s_per_gb: document["broker_cpu_s_per_gb"].as_f64(),
            mb_per_second: document["mb_per_second"].as_f64(),
            ack_us: latency("ack_latency"),
            end_to_end_us: latency("end_to_end_latency"),
        })
    }
}

impl Row {
    pub fn all() -> Vec<Row> {
        let produce = |name, producers, record_bytes| {
            let floor = (record_bytes == RECORD_BYTES).then_some(Work::Produce);
            Row { name, load: Load::Produce { producers, record_bytes }, floor }
        };
        let consume = |name, consumers| Row { name, load: Load::Consume { consumers }, floor: Some(Work::Consume) };
        let latency = |name, records_per_second| Row { name, load: Load::Latency { records_per_second }, floor: None };
        vec![
            produce("produce 1 KiB", 1, RECORD_BYTES),
            produce("produce 1 KiB to two partitions", 2, RECORD_BYTES),
            produce("produce 100 B", 1, 100),
            consume("consume 1 KiB", 1),
            consume("consume 1 KiB, two consumers", 2),
            latency("latency at 100/s", 100),
            latency("latency at 2,000/s", 2000),
        ]
    }

    pub fn is_latency(&self) -> bool {
        matches!(self.load, Load::Latency { .. })
    }

    /// Runs the row once.
    pub fn run(&self, binary: &Path, broker: &Peer, options: &Options) -> Result<Figures> {
        let arguments = self.arguments(options.bytes(), options.seconds);
        let (address, pid) = (broker.address(), broker.pid().to_string());
        let mut all = vec!["bench"];
        all.extend(arguments.iter().map(String::as_str));
        all.extend(["--bootstrap-server", &address, "--broker-pid", &pid, "--output", "json", "--timeout", "120s"]);
        let text = command::output(Path::new("."), &binary.to_string_lossy(), &all)?;
        Figures::read(&text)
    }

    fn arguments(&self, bytes: u64, seconds: u32) -> Vec<String> {
        let line = match self.load {
            Load::Produce { producers, record_bytes } => format!(
                "produce --producers {producers} --partitions {producers} --size {record_bytes} --count {}",
                bytes / record_bytes
            ),
            Load::Consume { consumers } => format!(
                "consume --consumers {consumers} --partitions {consumers} --size {RECORD_BYTES} --count {}",
                bytes / RECORD_BYTES
            ),
            Load::Latency { records_per_second } => {
                format!("latency --rate {records_per_second} --size {RECORD_BYTES} --duration {seconds}s")
            }
        };
        line.split_whitespace().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_failed_records_are_an_error() {
        let text = r#"{"errors":0,"broker_cpu_s_per_gb":0.4,"mb_per_second":900.5,
            "ack_latency":{"p50_us":70,"p99_us":200},"end_to_end_latency":null}"#;
        let figures = Figures::read(text).unwrap();
        assert_eq!(figures.cpu_s_per_gb, Some(0.4));
        assert_eq!((figures.ack_us, figures.end_to_end_us), (Some([70.0, 200.0]), None));
        let error = Figures::read(r#"{"errors":3,"first_error":"no room"}"#).unwrap_err().to_string();
        assert!(error.contains("3 records failed") && error.contains("no room"), "{error}");
    }

    #[test]
    fn rows_have_names_of_their_own_and_carry_the_payload() {
        let names: std::collections::BTreeSet<_> = Row::all().iter().map(|row| row.name).collect();
        assert_eq!(names.len(), Row::all().len());
        let arguments = Row::all()[0].arguments(1_024_000, 5);
        assert_eq!(arguments.last().map(String::as_str), Some("1000"));
    }
}
