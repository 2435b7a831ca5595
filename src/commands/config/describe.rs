//! `mainstem config describe`.

use clap::Args;
use mainstem_client::{Client, ConfigEntry, ConfigResource, ConfigSource};
use serde::Serialize;

use super::{Whose, in_words, kind_and_name, source_name};
use crate::cluster::ClusterOptions;
use crate::commands::Common;
use crate::output::{self, OutputFormat, Table};

const EXAMPLES: &str = "\
Examples:
  mainstem config describe --topic orders                    shows what differs from the defaults
  mainstem config describe --broker 1 --all --synonyms
  mainstem config describe --broker-defaults --output json";

/// Show settings: the value, its source, and whether it is secret or read-only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Describe {
    #[command(flatten)]
    whose: Whose,
    /// Also show settings that have their default value
    #[arg(long)]
    all: bool,
    /// Show every source that gives the setting a value; the first one applies
    #[arg(long)]
    synonyms: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Described {
    kind: &'static str,
    /// `null` for the brokers' defaults.
    name: Option<String>,
    settings: Vec<JsonSetting>,
}

/// A setting, in JSON.
#[derive(Debug, Serialize)]
pub struct JsonSetting {
    pub name: String,
    /// `null` when it is secret, or has no value.
    pub value: Option<String>,
    pub source: &'static str,
    pub read_only: bool,
    pub sensitive: bool,
    pub synonyms: Vec<JsonSynonym>,
}

#[derive(Debug, Serialize)]
pub struct JsonSynonym {
    name: String,
    value: Option<String>,
    source: &'static str,
}

impl Describe {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let resource = self.whose.resource();
        let client = cluster.connect().await?;
        let settings = settings_of(&client, cluster, &resource, self.all).await?;
        if self.common.output == OutputFormat::Json {
            let (kind, name) = kind_and_name(&resource);
            return output::print_json(&Described { kind, name, settings });
        }
        if settings.is_empty() {
            let more = if self.all { "" } else { "; --all shows the defaults" };
            output::note(&format!("nothing is set for {}{more}", in_words(&resource)));
            return Ok(());
        }
        output::print(&table_of(&settings, self.synonyms))
    }
}

/// The settings of a resource; those that have their default value only with `all`.
pub async fn settings_of(
    client: &Client,
    cluster: &ClusterOptions,
    resource: &ConfigResource,
    all: bool,
) -> anyhow::Result<Vec<JsonSetting>> {
    let entries = client.describe_configs(resource).await;
    let entries = entries.map_err(|error| match resource {
        ConfigResource::Topic(name) => cluster.explain_topic(name, error),
        ConfigResource::Group(name) => cluster.explain_group(name, error),
        _ => cluster.explain_subject(&in_words(resource), error),
    })?;
    let shown = entries.into_iter().filter(|entry| all || entry.source != ConfigSource::Default);
    Ok(shown.map(json_setting).collect())
}

fn json_setting(entry: ConfigEntry) -> JsonSetting {
    let synonyms = entry.synonyms.into_iter().map(|synonym| JsonSynonym {
        name: synonym.name,
        value: synonym.value,
        source: source_name(synonym.source),
    });
    JsonSetting {
        name: entry.name,
        value: entry.value,
        source: source_name(entry.source),
        read_only: entry.read_only,
        sensitive: entry.sensitive,
        synonyms: synonyms.collect(),
    }
}

/// For people.
pub fn table_of(settings: &[JsonSetting], with_synonyms: bool) -> String {
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE", ""]);
    for setting in settings {
        let marks = [(setting.read_only, "read-only"), (setting.sensitive, "secret")];
        let marks: Vec<_> = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect();
        let value = value_in_words(setting.value.as_deref(), setting.sensitive);
        table.row(vec![setting.name.clone(), value, setting.source.to_owned(), marks.join(", ")]);
        for synonym in setting.synonyms.iter().filter(|_| with_synonyms) {
            let value = value_in_words(synonym.value.as_deref(), setting.sensitive);
            table.row(vec![format!("  {}", synonym.name), value, synonym.source.to_owned()]);
        }
    }
    table.render("")
}

fn value_in_words(value: Option<&str>, sensitive: bool) -> String {
    match value {
        Some(value) => value.to_owned(),
        None if sensitive => "(hidden)".to_owned(),
        None => "-".to_owned(),
    }
}
