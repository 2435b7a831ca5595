//! The checkpoint files of a data folder.

use std::path::Path;
use std::sync::Arc;

use super::{DataFolder, metadata_partition};
use crate::error::OpenError;
use crate::formats::checkpoint::{self, Checkpoint};
use crate::formats::names;
use crate::formats::offset_checkpoint::{self, OffsetsByPartition};
use crate::partition_log::{PartitionLog, io_error};
use crate::small_file::{self, Loaded};
use mainstem_env::Fs;
use mainstem_types::Offset;
use std::collections::BTreeMap;
use std::path::PathBuf;

const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
const LOG_STARTS: &str = "log-start-offset-checkpoint";
const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";

/// What the files said when the folder was opened.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) recovery_points: OffsetsByPartition,
    pub(super) log_starts: OffsetsByPartition,
    pub(super) high_watermarks: OffsetsByPartition,
    pub(super) positions: BTreeMap<String, i64>,
    pub(super) generation: u64,
}

impl Known {
    /// A file that is empty or damaged is reported and counts as absent: recovery then scans more.
    pub(super) fn load(fs: &dyn Fs, path: &Path, unreadable: &mut Vec<(PathBuf, String)>) -> Result<Known, OpenError> {
        let mut load = |name: &str| -> Result<OffsetsByPartition, OpenError> {
            let path = path.join(name);
            let loaded = small_file::load(fs, &path, offset_checkpoint::decode)?;
            Ok(note(loaded, path, unreadable).unwrap_or_default())
        };
        let (recovery_points, log_starts, high_watermarks) =
            (load(RECOVERY_POINTS)?, load(LOG_STARTS)?, load(HIGH_WATERMARKS)?);
        let mut ours = None;
        for name in [checkpoint::FILE_NAME, checkpoint::OLD_FILE_NAME] {
            let path = path.join(name);
            let loaded = small_file::load(fs, &path, checkpoint::decode)?;
            ours = ours.or(note(loaded, path, unreadable));
        }
        let ours: Checkpoint = ours.unwrap_or_default();
        Ok(Known {
            recovery_points,
            log_starts,
            high_watermarks,
            positions: ours.positions,
            generation: ours.generation,
        })
    }
}

fn note<T>(loaded: Loaded<T>, path: PathBuf, unreadable: &mut Vec<(PathBuf, String)>) -> Option<T> {
    match &loaded {
        Loaded::Empty => unreadable.push((path, "the file is empty".to_owned())),
        Loaded::Damaged(error) => unreadable.push((path, error.to_string())),
        Loaded::Absent | Loaded::Content(_) => {}
    }
    loaded.content()
}

/// What was written last, so that nothing is written twice.
#[derive(Debug)]
pub(super) struct Checkpoints {
    written: BTreeMap<&'static str, Vec<u8>>,
    positions: Option<BTreeMap<String, i64>>,
    generation: u64,
}

impl Checkpoints {
    pub(super) fn new(generation: u64) -> Self {
        Checkpoints { written: BTreeMap::new(), positions: None, generation }
    }
}

impl DataFolder {
    /// Writes the checkpoint files: recovery points (never above the durable end), log starts, and the high watermarks that are given. They
    /// hold the partitions in `logs` alone, so give all that are open, with the metadata log.
    ///
    /// Syncs logs that have grown by more than 32 MiB since their last checkpoint, so call it where nobody waits, about once a minute, and
    /// after log starts were raised.
    pub fn write_checkpoints(&self, logs: &[(Arc<PartitionLog>, Offset)]) -> Result<(), OpenError> {
        let mut checkpoints = self.checkpoints.lock();
        let mut recovery_points = OffsetsByPartition::new();
        let mut log_starts = OffsetsByPartition::new();
        let mut high_watermarks = OffsetsByPartition::new();
        let mut positions = BTreeMap::new();
        let metadata = metadata_partition();
        for (log, high_watermark) in logs {
            let partition = log.partition();
            // Also lets go of what is remembered of transactions that ended below it.
            log.first_unstable_offset(*high_watermark);
            let Some(entry) = log.checkpoint_entry() else { continue };
            if *partition == metadata {
                positions.insert(names::METADATA_FOLDER.to_owned(), entry.recovery_point.0);
                continue;
            }
            recovery_points.insert(partition.clone(), entry.recovery_point);
            high_watermarks.insert(partition.clone(), *high_watermark);
            if entry.log_start_matters {
                log_starts.insert(partition.clone(), entry.log_start);
            }
        }
        // Log starts first: what was deleted must not come back because a later file could not be written.
        let files = [(LOG_STARTS, log_starts), (RECOVERY_POINTS, recovery_points), (HIGH_WATERMARKS, high_watermarks)];
        for (name, offsets) in files {
            self.replace(&mut checkpoints, name, offset_checkpoint::encode(&offsets))?;
        }
        self.replace_ours(&mut checkpoints, positions)
    }

    fn replace(&self, checkpoints: &mut Checkpoints, name: &'static str, bytes: Vec<u8>) -> Result<(), OpenError> {
        if checkpoints.written.get(name) == Some(&bytes) {
            return Ok(());
        }
        let path = self.path.join(name);
        self.env.fs.atomic_write(&path, &bytes).map_err(io_error(&path))?;
        checkpoints.written.insert(name, bytes);
        Ok(())
    }

    fn replace_ours(&self, checkpoints: &mut Checkpoints, positions: BTreeMap<String, i64>) -> Result<(), OpenError> {
        if checkpoints.positions.as_ref() == Some(&positions) {
            return Ok(());
        }
        let fs = self.env.fs.as_ref();
        let path = self.path.join(checkpoint::FILE_NAME);
        let previous = small_file::load(fs, &path, checkpoint::decode)?;
        if let Loaded::Content(previous) = previous {
            let old = self.path.join(checkpoint::OLD_FILE_NAME);
            fs.atomic_write(&old, &checkpoint::encode(&previous)).map_err(io_error(&old))?;
        }
        checkpoints.generation += 1;
        let next = Checkpoint { generation: checkpoints.generation, positions };
        fs.atomic_write(&path, &checkpoint::encode(&next)).map_err(io_error(&path))?;
        checkpoints.positions = Some(next.positions);
        Ok(())
    }
}
