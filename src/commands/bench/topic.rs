//! The topics that a bench works with: one of the user's, or some of its own that go with it.

use std::sync::Arc;

use anyhow::Context;
use mainstem_client::{Client, NewTopic, PartitionIndex, TopicPartition};

use super::options::Common;
use crate::cluster::ClusterOptions;
use crate::output::note;
use crate::process;

/// Topics in one request.
const REQUEST_TOPICS_MAX: usize = 500;

pub struct BenchTopics {
    /// Where records go, one after the other: neighbours are of different topics, where there are several.
    pub targets: Vec<TopicPartition>,
    created: Vec<Arc<str>>,
}

/// What is created.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    pub topics: u32,
    pub partitions: i32,
    pub config: &'a [(String, String)],
}

impl BenchTopics {
    pub async fn open(client: &Client, options: &Common) -> anyhow::Result<BenchTopics> {
        if let Some(name) = &options.topic {
            let topic = client.topic(name).await.map_err(|error| options.cluster.explain_topic(name, error))?;
            let target = |index| TopicPartition::new(topic.name.clone(), index);
            let targets = topic.partitions.iter().map(|partition| target(partition.index)).collect();
            return Ok(BenchTopics { targets, created: Vec::new() });
        }
        let shape = Shape { topics: options.topics, partitions: options.partitions, config: &options.config };
        Self::create(client, &options.cluster, shape).await
    }

    /// Some of names that nobody else has.
    pub async fn create(client: &Client, cluster: &ClusterOptions, shape: Shape<'_>) -> anyhow::Result<BenchTopics> {
        let moment = jiff::Timestamp::now().as_microsecond();
        let name = |number: u32| format!("mainstem-bench-{}-{moment}-{number}", std::process::id());
        let names: Vec<Arc<str>> = (0..shape.topics).map(|number| name(number).into()).collect();
        let mut topics = BenchTopics { targets: Vec::new(), created: Vec::new() };
        if let Err(error) = topics.create_all(client, cluster, &names, shape).await {
            topics.close(client).await;
            return Err(error);
        }
        let all = (0..shape.partitions).flat_map(|index| names.iter().map(move |name| (name, PartitionIndex(index))));
        topics.targets = all.map(|(name, index)| TopicPartition::new(name.clone(), index)).collect();
        Ok(topics)
    }

    async fn create_all(
        &mut self,
        client: &Client,
        cluster: &ClusterOptions,
        names: &[Arc<str>],
        shape: Shape<'_>,
    ) -> anyhow::Result<()> {
        for names in names.chunks(REQUEST_TOPICS_MAX) {
            let wanted: Vec<NewTopic> = names.iter().map(|name| new_topic(name, shape)).collect();
            let created = client.create_topics(&wanted, false).await.map_err(|error| cluster.explain(error))?;
            for (name, result) in created {
                result.with_context(|| format!("cannot create topic {name}"))?;
                self.created.push(name.into());
            }
        }
        Ok(())
    }

    /// What people are told when something is wrong with one of them.
    pub fn name(&self) -> &str {
        self.targets.first().map_or("", |target| &target.topic)
    }

    /// Deletes what was made for the bench. A bench does not fail because of it.
    pub async fn close(self, client: &Client) {
        for names in self.created.chunks(REQUEST_TOPICS_MAX) {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let deleted = client.delete_topics(&names).await;
            let failed = deleted.map(|results| results.into_iter().find_map(|(_, result)| result.err()));
            if let Some(error) = failed.unwrap_or_else(Some) {
                note(&format!("topic {} could not be deleted: {error}", names.first().unwrap_or(&"")));
            }
        }
    }
}

/// Whether the broker takes topics with these settings.
pub async fn check_config(
    client: &Client,
    cluster: &ClusterOptions,
    config: &[(String, String)],
) -> anyhow::Result<()> {
    let topic = new_topic("mainstem-bench-check", Shape { topics: 1, partitions: 1, config });
    let checked = client.create_topics(&[topic], true).await.map_err(|error| cluster.explain(error))?;
    for (_, result) in checked {
        result?;
    }
    Ok(())
}

fn new_topic(name: &str, shape: Shape<'_>) -> NewTopic {
    let topic = NewTopic::new(name).partitions(shape.partitions);
    shape.config.iter().fold(topic, |topic, (key, value)| topic.config(key, value))
}

/// The process of the broker: the one that was named, or the only broker of the cluster if it is on this machine.
pub async fn broker_process(client: &Client, named: Option<u32>) -> Option<u32> {
    if named.is_some() {
        return named;
    }
    let cluster = client.describe_cluster().await.ok()?;
    match cluster.brokers.as_slice() {
        [broker] => process::behind(&format!("{}:{}", broker.host, broker.port)),
        _ => None,
    }
}
