//! `mainstem topic create` and `mainstem topic delete`.

use clap::Args;
use mainstem_client::{ByName, ClientError, ErrorCode, NewTopic};
use serde::Serialize;

use super::{Common, fail_with_first};
use crate::output::{self, OutputFormat};

const CREATE_EXAMPLES: &str = "\
Examples:
  mainstem topic create orders
  mainstem topic create orders invoices --partitions 12 --if-not-exists
  mainstem topic create audit --config retention.ms=-1 --config mainstem.durability=disk";

const DELETE_EXAMPLES: &str = "\
Examples:
  mainstem topic delete orders
  mainstem topic delete orders invoices --if-exists";

/// Create topics.
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct Create {
    /// Names; all topics get the same settings
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// Number of partitions [default: the broker's num.partitions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// How many brokers hold each partition [default: the broker's default.replication.factor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A setting of the topics, Kafka's or Mainstem's (mainstem.durability); may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::commands::parse_pair)]
    config: Vec<(String, String)>,
    /// Do not fail if a topic exists, whatever its settings are
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    common: Common,
}

/// Delete topics and all their records.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct Delete {
    /// Names
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// Do not fail if a topic does not exist
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    common: Common,
}

/// What became of one topic, in JSON.
#[derive(Debug, Default, Serialize)]
struct TopicOutcome {
    topic: String,
    /// created, exists, deleted, absent or failed
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replication_factor: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Create {
    pub async fn run(self) -> anyhow::Result<()> {
        let topic = |name: &String| NewTopic {
            name: name.clone(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            configs: self.config.clone(),
        };
        let topics: Vec<_> = self.topics.iter().map(topic).collect();
        let client = self.common.cluster.connect().await?;
        let created = client.create_topics(&topics, false).await.map_err(|error| self.common.cluster.explain(error))?;
        let tolerated = self.if_not_exists.then_some((ErrorCode::TOPIC_ALREADY_EXISTS, "exists"));
        self.common.tell(created, tolerated, |topic, created| TopicOutcome {
            topic,
            result: "created",
            id: (!created.id.is_zero()).then(|| created.id.to_string()),
            partitions: (created.partitions >= 0).then_some(created.partitions),
            replication_factor: (created.replication_factor >= 0).then_some(created.replication_factor),
            error: None,
        })
    }
}

impl Delete {
    pub async fn run(self) -> anyhow::Result<()> {
        let client = self.common.cluster.connect().await?;
        let names: Vec<_> = self.topics.iter().map(String::as_str).collect();
        let deleted = client.delete_topics(&names).await.map_err(|error| self.common.cluster.explain(error))?;
        let tolerated = self.if_exists.then_some((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "absent"));
        self.common.tell(deleted, tolerated, |topic, ()| TopicOutcome {
            topic,
            result: "deleted",
            ..Default::default()
        })
    }
}

impl Common {
    /// Tells what became of each topic. Errors with the tolerated code are a result, which has a name.
    fn tell<T>(
        &self,
        results: ByName<T>,
        tolerated: Option<(ErrorCode, &'static str)>,
        good: impl Fn(String, T) -> TopicOutcome,
    ) -> anyhow::Result<()> {
        let mut outcomes = Vec::with_capacity(results.len());
        let mut failures = Vec::new();
        for (topic, result) in results {
            outcomes.push(match (result, tolerated) {
                (Ok(value), _) => good(topic, value),
                (Err(error), Some((code, result))) if error.code() == Some(code) => {
                    TopicOutcome { topic, result, ..Default::default() }
                }
                (Err(error), _) => {
                    let error = self.explain_result(&topic, error);
                    let text = format!("{error:#}");
                    failures.push(error);
                    TopicOutcome { topic, result: "failed", error: Some(text), ..Default::default() }
                }
            });
        }
        match self.output {
            OutputFormat::Json => output::print_json(&outcomes)?,
            OutputFormat::Text => output::print(&outcomes.iter().filter_map(in_words).collect::<String>())?,
        }
        fail_with_first(failures)
    }

    fn explain_result(&self, topic: &str, error: ClientError) -> anyhow::Error {
        self.cluster.explain_topic(topic, error)
    }
}

/// Failures are told on standard error.
fn in_words(outcome: &TopicOutcome) -> Option<String> {
    let topic = &outcome.topic;
    let mut text = match outcome.result {
        "failed" => return None,
        "exists" => format!("{topic} exists already"),
        "absent" => format!("{topic} does not exist"),
        done => format!("{done} {topic}"),
    };
    let counts =
        [(outcome.partitions, "partitions"), (outcome.replication_factor.map(i32::from), "replication factor")];
    let mut details: Vec<_> =
        counts.into_iter().filter_map(|(count, what)| Some(format!("{what} {}", count?))).collect();
    details.extend(outcome.id.as_ref().map(|id| format!("id {id}")));
    if !details.is_empty() {
        text = format!("{text}: {}", details.join(", "));
    }
    text.push('\n');
    Some(text)
}
