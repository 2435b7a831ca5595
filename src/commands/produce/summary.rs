//! What was written, in one line.

use std::collections::BTreeMap;
use std::time::Instant;

use mainstem_client::{PartitionIndex, Receipt};
use serde::Serialize;

/// With more partitions only their number is told.
const PARTITIONS_TOLD_MAX: usize = 4;

pub struct Summary {
    topic: String,
    /// Nobody confirms: records are sent, and whether they were written is not known.
    unconfirmed: bool,
    begun: Instant,
    written: u64,
    failed: u64,
    /// First and last offset.
    offsets: BTreeMap<PartitionIndex, (i64, i64)>,
}

/// The summary, in JSON.
#[derive(Debug, Serialize)]
pub struct JsonSummary<'a> {
    topic: &'a str,
    written: u64,
    failed: u64,
    /// Whether brokers were asked to confirm.
    confirmed: bool,
    elapsed_ms: u64,
    /// Empty when nobody confirms.
    partitions: Vec<JsonRange>,
}

#[derive(Debug, Serialize)]
struct JsonRange {
    partition: i32,
    first_offset: i64,
    last_offset: i64,
}

impl Summary {
    pub fn new(topic: &str, unconfirmed: bool) -> Self {
        let topic = topic.to_owned();
        Summary { topic, unconfirmed, begun: Instant::now(), written: 0, failed: 0, offsets: BTreeMap::new() }
    }

    pub fn count(&mut self, receipt: &Receipt) {
        self.written += 1;
        if let Some(offset) = receipt.offset {
            let offsets = self.offsets.entry(receipt.partition.partition).or_insert((offset.0, offset.0));
            *offsets = (offsets.0.min(offset.0), offsets.1.max(offset.0));
        }
    }

    pub fn count_failure(&mut self) {
        self.failed += 1;
    }

    pub fn written(&self) -> u64 {
        self.written
    }

    pub fn json(&self) -> JsonSummary<'_> {
        let partition = |(partition, (first, last)): (&PartitionIndex, &(i64, i64))| JsonRange {
            partition: partition.0,
            first_offset: *first,
            last_offset: *last,
        };
        JsonSummary {
            topic: &self.topic,
            written: self.written,
            failed: self.failed,
            confirmed: !self.unconfirmed,
            elapsed_ms: self.begun.elapsed().as_millis() as u64,
            partitions: self.offsets.iter().map(partition).collect(),
        }
    }

    pub fn in_words(&self) -> String {
        let done = if self.unconfirmed { "sent, unconfirmed," } else { "written" };
        let mut text = format!("{} {done} to {}", records(self.written), self.topic);
        if self.offsets.len() > PARTITIONS_TOLD_MAX {
            text.push_str(&format!(" (in {} partitions)", self.offsets.len()));
        } else if !self.offsets.is_empty() {
            let told: Vec<_> = self.offsets.iter().map(|(partition, range)| told(*partition, *range)).collect();
            text.push_str(&format!(" ({})", told.join("; ")));
        }
        text.push_str(&format!(" in {} ms", self.begun.elapsed().as_millis()));
        if self.failed > 0 {
            text.push_str(&format!("; {} failed", records(self.failed)));
        }
        text
    }
}

fn told(partition: PartitionIndex, (first, last): (i64, i64)) -> String {
    if first == last {
        format!("partition {partition}, offset {first}")
    } else {
        format!("partition {partition}, offsets {first} to {last}")
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_client::{Offset, TimestampMs, TopicPartition};

    fn receipt(partition: i32, offset: Option<i64>) -> Receipt {
        let partition = TopicPartition::new("orders", PartitionIndex(partition));
        Receipt { partition, offset: offset.map(Offset), timestamp: TimestampMs(0) }
    }

    fn words(summary: &Summary) -> String {
        let text = summary.in_words();
        let (start, rest) = text.rsplit_once(" in ").unwrap();
        format!("{start}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
    }

    #[test]
    fn the_summary_tells_offsets_and_failures() {
        let mut summary = Summary::new("orders", false);
        summary.count(&receipt(1, Some(5)));
        assert_eq!(words(&summary), "1 record written to orders (partition 1, offset 5) ms");
        summary.count(&receipt(1, Some(4)));
        summary.count(&receipt(0, Some(9)));
        summary.count_failure();
        let expected =
            "3 records written to orders (partition 0, offset 9; partition 1, offsets 4 to 5) ms; 1 record failed";
        assert_eq!(words(&summary), expected);
    }

    #[test]
    fn many_partitions_are_counted_only() {
        let mut summary = Summary::new("orders", false);
        (0..5).for_each(|partition| summary.count(&receipt(partition, Some(0))));
        assert_eq!(words(&summary), "5 records written to orders (in 5 partitions) ms");
    }

    #[test]
    fn without_confirmation_nothing_is_claimed() {
        let mut summary = Summary::new("orders", true);
        summary.count(&receipt(0, None));
        assert_eq!(words(&summary), "1 record sent, unconfirmed, to orders ms");
    }
}
