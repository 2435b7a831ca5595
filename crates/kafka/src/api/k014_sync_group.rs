//! SyncGroup (14), versions 0-5: the leader hands in the assignment, each member gets its part. v3: static members.
//! v4: flexible. v5: protocol type and name, both needed.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_coordinator::SyncGroupRequest as Sync;
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_error_code;
use crate::request::Request;

pub const API: Api = Api::new(14, "SyncGroup", 0..=5, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: SyncGroupRequest<'_> = request.decode()?;
    if request.version >= 5 && (message.protocol_type.is_none() || message.protocol_name.is_none()) {
        let error_code = ErrorCode::INCONSISTENT_GROUP_PROTOCOL.0;
        return Ok(Handled::Ready(request.reply(&SyncGroupResponse { error_code, ..Default::default() })));
    }
    let assignments = message.assignments.iter().map(|a| (a.member_id.as_ref(), a.assignment.as_ref()));
    let answer = door.broker.consumer_groups().sync(&Sync {
        group_id: &message.group_id,
        generation: message.generation_id,
        member_id: &message.member_id,
        instance_id: message.group_instance_id.as_deref(),
        protocol_type: message.protocol_type.as_deref(),
        protocol_name: message.protocol_name.as_deref(),
        assignments: assignments.collect(),
    });
    drop(message);
    Ok(Handled::polling(async move {
        match answer.wait().await {
            Ok(synced) => request.reply(&SyncGroupResponse {
                protocol_type: synced.protocol_type.as_deref().map(Cow::Borrowed),
                protocol_name: synced.protocol_name.as_deref().map(Cow::Borrowed),
                assignment: Cow::Borrowed(synced.assignment.as_ref()),
                ..Default::default()
            }),
            Err(error) => {
                request.reply(&SyncGroupResponse { error_code: group_error_code(&error).0, ..Default::default() })
            }
        }
    }))
}
