//! CreatePartitions (37), versions 0-3: more partitions for existing topics. v2: flexible. v3: as v2.
//!
//! - `count` is the new total. Fewer or as many as there are: INVALID_PARTITIONS.
//! - What the answer says was added can be written and read at once, so `timeout_ms` has nothing to limit.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::{Broker, ControllerError};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use mainstem_kafka_wire::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use mainstem_metadata::controller::{CreatePartitionsError, NewPartitions};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{controller_error_code, create_partitions_error_code, unserved_error};
use crate::request::Request;

pub const API: Api = Api::new(37, "CreatePartitions", 0..=3, handle);

type Created = Result<Vec<Result<i32, CreatePartitionsError>>, ControllerError>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: CreatePartitionsRequest<'_> = request.decode()?;
    let validate_only = message.validate_only;
    let topics: Vec<NewPartitions> = message.topics.into_iter().map(new_partitions).collect();
    let names: Vec<String> = topics.iter().map(|topic| topic.topic.clone()).collect();
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let created = broker.create_partitions(topics, validate_only).await;
        answer(&request, &names, created, &broker)
    }))
}

fn new_partitions(topic: CreatePartitionsTopic<'_>) -> NewPartitions {
    let assignments = topic.assignments.map(|all| all.into_iter().map(|placed| placed.broker_ids).collect());
    NewPartitions { topic: topic.name.into_owned(), count: topic.count, assignments }
}

fn answer(request: &Request, names: &[String], created: Created, broker: &Broker) -> Reply {
    // A name that the request has twice is refused once.
    let mut seen = HashSet::new();
    let results = match created {
        Ok(results) => {
            let distinct = names.iter().zip(results).filter(|(name, _)| seen.insert(name.as_str()));
            distinct.map(|(name, result)| result_of(name, result, broker)).collect()
        }
        Err(error) => {
            let code = controller_error_code(&error);
            let distinct = names.iter().filter(|name| seen.insert(name.as_str()));
            distinct.map(|name| refused(name, code, error.to_string())).collect()
        }
    };
    request.reply(&CreatePartitionsResponse { results, ..Default::default() })
}

fn result_of<'n>(
    name: &'n str,
    result: Result<i32, CreatePartitionsError>,
    broker: &Broker,
) -> CreatePartitionsTopicResult<'n> {
    match result {
        Ok(_) => match unserved_error(broker, name) {
            None => CreatePartitionsTopicResult { name: Cow::Borrowed(name), ..Default::default() },
            Some((code, message)) => refused(name, code, message),
        },
        Err(error) => refused(name, create_partitions_error_code(&error), error.to_string()),
    }
}

fn refused(name: &str, error: ErrorCode, message: String) -> CreatePartitionsTopicResult<'_> {
    let error_message = Some(Cow::Owned(message));
    CreatePartitionsTopicResult { name: Cow::Borrowed(name), error_code: error.0, error_message }
}

#[cfg(test)]
#[path = "k037_create_partitions_tests.rs"]
mod tests;
