//! The rows: what load each one is, and what `mainstem bench` says of it.

use super::options::Options;
use super::peers::{Peer, Work};
use crate::command;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// Bytes of a record that is no small one.
const RECORD_BYTES: u64 = 1024;
/// Partitions of one request that creates some.
const CREATED_AT_ONCE: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Producers at full speed, each to a partition of its own.
    Produce { producers: u32, record_bytes: u64 },
    /// Consumers at full speed, each of a partition of its own, which is filled first.
    Consume { consumers: u32 },
    /// One producer at a rate, one consumer.
    Latency { records_per_second: u32 },
    /// Topics, one request each, one after the other.
    Create { topics: u32, partitions: u32 },
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
    pub seconds: Option<f64>,
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
            seconds: None,
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
        // A Kafka refuses a request of 10,000 partitions.
        let create =
            |name, topics| Row { name, load: Load::Create { topics, partitions: CREATED_AT_ONCE }, floor: None };
        vec![
            produce("produce 1 KiB", 1, RECORD_BYTES),
            produce("produce 1 KiB to two partitions", 2, RECORD_BYTES),
            produce("produce 100 B", 1, 100),
            consume("consume 1 KiB", 1),
            consume("consume 1 KiB, two consumers", 2),
            latency("latency at 100/s", 100),
            latency("latency at 2,000/s", 2000),
            create("create 1,000 partitions", 1),
            create("create 10,000 partitions, 1,000 a request", 10),
        ]
    }

    pub fn is_latency(&self) -> bool {
        matches!(self.load, Load::Latency { .. })
    }

    pub fn is_creation(&self) -> bool {
        matches!(self.load, Load::Create { .. })
    }

    /// Runs the row once.
    pub fn run(&self, binary: &Path, broker: &Peer, options: &Options) -> Result<Figures> {
        if let Load::Create { topics, partitions } = self.load {
            return create(binary, broker, topics, partitions);
        }
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
            Load::Create { .. } => String::new(),
        };
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// How long the broker takes to answer; deleting the topics afterwards does not count. The time that the command takes
/// to start does, which is a few milliseconds a topic.
fn create(binary: &Path, broker: &Peer, topics: u32, partitions: u32) -> Result<Figures> {
    let (address, partitions) = (broker.address(), partitions.to_string());
    let names: Vec<String> = (0..topics).map(|number| format!("created-{number}")).collect();
    let topic = |arguments: &[&str]| {
        let all = [&["topic"], arguments, &["--bootstrap-server", &address]].concat();
        command::output(Path::new("."), &binary.to_string_lossy(), &all)
    };
    let begun = Instant::now();
    for name in &names {
        topic(&["create", name, "--partitions", &partitions])?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    topic(&[&["delete"], &all[..]].concat())?;
    Ok(Figures { seconds: Some(seconds), ..Figures::default() })
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
