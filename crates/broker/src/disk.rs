//! The data folder and the metadata log as administration sees them.

use std::path::PathBuf;

use mainstem_types::{LeaderEpoch, Offset};

use crate::broker::Broker;

/// The data folder and the file system that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Absolute.
    pub folder: PathBuf,
    /// Used or not; `None` where that cannot be known.
    pub total_bytes: Option<u64>,
    /// What can still be written.
    pub usable_bytes: Option<u64>,
}

/// How far the log of the metadata is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataLogState {
    pub term: LeaderEpoch,
    /// Everything below is durable.
    pub high_watermark: Offset,
    pub log_end: Offset,
}

impl Broker {
    pub fn metadata_log(&self) -> MetadataLogState {
        let log = &self.state.metadata_log;
        let term = log.latest_epoch().map_or(LeaderEpoch::NONE, |latest| latest.epoch);
        let positions = log.positions();
        MetadataLogState { term, high_watermark: positions.durable_end, log_end: positions.log_end }
    }

    /// Where this node keeps everything, as an absolute path.
    pub fn data_folder(&self) -> PathBuf {
        let folder = self.state.folder.path();
        std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
    }

    /// Asks the file system: not for a reactor.
    pub fn disk(&self) -> Disk {
        let folder = &self.state.folder;
        Disk {
            folder: self.data_folder(),
            total_bytes: folder.total_space().ok(),
            usable_bytes: folder.free_space().ok(),
        }
    }
}
