//! `mainstem group list`.

use clap::Args;
use mainstem_client::ListedGroup;
use serde::Serialize;

use crate::commands::Common;
use crate::output::{self, OutputFormat, Table};

const EXAMPLES: &str = "\
Examples:
  mainstem group list
  mainstem group list --state Empty --output json";

/// List groups.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct List {
    /// Only groups in this state, such as Empty or Stable; may be repeated
    #[arg(long = "state", value_name = "STATE")]
    states: Vec<String>,
    /// Only groups of this kind: classic, consumer, share, streams; may be repeated
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// A group in a list, in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    group: &'a str,
    /// `null` from brokers that do not tell it, as the next one.
    kind: Option<&'a str>,
    state: Option<&'a str>,
    protocol_type: &'a str,
    coordinator: i32,
}

impl List {
    pub async fn run(self) -> anyhow::Result<()> {
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let groups = client.list_groups().await.map_err(|error| cluster.explain(error))?;
        let groups: Vec<_> = groups.iter().filter(|group| self.wants(group)).map(listed).collect();
        if self.common.output == OutputFormat::Json {
            return output::print_json(&groups);
        }
        if groups.is_empty() {
            output::note("no group matches");
            return Ok(());
        }
        let mut table = Table::new(&["GROUP", "KIND", "STATE", "PROTOCOL", "COORDINATOR"]);
        for group in groups {
            let told = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
            table.row(vec![
                group.group.to_owned(),
                told(group.kind),
                told(group.state),
                told(Some(group.protocol_type)),
                group.coordinator.to_string(),
            ]);
        }
        output::print(&table.render(""))
    }

    fn wants(&self, group: &ListedGroup) -> bool {
        let among = |wanted: &[String], is: &Option<String>| {
            let is = is.as_deref().unwrap_or_default();
            wanted.is_empty() || wanted.iter().any(|one| one.eq_ignore_ascii_case(is))
        };
        among(&self.states, &group.state) && among(&self.kinds, &group.kind)
    }
}

fn listed(group: &ListedGroup) -> Listed<'_> {
    Listed {
        group: &group.group,
        kind: group.kind.as_deref(),
        state: group.state.as_deref(),
        protocol_type: &group.protocol_type,
        coordinator: group.coordinator.0,
    }
}
