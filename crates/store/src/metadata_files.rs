//! What lies beside the metadata log in `__cluster_metadata-0`: snapshots and `quorum-state`.

use bytes::Bytes;
use mainstem_env::{Fs, OpenOptions};
use mainstem_record::{BatchView, Batches, ControlKind};
use mainstem_types::{LeaderEpoch, Offset};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OpenError;
use crate::formats::names;
use crate::formats::quorum_state::{self, QuorumState};
use crate::partition_log::io_error;
use crate::small_file::{self, Loaded};

const QUORUM_STATE: &str = "quorum-state";
/// Control batches of a snapshot are small; more is not decompressed.
const CONTROL_BYTES_MAX: usize = 1 << 20;

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

    /// Snapshots, oldest first. Removes leftovers of interrupted writes and removals (`.part`, `.deleted`).
    pub fn snapshots(&self) -> Result<Vec<SnapshotId>, OpenError> {
        let entries = self.fs.read_dir(&self.folder).map_err(io_error(&self.folder))?;
        let mut found = Vec::new();
        for name in entries.iter().filter_map(|entry| entry.name.to_str()) {
            let leftover = name.strip_suffix(names::PART).or_else(|| name.strip_suffix(names::DELETED));
            if leftover.is_some_and(|name| names::parse_snapshot_file(name).is_some()) {
                let path = self.folder.join(name);
                self.fs.remove_file(&path).map_err(io_error(&path))?;
            } else if let Some((end, epoch)) = names::parse_snapshot_file(name) {
                found.push(SnapshotId { end, epoch });
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Writes a snapshot from whole batches (header control batch first, footer control batch last): temporary file, fsync, rename,
    /// fsync of the folder.
    pub fn write_snapshot(&self, id: SnapshotId, batches: &[Bytes]) -> Result<(), OpenError> {
        let path = self.path(id);
        let part = self.folder.join(format!("{}{}", names::snapshot_file(id.end, id.epoch), names::PART));
        let write = || {
            let file = self.fs.open(&part, &OpenOptions::create_empty())?;
            let mut position = 0;
            for batch in batches {
                file.write_all_at(batch, position)?;
                position += batch.len() as u64;
            }
            file.sync_all()?;
            self.fs.rename(&part, &path)?;
            self.fs.sync_dir(&self.folder)
        };
        write().map_err(io_error(&path))
    }

    /// The newest snapshot that is whole: every batch has the right checksum, the first is a snapshot header and the last a footer. Newer
    /// ones that are damaged are passed over and left where they are.
    pub fn newest_valid_snapshot(&self) -> Result<Option<(SnapshotId, Bytes)>, OpenError> {
        for id in self.snapshots()?.into_iter().rev() {
            let path = self.path(id);
            let bytes = self.fs.read_all(&path).map_err(io_error(&path))?;
            if is_whole(&bytes) {
                return Ok(Some((id, Bytes::from(bytes))));
            }
            tracing::warn!("{} is damaged; an older snapshot is looked for", path.display());
        }
        Ok(None)
    }

    /// Removes snapshots older than `keep`; gives their number.
    pub fn remove_snapshots_before(&self, keep: SnapshotId) -> Result<usize, OpenError> {
        let mut removed = 0;
        for id in self.snapshots()?.into_iter().filter(|id| *id < keep) {
            let path = self.path(id);
            self.fs.remove_file(&path).map_err(io_error(&path))?;
            removed += 1;
        }
        Ok(removed)
    }

    pub fn quorum_state(&self) -> Result<Loaded<QuorumState>, OpenError> {
        small_file::load(self.fs.as_ref(), &self.folder.join(QUORUM_STATE), quorum_state::decode)
    }

    /// Durable when it returns.
    pub fn write_quorum_state(&self, state: &QuorumState) -> Result<(), OpenError> {
        let path = self.folder.join(QUORUM_STATE);
        self.fs.atomic_write(&path, &quorum_state::encode(state)).map_err(io_error(&path))
    }

    fn path(&self, id: SnapshotId) -> PathBuf {
        self.folder.join(names::snapshot_file(id.end, id.epoch))
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let mut kinds = Vec::new();
    for view in Batches::new(bytes) {
        let Some(view) = view.ok().filter(BatchView::crc_is_valid) else { return false };
        if view.header().attributes.is_control() {
            kinds.extend(control_kind(&view));
        }
    }
    kinds.first() == Some(&ControlKind::SnapshotHeader) && kinds.last() == Some(&ControlKind::SnapshotFooter)
}

/// The kind of the last control record of a batch that is the header or the footer; Kafka puts other control records beside the header.
fn control_kind(view: &BatchView<'_>) -> Vec<ControlKind> {
    let mut scratch = Vec::new();
    let records = view.records(&mut scratch, CONTROL_BYTES_MAX);
    let kinds = records.into_iter().flatten().filter_map(|record| {
        let key = record.ok()?.key?;
        ControlKind::of_key(key).ok().flatten()
    });
    kinds.collect()
}
