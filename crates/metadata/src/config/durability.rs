//! `mainstem.durability`: when a record counts as stored, and which topics may leave it in memory.

use mainstem_types::{CLUSTER_METADATA_TOPIC, is_internal_topic};

use super::ConfigError;

/// The setting, of topics and of the broker.
pub const DURABILITY: &str = "mainstem.durability";
/// Allows `memory` where there is no second replica that has the record.
pub(super) const FORCE: &str = "mainstem.memory.force";

/// `mainstem.durability`: when a record counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// In the page cache: survives a killed process.
    #[default]
    Os,
    /// After fdatasync.
    Disk,
    /// In the memory of the broker, which writes it to the page cache soon afterwards.
    Memory,
}

impl Durability {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "disk" => Durability::Disk,
            "memory" => Durability::Memory,
            _ => Durability::Os,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Durability::Os => "os",
            Durability::Disk => "disk",
            Durability::Memory => "memory",
        }
    }

    /// What an acknowledgement is worth, for people. The numbers are those of the journal.
    pub fn exposure(self) -> &'static str {
        match self {
            Durability::Os => {
                "an acknowledged record is in the page cache: it survives a killed broker, but not a power cut before the system has written it to the disk"
            }
            Durability::Disk => "an acknowledged record is on the disk",
            Durability::Memory => {
                "an acknowledged record is only in the broker's memory for about 10 ms: a killed broker loses up to 256 KiB of acknowledged records of each log; a power cut loses all that the system has not written to the disk yet"
            }
        }
    }
}

/// Topics of the broker itself: their records were promised to clients.
pub(super) fn is_never_in_memory(topic: &str) -> bool {
    is_internal_topic(topic) || topic == CLUSTER_METADATA_TOPIC
}

/// Whether the broker may have this default while `mainstem.memory.force` is what it is.
pub(super) fn check_default(value: Option<&str>, forced: bool) -> Result<(), ConfigError> {
    match value.map(str::trim) {
        Some("memory") if !forced => Err(refused(not_forced())),
        _ => Ok(()),
    }
}

pub(super) fn refused(reason: String) -> ConfigError {
    ConfigError::Conflict { key: DURABILITY.to_string(), value: "memory".to_string(), reason }
}

pub(super) fn not_forced() -> String {
    format!("with one replica {}; to accept this, start the broker with {FORCE}=true", Durability::Memory.exposure())
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;
