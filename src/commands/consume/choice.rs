//! Which topics and partitions are read, and where each begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::bail;
use mainstem_client::{Client, Fetcher, Offset, OffsetSpec, PartitionIndex, Topic, TopicPartition};

use super::{Consume, offsets_of};
use crate::Usage;
use crate::commands::position::Position;
use crate::commands::topic::partitions_of;

impl Consume {
    /// The topics that are named, or that match the pattern now.
    pub(super) async fn topics(&self, client: &Client) -> anyhow::Result<Vec<Arc<Topic>>> {
        let mut topics = Vec::new();
        for name in self.topics.iter().collect::<BTreeSet<_>>() {
            topics.push(client.topic(name).await.map_err(|error| self.cluster.explain_topic(name, error))?);
        }
        if let Some(pattern) = &self.pattern {
            let all = client.list_topics(false).await.map_err(|error| self.cluster.explain(error))?;
            topics.extend(all.into_iter().filter(|topic| pattern.is_match(&topic.name)));
            if topics.is_empty() {
                bail!("no topic matches the pattern: `mainstem topic list` shows the topics that exist");
            }
        }
        Ok(topics)
    }

    pub(super) fn partitions(&self, topics: &[Arc<Topic>]) -> anyhow::Result<Vec<TopicPartition>> {
        if let ([_, _, ..], [_, ..]) = (topics, &*self.partitions) {
            return Err(Usage("--partition needs exactly one topic".to_owned()).into());
        }
        let mut chosen = Vec::new();
        for topic in topics {
            for index in &self.partitions {
                crate::commands::check_partition(topic, PartitionIndex(*index))?;
            }
            let wanted =
                |one: &TopicPartition| self.partitions.is_empty() || self.partitions.contains(&one.partition.0);
            chosen.extend(partitions_of(topic).into_iter().filter(wanted));
        }
        Ok(chosen)
    }

    /// Where a group has left off comes first, then `--from`.
    pub(super) async fn assign(
        &self,
        client: &Client,
        fetcher: &mut Fetcher,
        all: &[TopicPartition],
        committed: &BTreeMap<TopicPartition, Offset>,
    ) -> anyhow::Result<()> {
        let mut rest = Vec::new();
        for partition in all {
            match committed.get(partition) {
                Some(offset) => fetcher.assign(partition.clone(), *offset),
                None => rest.push(partition.clone()),
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        if let Position::Offset(offset) = self.from {
            self.check_offset(client, &rest, offset).await?;
            rest.iter().for_each(|partition| fetcher.assign(partition.clone(), offset));
            return Ok(());
        }
        let assigned = fetcher.assign_at(&rest, self.start()).await;
        assigned.map_err(|error| self.cluster.explain_fetch(&self.title(), error))
    }

    /// What `--from` finds in any partition; the beginning if it is an offset.
    pub(super) fn start(&self) -> OffsetSpec {
        match self.from {
            Position::Beginning | Position::Offset(_) => OffsetSpec::Earliest,
            Position::End => OffsetSpec::Latest,
            Position::Time(time) => OffsetSpec::Timestamp(time),
        }
    }

    /// Nobody who names an offset wants to begin at another one.
    async fn check_offset(&self, client: &Client, all: &[TopicPartition], offset: Offset) -> anyhow::Result<()> {
        let starts = offsets_of(client, self, all, OffsetSpec::Earliest).await?;
        let ends = offsets_of(client, self, all, OffsetSpec::Latest).await?;
        for ((partition, start), end) in starts.iter().zip(ends.values()) {
            if offset < *start || offset > *end {
                let holds = if start == end {
                    format!("it is empty, and its next offset is {end}")
                } else {
                    format!("it holds {start} to {}", end.0 - 1)
                };
                bail!(
                    "{partition} has no offset {offset}: {holds}; give --from an offset that is there, beginning or \
                     end, or choose with --partition"
                );
            }
        }
        Ok(())
    }
}
