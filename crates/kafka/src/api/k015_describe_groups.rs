//! DescribeGroups (15), versions 0-6: state and members of groups. v3: authorized operations. v4: instance ids.
//! v5: flexible. v6: a group that does not exist is GROUP_ID_NOT_FOUND; before, it is a group in state Dead.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_coordinator::{DescribedGroup as Described, GroupError, GroupState};
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::DescribeGroupsRequest;
use mainstem_kafka_wire::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use crate::authorized::{self, operations};
use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_error_code;
use crate::request::Request;

pub const API: Api = Api::new(15, "DescribeGroups", 0..=6, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeGroupsRequest<'_> = request.decode()?;
    let operations = operations(message.include_authorized_operations, authorized::GROUP);
    // A group that is named over and over is described once: the answer is not larger than what there is to tell.
    let mut seen = HashSet::with_capacity(message.groups.len());
    let distinct = message.groups.iter().map(Cow::as_ref).filter(|group_id| seen.insert(*group_id));
    let groups = distinct.map(|group_id| {
        let described = door.broker.consumer_groups().describe(group_id);
        let mut group = describe(group_id, described, request.version);
        if group.error_code == 0 {
            group.authorized_operations = operations;
        }
        group
    });
    let groups = groups.collect();
    Ok(Handled::Ready(request.reply(&DescribeGroupsResponse { groups, ..Default::default() })))
}

fn describe<'g>(group_id: &'g str, described: Result<Described, GroupError>, version: i16) -> DescribedGroup<'g> {
    let group_id = Cow::Borrowed(group_id);
    let dead = Cow::Borrowed(GroupState::Dead.name());
    match described {
        Ok(group) => DescribedGroup {
            group_id,
            group_state: Cow::Borrowed(group.state.name()),
            protocol_type: Cow::Owned(group.protocol_type.as_ref().to_owned()),
            protocol_data: Cow::Owned(group.protocol_name.as_ref().to_owned()),
            members: group.members.into_iter().map(member).collect(),
            ..Default::default()
        },
        Err(GroupError::GroupIdNotFound) if version < 6 => {
            DescribedGroup { group_id, group_state: dead, ..Default::default() }
        }
        Err(GroupError::GroupIdNotFound) => DescribedGroup {
            error_message: Some(Cow::Owned(format!("Group {group_id} not found."))),
            error_code: ErrorCode::GROUP_ID_NOT_FOUND.0,
            group_id,
            group_state: dead,
            ..Default::default()
        },
        Err(error) => DescribedGroup {
            error_code: group_error_code(&error).0,
            error_message: (version >= 6).then(|| Cow::Owned(error.to_string())),
            group_id,
            ..Default::default()
        },
    }
}

fn member(member: mainstem_coordinator::DescribedMember) -> DescribedGroupMember<'static> {
    let text = |text: &std::sync::Arc<str>| Cow::Owned(text.as_ref().to_owned());
    DescribedGroupMember {
        member_id: text(&member.member_id),
        group_instance_id: member.instance_id.as_ref().map(text),
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        member_metadata: Cow::Owned(member.metadata.to_vec()),
        member_assignment: Cow::Owned(member.assignment.to_vec()),
    }
}
