//! The topic that a bench works with: one of the user's, or one of its own that goes with it.

use std::sync::Arc;

use anyhow::Context;
use mainstem_client::{Client, NewTopic, PartitionIndex};

use super::options::Common;
use crate::cluster::ClusterOptions;
use crate::output::note;
use crate::process;

pub struct BenchTopic {
    pub name: Arc<str>,
    pub partitions: Vec<PartitionIndex>,
    created: bool,
}

impl BenchTopic {
    pub async fn open(client: &Client, options: &Common) -> anyhow::Result<BenchTopic> {
        if let Some(name) = &options.topic {
            let topic = client.topic(name).await.map_err(|error| options.cluster.explain_topic(name, error))?;
            let partitions = topic.partitions.iter().map(|partition| partition.index).collect();
            return Ok(BenchTopic { name: topic.name.clone(), partitions, created: false });
        }
        Self::create(client, &options.cluster, options.partitions, &options.config).await
    }

    /// One of a name that nobody else has.
    pub async fn create(
        client: &Client,
        cluster: &ClusterOptions,
        partitions: i32,
        config: &[(String, String)],
    ) -> anyhow::Result<BenchTopic> {
        let moment = jiff::Timestamp::now().as_microsecond();
        let name = format!("mainstem-bench-{}-{moment}", std::process::id());
        let topic = NewTopic::new(&name).partitions(partitions);
        let topic = config.iter().fold(topic, |topic, (key, value)| topic.config(key, value));
        let created = client.create_topics(&[topic], false).await.map_err(|error| cluster.explain(error))?;
        for (_, result) in created {
            result.with_context(|| format!("the topic {name} cannot be created"))?;
        }
        let partitions = (0..partitions).map(PartitionIndex).collect();
        Ok(BenchTopic { name: name.into(), partitions, created: true })
    }

    /// Deletes it, if it was made for the bench. A bench does not fail because of it.
    pub async fn close(self, client: &Client) {
        if !self.created {
            return;
        }
        let deleted = client.delete_topics(&[&*self.name]).await;
        let failed = deleted.map(|results| results.into_iter().find_map(|(_, result)| result.err()));
        if let Some(error) = failed.unwrap_or_else(Some) {
            note(&format!("the topic {} is left behind: {error}", self.name));
        }
    }
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
