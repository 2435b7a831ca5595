//! `mainstem topic add-partitions`.

use clap::Args;
use serde::Serialize;

use crate::commands::Common;
use crate::output::{self, OutputFormat};

const EXAMPLES: &str = "\
Examples:
  mainstem topic add-partitions orders --to 12
  mainstem topic add-partitions orders --by 2 --dry-run

Existing records stay in their partitions. New records with the same key may go to another partition than before.";

/// Add partitions to a topic.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AddPartitions {
    /// The topic
    topic: String,
    #[command(flatten)]
    count: Count,
    /// Only check whether the broker would accept the change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Count {
    /// The new number of partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    to: Option<i32>,
    /// How many partitions to add
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    by: Option<i32>,
}

#[derive(Debug, Serialize)]
struct PartitionsOutcome<'a> {
    topic: &'a str,
    /// changed or checked
    result: &'static str,
    partitions_before: i32,
    partitions: i32,
}

impl AddPartitions {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let topic = client.refresh_topic(&self.topic).await;
        let topic = topic.map_err(|error| cluster.explain_topic(&self.topic, error))?;
        let before = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let count = self.count.to.unwrap_or_else(|| before.saturating_add(self.count.by.unwrap_or(0)));
        let changed = client.create_partitions(&self.topic, count, self.dry_run).await;
        changed.map_err(|error| cluster.explain_topic(&self.topic, error))?;
        let result = if self.dry_run { "checked" } else { "changed" };
        let outcome = PartitionsOutcome { topic: &self.topic, result, partitions_before: before, partitions: count };
        if self.common.output == OutputFormat::Json {
            return output::print_json(&outcome);
        }
        let verb = if self.dry_run { "would have" } else { "has" };
        output::print(&format!("{} {verb} {count} partitions, {} more\n", self.topic, count - before))
    }
}
