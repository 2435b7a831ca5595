//! `mainstem config alter`, and what it shares with `mainstem topic config`.

use clap::Args;
use mainstem_client::{Client, ConfigChange, ConfigResource};
use serde::Serialize;

use super::{Whose, in_words, kind_and_name};
use crate::Usage;
use crate::commands::{Common, parse_pair};
use crate::output::{self, OutputFormat};

const EXAMPLES: &str = "\
Examples:
  mainstem config alter --topic orders --set retention.ms=86400000 --unset segment.bytes
  mainstem config alter --broker 1 --set log.cleaner.threads=2
  mainstem config alter --broker-defaults --unset log.retention.ms
  mainstem config alter --topic orders --append cleanup.policy=compact --dry-run";

/// Change settings. Either all of the changes are made, or none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Alter {
    #[command(flatten)]
    whose: Whose,
    /// Set a value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    set: Vec<(String, String)>,
    /// Remove a value, so that the default applies again; may be repeated
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Add an element to a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    append: Vec<(String, String)>,
    /// Remove an element from a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    subtract: Vec<(String, String)>,
    /// Only check whether the broker would accept the change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

impl Alter {
    pub async fn run(self) -> anyhow::Result<()> {
        let changes: Vec<_> = self
            .set
            .iter()
            .map(|(name, value)| ConfigChange::set(name, value))
            .chain(self.unset.iter().map(|name| ConfigChange::delete(name)))
            .chain(self.append.iter().cloned().map(|(name, value)| ConfigChange::Append { name, value }))
            .chain(self.subtract.iter().cloned().map(|(name, value)| ConfigChange::Subtract { name, value }))
            .collect();
        if changes.is_empty() {
            return Err(Usage("nothing to change: give --set, --unset, --append or --subtract".to_owned()).into());
        }
        let changes = Changes { resource: self.whose.resource(), changes, dry_run: self.dry_run };
        changes.make(&self.common.cluster.connect().await?, &self.common).await
    }
}

/// Changes of one resource's settings.
pub struct Changes {
    pub resource: ConfigResource,
    pub changes: Vec<ConfigChange>,
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
struct AlterOutcome<'a> {
    kind: &'static str,
    name: Option<String>,
    /// changed or checked
    result: &'static str,
    changes: Vec<JsonChange<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonChange<'a> {
    /// set, unset, append or subtract
    operation: &'static str,
    setting: &'a str,
    value: Option<&'a str>,
}

impl Changes {
    pub(in crate::commands) async fn make(self, client: &Client, common: &Common) -> anyhow::Result<()> {
        let altered = client.alter_configs(&self.resource, &self.changes, self.dry_run).await;
        altered.map_err(|error| match &self.resource {
            ConfigResource::Topic(name) => common.cluster.explain_topic(name, error),
            other => common.cluster.explain_subject(&in_words(other), error),
        })?;
        let (kind, name) = kind_and_name(&self.resource);
        let changes = self.changes.iter().map(json_change).collect();
        let outcome = AlterOutcome { kind, name, result: if self.dry_run { "checked" } else { "changed" }, changes };
        if common.output == OutputFormat::Json {
            return output::print_json(&outcome);
        }
        let done = if self.dry_run { "would be changed" } else { "changed" };
        output::print(&format!("{done}: {} of {}\n", settings(self.changes.len()), in_words(&self.resource)))
    }
}

fn settings(count: usize) -> String {
    if count == 1 { "1 setting".to_owned() } else { format!("{count} settings") }
}

fn json_change(change: &ConfigChange) -> JsonChange<'_> {
    let (operation, setting, value) = match change {
        ConfigChange::Set { name, value } => ("set", name, Some(value.as_str())),
        ConfigChange::Delete { name } => ("unset", name, None),
        ConfigChange::Append { name, value } => ("append", name, Some(value.as_str())),
        ConfigChange::Subtract { name, value } => ("subtract", name, Some(value.as_str())),
    };
    JsonChange { operation, setting, value }
}
