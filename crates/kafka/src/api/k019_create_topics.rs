//! CreateTopics (19), versions 2-7: any number of topics, one result each.
//!
//! - v4: -1 for the partitions and the replication factor asks for the broker's defaults (KIP-464). v5: flexible, the
//!   answer shows the counts and all settings (KIP-525). v7: the topic's id.
//! - What the answer says was created can be written and read at once, so `timeout_ms` has nothing to limit.
//! - `validate_only` checks everything and creates nothing.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::{Broker, ControllerError};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use mainstem_kafka_wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use mainstem_metadata::config::ConfigEntry;
use mainstem_metadata::controller::{CreateTopicError, CreatedTopic, NewTopic};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{controller_error_code, create_topic_error_code, unserved_error};
use crate::request::Request;

pub const API: Api = Api::new(19, "CreateTopics", 2..=7, handle);

type Created = Result<Vec<Result<CreatedTopic, CreateTopicError>>, ControllerError>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: CreateTopicsRequest<'_> = request.decode()?;
    let validate_only = message.validate_only;
    let topics: Vec<NewTopic> = message.topics.into_iter().map(new_topic).collect();
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let created = broker.create_topics(topics, validate_only).await;
        answer(&request, &names, created, &broker)
    }))
}

fn new_topic(topic: CreatableTopic<'_>) -> NewTopic {
    let config = |(name, value): (Cow<'_, str>, Option<Cow<'_, str>>)| (name.into_owned(), value.map(Cow::into_owned));
    NewTopic {
        name: topic.name.into_owned(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic.assignments.into_iter().map(|placed| (placed.partition_index, placed.broker_ids)).collect(),
        configs: topic.configs.into_iter().map(|set| config((set.name, set.value))).collect(),
    }
}

fn answer(request: &Request, names: &[String], created: Created, broker: &Broker) -> Reply {
    // A name that the request has twice is refused once.
    let mut seen = HashSet::new();
    let topics = match &created {
        Ok(results) => {
            let distinct = names.iter().zip(results).filter(|(name, _)| seen.insert(name.as_str()));
            distinct.map(|(name, result)| result_of(name, result, broker)).collect()
        }
        Err(error) => {
            let code = controller_error_code(error);
            let distinct = names.iter().filter(|name| seen.insert(name.as_str()));
            distinct.map(|name| refused(name, code, error.to_string())).collect()
        }
    };
    request.reply(&CreateTopicsResponse { topics, ..Default::default() })
}

fn result_of<'r>(
    name: &'r str,
    result: &'r Result<CreatedTopic, CreateTopicError>,
    broker: &Broker,
) -> CreatableTopicResult<'r> {
    match result {
        Ok(topic) => match unserved_error(broker, name) {
            None => shown(name, topic),
            Some((code, message)) => refused(name, code, message),
        },
        Err(error) => refused(name, create_topic_error_code(error), error.to_string()),
    }
}

fn refused(name: &str, error: ErrorCode, message: String) -> CreatableTopicResult<'_> {
    CreatableTopicResult {
        name: Cow::Borrowed(name),
        error_code: error.0,
        error_message: Some(Cow::Owned(message)),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}

fn shown<'r>(name: &'r str, topic: &'r CreatedTopic) -> CreatableTopicResult<'r> {
    CreatableTopicResult {
        name: Cow::Borrowed(name),
        topic_id: topic.id,
        error_message: None,
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: Some(topic.configs.iter().map(config).collect()),
        ..Default::default()
    }
}

fn config(entry: &ConfigEntry) -> CreatableTopicConfigs<'_> {
    CreatableTopicConfigs {
        name: Cow::Borrowed(entry.name),
        value: entry.value.as_deref().map(Cow::Borrowed),
        read_only: entry.read_only,
        config_source: entry.source.kafka_id(),
        is_sensitive: entry.sensitive,
    }
}

#[cfg(test)]
#[path = "k019_create_topics_tests.rs"]
mod tests;
