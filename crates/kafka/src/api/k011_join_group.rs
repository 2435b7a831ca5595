//! JoinGroup (11), versions 0-9: a member asks to be part of a group's next generation.
//!
//! - v1: rebalance timeout. v4: a new member is told its id first (KIP-394). v5: static members (KIP-345). v6:
//!   flexible. v7: protocol type, nullable names. v8: reason. v9: a returning static leader may skip the assignment.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_coordinator::{GroupError, JoinGroupRequest as Join, JoinProtocol, JoinedGroup};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::messages::JoinGroupRequest;
use mainstem_kafka_wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_error_code;
use crate::request::Request;

pub const API: Api = Api::new(11, "JoinGroup", 0..=9, handle);

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: JoinGroupRequest<'_> = request.decode()?;
    let client_host = connection.client_host();
    let protocols = message.protocols.iter().map(|p| JoinProtocol { name: &p.name, metadata: &p.metadata });
    let join = Join {
        group_id: &message.group_id,
        member_id: &message.member_id,
        instance_id: message.group_instance_id.as_deref(),
        client_id: request.client_id.as_deref().unwrap_or_default(),
        client_host: &client_host,
        session_timeout_ms: message.session_timeout_ms,
        rebalance_timeout_ms: message.rebalance_timeout_ms,
        protocol_type: &message.protocol_type,
        protocols: protocols.collect(),
        requires_known_member_id: request.version >= 4,
        supports_skipping_assignment: request.version >= 9,
        member_uuid: door.broker.random_bytes(),
    };
    let answer = door.broker.consumer_groups().join(&join);
    let member_id = message.member_id.as_ref().to_owned();
    drop(message);
    Ok(Handled::polling(async move {
        match answer.wait().await {
            Ok(joined) => reply_joined(&request, &joined),
            Err(error) => reply_error(&request, &member_id, &error),
        }
    }))
}

/// Null names exist from version 7 on; before, they are empty.
fn name(request: &Request, name: Option<&Arc<str>>) -> Option<Cow<'static, str>> {
    match name {
        Some(name) => Some(Cow::Owned(name.as_ref().to_owned())),
        None if request.version >= 7 => None,
        None => Some(Cow::Borrowed("")),
    }
}

fn reply_joined(request: &Request, joined: &JoinedGroup) -> Reply {
    let members = joined.members.iter().map(|member| JoinGroupResponseMember {
        member_id: Cow::Borrowed(member.member_id.as_ref()),
        group_instance_id: member.instance_id.as_deref().map(Cow::Borrowed),
        metadata: Cow::Borrowed(member.metadata.as_ref()),
    });
    request.reply(&JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.as_deref().map(Cow::Borrowed),
        protocol_name: name(request, joined.protocol_name.as_ref()),
        leader: Cow::Borrowed(joined.leader.as_ref()),
        skip_assignment: joined.skip_assignment,
        member_id: Cow::Borrowed(joined.member_id.as_ref()),
        members: members.collect(),
        ..Default::default()
    })
}

fn reply_error(request: &Request, member_id: &str, error: &GroupError) -> Reply {
    let member_id = match error {
        GroupError::MemberIdRequired { member_id } => member_id,
        _ => member_id,
    };
    request.reply(&JoinGroupResponse {
        error_code: group_error_code(error).0,
        protocol_name: name(request, None),
        member_id: Cow::Borrowed(member_id),
        ..Default::default()
    })
}
