//! LeaveGroup (13), versions 0-5: members leave. v3: several, and static ones by instance id (an administrator removes
//! them so). v4: flexible. v5: reason.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_coordinator::{LeaveGroupRequest as Leave, LeavingMember, LeftMember};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::LeaveGroupRequest;
use mainstem_kafka_wire::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{group_error_code, group_result_code};
use crate::request::Request;

pub const API: Api = Api::new(13, "LeaveGroup", 0..=5, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: LeaveGroupRequest<'_> = request.decode()?;
    let members = if request.version >= 3 {
        message.members.iter().map(leaving).collect()
    } else {
        vec![LeavingMember { member_id: &message.member_id, instance_id: None }]
    };
    let answer = door.broker.consumer_groups().leave(&Leave { group_id: &message.group_id, members });
    drop(message);
    Ok(Handled::working(async move {
        match answer.wait().await {
            Ok(left) => reply(&request, &left),
            Err(error) => {
                request.reply(&LeaveGroupResponse { error_code: group_error_code(&error).0, ..Default::default() })
            }
        }
    }))
}

fn leaving<'m>(
    member: &'m mainstem_kafka_wire::messages::leave_group_request::MemberIdentity<'_>,
) -> LeavingMember<'m> {
    LeavingMember { member_id: &member.member_id, instance_id: member.group_instance_id.as_deref() }
}

fn reply(request: &Request, left: &[LeftMember]) -> Reply {
    if request.version < 3 {
        // The only member's result is the result of the whole request.
        let error = left.first().map_or(ErrorCode::NONE, |member| group_result_code(&member.result));
        return request.reply(&LeaveGroupResponse { error_code: error.0, ..Default::default() });
    }
    let members = left.iter().map(|member| MemberResponse {
        member_id: Cow::Borrowed(member.member_id.as_str()),
        group_instance_id: member.instance_id.as_deref().map(Cow::Borrowed),
        error_code: group_result_code(&member.result).0,
    });
    request.reply(&LeaveGroupResponse { members: members.collect(), ..Default::default() })
}
