//! Heartbeat (12), versions 0-4: a member is alive, and learns whether its group rebalances. v3: static members.
//! v4: flexible.

use std::sync::Arc;

use mainstem_coordinator::HeartbeatRequest as Beat;
use mainstem_door::Handled;
use mainstem_kafka_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_result_code;
use crate::request::Request;

pub const API: Api = Api::new(12, "Heartbeat", 0..=4, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: HeartbeatRequest<'_> = request.decode()?;
    let result = door.broker.consumer_groups().heartbeat(&Beat {
        group_id: &message.group_id,
        generation: message.generation_id,
        member_id: &message.member_id,
        instance_id: message.group_instance_id.as_deref(),
    });
    let error_code = group_result_code(&result).0;
    Ok(Handled::Ready(request.reply(&HeartbeatResponse { error_code, ..Default::default() })))
}
