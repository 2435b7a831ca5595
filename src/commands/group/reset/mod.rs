//! `mainstem group reset-offsets`: as Kafka's `kafka-consumer-groups.sh --reset-offsets` does it.

mod plan;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use mainstem_client::{Client, CommittedOffset, ErrorCode, Offset, TimestampMs};
use serde::Serialize;

use super::TopicChoice;
use crate::Usage;
use crate::commands::{Common, fail_with_first};
use crate::output::{self, OutputFormat, Table, note, style};
use plan::{Planned, Planner};
use target::Target;

const EXAMPLES: &str = "\
Examples:
  mainstem group reset-offsets billing --topic orders --to-earliest
  mainstem group reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
  mainstem group reset-offsets billing --all-topics --by-duration PT1H --execute
  mainstem group reset-offsets billing --topic orders --to-datetime 2026-03-01T08:00:00 --execute
  mainstem group reset-offsets billing --all-topics --to-current --export > offsets.csv
  mainstem group reset-offsets billing --from-file offsets.csv --execute

Without --execute nothing changes. The group must not have members: stop its consumers first. If a partition does not \
have the offset, the nearest offset that it has is used.";

/// Set the offsets where a group continues. Shows the plan; --execute carries it out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ResetOffsets {
    /// The group; it is created if it does not exist
    group: String,
    /// A topic, or some of its partitions; may be repeated
    #[arg(long = "topic", value_name = "TOPIC[:0,1]", value_parser = TopicChoice::parse)]
    topics: Vec<TopicChoice>,
    /// All topics for which the group has offsets
    #[arg(long, conflicts_with = "topics")]
    all_topics: bool,
    /// Carry out the plan
    #[arg(long)]
    execute: bool,
    /// Print the plan as lines for --from-file: topic,partition,offset
    #[arg(long, conflicts_with_all = ["execute", "output"])]
    export: bool,
    #[command(flatten)]
    common: Common,
    // Last, because its heading holds for what follows.
    #[command(flatten)]
    to: To,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Where to")]
struct To {
    /// To the first available record
    #[arg(long)]
    to_earliest: bool,
    /// To the end
    #[arg(long)]
    to_latest: bool,
    /// To the group's current offset; to the end of partitions without one
    #[arg(long)]
    to_current: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// Forward by this many offsets; a negative number moves backward
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    shift_by: Option<i64>,
    /// To the first record within this time before now, in ISO 8601 form: PT1H, P7D
    #[arg(long, value_name = "DURATION", value_parser = target::parse_duration)]
    by_duration: Option<Duration>,
    /// To the first record at or after this time: 2026-03-01T08:00:00, UTC unless a zone follows (Z, +02:00)
    #[arg(long, value_name = "TIME", value_parser = target::parse_datetime)]
    to_datetime: Option<TimestampMs>,
    /// To the offsets in a file: topic,partition,offset on each line, optionally with the group before the topic
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
}

/// What is planned or done, in JSON.
#[derive(Debug, Serialize)]
struct ResetOutcome<'a> {
    group: &'a str,
    /// `null` when the group does not exist yet.
    state: Option<&'a str>,
    executed: bool,
    offsets: Vec<JsonOffset<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonOffset<'a> {
    topic: &'a str,
    partition: i32,
    /// planned, changed or failed
    result: &'static str,
    current: Option<i64>,
    new: i64,
    earliest: i64,
    latest: i64,
    /// The partition does not have the offset that was asked for: this is the nearest.
    moved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ResetOffsets {
    pub async fn run(self) -> anyhow::Result<()> {
        if self.to.from_file.is_some() == (self.all_topics || !self.topics.is_empty()) {
            let text = match self.to.from_file {
                Some(_) => "the file of --from-file names the topics: leave out --topic and --all-topics",
                None => {
                    "no topic is given: give --topic NAME, or --all-topics for all topics for which the group has offsets"
                }
            };
            return Err(Usage(text.to_owned()).into());
        }
        let target = Target::of(&self.to, &self.group)?;
        let (group, cluster) = (self.group.as_str(), &self.common.cluster);
        let client = cluster.connect().await?;
        let state = self.idle_state(&client).await?;
        let planner = Planner::new(&client, cluster, group).await?;
        let planned = planner.plan(&target, &self.topics, self.all_topics).await?;
        if self.export {
            let line = |one: &Planned| format!("{},{},{}\n", one.partition.topic, one.partition.partition, one.new);
            return output::print(&planned.iter().map(line).collect::<String>());
        }
        let mut results: Vec<Option<anyhow::Result<()>>> = planned.iter().map(|_| None).collect();
        if self.execute && !planned.is_empty() {
            let wanted = planned.iter().map(|one| (one.partition.clone(), CommittedOffset::at(Offset(one.new))));
            let done = client.commit_group_offsets(group, &wanted.collect::<Vec<_>>()).await;
            let done = done.map_err(|error| cluster.explain_group(group, error))?;
            results = done
                .into_iter()
                .map(|(partition, result)| {
                    let explain = |error| cluster.explain_group(group, error).context(format!("partition {partition}"));
                    Some(result.map_err(explain))
                })
                .collect();
        }
        self.tell(state.as_deref(), &planned, results)
    }

    /// The state of a group without members; `None` when it does not exist.
    async fn idle_state(&self, client: &Client) -> anyhow::Result<Option<String>> {
        let group = self.group.as_str();
        match client.describe_group(group).await {
            Ok(found) if found.members.is_empty() && matches!(found.state.as_str(), "Empty" | "Dead") => {
                Ok(Some(found.state))
            }
            Ok(found) => bail!(
                "group {group} is active: offsets can only be reset while it is inactive, but its state is {}, with {} \
                 members; stop its consumers first (`mainstem group describe {group}` shows them)",
                found.state,
                found.members.len()
            ),
            Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => Ok(None),
            Err(error) => Err(self.common.cluster.explain_group(group, error)),
        }
    }

    fn tell(
        &self,
        state: Option<&str>,
        planned: &[Planned],
        results: Vec<Option<anyhow::Result<()>>>,
    ) -> anyhow::Result<()> {
        let mut failures = Vec::new();
        let mut offsets = Vec::with_capacity(planned.len());
        for (one, result) in planned.iter().zip(results) {
            let (result, error) = match result {
                None => ("planned", None),
                Some(Ok(())) => ("changed", None),
                Some(Err(error)) => {
                    let text = format!("{error:#}");
                    failures.push(error);
                    ("failed", Some(text))
                }
            };
            offsets.push(JsonOffset {
                topic: &one.partition.topic,
                partition: one.partition.partition.0,
                result,
                current: one.current,
                new: one.new,
                earliest: one.earliest,
                latest: one.latest,
                moved: one.moved,
                error,
            });
        }
        let outcome = ResetOutcome { group: &self.group, state, executed: self.execute, offsets };
        if self.common.output == OutputFormat::Json {
            output::print_json(&outcome)?;
        } else {
            output::print(&in_words(&outcome))?;
            self.tell_beside(&outcome);
        }
        fail_with_first(failures)
    }

    fn tell_beside(&self, outcome: &ResetOutcome<'_>) {
        if outcome.state.is_none() {
            note(&format!("group {} does not exist yet; setting its offsets creates it", self.group));
        }
        if outcome.offsets.is_empty() {
            note("nothing to reset: the group has no offsets of these topics");
        } else if !self.execute {
            note("this is the plan; nothing has changed. --execute carries it out");
        }
    }
}

fn in_words(outcome: &ResetOutcome<'_>) -> String {
    let mut table = Table::new(&["TOPIC", "PARTITION", "CURRENT", "NEW", "EARLIEST", "LATEST", ""]);
    for one in &outcome.offsets {
        let mark = match one.result {
            "failed" => style::of_stdout().red("failed"),
            _ if one.moved => "nearest available".to_owned(),
            _ => String::new(),
        };
        let current = one.current.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        let [partition, new, earliest, latest] =
            [i64::from(one.partition), one.new, one.earliest, one.latest].map(|number| number.to_string());
        table.row(vec![one.topic.to_owned(), partition, current, new, earliest, latest, mark]);
    }
    if outcome.offsets.is_empty() { String::new() } else { table.render("") }
}
