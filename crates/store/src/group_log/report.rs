//! What opening a group found and did.

use std::path::PathBuf;

use mainstem_journal::RecoveryReport;

/// What opening a group found and did.
#[derive(Debug, Clone, Default)]
pub struct GroupReport {
    /// Of the commit log.
    pub recovery: RecoveryReport,
    /// Bytes that were shown to the views again.
    pub bytes_replayed: u64,
    /// Consume queues and key indexes that were rebuilt, because they were missing or contradicted the checkpoint.
    pub views_rebuilt: usize,
    /// Places inside the commit log that could not be read as entries. Nothing is cut there.
    pub damaged: Vec<String>,
    /// Partitions with records in the commit log that the metadata does not know: of deleted topics, for the most part.
    pub unknown: usize,
    /// Those of them whose records are kept for a while: nothing says that their topics were deleted.
    pub strays: usize,
    /// Checkpoint files that are empty or damaged, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}
