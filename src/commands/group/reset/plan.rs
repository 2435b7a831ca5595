//! From what is wanted to an offset for each partition.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use mainstem_client::{Client, Offset, OffsetSpec, TopicPartition};

use super::Target;
use crate::cluster::ClusterOptions;
use crate::commands::group::{TopicChoice, existing};
use crate::commands::topic::offsets::offsets;

/// What shall become of one partition.
#[derive(Debug)]
pub struct Planned {
    pub partition: TopicPartition,
    pub current: Option<i64>,
    pub new: i64,
    pub earliest: i64,
    pub latest: i64,
    /// The partition does not have what was asked for.
    pub moved: bool,
}

pub struct Planner<'a> {
    client: &'a Client,
    cluster: &'a ClusterOptions,
    committed: BTreeMap<TopicPartition, i64>,
}

impl<'a> Planner<'a> {
    pub async fn new(client: &'a Client, cluster: &'a ClusterOptions, group: &str) -> anyhow::Result<Self> {
        let committed = client.group_offsets(group).await.map_err(|error| cluster.explain_group(group, error))?;
        let committed = committed.into_iter().map(|(partition, committed)| (partition, committed.offset.0)).collect();
        Ok(Planner { client, cluster, committed })
    }

    pub async fn plan(&self, target: &Target, topics: &[TopicChoice], all: bool) -> anyhow::Result<Vec<Planned>> {
        let partitions = self.partitions(target, topics, all).await?;
        let earliest = offsets(self.client, self.cluster, &partitions, OffsetSpec::Earliest).await?;
        let latest = offsets(self.client, self.cluster, &partitions, OffsetSpec::Latest).await?;
        let timed = match target {
            Target::Time(time) => offsets(self.client, self.cluster, &partitions, OffsetSpec::Timestamp(*time)).await?,
            _ => BTreeMap::new(),
        };
        let number = |offsets: &BTreeMap<TopicPartition, Offset>, partition: &TopicPartition| {
            offsets.get(partition).map(|offset| offset.0)
        };
        let mut planned = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let current = self.committed.get(&partition).copied();
            let earliest = number(&earliest, &partition).unwrap_or(0);
            let latest = number(&latest, &partition).unwrap_or(0);
            let wanted = match target {
                Target::Earliest => earliest,
                Target::Latest => latest,
                Target::Current => current.unwrap_or(latest),
                Target::Offset(offset) => *offset,
                Target::Shift(count) => match current {
                    Some(current) => current.saturating_add(*count),
                    None => bail!(
                        "{partition} cannot be shifted: the group has no offset of it; choose other partitions with \
                         --topic, or another way to reset"
                    ),
                },
                // Nothing is that late: go on with what comes.
                Target::Time(_) => number(&timed, &partition).unwrap_or(latest),
                Target::File(wanted) => wanted.get(&partition).copied().unwrap_or(latest),
            };
            let new = wanted.clamp(earliest, latest.max(earliest));
            planned.push(Planned { partition, current, new, earliest, latest, moved: new != wanted });
        }
        Ok(planned)
    }

    /// The partitions that are meant, in order.
    async fn partitions(
        &self,
        target: &Target,
        topics: &[TopicChoice],
        all: bool,
    ) -> anyhow::Result<Vec<TopicPartition>> {
        if all {
            return existing(self.client, self.cluster, self.committed.keys()).await;
        }
        let mut chosen = BTreeSet::new();
        if let Target::File(wanted) = target {
            for partition in wanted.keys() {
                let topic = self.client.topic(&partition.topic).await;
                let topic = topic.map_err(|error| self.cluster.explain_topic(&partition.topic, error))?;
                crate::commands::check_partition(&topic, partition.partition)?;
            }
            chosen.extend(wanted.keys().cloned());
        }
        for choice in topics {
            let topic = self.client.topic(&choice.topic).await;
            let topic = topic.map_err(|error| self.cluster.explain_topic(&choice.topic, error))?;
            chosen.extend(choice.of(&topic)?);
        }
        Ok(chosen.into_iter().collect())
    }
}
