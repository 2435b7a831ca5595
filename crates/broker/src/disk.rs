//! The data folder as administration sees it.

use std::path::PathBuf;

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

impl Broker {
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
