//! ListGroups (16), versions 0-5: all groups of this coordinator. v3: flexible. v4: filter by state. v5: filter by
//! type.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::messages::ListGroupsRequest;
use mainstem_kafka_wire::messages::list_groups_response::{ListGroupsResponse, ListedGroup};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_error_code;
use crate::request::Request;

pub const API: Api = Api::new(16, "ListGroups", 0..=5, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: ListGroupsRequest<'_> = request.decode()?;
    let states: Vec<&str> = message.states_filter.iter().map(AsRef::as_ref).collect();
    let types: Vec<&str> = message.types_filter.iter().map(AsRef::as_ref).collect();
    let response = match door.broker.consumer_groups().list(&states, &types) {
        Ok(groups) => {
            let groups = groups.iter().map(|group| ListedGroup {
                group_id: Cow::Owned(group.group_id.as_ref().to_owned()),
                protocol_type: Cow::Owned(group.protocol_type.as_ref().to_owned()),
                group_state: Cow::Borrowed(group.state.name()),
                group_type: Cow::Borrowed(group.group_type.name()),
            });
            ListGroupsResponse { groups: groups.collect(), ..Default::default() }
        }
        Err(error) => ListGroupsResponse { error_code: group_error_code(&error).0, ..Default::default() },
    };
    Ok(Handled::Ready(request.reply(&response)))
}
