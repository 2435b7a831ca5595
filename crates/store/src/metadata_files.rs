//! What lies beside the metadata log in `__cluster_metadata-0`: snapshots and `quorum-state`.

use bytes::Bytes;
use mainstem_env::Fs;
use mainstem_types::{LeaderEpoch, Offset};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OpenError;
use crate::formats::quorum_state::QuorumState;
use crate::small_file::Loaded;

/// A snapshot covers every record below `end`; `epoch` is that of the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    pub end: Offset,
    pub epoch: LeaderEpoch,
}

/// The folder's files that are not the log.
#[derive(Debug, Clone)]
pub struct MetadataFiles {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
}

impl MetadataFiles {
    pub fn new(fs: Arc<dyn Fs>, folder: &Path) -> Self {
        MetadataFiles { fs, folder: folder.to_owned() }
    }

    /// Snapshots, oldest first. Removes leftovers (`.part`, `.deleted`).
    pub fn snapshots(&self) -> Result<Vec<SnapshotId>, OpenError> {
        todo!("{:?} {:?}", self.fs, self.folder)
    }

    /// Writes a snapshot from whole batches (header control batch first, footer control batch last): temporary file, fsync, rename,
    /// fsync of the folder.
    pub fn write_snapshot(&self, id: SnapshotId, batches: &[Bytes]) -> Result<(), OpenError> {
        todo!("{id:?} {}", batches.len())
    }

    /// The newest snapshot whose batches all have the right checksum, and its bytes. Damaged newer ones are left where they are and
    /// passed over.
    pub fn newest_valid_snapshot(&self) -> Result<Option<(SnapshotId, Bytes)>, OpenError> {
        todo!()
    }

    /// Removes snapshots older than `keep`.
    pub fn remove_snapshots_before(&self, keep: SnapshotId) -> Result<usize, OpenError> {
        todo!("{keep:?}")
    }

    pub fn quorum_state(&self) -> Result<Loaded<QuorumState>, OpenError> {
        todo!()
    }

    /// Durable when it returns.
    pub fn write_quorum_state(&self, state: &QuorumState) -> Result<(), OpenError> {
        todo!("{state:?}")
    }
}
