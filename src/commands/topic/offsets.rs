//! `mainstem topic offsets` and `mainstem topic delete-records`.

use std::collections::BTreeMap;

use clap::Args;
use mainstem_client::{Client, Isolation, Offset, OffsetSpec, TimestampMs, TopicPartition};
use serde::Serialize;

use crate::cluster::ClusterOptions;
use crate::commands::position::Position;
use crate::commands::{Common, check_partition, fail_with_first};
use crate::output::{self, OutputFormat, Table};

const OFFSETS_EXAMPLES: &str = "\
Examples:
  mainstem topic offsets                         shows all topics
  mainstem topic offsets orders --at -1h         also shows where the last hour begins
  mainstem topic offsets orders --at 2026-03-01T08:00:00Z --output json";

const DELETE_EXAMPLES: &str = "\
Examples:
  mainstem topic delete-records orders --before -7d --dry-run
  mainstem topic delete-records orders --before 1500 --partition 2
  mainstem topic delete-records orders --before end          deletes all records";

/// Show the first and the end offset of partitions, and the offset of a time.
#[derive(Debug, Args)]
#[command(after_help = OFFSETS_EXAMPLES)]
pub struct Offsets {
    /// Names [default: all topics except the internal ones]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Also show the first record at or after this time: a time (2026-03-01T08:00:00Z), or a time ago (-1h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    at: Option<TimestampMs>,
    /// Also show the record with the largest timestamp (Kafka 3.0 and later)
    #[arg(long, conflicts_with = "at")]
    max_timestamp: bool,
    #[command(flatten)]
    common: Common,
}

/// Delete the oldest records of a topic.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct DeleteRecords {
    /// The topic
    topic: String,
    /// The first record that stays: end, an offset, a time (2026-03-01T08:00:00Z), or a time ago (-7d)
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, value_parser = Position::parse)]
    before: Position,
    /// Only in this partition; may be repeated [default: all]
    #[arg(long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn parse_time(text: &str) -> Result<TimestampMs, String> {
    match Position::parse(text)? {
        Position::Time(time) => Ok(time),
        _ => Err("give a time with its zone (2026-03-01T08:00:00Z), or a time ago (-1h)".to_owned()),
    }
}

/// Where a partition stands, in JSON.
#[derive(Debug, Serialize)]
struct Range {
    topic: String,
    partition: i32,
    earliest: i64,
    latest: i64,
    /// The record that --at or --max-timestamp found; `null` when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Option<FoundRecord>>,
}

#[derive(Debug, Serialize)]
struct FoundRecord {
    offset: i64,
    timestamp: i64,
}

/// What became of one partition, in JSON.
#[derive(Debug, Serialize)]
struct Deleted {
    topic: String,
    partition: i32,
    /// deleted, nothing, planned or failed
    result: &'static str,
    /// The first offset before and after.
    earliest_before: i64,
    earliest: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Offsets {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let (topics, failures) = super::named_or_all(&client, cluster, &self.topics).await?;
        let partitions: Vec<_> = topics.iter().flat_map(|topic| super::partitions_of(topic)).collect();
        let ranges = self.ranges(&client, &partitions).await?;
        match self.common.output {
            OutputFormat::Json => output::print_json(&ranges)?,
            OutputFormat::Text => output::print(&in_words(&ranges))?,
        }
        fail_with_first(failures)
    }

    async fn ranges(&self, client: &Client, partitions: &[TopicPartition]) -> anyhow::Result<Vec<Range>> {
        let cluster = &self.common.cluster;
        let earliest = offsets(client, cluster, partitions, OffsetSpec::Earliest).await?;
        let latest = offsets(client, cluster, partitions, OffsetSpec::Latest).await?;
        let spec = self.at.map(OffsetSpec::Timestamp).or(self.max_timestamp.then_some(OffsetSpec::MaxTimestamp));
        let mut found = BTreeMap::new();
        if let Some(spec) = spec {
            let wanted: Vec<_> = partitions.iter().map(|partition| (partition.clone(), spec)).collect();
            let listed = client.list_offsets(&wanted, Isolation::ReadUncommitted).await;
            found.extend(listed.map_err(|error| cluster.explain(error))?);
        }
        let range = |partition: &TopicPartition| Range {
            topic: partition.topic.to_string(),
            partition: partition.partition.0,
            earliest: earliest.get(partition).map_or(0, |offset| offset.0),
            latest: latest.get(partition).map_or(0, |offset| offset.0),
            found: spec.map(|_| {
                let listed = found.get(partition)?;
                Some(FoundRecord { offset: listed.offset?.0, timestamp: listed.timestamp.0 })
            }),
        };
        Ok(partitions.iter().map(range).collect())
    }
}

fn in_words(ranges: &[Range]) -> String {
    let with_found = ranges.iter().any(|range| range.found.is_some());
    let mut head = vec!["TOPIC", "PARTITION", "EARLIEST", "LATEST"];
    if with_found {
        head.extend(["FOUND", "TIME"]);
    }
    let mut table = Table::new(&head);
    for range in ranges {
        let numbers = [i64::from(range.partition), range.earliest, range.latest];
        let mut cells = vec![range.topic.clone()];
        cells.extend(numbers.map(|number| number.to_string()));
        match &range.found {
            Some(Some(found)) => cells.extend([found.offset.to_string(), time_in_words(found.timestamp)]),
            Some(None) => cells.push("-".to_owned()),
            None => {}
        }
        table.row(cells);
    }
    table.render("")
}

fn time_in_words(timestamp: i64) -> String {
    jiff::Timestamp::from_millisecond(timestamp).map_or_else(|_| timestamp.to_string(), |time| time.to_string())
}

impl DeleteRecords {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let topic = client.topic(&self.topic).await.map_err(|error| cluster.explain_topic(&self.topic, error))?;
        let mut partitions = super::partitions_of(&topic);
        for index in &self.partitions {
            check_partition(&topic, mainstem_client::PartitionIndex(*index))?;
        }
        partitions.retain(|one| self.partitions.is_empty() || self.partitions.contains(&one.partition.0));
        let earliest = offsets(&client, cluster, &partitions, OffsetSpec::Earliest).await?;
        let wanted = self.wanted(&client, &partitions, &earliest).await?;
        let results = if self.dry_run {
            wanted.iter().map(|(partition, offset)| (partition.clone(), Ok(*offset))).collect()
        } else {
            client.delete_records(&wanted).await.map_err(|error| cluster.explain_topic(&self.topic, error))?
        };
        let mut failures = Vec::new();
        let mut told = Vec::with_capacity(results.len());
        for (partition, result) in results {
            let before = earliest.get(&partition).map_or(0, |offset| offset.0);
            let (result, earliest, error) = match result {
                Ok(offset) if offset.0 <= before => ("nothing", before, None),
                Ok(offset) => (if self.dry_run { "planned" } else { "deleted" }, offset.0, None),
                Err(error) => {
                    let error = cluster.explain_subject(&format!("partition {partition}"), error);
                    let text = format!("{error:#}");
                    failures.push(error);
                    ("failed", before, Some(text))
                }
            };
            let topic = partition.topic.to_string();
            let partition = partition.partition.0;
            told.push(Deleted { topic, partition, result, earliest_before: before, earliest, error });
        }
        match self.common.output {
            OutputFormat::Json => output::print_json(&told)?,
            OutputFormat::Text => output::print(&deleted_in_words(&told))?,
        }
        fail_with_first(failures)
    }

    /// The offset in each partition before which everything goes.
    async fn wanted(
        &self,
        client: &Client,
        partitions: &[TopicPartition],
        earliest: &BTreeMap<TopicPartition, Offset>,
    ) -> anyhow::Result<Vec<(TopicPartition, Offset)>> {
        let cluster = &self.common.cluster;
        let latest = offsets(client, cluster, partitions, OffsetSpec::Latest).await?;
        let found = match self.before {
            Position::Beginning => earliest.clone(),
            Position::End => latest,
            Position::Offset(offset) => {
                // Found before anything is deleted anywhere.
                if let Some((partition, end)) = latest.iter().find(|(_, end)| offset > **end) {
                    anyhow::bail!(
                        "{partition} has no offset {offset}: it ends at {end}; choose others with --partition"
                    );
                }
                partitions.iter().map(|partition| (partition.clone(), offset)).collect()
            }
            Position::Time(time) => {
                let mut found = offsets(client, cluster, partitions, OffsetSpec::Timestamp(time)).await?;
                // Nothing is that late: everything is older.
                latest.into_iter().for_each(|(partition, end)| _ = found.entry(partition).or_insert(end));
                found
            }
        };
        Ok(partitions.iter().filter_map(|partition| found.get_key_value(partition)).map(pair).collect())
    }
}

fn pair((partition, offset): (&TopicPartition, &Offset)) -> (TopicPartition, Offset) {
    (partition.clone(), *offset)
}

fn deleted_in_words(deleted: &[Deleted]) -> String {
    let mut text = String::new();
    for one in deleted {
        let name = format!("{}-{}", one.topic, one.partition);
        let range = match one.earliest - one.earliest_before {
            1 => format!("offset {}", one.earliest_before),
            _ => format!("offsets {} to {}", one.earliest_before, one.earliest - 1),
        };
        match one.result {
            "deleted" => text.push_str(&format!("{name}: {range} deleted\n")),
            "planned" => text.push_str(&format!("{name}: {range} would be deleted\n")),
            "nothing" => text.push_str(&format!("{name}: nothing to delete, it begins at {}\n", one.earliest_before)),
            // Told on standard error.
            _ => {}
        }
    }
    text
}

/// What `spec` finds in each partition; those where it finds nothing are left out.
pub async fn offsets(
    client: &Client,
    cluster: &ClusterOptions,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> anyhow::Result<BTreeMap<TopicPartition, Offset>> {
    let wanted: Vec<_> = partitions.iter().map(|partition| (partition.clone(), spec)).collect();
    let found = client.list_offsets(&wanted, Isolation::ReadUncommitted).await;
    let found = found.map_err(|error| cluster.explain(error))?;
    Ok(found.into_iter().filter_map(|(partition, listed)| Some((partition, listed.offset?))).collect())
}
