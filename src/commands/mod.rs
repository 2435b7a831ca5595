//! One file or folder a command.

pub mod consume;
pub mod produce;
pub mod serve;
pub mod topic;

use anyhow::Context;
use mainstem_client::{PartitionIndex, Topic};

/// The runtime of a command that talks to brokers: one thread, which ends with the command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime does not start")
}

/// `key=value`; the value may be empty and may hold more `=`.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text} is not KEY=VALUE")),
    }
}

fn check_partition(topic: &Topic, partition: PartitionIndex) -> anyhow::Result<()> {
    if topic.partition(partition).is_some() {
        return Ok(());
    }
    let there: Vec<_> = topic.partitions.iter().map(|partition| partition.index).collect();
    match there[..] {
        [first, .., last] => anyhow::bail!("{} has no partition {partition}, only {first} to {last}", topic.name),
        _ => anyhow::bail!("{} has no partition {partition}, only 0", topic.name),
    }
}
