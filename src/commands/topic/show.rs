//! `mainstem topic list` and `mainstem topic describe`.

use std::sync::Arc;

use clap::Args;
use mainstem_client::{Client, ConfigEntry, ConfigResource, ConfigSource, NodeId, Topic};
use serde::Serialize;

use super::{Common, fail_with_first};
use crate::commands::config::source_name;
use crate::output::{self, OutputFormat, Table, style};

const LIST_EXAMPLES: &str = "\
Examples:
  mainstem topic list
  mainstem topic list --internal --output json";

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  mainstem topic describe orders
  mainstem topic describe --output json      shows all topics";

/// List topics.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct List {
    /// Also show internal topics, such as __consumer_offsets
    #[arg(long)]
    internal: bool,
    #[command(flatten)]
    common: Common,
}

/// Show topics: id, partitions with their leaders, and the settings that differ from the defaults.
#[derive(Debug, Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub struct Describe {
    /// Names [default: all topics except the internal ones]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// A topic in a list, in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    topic: &'a str,
    id: Option<String>,
    internal: bool,
    partitions: usize,
    replication_factor: usize,
}

/// A topic with everything, in JSON.
#[derive(Debug, Serialize)]
struct Described<'a> {
    topic: &'a str,
    id: Option<String>,
    internal: bool,
    replication_factor: usize,
    /// `null` where the broker has no such setting.
    durability: Option<DescribedDurability>,
    partitions: Vec<DescribedPartition>,
    settings: Vec<Setting>,
}

/// `mainstem.durability`, in JSON.
#[derive(Debug, Serialize)]
struct DescribedDurability {
    value: String,
    /// What may happen to a record that was acknowledged.
    at_risk: &'static str,
}

#[derive(Debug, Serialize)]
struct DescribedPartition {
    partition: i32,
    /// `null` while an election is on.
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    offline: Vec<i32>,
}

#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    /// `null` when it is secret.
    value: Option<String>,
    source: &'static str,
}

impl List {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let topics = client.list_topics(self.internal).await.map_err(|error| cluster.explain(error))?;
        let listed: Vec<_> = topics.iter().map(|topic| list(topic)).collect();
        if self.common.output == OutputFormat::Json {
            return output::print_json(&listed);
        }
        if listed.is_empty() {
            output::note("there are no topics: `mainstem topic create NAME` creates one");
            return Ok(());
        }
        let mut table = Table::new(&["TOPIC", "PARTITIONS", "REPLICATION FACTOR", "ID"]);
        for topic in listed {
            let (partitions, replication_factor) = (topic.partitions.to_string(), topic.replication_factor.to_string());
            table.row(vec![topic.topic.to_owned(), partitions, replication_factor, topic.id.unwrap_or_default()]);
        }
        output::print(&table.render(""))
    }
}

impl Describe {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let (topics, mut failures) = super::named_or_all(&client, cluster, &self.topics).await?;
        let mut described = Vec::with_capacity(topics.len());
        for topic in &topics {
            match self.describe(&client, topic).await {
                Ok(topic) => described.push(topic),
                Err(error) => failures.push(error),
            }
        }
        match self.common.output {
            OutputFormat::Json => output::print_json(&described)?,
            OutputFormat::Text => {
                output::print(&described.iter().map(in_words).collect::<Vec<_>>().join("\n"))?;
            }
        }
        fail_with_first(failures)
    }

    async fn describe<'a>(&self, client: &Client, topic: &'a Arc<Topic>) -> anyhow::Result<Described<'a>> {
        let resource = ConfigResource::Topic(topic.name.to_string());
        let entries = client.describe_configs(&resource).await;
        let entries = entries.map_err(|error| self.common.cluster.explain_topic(&topic.name, error))?;
        let partitions = topic.partitions.iter().map(|partition| DescribedPartition {
            partition: partition.index.0,
            leader: partition.leader.map(|node| node.0),
            leader_epoch: partition.leader_epoch.0,
            replicas: numbers(&partition.replicas),
            in_sync: numbers(&partition.in_sync),
            offline: numbers(&partition.offline),
        });
        let Listed { topic: name, id, internal, replication_factor, .. } = list(topic);
        let partitions = partitions.collect();
        let durability = entries.iter().find(|entry| entry.name == "mainstem.durability").and_then(durability);
        let settings = entries.into_iter().filter_map(setting).collect();
        Ok(Described { topic: name, id, internal, replication_factor, durability, partitions, settings })
    }
}

fn list(topic: &Topic) -> Listed<'_> {
    Listed {
        topic: &topic.name,
        // Brokers before Kafka 2.8 give none.
        id: (!topic.id.is_zero()).then(|| topic.id.to_string()),
        internal: topic.is_internal,
        partitions: topic.partitions.len(),
        replication_factor: topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0),
    }
}

fn durability(entry: &ConfigEntry) -> Option<DescribedDurability> {
    let value = entry.value.clone()?;
    let at_risk = match value.as_str() {
        "disk" => "acknowledged records are on the disk",
        "os" => "a power cut loses acknowledged records that the system has not written to the disk yet",
        "memory" => {
            "a killed broker loses up to 10 ms (256 KiB) of acknowledged records of each log; a power cut loses all that the system has not written to the disk yet"
        }
        _ => return None,
    };
    Some(DescribedDurability { value, at_risk })
}

/// Only what differs from the default.
fn setting(entry: ConfigEntry) -> Option<Setting> {
    if entry.source == ConfigSource::Default {
        return None;
    }
    let source = source_name(entry.source);
    Some(Setting { name: entry.name, value: entry.value, source })
}

fn numbers(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.0).collect()
}

fn in_words(topic: &Described<'_>) -> String {
    let joined = |nodes: &[i32]| nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let mut facts = Table::without_head();
    facts.row(vec!["id".to_owned(), topic.id.as_deref().unwrap_or("none").to_owned()]);
    facts.row(vec!["partitions".to_owned(), topic.partitions.len().to_string()]);
    facts.row(vec!["replication factor".to_owned(), topic.replication_factor.to_string()]);
    if let Some(durability) = &topic.durability {
        facts.row(vec!["durability".to_owned(), format!("{}: {}", durability.value, durability.at_risk)]);
    }
    for (i, setting) in topic.settings.iter().enumerate() {
        let value = setting.value.as_deref().unwrap_or("(hidden)");
        let name = if i == 0 { "settings" } else { "" };
        facts.row(vec![name.to_owned(), format!("{}={value} ({})", setting.name, setting.source)]);
    }
    let mut partitions = Table::new(&["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "OFFLINE"]);
    for one in &topic.partitions {
        partitions.row(vec![
            one.partition.to_string(),
            one.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
            one.leader_epoch.to_string(),
            joined(&one.replicas),
            joined(&one.in_sync),
            if one.offline.is_empty() { "-".to_owned() } else { joined(&one.offline) },
        ]);
    }
    format!("{}\n{}{}", style::of_stdout().bold(topic.topic), facts.render("  "), partitions.render("  "))
}
