//! DeleteTopics (20), versions 1-6: by name, from version 6 on by name or id.
//!
//! - v3: TOPIC_DELETION_DISABLED instead of INVALID_REQUEST when `delete.topic.enable` is false. v4: flexible. v5:
//!   error messages. v6: topic ids.
//! - A topic that the request names more than once, whether by name, by id or by both, is not deleted.
//! - A deleted topic is gone when the answer leaves: its name is free, a new topic under it has a new id.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::ControllerError;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::delete_topics_request::DeleteTopicsRequest;
use mainstem_kafka_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use mainstem_metadata::controller::{DeleteTopicError, DeletedTopic, TopicRef};
use mainstem_types::TopicId;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{controller_error_code, delete_topic_error_code};
use crate::request::Request;

pub const API: Api = Api::new(20, "DeleteTopics", 1..=6, handle);

type Deleted = Result<Vec<Result<DeletedTopic, DeleteTopicError>>, ControllerError>;

/// The topics of a request: those that can be tried, and those that cannot.
#[derive(Default)]
struct Asked {
    topics: Vec<TopicRef>,
    refused: Vec<DeletableTopicResult<'static>>,
}

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DeleteTopicsRequest<'_> = request.decode()?;
    let asked = asked(message);
    if !door.broker.config().topics.delete_enable {
        let disabled = vec![Err(DeleteTopicError::Disabled); asked.topics.len()];
        return Ok(Handled::Ready(answer(&request, asked, Ok(disabled))));
    }
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let deleted = broker.delete_topics(asked.topics.clone()).await;
        answer(&request, asked, deleted)
    }))
}

fn asked(message: DeleteTopicsRequest<'_>) -> Asked {
    let mut asked = Asked::default();
    let mut wanted: Vec<TopicRef> =
        message.topic_names.into_iter().map(|name| TopicRef::Name(name.into_owned())).collect();
    for topic in message.topics {
        let name = topic.name.map(Cow::into_owned);
        match (name, topic.topic_id) {
            (Some(name), TopicId::ZERO) => wanted.push(TopicRef::Name(name)),
            (None, TopicId::ZERO) => {
                asked.refused.push(invalid(None, TopicId::ZERO, "Neither a name nor an id of a topic was given."));
            }
            (None, id) => wanted.push(TopicRef::Id(id)),
            (Some(name), id) => {
                asked.refused.push(invalid(
                    Some(name),
                    id,
                    "A topic is named either by its name or by its id, not by both.",
                ));
            }
        }
    }
    let (mut seen, mut twice) = (HashSet::new(), HashSet::new());
    for topic in &wanted {
        if seen.insert(topic) || !twice.insert(topic.clone()) {
            continue;
        }
        asked.refused.push(match topic {
            TopicRef::Name(name) => invalid(Some(name.clone()), TopicId::ZERO, "Duplicate topic name."),
            TopicRef::Id(id) => invalid(None, *id, "Duplicate topic id."),
        });
    }
    wanted.retain(|topic| !twice.contains(topic));
    asked.topics = wanted;
    asked
}

fn invalid(name: Option<String>, topic_id: TopicId, message: &'static str) -> DeletableTopicResult<'static> {
    let error_message = Some(Cow::Borrowed(message));
    DeletableTopicResult {
        name: name.map(Cow::Owned),
        topic_id,
        error_code: ErrorCode::INVALID_REQUEST.0,
        error_message,
    }
}

fn answer(request: &Request, asked: Asked, deleted: Deleted) -> Reply {
    let mut responses = Vec::with_capacity(asked.topics.len() + asked.refused.len());
    match deleted {
        Ok(results) => {
            let one = |(topic, result)| match result {
                Ok(DeletedTopic { id, name }) => DeletableTopicResult {
                    name: Some(Cow::Owned(name)),
                    topic_id: id,
                    error_code: 0,
                    error_message: None,
                },
                Err(error) => refused(topic, delete_topic_error_code(&error, request.version), error.to_string()),
            };
            responses.extend(asked.topics.into_iter().zip(results).map(one));
        }
        Err(error) => {
            let code = controller_error_code(&error);
            responses.extend(asked.topics.into_iter().map(|topic| refused(topic, code, error.to_string())));
        }
    }
    responses.extend(asked.refused);
    request.reply(&DeleteTopicsResponse { responses, ..Default::default() })
}

fn refused(topic: TopicRef, error: ErrorCode, message: String) -> DeletableTopicResult<'static> {
    let (name, topic_id) = match topic {
        TopicRef::Name(name) => (Some(Cow::Owned(name)), TopicId::ZERO),
        TopicRef::Id(id) => (None, id),
    };
    DeletableTopicResult { name, topic_id, error_code: error.0, error_message: Some(Cow::Owned(message)) }
}

#[cfg(test)]
#[path = "k020_delete_topics_tests.rs"]
mod tests;
