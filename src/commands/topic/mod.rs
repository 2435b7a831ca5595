//! `mainstem topic`: topics, their partitions, records, offsets and settings.

mod change;
mod config;
mod find;
pub mod offsets;
mod partitions;
mod show;

use std::sync::Arc;

use clap::{Args, Subcommand};
use mainstem_client::{Client, TopicPartition};

use super::{Common, fail_with_first};
use crate::cluster::ClusterOptions;

const EXAMPLES: &str = "\
Examples:
  mainstem topic create orders --partitions 3 --config retention.ms=86400000
  mainstem topic list
  mainstem topic describe orders --output json
  mainstem topic config set orders retention.ms=86400000
  mainstem topic offsets orders
  mainstem topic find orders 42
  mainstem topic delete orders";

/// Create, list, describe, change and delete topics.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Topic {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(change::Create),
    List(show::List),
    Describe(show::Describe),
    Delete(change::Delete),
    Config(config::Config),
    AddPartitions(partitions::AddPartitions),
    DeleteRecords(offsets::DeleteRecords),
    Offsets(offsets::Offsets),
    Find(find::Find),
}

impl Topic {
    pub fn run(self) -> anyhow::Result<()> {
        super::runtime()?.block_on(async {
            match self.action {
                Action::Create(create) => create.run().await,
                Action::List(list) => list.run().await,
                Action::Describe(describe) => describe.run().await,
                Action::Delete(delete) => delete.run().await,
                Action::Config(config) => config.run().await,
                Action::AddPartitions(add) => add.run().await,
                Action::DeleteRecords(delete) => delete.run().await,
                Action::Offsets(offsets) => offsets.run().await,
                Action::Find(find) => find.run().await,
            }
        })
    }
}

/// The named topics, and what is wrong with some; without names all but the brokers' own.
async fn named_or_all(
    client: &Client,
    cluster: &ClusterOptions,
    names: &[String],
) -> anyhow::Result<(Vec<Arc<mainstem_client::Topic>>, Vec<anyhow::Error>)> {
    let mut failures = Vec::new();
    if names.is_empty() {
        let topics = client.list_topics(false).await.map_err(|error| cluster.explain(error))?;
        return Ok((topics, failures));
    }
    let mut topics = Vec::with_capacity(names.len());
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (name, topic) in client.describe_topics(&names).await.map_err(|error| cluster.explain(error))? {
        match topic {
            Ok(topic) => topics.push(topic),
            Err(error) => failures.push(cluster.explain_topic(&name, error)),
        }
    }
    Ok((topics, failures))
}

/// All partitions of a topic.
pub fn partitions_of(topic: &mainstem_client::Topic) -> Vec<TopicPartition> {
    topic.partitions.iter().map(|partition| TopicPartition::new(topic.name.clone(), partition.index)).collect()
}
