//! `mainstem group describe`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use mainstem_client::{Client, CommittedOffset, GroupDescription, GroupMember, OffsetSpec, TopicPartition};
use serde::Serialize;

use crate::Usage;
use crate::commands::topic::offsets::offsets;
use crate::commands::{Common, fail_with_first};
use crate::output::{self, OutputFormat, Table, style};

const EXAMPLES: &str = "\
Examples:
  mainstem group describe billing
  mainstem group describe --all --output json";

/// Show groups: state, coordinator, members with their partitions, offsets and lag.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Describe {
    /// Names
    #[arg(value_name = "GROUP", required_unless_present = "all")]
    groups: Vec<String>,
    /// All groups
    #[arg(long, conflicts_with = "groups")]
    all: bool,
    #[command(flatten)]
    common: Common,
}

/// A group with everything, in JSON.
#[derive(Debug, Serialize)]
struct Described {
    group: String,
    /// classic or consumer
    kind: &'static str,
    state: String,
    protocol_type: String,
    assignor: String,
    coordinator: Coordinator,
    /// Of all partitions; `null` when it is not known for one of them.
    lag: Option<i64>,
    members: Vec<Member>,
    offsets: Vec<PartitionOffsets>,
}

#[derive(Debug, Serialize)]
struct Coordinator {
    node: i32,
    host: String,
    port: i32,
}

#[derive(Debug, Serialize)]
struct Member {
    member_id: String,
    instance_id: Option<String>,
    client_id: String,
    host: String,
    partitions: Vec<JsonPartition>,
}

#[derive(Debug, Serialize)]
struct JsonPartition {
    topic: String,
    partition: i32,
}

#[derive(Debug, Serialize)]
struct PartitionOffsets {
    topic: String,
    partition: i32,
    /// `null` when nothing was committed.
    committed: Option<i64>,
    metadata: Option<String>,
    /// `null` when the topic is gone, as the lag.
    end: Option<i64>,
    lag: Option<i64>,
    /// Who reads it now.
    member_id: Option<String>,
}

impl Describe {
    pub async fn run(self) -> anyhow::Result<()> {
        if self.groups.iter().any(String::is_empty) {
            return Err(Usage("the name of a group is empty".to_owned()).into());
        }
        let cluster = &self.common.cluster;
        let client = cluster.connect().await?;
        let mut names = self.groups.clone();
        if self.all {
            let groups = client.list_groups().await.map_err(|error| cluster.explain(error))?;
            // Share and streams groups have no offsets of this kind.
            let ours =
                groups.into_iter().filter(|one| matches!(one.kind.as_deref(), None | Some("classic" | "consumer")));
            names = ours.map(|group| group.group).collect();
        }
        let mut described = Vec::new();
        let mut failures = Vec::new();
        for name in &names {
            match self.describe(&client, name).await {
                Ok(group) => described.push(group),
                Err(error) => failures.push(error),
            }
        }
        match self.common.output {
            OutputFormat::Json => output::print_json(&described)?,
            OutputFormat::Text => output::print(&described.iter().map(in_words).collect::<Vec<_>>().join("\n"))?,
        }
        fail_with_first(failures)
    }

    async fn describe(&self, client: &Client, name: &str) -> anyhow::Result<Described> {
        let cluster = &self.common.cluster;
        let group = client.describe_group(name).await.map_err(|error| cluster.explain_group(name, error))?;
        let committed = client.group_offsets(name).await.map_err(|error| cluster.explain_group(name, error))?;
        let committed: BTreeMap<_, _> = committed.into_iter().collect();
        let assigned = group.members.iter().flat_map(|member| &member.assignment);
        let partitions: BTreeSet<_> = committed.keys().chain(assigned).cloned().collect();
        let existing = super::existing(client, cluster, partitions.iter()).await?;
        let ends = offsets(client, cluster, &existing, OffsetSpec::Latest).await?;
        let rows = partitions.iter().map(|partition| {
            let end = ends.get(partition).map(|offset| offset.0);
            partition_offsets(partition, committed.get(partition), end, &group)
        });
        Ok(build(&group, rows.collect()))
    }
}

fn partition_offsets(
    partition: &TopicPartition,
    committed: Option<&CommittedOffset>,
    end: Option<i64>,
    group: &GroupDescription,
) -> PartitionOffsets {
    let reader = group.members.iter().find(|member| member.assignment.contains(partition));
    let offset = committed.map(|committed| committed.offset.0);
    PartitionOffsets {
        topic: partition.topic.to_string(),
        partition: partition.partition.0,
        committed: offset,
        metadata: committed.map(|committed| committed.metadata.clone()).filter(|text| !text.is_empty()),
        end,
        // A topic that was created anew may end before.
        lag: end.zip(offset).map(|(end, offset)| (end - offset).max(0)),
        member_id: reader.map(|member| member.member_id.clone()),
    }
}

fn build(group: &GroupDescription, offsets: Vec<PartitionOffsets>) -> Described {
    let broker = &group.coordinator;
    Described {
        group: group.group.clone(),
        kind: group.kind,
        state: group.state.clone(),
        protocol_type: group.protocol_type.clone(),
        assignor: group.assignor.clone(),
        coordinator: Coordinator { node: broker.node.0, host: broker.host.clone(), port: broker.port },
        lag: offsets.iter().map(|row| row.lag).sum(),
        members: group.members.iter().map(member).collect(),
        offsets,
    }
}

fn member(member: &GroupMember) -> Member {
    let partition = |one: &TopicPartition| JsonPartition { topic: one.topic.to_string(), partition: one.partition.0 };
    Member {
        member_id: member.member_id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        host: member.host.clone(),
        partitions: member.assignment.iter().map(partition).collect(),
    }
}

fn in_words(group: &Described) -> String {
    let told = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let assignor = if group.assignor.is_empty() { String::new() } else { format!(", assignor {}", group.assignor) };
    let coordinator = &group.coordinator;
    let mut facts = Table::without_head();
    for (name, value) in [
        ("state", group.state.clone()),
        ("kind", format!("{}{assignor}", group.kind)),
        ("coordinator", format!("{} ({}:{})", coordinator.node, coordinator.host, coordinator.port)),
        ("members", group.members.len().to_string()),
        ("lag", told(group.lag)),
    ] {
        facts.row(vec![name.to_owned(), value]);
    }
    let mut text = format!("{}\n{}", style::of_stdout().bold(&group.group), facts.render("  "));
    if !group.offsets.is_empty() {
        let mut table = Table::new(&["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"]);
        for row in &group.offsets {
            let partition = row.partition.to_string();
            let numbers = [row.committed, row.end, row.lag].map(told);
            let member = row.member_id.clone().unwrap_or_else(|| "-".to_owned());
            table.row([vec![row.topic.clone(), partition], numbers.to_vec(), vec![member]].concat());
        }
        text.push_str(&table.render("  "));
    }
    if !group.members.is_empty() {
        let mut table = Table::new(&["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"]);
        for member in &group.members {
            let instance = member.instance_id.clone().unwrap_or_else(|| "-".to_owned());
            let partitions = member.partitions.len().to_string();
            let (id, client, host) = (member.member_id.clone(), member.client_id.clone(), member.host.clone());
            table.row(vec![id, instance, client, host, partitions]);
        }
        text.push_str(&table.render("  "));
    }
    text
}
