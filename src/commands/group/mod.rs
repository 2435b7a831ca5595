//! `mainstem group`: consumer groups from outside.

mod delete;
mod describe;
mod list;
mod reset;

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::{Args, Subcommand};
use mainstem_client::{Client, ErrorCode, PartitionIndex, Topic, TopicPartition};

use crate::cluster::ClusterOptions;
use crate::output::note;

const EXAMPLES: &str = "\
Examples:
  mainstem group list
  mainstem group describe billing
  mainstem group reset-offsets billing --topic orders --to-earliest             shows the plan
  mainstem group reset-offsets billing --topic orders --to-earliest --execute   carries it out
  mainstem group delete billing";

/// List, describe and delete consumer groups; reset and delete their offsets.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Group {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Describe(describe::Describe),
    ResetOffsets(reset::ResetOffsets),
    Delete(delete::Delete),
    DeleteOffsets(delete::DeleteOffsets),
}

impl Group {
    pub fn run(self) -> anyhow::Result<()> {
        super::runtime()?.block_on(async {
            match self.action {
                Action::List(list) => list.run().await,
                Action::Describe(describe) => describe.run().await,
                Action::ResetOffsets(reset) => reset.run().await,
                Action::Delete(delete) => delete.run().await,
                Action::DeleteOffsets(delete) => delete.run().await,
            }
        })
    }
}

/// `TOPIC`, or `TOPIC:0,1,2`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TopicChoice {
    topic: String,
    /// Empty is all.
    partitions: BTreeSet<i32>,
}

impl TopicChoice {
    fn parse(text: &str) -> Result<TopicChoice, String> {
        let (topic, partitions) = text.split_once(':').unwrap_or((text, ""));
        let wrong = || format!("{text} is not TOPIC or TOPIC:0,1,2");
        if topic.is_empty() || (partitions.is_empty() && text.contains(':')) {
            return Err(wrong());
        }
        let numbers = partitions.split(',').filter(|number| !number.is_empty());
        let numbers = numbers.map(|number| number.parse().ok().filter(|number| *number >= 0));
        let partitions = numbers.collect::<Option<_>>().ok_or_else(wrong)?;
        Ok(TopicChoice { topic: topic.to_owned(), partitions })
    }

    fn holds(&self, partition: &TopicPartition) -> bool {
        self.topic == *partition.topic
            && (self.partitions.is_empty() || self.partitions.contains(&partition.partition.0))
    }

    /// The partitions of the topic that are meant, each of which must exist.
    fn of(&self, topic: &Topic) -> anyhow::Result<Vec<TopicPartition>> {
        for index in &self.partitions {
            super::check_partition(topic, PartitionIndex(*index))?;
        }
        let all = super::topic::partitions_of(topic).into_iter();
        Ok(all.filter(|partition| self.holds(partition)).collect())
    }
}

/// Those of the partitions whose topic is there, and who says so when one is not.
async fn existing(
    client: &Client,
    cluster: &ClusterOptions,
    partitions: impl Iterator<Item = &TopicPartition>,
) -> anyhow::Result<Vec<TopicPartition>> {
    let partitions: Vec<_> = partitions.cloned().collect();
    let names: BTreeSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut topics: Vec<Arc<Topic>> = Vec::new();
    for (name, found) in client.describe_topics(&names).await.map_err(|error| cluster.explain(error))? {
        match found {
            Ok(topic) => topics.push(topic),
            Err(error) if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                note(&format!("mainstem: topic {name} no longer exists"));
            }
            Err(error) => return Err(cluster.explain_topic(&name, error)),
        }
    }
    let exists = |partition: &TopicPartition| {
        topics.iter().any(|topic| topic.name == partition.topic && topic.partition(partition.partition).is_some())
    };
    Ok(partitions.into_iter().filter(exists).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_topic_or_some_of_its_partitions() {
        let all = TopicChoice::parse("orders").unwrap();
        let some = TopicChoice::parse("orders:0,2").unwrap();
        let one = TopicPartition::new("orders", PartitionIndex(1));
        assert!(all.holds(&one) && !some.holds(&one));
        assert!(some.holds(&TopicPartition::new("orders", PartitionIndex(2))));
        for wrong in ["", ":1", "orders:", "orders:x", "orders:-1", "orders:0;1"] {
            assert!(TopicChoice::parse(wrong).is_err(), "{wrong}");
        }
    }
}
