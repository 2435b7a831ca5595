//! What opening the logs of a folder found and did.

use mainstem_store::LogRecovery;

/// For the report of the start.
#[derive(Debug, Default)]
pub(crate) struct OpenReport {
    pub recovery: LogRecovery,
    pub parked: Vec<String>,
    pub failed: Vec<String>,
    pub in_memory: Vec<String>,
}
