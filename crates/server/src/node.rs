//! The node of this release: Kafka's door over the broker.

use mainstem_metadata::config::BrokerConfig;

use crate::server::{RunningServer, Server, StartError};

impl Server {
    /// Starts a node: binds, opens the data folder, recovers, and begins to accept.
    pub fn start(config: BrokerConfig) -> Result<RunningServer, StartError> {
        let _ = config;
        Err(StartError::Open("the broker cannot be opened yet".into()))
    }
}
