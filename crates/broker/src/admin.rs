//! Changes of the cluster that clients ask for, or that the broker makes on their behalf.
//!
//! Each is one operation of the controller: decided, recorded as one batch, and followed by this node before the
//! answer.

use std::collections::BTreeSet;

use mainstem_metadata::controller::{
    AlterConfigError, ConfigAlteration, ConfigReplacement, CreatePartitionsError, CreateTopicError, CreatedTopic,
    Decision, DeleteTopicError, DeletedTopic, FeatureUpdate, NewPartitions, NewTopic, ReassignError, Reassignment,
    TopicRef, UnregisterBrokerError, UpdateFeaturesError, offsets_topic,
};

use mainstem_types::{CONSUMER_OFFSETS_TOPIC, PartitionIndex, is_internal_topic};

use crate::broker::Broker;
use crate::controller_thread::ControllerError;
use crate::random_ids::random_id;
use crate::topics::own_partitions;

impl Broker {
    /// One result a topic, in the order of `topics`.
    pub async fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Result<Vec<Result<CreatedTopic, CreateTopicError>>, ControllerError> {
        self.change_metadata(move |controller, config, rng| {
            controller.create_topics(&topics, validate_only, config, &mut || random_id(rng))
        })
        .await
    }

    /// One result a topic, in the order of `topics`. Records of a deleted topic cannot be read any more when this
    /// returns; its files go later.
    pub async fn delete_topics(
        &self,
        topics: Vec<TopicRef>,
    ) -> Result<Vec<Result<DeletedTopic, DeleteTopicError>>, ControllerError> {
        self.change_metadata(move |controller, config, _| controller.delete_topics(&topics, config)).await
    }

    /// One result a topic, in the order of `topics`: how many partitions it has now.
    pub async fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        validate_only: bool,
    ) -> Result<Vec<Result<i32, CreatePartitionsError>>, ControllerError> {
        self.change_metadata(move |controller, _, _| controller.create_partitions(&topics, validate_only)).await
    }

    /// One result a resource, in the order of `alterations`. New values apply when this returns.
    pub async fn alter_configs(
        &self,
        alterations: Vec<ConfigAlteration>,
        validate_only: bool,
    ) -> Result<Vec<Result<(), AlterConfigError>>, ControllerError> {
        self.change_metadata(move |controller, config, _| {
            controller.incremental_alter_configs(&alterations, validate_only, config)
        })
        .await
    }

    /// Partitions that the metadata places on this node and that are not served: their logs could not be created or
    /// opened. The records of the metadata stay, and the next start tries again.
    pub fn unserved_partitions(&self, topic: &str) -> Vec<PartitionIndex> {
        let (image, topics) = (self.image(), self.topics());
        let Some(topic) = image.topic(topic) else { return Vec::new() };
        let served = topics.by_id(topic.id);
        let is_served = |index: &PartitionIndex| served.is_some_and(|served| served.partition(*index).is_some());
        let own = own_partitions(topic, self.state.node).map(|(index, _)| PartitionIndex(index));
        own.filter(|index| !is_served(index)).collect()
    }

    /// Replaces all settings of each resource: settings that a replacement does not name return to their defaults. One
    /// result a resource, in the order of `replacements`.
    pub async fn replace_configs(
        &self,
        replacements: Vec<ConfigReplacement>,
        validate_only: bool,
    ) -> Result<Vec<Result<(), AlterConfigError>>, ControllerError> {
        self.change_metadata(move |controller, config, _| {
            controller.replace_configs(&replacements, validate_only, config)
        })
        .await
    }

    /// One result a partition, in the order of `wanted`: whether it is where it is asked to be.
    pub async fn alter_reassignments(
        &self,
        wanted: Vec<Reassignment>,
        may_change_factor: bool,
    ) -> Result<Vec<Result<(), ReassignError>>, ControllerError> {
        self.change_metadata(move |controller, _, _| {
            let results = wanted.iter().map(|one| controller.check_reassignment(one, may_change_factor));
            Decision { records: Vec::new(), reply: results.collect() }
        })
        .await
    }

    /// Forgets a node that will not come back.
    pub async fn unregister_broker(&self, id: i32) -> Result<Result<(), UnregisterBrokerError>, ControllerError> {
        let node = self.state.node;
        self.change_metadata(move |controller, _, _| controller.unregister_broker(id, node)).await
    }

    /// Changes the levels of features, all or none.
    pub async fn update_features(
        &self,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<Result<(), UpdateFeaturesError>, ControllerError> {
        self.change_metadata(move |controller, config, _| controller.update_features(&updates, validate_only, config))
            .await
    }

    /// Creates topics that clients asked for by using them, with the default settings. Returns the topics that cannot
    /// be created, with the reason, sorted by name. The metadata has the others afterwards.
    ///
    /// Of the internal topics only `__consumer_offsets` is created this way: this broker does not use the others.
    pub async fn auto_create_topics(&self, names: Vec<String>) -> Vec<(String, CreateTopicError)> {
        let mut names: BTreeSet<String> = names.into_iter().collect();
        if names.remove(CONSUMER_OFFSETS_TOPIC)
            && let Err(error) = self.create_offsets_topic().await
        {
            tracing::warn!("cannot create the offsets topic: {error}");
        }
        let topics: Vec<NewTopic> = names.iter().filter(|name| !is_internal_topic(name)).map(NewTopic::named).collect();
        if topics.is_empty() {
            return Vec::new();
        }
        let asked: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
        let results = match self.create_topics(topics, false).await {
            Ok(results) => results,
            Err(error) => {
                tracing::warn!("cannot create {} topics automatically: {error}", asked.len());
                return Vec::new();
            }
        };
        let failed = |(name, result): (String, Result<_, CreateTopicError>)| match result {
            Ok(_) | Err(CreateTopicError::Exists(_)) => None,
            Err(error) => Some((name, error)),
        };
        let failed: Vec<_> = asked.into_iter().zip(results).filter_map(failed).collect();
        // Clients ask again and again, for as many names as they like: one line says it.
        if let Some((name, error)) = failed.first() {
            tracing::warn!("cannot create {} topics automatically; {name}: {error}", failed.len());
        }
        failed
    }

    /// Creates `__consumer_offsets` if it does not exist. Groups are served when this returns.
    pub async fn create_offsets_topic(&self) -> Result<(), ControllerError> {
        let created = self
            .change_metadata(|controller, config, rng| {
                let topic = offsets_topic(config, controller.image().active_brokers().count());
                controller.create_topics(&[topic], false, config, &mut || random_id(rng))
            })
            .await?;
        match created.into_iter().next() {
            Some(Err(error)) if !matches!(error, CreateTopicError::Exists(_)) => {
                Err(ControllerError::OffsetsTopic(error))
            }
            _ => Ok(()),
        }
    }

    /// Takes the next block of producer ids.
    pub(crate) async fn refill_producer_ids(&self) -> Result<(), ControllerError> {
        let (node, broker_epoch) = (self.state.node, *self.state.broker_epoch.lock());
        let decided =
            self.change_metadata(move |controller, _, _| match controller.allocate_producer_ids(node, broker_epoch) {
                Ok(Decision { records, reply }) => Decision { records, reply: Ok(reply) },
                Err(error) => Decision { records: Vec::new(), reply: Err(error) },
            });
        let block = decided.await??;
        self.state.producer_ids.refill(block.first.0..block.first.0 + block.length);
        Ok(())
    }
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
