//! `mainstem topic`: create, list, describe and delete topics.

mod change;
mod show;

use clap::{Args, Subcommand};

use crate::cluster::ClusterOptions;
use crate::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  mainstem topic create orders --partitions 3 --config retention.ms=86400000
  mainstem topic list
  mainstem topic describe orders --output json
  mainstem topic delete orders";

/// Create, list, describe and delete topics.
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
}

/// Options of all of them.
#[derive(Debug, Args)]
struct Common {
    /// How to tell the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl Topic {
    pub fn run(self) -> anyhow::Result<()> {
        super::runtime()?.block_on(async {
            match self.action {
                Action::Create(create) => create.run().await,
                Action::List(list) => list.run().await,
                Action::Describe(describe) => describe.run().await,
                Action::Delete(delete) => delete.run().await,
            }
        })
    }
}

/// What became of several topics: the first of them that failed fails the command, after all others were told.
fn fail_with_first(failures: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    for other in failures {
        crate::output::note(&format!("mainstem: {other:#}"));
    }
    Err(first)
}
