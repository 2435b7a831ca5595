//! What lies beside the metadata log in `__cluster_metadata-0`: snapshots and `quorum-state`.

use bytes::Bytes;
use mainstem_env::{Fs, OpenOptions};
use mainstem_record::{BatchView, Batches, ControlKind};
use mainstem_types::{LeaderEpoch, Offset};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::names;
use crate::formats::quorum_state::{self, QuorumState};
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

    /// Writes a snapshot from whole batches (header control batch first, footer control batch last): temporary file,
    /// fsync, rename, fsync of the folder.
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

    /// The newest snapshot that is whole: every batch has the right checksum, the first is a snapshot header and the
    /// last a footer. Newer ones that are damaged are passed over and left where they are.
    pub fn newest_valid_snapshot(&self) -> Result<Option<(SnapshotId, Bytes)>, OpenError> {
        for id in self.snapshots()?.into_iter().rev() {
            let path = self.path(id);
            let bytes = self.fs.read_all(&path).map_err(io_error(&path))?;
            if is_whole(&bytes) {
                return Ok(Some((id, Bytes::from(bytes))));
            }
            tracing::warn!("{} is damaged; the broker looks for an older snapshot", path.display());
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

/// The kind of the last control record of a batch that is the header or the footer; Kafka puts other control records
/// beside the header.
fn control_kind(view: &BatchView<'_>) -> Vec<ControlKind> {
    let mut scratch = Vec::new();
    let records = view.records(&mut scratch, CONTROL_BYTES_MAX);
    let kinds = records.into_iter().flatten().filter_map(|record| {
        let key = record.ok()?.key?;
        ControlKind::of_key(key).ok().flatten()
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QuorumContent;
    use mainstem_env::{CrashPolicy, MemFs};
    use mainstem_record::{BatchBuilder, ControlRecord};
    use mainstem_types::{NodeId, TimestampMs};

    const FOLDER: &str = "/data/__cluster_metadata-0";

    fn files(fs: &MemFs) -> MetadataFiles {
        MetadataFiles::new(Arc::new(fs.clone()), Path::new(FOLDER))
    }

    fn snapshot() -> Vec<Bytes> {
        let control = |record| {
            let mut builder = BatchBuilder::new();
            builder.append_control(TimestampMs(1), &record);
            Bytes::from(builder.build().unwrap())
        };
        let mut data = BatchBuilder::new();
        data.append(TimestampMs(1), None, Some(b"a metadata record"), &[]);
        vec![
            control(ControlRecord::SnapshotHeader { last_contained_log_timestamp: TimestampMs(1) }),
            Bytes::from(data.build().unwrap()),
            control(ControlRecord::SnapshotFooter),
        ]
    }

    fn id(end: i64) -> SnapshotId {
        SnapshotId { end: Offset(end), epoch: LeaderEpoch(1) }
    }

    #[test]
    fn the_newest_whole_snapshot_is_read() {
        let fs = MemFs::new();
        fs.create_dir_all_synced(Path::new(FOLDER)).unwrap();
        let files = files(&fs);
        assert_eq!(files.newest_valid_snapshot().unwrap(), None);
        for end in [5, 9, 12] {
            files.write_snapshot(id(end), &snapshot()).unwrap();
        }
        // Without its footer, and with a flipped bit.
        files.write_snapshot(id(20), &snapshot()[..2]).unwrap();
        let damaged = Path::new(FOLDER).join("00000000000000000012-0000000001.checkpoint");
        let mut bytes = fs.read_all(&damaged).unwrap();
        bytes[100] ^= 1;
        fs.atomic_write(&damaged, &bytes).unwrap();
        let (found, bytes) = files.newest_valid_snapshot().unwrap().unwrap();
        assert_eq!((found, bytes), (id(9), Bytes::from(snapshot().concat())));
        assert_eq!(files.remove_snapshots_before(id(9)).unwrap(), 1);
        assert_eq!(files.snapshots().unwrap(), [id(9), id(12), id(20)]);
    }

    #[test]
    fn a_crash_while_a_snapshot_is_written_leaves_the_old_one_and_no_rest() {
        for after in 0..20 {
            let fs = MemFs::new();
            fs.create_dir_all_synced(Path::new(FOLDER)).unwrap();
            files(&fs).write_snapshot(id(5), &snapshot()).unwrap();
            fs.stop_after(after);
            let written = files(&fs).write_snapshot(id(9), &snapshot()).is_ok();
            for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
                let fs = fs.crash(policy);
                let (found, bytes) = files(&fs).newest_valid_snapshot().unwrap().unwrap();
                assert!(found == id(9) || (found == id(5) && !written));
                assert_eq!(bytes, snapshot().concat());
                let names = fs.read_dir(Path::new(FOLDER)).unwrap();
                assert!(names.iter().all(|entry| !entry.name.to_str().unwrap().ends_with(names::PART)));
            }
        }
    }

    #[test]
    fn the_quorum_state_is_absent_empty_damaged_or_there() {
        let fs = MemFs::new();
        fs.create_dir_all_synced(Path::new(FOLDER)).unwrap();
        let files = files(&fs);
        assert_eq!(files.quorum_state().unwrap(), Loaded::Absent);
        let state = QuorumState {
            leader_id: NodeId(1),
            leader_epoch: LeaderEpoch(4),
            voted_id: NodeId(-1),
            content: QuorumContent::StaticVoters {
                cluster_id: String::new(),
                applied_offset: Offset(0),
                voters: vec![NodeId(1)],
            },
        };
        files.write_quorum_state(&state).unwrap();
        assert_eq!(files.quorum_state().unwrap(), Loaded::Content(state));
        let path = Path::new(FOLDER).join(QUORUM_STATE);
        fs.atomic_write(&path, b"").unwrap();
        assert_eq!(files.quorum_state().unwrap(), Loaded::Empty);
        fs.atomic_write(&path, b"{").unwrap();
        assert!(matches!(files.quorum_state().unwrap(), Loaded::Damaged(_)));
    }
}
