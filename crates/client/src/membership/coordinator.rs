//! The connection of a membership to its group's coordinator, wherever that is.

use std::sync::Arc;

use mainstem_kafka_wire::ErrorCode;

use crate::client::Client;
use crate::connection::Connection;
use crate::error::ClientError;

/// Shared by the member and its heartbeats.
#[derive(Clone)]
pub(super) struct CoordinatorLink {
    client: Client,
    group: Arc<str>,
    connection: Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>,
}

impl CoordinatorLink {
    pub fn new(client: Client, group: String) -> CoordinatorLink {
        CoordinatorLink { client, group: group.into(), connection: Arc::default() }
    }

    /// The connection, which is made if need be.
    pub async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        let mut slot = self.connection.lock().await;
        if let Some(open) = slot.as_ref().filter(|one| one.is_open()) {
            return Ok(open.clone());
        }
        let coordinator = self.client.coordinator(&self.group).await?;
        let opened = Arc::new(Connection::open(&coordinator.address(), self.client.config()).await?);
        *slot = Some(opened.clone());
        Ok(opened)
    }

    pub async fn forget(&self) {
        *self.connection.lock().await = None;
    }

    /// Forgets the connection if the error says that the coordinator may be elsewhere. True: the same may succeed
    /// later.
    pub async fn doubt(&self, error: &ClientError) -> bool {
        let moved = match error.code() {
            Some(code) => [
                ErrorCode::NOT_COORDINATOR,
                ErrorCode::COORDINATOR_NOT_AVAILABLE,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode::REQUEST_TIMED_OUT,
            ]
            .contains(&code),
            None => error.is_retriable(),
        };
        if moved {
            self.forget().await;
        }
        moved
    }
}
