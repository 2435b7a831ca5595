//! Which broker answers for a group.

use mainstem_kafka_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use mainstem_kafka_wire::{ApiKey, Message};
use mainstem_types::NodeId;

use super::of_group;
use crate::client::Client;
use crate::connection::Response;
use crate::error::ClientError;
use crate::metadata::Broker;
use crate::retry::Attempts;

/// FindCoordinator takes a list of groups from this version on.
const FIND_COORDINATORS: i16 = 4;

impl Client {
    /// The broker that coordinates a group, whether the group exists or not.
    pub(crate) async fn coordinator(&self, group: &str) -> Result<Broker, ClientError> {
        const API: &str = "FindCoordinator";
        let connection = self.any_broker().await?;
        let mut request = FindCoordinatorRequest::default();
        let listed = connection.version(ApiKey::FIND_COORDINATOR)? >= FIND_COORDINATORS;
        if listed {
            request.coordinator_keys = vec![group.into()];
        } else {
            request.key = group.into();
        }
        let response = connection.call(&request).await?;
        let answer: FindCoordinatorResponse<'_> = response.decode()?;
        let (node, host, port) = if listed {
            let found = answer.coordinators.iter().find(|one| one.key == group);
            let found = found.ok_or_else(|| response.missing(format!("group {group}")))?;
            of_group(API, group, found.error_code, found.error_message.as_deref())?;
            (found.node_id, found.host.to_string(), found.port)
        } else {
            of_group(API, group, answer.error_code, answer.error_message.as_deref())?;
            (answer.node_id, answer.host.to_string(), answer.port)
        };
        Ok(Broker { node: NodeId(node), host, port, rack: None })
    }

    /// Asks a group's coordinator, again while that fails for reasons that pass. `request` is given the version in
    /// which the API is spoken there.
    pub(crate) async fn ask_coordinator<'r, M: Message<'r>, T>(
        &self,
        group: &str,
        request: impl Fn(i16) -> M,
        check: impl Fn(&Response) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let answer = async {
                let coordinator = self.coordinator(group).await?;
                let connection = self.broker(&coordinator).await?;
                let version = connection.version(ApiKey(M::API_KEY.unwrap_or(-1)))?;
                check(&connection.call(&request(version)).await?)
            };
            match answer.await {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => return other,
            }
        }
    }
}
