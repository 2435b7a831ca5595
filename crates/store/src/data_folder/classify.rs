//! What each entry of a data folder is.

use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::names::{self, FolderName, Parting};
use crate::formats::{checkpoint, clean_shutdown, lock, partition_metadata};
use crate::parallel;
use crate::small_file::{self, Loaded};
use mainstem_env::Fs;
use mainstem_types::{TopicId, TopicPartition};

/// Files of a data folder that are no partition: Kafka's and ours.
const KNOWN_FILES: [&str; 12] = [
    "meta.properties",
    "bootstrap.checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    clean_shutdown::FILE_NAME,
    lock::LOCK_FILE_NAME,
    lock::ABORT_FILE_NAME,
    checkpoint::FILE_NAME,
    checkpoint::OLD_FILE_NAME,
    super::reserve::FILE_NAME,
];
/// Folders that are no partition: of layouts other than `partition`, and of tiered storage.
const KNOWN_FOLDERS: [&str; 3] = ["mainstem", "remote-log-index-cache", "lost+found"];

/// How its last user left the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// Nobody used it before.
    New,
    /// `.kafka_cleanshutdown` is there and `abort` is not. The epoch is the broker's registration, -1 if unknown.
    Clean { broker_epoch: i64 },
    /// Killed, or the machine stopped: logs are scanned from their recovery points.
    Unclean,
}

/// A folder of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    pub partition: TopicPartition,
    /// From `partition.metadata`; `None` if that file is absent or unreadable.
    pub topic_id: Option<TopicId>,
    pub path: PathBuf,
}

/// The entries that were found when the folder was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderReport {
    pub stop: StopKind,
    /// Live partitions, `__cluster_metadata-0` not among them.
    pub partitions: Vec<FolderEntry>,
    /// Folders on the way out, `-delete`, `-future` and `-stray`.
    pub parted: Vec<(PathBuf, TopicPartition, Parting)>,
    /// Entries that are neither ours nor Kafka's; left alone.
    pub unknown: Vec<PathBuf>,
    /// Files that are empty or damaged, with the reason: `partition.metadata` of a partition, or a checkpoint file,
    /// which then counts as absent.
    pub unreadable: Vec<(PathBuf, String)>,
}

pub(super) fn classify(fs: &dyn Fs, path: &Path) -> Result<FolderReport, OpenError> {
    let stop = stop_kind(fs, path)?;
    let mut report =
        FolderReport { stop, partitions: Vec::new(), parted: Vec::new(), unknown: Vec::new(), unreadable: Vec::new() };
    for entry in fs.read_dir(path).map_err(io_error(path))? {
        let entry_path = path.join(&entry.name);
        let Some(name) = entry.name.to_str() else {
            report.unknown.push(entry_path);
            continue;
        };
        if !entry.is_dir {
            classify_file(fs, name, entry_path, &mut report)?;
            continue;
        }
        if name == names::METADATA_FOLDER || KNOWN_FOLDERS.contains(&name) {
            continue;
        }
        match names::parse_folder(name) {
            FolderName::Partition(partition) => {
                report.partitions.push(FolderEntry { partition, topic_id: None, path: entry_path });
            }
            FolderName::Parted(partition, parting) => report.parted.push((entry_path, partition, parting)),
            FolderName::Other => report.unknown.push(entry_path),
        }
    }
    let loaded = parallel::map(&report.partitions, |entry| load_topic_id(fs, &entry.path));
    for (entry, loaded) in report.partitions.iter_mut().zip(loaded) {
        entry.topic_id = match loaded? {
            Ok(topic_id) => topic_id,
            Err(reason) => {
                report.unreadable.push((entry.path.join(partition_metadata::FILE_NAME), reason));
                None
            }
        };
    }
    Ok(report)
}

fn classify_file(fs: &dyn Fs, name: &str, path: PathBuf, report: &mut FolderReport) -> Result<(), OpenError> {
    let temporary = name.strip_suffix(".tmp").is_some_and(|name| KNOWN_FILES.contains(&name));
    if temporary {
        return fs.remove_file(&path).map_err(io_error(&path));
    }
    if !KNOWN_FILES.contains(&name) {
        report.unknown.push(path);
    }
    Ok(())
}

/// The topic's id, `None` if the file is absent, or why it cannot be used.
fn load_topic_id(fs: &dyn Fs, folder: &Path) -> Result<Result<Option<TopicId>, String>, OpenError> {
    Ok(match small_file::load(fs, &folder.join(partition_metadata::FILE_NAME), partition_metadata::decode)? {
        Loaded::Absent => Ok(None),
        Loaded::Content(id) => Ok(Some(id)),
        Loaded::Empty => Err("the file is empty".to_owned()),
        Loaded::Damaged(error) => Err(error.to_string()),
    })
}

/// A folder that both marks are in was left by a Kafka that stopped orderly after a crash of ours: Kafka writes its
/// mark last, and knows nothing of `abort`. But it may also be ours, stopped between the two: then it was closed as
/// well. So Kafka's mark decides.
fn stop_kind(fs: &dyn Fs, path: &Path) -> Result<StopKind, OpenError> {
    let mark = small_file::load(fs, &path.join(clean_shutdown::FILE_NAME), clean_shutdown::decode)?;
    match mark {
        Loaded::Content(mark) => return Ok(StopKind::Clean { broker_epoch: mark.broker_epoch }),
        // Old Kafkas wrote an empty file.
        Loaded::Empty => return Ok(StopKind::Clean { broker_epoch: -1 }),
        Loaded::Damaged(_) => return Ok(StopKind::Unclean),
        Loaded::Absent => {}
    }
    let abort = path.join(lock::ABORT_FILE_NAME);
    if fs.exists(&abort).map_err(io_error(&abort))? {
        return Ok(StopKind::Unclean);
    }
    let entries = fs.read_dir(path).map_err(io_error(path))?;
    let used = entries.iter().any(|entry| {
        let name = entry.name.to_str().unwrap_or_default();
        entry.is_dir && (name == names::METADATA_FOLDER || names::parse_folder(name) != FolderName::Other)
    });
    Ok(if used { StopKind::Unclean } else { StopKind::New })
}
