//! Create, list, describe, delete topics; add partitions.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_kafka_wire::ApiKey;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::create_partitions_request::CreatePartitionsTopic;
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use mainstem_kafka_wire::messages::delete_topics_request::DeleteTopicState;
use mainstem_kafka_wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse,
};
use mainstem_types::TopicId;

use super::ByName;
use crate::client::Client;
use crate::connection::Response;
use crate::error::ClientError;
use crate::metadata::Topic;
use crate::retry::Attempts;

/// DeleteTopics names topics in this way from this version on.
const DELETE_TOPICS_BY_STATE: i16 = 6;

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewTopic {
    pub name: String,
    /// `None` is the broker's `num.partitions`.
    pub partitions: Option<i32>,
    /// `None` is the broker's `default.replication.factor`.
    pub replication_factor: Option<i16>,
    /// Settings that differ from the broker's.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    pub fn new(name: &str) -> Self {
        NewTopic { name: name.to_owned(), ..Default::default() }
    }

    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.configs.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// The new topic as the broker made it. Old brokers leave out the numbers (−1) and the id (zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTopic {
    pub id: TopicId,
    pub partitions: i32,
    pub replication_factor: i16,
}

impl Client {
    /// Creates topics. With `validate_only` nothing is created and the same errors come.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<ByName<CreatedTopic>, ClientError> {
        let creatable = |topic: &NewTopic| CreatableTopic {
            name: topic.name.clone().into(),
            num_partitions: topic.partitions.unwrap_or(-1),
            replication_factor: topic.replication_factor.unwrap_or(-1),
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| CreatableTopicConfig {
                    name: name.clone().into(),
                    value: Some(value.clone().into()),
                })
                .collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: topics.iter().map(creatable).collect(),
            timeout_ms: self.timeout_ms(),
            validate_only,
        };
        self.ask_controller(&request, |response| {
            let answer: CreateTopicsResponse<'_> = response.decode()?;
            let results = answer.topics.iter().map(|topic| {
                let created = CreatedTopic {
                    id: topic.topic_id,
                    partitions: topic.num_partitions,
                    replication_factor: topic.replication_factor,
                };
                (topic.name.as_ref(), topic.error_code, topic.error_message.as_deref(), created)
            });
            in_order("CreateTopics", response, topics.iter().map(|topic| &*topic.name), results)
        })
        .await
    }

    /// Deletes topics by name.
    pub async fn delete_topics(&self, names: &[&str]) -> Result<ByName<()>, ClientError> {
        let version = self.controller().await?.version(ApiKey::DELETE_TOPICS)?;
        let mut request = DeleteTopicsRequest { timeout_ms: self.timeout_ms(), ..Default::default() };
        if version >= DELETE_TOPICS_BY_STATE {
            let state = |name: &&str| DeleteTopicState { name: Some(name.to_string().into()), ..Default::default() };
            request.topics = names.iter().map(state).collect();
        } else {
            request.topic_names = names.iter().map(|name| name.to_string().into()).collect();
        }
        let deleted = self.ask_controller(&request, |response| {
            let answer: DeleteTopicsResponse<'_> = response.decode()?;
            let results = answer.responses.iter().map(|topic| {
                let name = topic.name.as_deref().unwrap_or_default();
                (name, topic.error_code, topic.error_message.as_deref(), ())
            });
            in_order("DeleteTopics", response, names.iter().copied(), results)
        });
        let deleted = deleted.await?;
        deleted.iter().for_each(|(name, _)| self.forget_topic(name));
        Ok(deleted)
    }

    /// Raises the number of partitions of a topic to `count`.
    pub async fn create_partitions(&self, name: &str, count: i32, validate_only: bool) -> Result<(), ClientError> {
        let topic = CreatePartitionsTopic { name: name.into(), count, assignments: None };
        let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms: self.timeout_ms(), validate_only };
        let results = self.ask_controller(&request, |response| {
            let answer: CreatePartitionsResponse<'_> = response.decode()?;
            let results = answer
                .results
                .iter()
                .map(|topic| (topic.name.as_ref(), topic.error_code, topic.error_message.as_deref(), ()));
            in_order("CreatePartitions", response, std::iter::once(name), results)
        });
        let results = results.await?;
        self.forget_topic(name);
        results.into_iter().try_for_each(|(_, result)| result)
    }

    /// All topics, by name; Kafka's own among them only on request.
    pub async fn list_topics(&self, include_internal: bool) -> Result<Vec<Arc<Topic>>, ClientError> {
        let mut attempts = Attempts::new(self.config());
        let all = loop {
            match self.fetch_all_topics().await {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => break other?,
            }
        };
        let mut topics: Vec<_> = all.into_iter().filter_map(|(_, topic)| topic.ok()).collect();
        topics.retain(|topic| include_internal || !topic.is_internal);
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// The present metadata of some topics.
    pub async fn describe_topics(&self, names: &[&str]) -> Result<ByName<Arc<Topic>>, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            match self.fetch_topics(names).await {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => return other,
            }
        }
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(self.config().request_timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Puts a broker's results into the order of the names that were asked for.
///
/// An error that passes and concerns the request as a whole (a controller that has moved) is the error of all.
fn in_order<'a, T>(
    api: &'static str,
    response: &Response,
    names: impl Iterator<Item = &'a str>,
    results: impl Iterator<Item = (&'a str, i16, Option<&'a str>, T)>,
) -> Result<ByName<T>, ClientError> {
    let mut by_name = HashMap::new();
    for (name, code, message, value) in results {
        let code = ErrorCode(code);
        let error = || ClientError::of_broker(api, format!("topic {name}"), code, message);
        if matches!(code, ErrorCode::NOT_CONTROLLER | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            return Err(error());
        }
        by_name.insert(name, if code.is_error() { Err(error()) } else { Ok(value) });
    }
    let ordered = names.map(|name| {
        let result = by_name.remove(name).unwrap_or_else(|| Err(response.missing(format!("topic {name}"))));
        (name.to_owned(), result)
    });
    Ok(ordered.collect())
}
