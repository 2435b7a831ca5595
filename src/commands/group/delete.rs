//! `mainstem group delete` and `mainstem group delete-offsets`.

use clap::Args;
use mainstem_client::ErrorCode;
use serde::Serialize;

use super::TopicChoice;
use crate::commands::{Common, fail_with_first};
use crate::output::{self, OutputFormat};

const DELETE_EXAMPLES: &str = "\
Examples:
  mainstem group delete billing
  mainstem group delete billing shipping --if-exists";

const OFFSETS_EXAMPLES: &str = "\
Examples:
  mainstem group delete-offsets billing --topic orders
  mainstem group delete-offsets billing --topic orders:0,1 --topic bills";

/// Delete groups and all their offsets. Fails if a group has members.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct Delete {
    /// Names
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
    /// Do not fail if a group does not exist
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    common: Common,
}

/// Delete a group's offsets of some topics. Fails if the group is subscribed to one of the topics.
#[derive(Debug, Args)]
#[command(after_help = OFFSETS_EXAMPLES)]
pub struct DeleteOffsets {
    /// The group
    group: String,
    /// A topic, or some of its partitions; may be repeated
    #[arg(long = "topic", value_name = "TOPIC[:0,1]", required = true, value_parser = TopicChoice::parse)]
    topics: Vec<TopicChoice>,
    #[command(flatten)]
    common: Common,
}

/// What became of one group, in JSON.
#[derive(Debug, Serialize)]
struct DeletedGroup {
    group: String,
    /// deleted, absent or failed
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What became of one offset, in JSON.
#[derive(Debug, Serialize)]
struct OffsetOutcome {
    topic: String,
    partition: i32,
    /// deleted or failed
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Delete {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let names: Vec<_> = self.groups.iter().map(String::as_str).collect();
        let results = client.delete_groups(&names).await.map_err(|error| cluster.explain(error))?;
        let mut outcomes = Vec::new();
        let mut failures = Vec::new();
        for (group, result) in results {
            let (result, error) = match result {
                Ok(()) => ("deleted", None),
                Err(error) if self.if_exists && error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => ("absent", None),
                Err(error) => {
                    let error = cluster.explain_group(&group, error);
                    let text = format!("{error:#}");
                    failures.push(error);
                    ("failed", Some(text))
                }
            };
            outcomes.push(DeletedGroup { group, result, error });
        }
        let in_words = |outcome: &DeletedGroup| match outcome.result {
            "deleted" => format!("deleted {}\n", outcome.group),
            "absent" => format!("{} does not exist\n", outcome.group),
            // Told on standard error.
            _ => String::new(),
        };
        match self.common.output {
            OutputFormat::Json => output::print_json(&outcomes)?,
            OutputFormat::Text => output::print(&outcomes.iter().map(in_words).collect::<String>())?,
        }
        fail_with_first(failures)
    }
}

impl DeleteOffsets {
    pub async fn run(self) -> anyhow::Result<()> {
        let (group, cluster) = (self.group.as_str(), &self.common.cluster);
        let client = cluster.connect().await?;
        let committed = client.group_offsets(group).await.map_err(|error| cluster.explain_group(group, error))?;
        let mut partitions: Vec<_> = committed.into_iter().map(|(partition, _)| partition).collect();
        for choice in &self.topics {
            if !partitions.iter().any(|partition| choice.holds(partition)) {
                // Whether the group is there at all is the better answer.
                client.describe_group(group).await.map_err(|error| cluster.explain_group(group, error))?;
                anyhow::bail!("group {group} has no offsets of {}, or none of these partitions", choice.topic);
            }
        }
        partitions.retain(|partition| self.topics.iter().any(|choice| choice.holds(partition)));
        let results = client.delete_group_offsets(group, &partitions).await;
        let results = results.map_err(|error| cluster.explain_group(group, error))?;
        let mut outcomes = Vec::new();
        let mut failures = Vec::new();
        for (partition, result) in results {
            let (result, error) = match result {
                Ok(()) => ("deleted", None),
                Err(error) => {
                    let error = cluster.explain_group(group, error).context(format!("partition {partition}"));
                    let text = format!("{error:#}");
                    failures.push(error);
                    ("failed", Some(text))
                }
            };
            let (topic, partition) = (partition.topic.to_string(), partition.partition.0);
            outcomes.push(OffsetOutcome { topic, partition, result, error });
        }
        let deleted = outcomes.iter().filter(|outcome| outcome.result == "deleted");
        let in_words =
            |outcome: &OffsetOutcome| format!("{}-{}: offset of {group} deleted\n", outcome.topic, outcome.partition);
        match self.common.output {
            OutputFormat::Json => output::print_json(&outcomes)?,
            OutputFormat::Text => output::print(&deleted.map(in_words).collect::<String>())?,
        }
        fail_with_first(failures)
    }
}
