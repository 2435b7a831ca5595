//! FindCoordinator (10), versions 0-6: which broker coordinates a group. v3: flexible. v4: several keys in one request,
//! another shape of the answer. v6: share groups.
//!
//! - As long as the offsets topic does not exist it is created, and the answer is COORDINATOR_NOT_AVAILABLE: clients
//!   retry.
//! - Transactions and share groups have no coordinator here: INVALID_REQUEST with the reason.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::Endpoint;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FindCoordinatorRequest;
use mainstem_kafka_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(10, "FindCoordinator", 0..=6, handle);

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: FindCoordinatorRequest<'_> = request.decode()?;
    let endpoint = door.broker.endpoint(&connection.info.listener);
    let keys = if request.version >= 4 { message.coordinator_keys } else { vec![message.key] };
    let keys: Vec<Cow<'static, str>> = keys.into_iter().map(|key| Cow::Owned(key.into_owned())).collect();
    let key_type = message.key_type;
    if key_type != GROUP || door.broker.consumer_groups().is_available() {
        return Ok(Handled::Ready(answer(&request, keys, |key| find(key, key_type, &endpoint))));
    }
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        if let Err(error) = broker.create_offsets_topic().await {
            tracing::warn!("cannot create the offsets topic: {error}");
        }
        let message = "The offsets topic was not there yet; try again.";
        answer(&request, keys, |key| refused(key, ErrorCode::COORDINATOR_NOT_AVAILABLE, message))
    }))
}

fn find(key: Cow<'static, str>, key_type: i8, endpoint: &Endpoint) -> Coordinator<'static> {
    match key_type {
        GROUP => Coordinator {
            key,
            node_id: endpoint.node.0,
            host: Cow::Owned(endpoint.host.as_ref().to_owned()),
            port: i32::from(endpoint.port),
            ..Default::default()
        },
        TRANSACTION => refused(key, ErrorCode::INVALID_REQUEST, "This broker has no transactions."),
        _ => refused(key, ErrorCode::INVALID_REQUEST, "This broker has no coordinator of that type."),
    }
}

fn refused(key: Cow<'static, str>, error: ErrorCode, message: &'static str) -> Coordinator<'static> {
    Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code: error.0,
        error_message: Some(Cow::Borrowed(message)),
        ..Default::default()
    }
}

/// The answer in the shape of the request's version.
fn answer(
    request: &Request,
    keys: Vec<Cow<'static, str>>,
    find: impl Fn(Cow<'static, str>) -> Coordinator<'static>,
) -> Reply {
    let mut coordinators: Vec<_> = keys.into_iter().map(find).collect();
    // Without an error Kafka says so rather than null: with an empty text, and before version 4 with a word.
    let no_error = if request.version >= 4 { "" } else { "NONE" };
    for coordinator in coordinators.iter_mut().filter(|coordinator| coordinator.error_code == 0) {
        coordinator.error_message = Some(Cow::Borrowed(no_error));
    }
    if request.version >= 4 {
        return request.reply(&FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let one = coordinators.pop().unwrap_or_default();
    request.reply(&FindCoordinatorResponse {
        error_code: one.error_code,
        error_message: one.error_message,
        node_id: one.node_id,
        host: one.host,
        port: one.port,
        ..Default::default()
    })
}
