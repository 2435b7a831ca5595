//! Consumer groups from outside: list, describe, delete; their committed offsets. Joining one is in `membership`.
//!
//! A request about one group goes to its coordinator. The client looks up the coordinator each time, because these
//! calls are rare.

mod coordinator;
mod describe;
mod offsets;

use std::collections::BTreeMap;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse};
use mainstem_types::NodeId;

use super::ByName;
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::Attempts;

pub use describe::{GroupDescription, GroupMember};
pub use offsets::CommittedOffset;
pub(crate) use offsets::{commit_request, read_commit};

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    pub group: String,
    /// `consumer` for consumers; empty when nobody has joined yet, and for groups that only store offsets.
    pub protocol_type: String,
    /// `None` from brokers before Kafka 2.6.
    pub state: Option<String>,
    /// `classic`, `consumer`, `share` or `streams`; `None` from brokers before Kafka 3.8.
    pub kind: Option<String>,
    pub coordinator: NodeId,
}

impl Client {
    /// The groups of all brokers, by name.
    pub async fn list_groups(&self) -> Result<Vec<ListedGroup>, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            match self.list_groups_once().await {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => return other,
            }
        }
    }

    async fn list_groups_once(&self) -> Result<Vec<ListedGroup>, ClientError> {
        let mut groups = BTreeMap::new();
        for broker in self.live_brokers().await? {
            for group in self.list_groups_of(broker.node).await? {
                groups.insert(group.group.clone(), group);
            }
        }
        Ok(groups.into_values().collect())
    }

    async fn list_groups_of(&self, node: NodeId) -> Result<Vec<ListedGroup>, ClientError> {
        let response = self.node(node).await?.call(&ListGroupsRequest::default()).await?;
        let answer: ListGroupsResponse<'_> = response.decode()?;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return Err(ClientError::of_broker("ListGroups", format!("broker {node}"), code, None));
        }
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let groups = answer.groups.iter().map(|group| ListedGroup {
            group: group.group_id.to_string(),
            protocol_type: group.protocol_type.to_string(),
            state: told(&group.group_state),
            kind: told(&group.group_type).map(|kind| kind.to_lowercase()),
            coordinator: node,
        });
        Ok(groups.collect())
    }

    /// Deletes groups with all their offsets. A group that has members is refused with NON_EMPTY_GROUP.
    pub async fn delete_groups(&self, groups: &[&str]) -> Result<ByName<()>, ClientError> {
        let mut results = Vec::with_capacity(groups.len());
        for &group in groups {
            let request = |_| DeleteGroupsRequest { groups_names: vec![group.into()] };
            let deleted = self.ask_coordinator(group, request, |response| {
                let answer: DeleteGroupsResponse<'_> = response.decode()?;
                let result = answer.results.iter().find(|result| result.group_id == group);
                let result = result.ok_or_else(|| response.missing(format!("group {group}")))?;
                of_group("DeleteGroups", group, result.error_code, result.error_message.as_deref())
            });
            results.push((group.to_owned(), deleted.await));
        }
        Ok(results)
    }
}

/// The coordinator's error for the group as a whole.
fn of_group(api: &'static str, group: &str, code: i16, message: Option<&str>) -> Result<(), ClientError> {
    match ErrorCode(code) {
        ErrorCode::NONE => Ok(()),
        code => Err(ClientError::of_broker(api, format!("group {group}"), code, message)),
    }
}
