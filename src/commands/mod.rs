//! One file or folder a command.

pub mod bench;
pub mod completions;
pub mod config;
pub mod consume;
pub mod cp;
pub mod doctor;
pub mod dump;
mod ends;
pub mod group;
pub mod man;
mod patience;
mod position;
pub mod produce;
pub mod serve;
pub mod topic;
pub mod verify;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use mainstem_client::{Codec, PartitionIndex, Topic};

use crate::cluster::ClusterOptions;
use crate::output::{OutputFormat, note};

/// Options of the commands that administer a cluster.
#[derive(Debug, Args)]
struct Common {
    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The runtime of a command that talks to brokers: one thread, which ends with the command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// The runtime of a command that must answer brokers while it waits for the reader of its output: connections and
/// heartbeats have a thread of their own.
fn runtime_beside_output() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().context("cannot start the runtime")
}

/// `key=value`; the value may be empty and may hold more `=`.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text} is not KEY=VALUE")),
    }
}

fn codec_parser() -> impl TypedValueParser<Value = Codec> {
    PossibleValuesParser::new(Codec::ALL.map(Codec::name)).try_map(|name| name.parse::<Codec>())
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

/// What became of several things: the first of them that failed fails the command, after all others were told.
fn fail_with_first(failures: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    for other in failures {
        note(&format!("mainstem: {other:#}"));
    }
    Err(first)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tasks_go_on_while_the_command_waits_for_its_reader() {
        let (sender, beats) = std::sync::mpsc::channel();
        runtime_beside_output().unwrap().block_on(async {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                sender.send(()).unwrap();
            });
            beats.recv_timeout(Duration::from_secs(30)).expect("a heartbeat while this thread is blocked");
        });
    }
}
