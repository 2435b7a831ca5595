//! DeleteGroups (42), versions 0-3: removes empty groups with their offsets. v2: flexible. v3: a message for errors
//! that need one. The errors of classic groups need none.
//!
//! - A group with members gets NON_EMPTY_GROUP. An absent group gets GROUP_ID_NOT_FOUND.
//! - A deleted group stays deleted: the answer leaves when its records are committed.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::Answer;
use mainstem_coordinator::GroupError;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::messages::DeleteGroupsRequest;
use mainstem_kafka_wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_result_code;
use crate::request::Request;

pub const API: Api = Api::new(42, "DeleteGroups", 0..=3, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DeleteGroupsRequest<'_> = request.decode()?;
    let mut asked: Vec<(String, Answer<()>)> = Vec::with_capacity(message.groups_names.len());
    for group in &message.groups_names {
        // A name that stands there twice is deleted once, and answered once.
        if asked.iter().all(|(name, _)| name.as_str() != group.as_ref()) {
            asked.push((group.as_ref().to_owned(), door.broker.consumer_groups().delete(group)));
        }
    }
    drop(message);
    Ok(Handled::working(async move {
        let mut results = Vec::with_capacity(asked.len());
        for (group, answer) in asked {
            results.push((group, answer.wait().await));
        }
        reply(&request, &results)
    }))
}

fn reply(request: &Request, results: &[(String, Result<(), GroupError>)]) -> Reply {
    let results = results.iter().map(|(group, result)| DeletableGroupResult {
        group_id: Cow::Borrowed(group),
        error_code: group_result_code(result).0,
        error_message: None,
    });
    request.reply(&DeleteGroupsResponse { results: results.collect(), ..Default::default() })
}

#[cfg(test)]
#[path = "k042_delete_groups_tests.rs"]
mod tests;
