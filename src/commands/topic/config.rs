//! `mainstem topic config`: settings of one topic.

use clap::{Args, Subcommand};
use mainstem_client::{ConfigChange, ConfigResource};
use serde::Serialize;

use crate::commands::config::{Changes, JsonSetting, settings_of, table_of};
use crate::commands::{Common, parse_pair};
use crate::output::{self, OutputFormat};

const EXAMPLES: &str = "\
Examples:
  mainstem topic config set orders retention.ms=86400000 cleanup.policy=compact
  mainstem topic config unset orders retention.ms
  mainstem topic config show orders --all";

/// Show and change the settings of a topic.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Set(Set),
    Unset(Unset),
    Show(Show),
}

/// Set settings. Either all of them change, or none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Set {
    /// The topic
    topic: String,
    /// Settings, with Kafka's or Mainstem's names
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = parse_pair)]
    settings: Vec<(String, String)>,
    /// Only check whether the broker would accept the change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

/// Remove settings, so that the defaults apply again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Unset {
    /// The topic
    topic: String,
    /// Names of settings
    #[arg(value_name = "KEY", required = true)]
    settings: Vec<String>,
    /// Only check whether the broker would accept the change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

/// Show the settings of a topic that differ from the defaults; --all shows all.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Show {
    /// The topic
    topic: String,
    /// Also show settings that have their default value
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    topic: &'a str,
    settings: Vec<JsonSetting>,
}

impl Config {
    pub async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Set(Set { topic, settings, dry_run, common }) => {
                let changes = settings.iter().map(|(name, value)| ConfigChange::set(name, value)).collect();
                alter(topic, changes, dry_run, common).await
            }
            Action::Unset(Unset { topic, settings, dry_run, common }) => {
                let changes = settings.iter().map(|name| ConfigChange::delete(name)).collect();
                alter(topic, changes, dry_run, common).await
            }
            Action::Show(show) => show.run().await,
        }
    }
}

async fn alter(topic: String, changes: Vec<ConfigChange>, dry_run: bool, common: Common) -> anyhow::Result<()> {
    let changes = Changes { resource: ConfigResource::Topic(topic), changes, dry_run };
    changes.make(&common.cluster.connect().await?, &common).await
}

impl Show {
    async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let resource = ConfigResource::Topic(self.topic.clone());
        let settings = settings_of(&client, cluster, &resource, self.all).await?;
        if self.common.output == OutputFormat::Json {
            return output::print_json(&Shown { topic: &self.topic, settings });
        }
        if settings.is_empty() {
            output::note(&format!("nothing is set for {}; --all shows the defaults", self.topic));
            return Ok(());
        }
        output::print(&table_of(&settings, false))
    }
}
