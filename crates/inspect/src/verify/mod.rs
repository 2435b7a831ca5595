//! Checks a data folder: reads every log, rebuilds in memory every file that is derived from logs, and compares.
//!
//! The check changes nothing. It opens only `.lock` for writing, because Java's kind of lock needs that, and writes
//! nothing to it. The lock keeps brokers from starting on the folder meanwhile.

mod facts;
mod group;
mod group_epochs;
mod group_state;
mod indexes;
mod keys;
mod metadata;
mod partition;
mod partition_keys;
mod producers;
mod queue;
mod report;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{DirEntry, File, Fs, OpenOptions};
use mainstem_store::formats::names::{self, FolderName, Parting};
use mainstem_store::formats::{FormatError, lock};
use mainstem_types::TopicPartition;

pub use report::{Event, Sink, Summary};

use crate::kind::FileKind;
use facts::Facts;
use report::{About, Report};

/// Files of our own and Kafka's that are read whole.
const SMALL_BYTES_MAX: u64 = 256 << 20;
/// Below it are the partition groups.
const GROUPS_FOLDER: &str = "mainstem";

/// Why a folder could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("{path} cannot be read: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "{path} is not a data folder: it has no meta.properties, no partition and no .lock; give the folder of log.dirs or --data-dir",
        path = path.display()
    )]
    NotADataFolder { path: PathBuf },
    #[error(
        "{path} is in use by {}: stop that broker first, or check a copy of the folder (a file system snapshot)",
        process.map_or("a broker".to_owned(), |id| format!("process {id}")),
        path = path.display()
    )]
    Running { path: PathBuf, process: Option<u32> },
}

/// Checks a folder and reports its findings.
pub fn verify(fs: &dyn Fs, folder: &Path, sink: &mut Sink<'_>) -> Result<Summary, VerifyError> {
    let entries = fs.read_dir(folder).map_err(|error| VerifyError::Io { path: folder.to_owned(), error })?;
    if !entries.iter().any(belongs_to_a_data_folder) {
        return Err(VerifyError::NotADataFolder { path: folder.to_owned() });
    }
    let mut report = Report::new(sink);
    // Held to the end.
    let _lock = take_lock(fs, folder, &mut report)?;
    let facts = Facts::read(fs, folder, &entries, &mut report);
    let cluster = metadata::read(fs, &folder.join(names::METADATA_FOLDER), &mut report);
    let mut check = Check { fs, facts: &facts, cluster: &cluster, report: &mut report };
    let mut found = Vec::new();
    for entry in &entries {
        check.entry(&folder.join(&entry.name), entry, &mut found);
    }
    let groups = folder.join(GROUPS_FOLDER);
    if entries.iter().any(|entry| entry.is_dir && entry.name == GROUPS_FOLDER) {
        check.groups(&groups, &mut found);
    }
    check.missing_partitions(&found);
    Ok(report.summary)
}

fn belongs_to_a_data_folder(entry: &DirEntry) -> bool {
    let name = entry.name.to_str().unwrap_or_default();
    if !entry.is_dir {
        return name == "meta.properties" || name == lock::LOCK_FILE_NAME;
    }
    name == GROUPS_FOLDER || names::parse_folder(name) != FolderName::Other
}

fn take_lock(fs: &dyn Fs, folder: &Path, report: &mut Report<'_, '_>) -> Result<Option<Arc<dyn File>>, VerifyError> {
    let path = folder.join(lock::LOCK_FILE_NAME);
    let opened = fs.open(&path, &OpenOptions::read_write()).and_then(|file| Ok((file.try_lock()?, file)));
    match opened {
        Ok((true, file)) => Ok(Some(file)),
        Ok((false, _)) => {
            let process = fs.read_all(&path).ok().and_then(|bytes| lock::decode(&bytes));
            Err(VerifyError::Running { path: folder.to_owned(), process })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let detail = format!("the lock cannot be taken ({error}): a broker may be running here");
            report.note("lock", About::file(&path), detail);
            Ok(None)
        }
    }
}

struct Check<'a, 'b, 'c> {
    fs: &'a dyn Fs,
    facts: &'a Facts,
    cluster: &'a metadata::Cluster,
    report: &'a mut Report<'b, 'c>,
}

impl Check<'_, '_, '_> {
    fn entry(&mut self, path: &Path, entry: &DirEntry, found: &mut Vec<TopicPartition>) {
        let Some(name) = entry.name.to_str() else {
            self.report.note("unknown", About::file(path), "neither Kafka nor Mainstem gives such a name");
            return;
        };
        if !entry.is_dir {
            if FileKind::of(path).is_none() {
                self.report.note("unknown", About::file(path), "neither Kafka nor Mainstem gives such a name");
            }
            return;
        }
        match names::parse_folder(name) {
            FolderName::Partition(partition) => {
                partition::check(self, path, &partition);
                found.push(partition);
            }
            FolderName::Parted(partition, Parting::Stray) => {
                let detail =
                    "a partition that was parked because the metadata did not know its topic; it is not served";
                self.report.finding("parked", About::partition(&partition).at(path), detail);
            }
            FolderName::Parted(partition, Parting::Delete) => {
                let about = About::partition(&partition).at(path);
                self.report.note("leaving", about, "a deleted partition that waits to be removed");
            }
            FolderName::Parted(partition, Parting::Future) => {
                let about = About::partition(&partition).at(path);
                self.report.note("leaving", about, "a copy that was being moved in from another folder");
            }
            FolderName::Other if [GROUPS_FOLDER, "remote-log-index-cache", "lost+found"].contains(&name) => {}
            FolderName::Other => {
                self.report.note("unknown", About::file(path), "neither Kafka nor Mainstem gives such a name");
            }
        }
    }

    fn groups(&mut self, root: &Path, found: &mut Vec<TopicPartition>) {
        for entry in list(self.fs, root, self.report).into_iter().filter(|entry| entry.is_dir) {
            let (path, name) = (root.join(&entry.name), entry.name.to_string_lossy().into_owned());
            if name.contains(".deleted") {
                self.report.note("leaving", About::file(&path), "a deleted partition group that waits to be removed");
            } else if name.contains(".stray") {
                let detail = "a partition group that was parked because the metadata did not know its topic";
                self.report.finding("parked", About::file(&path), detail);
            } else if name.starts_with("shared-") || name.starts_with("topic-") {
                if let Some(group) = group::check(self, &path) {
                    keys::check(self, &group);
                    found.extend(group.names());
                }
            } else {
                self.report.note("unknown", About::file(&path), "Mainstem gives no such name");
            }
        }
    }

    /// Partitions that this node should have and has not.
    fn missing_partitions(&mut self, found: &[TopicPartition]) {
        let Some(node) = self.facts.node.filter(|_| self.cluster.is_whole()) else { return };
        let found: std::collections::HashSet<&TopicPartition> = found.iter().collect();
        for (partition, in_files, is_new) in self.cluster.partitions_of(node, self.facts.directory) {
            if found.contains(&partition) {
                continue;
            }
            // A partition has no folder before its first append, and no checkpoint speaks of it. After a kill they may
            // speak of an earlier one of that name. One that has seen a start is not new: each begins an epoch.
            let had_files = self.facts.high_watermark(&partition).is_some() && (self.facts.clean || !is_new);
            if in_files && had_files {
                let detail = "the metadata gives this node the partition, and its folder is not there: all of its records are missing";
                self.report.finding("partition-missing", About::partition(&partition), detail);
            } else {
                let detail = "the partition has no files yet";
                self.report.note("partition-empty", About::partition(&partition), detail);
            }
        }
    }
}

/// The names in a folder; told if it cannot be listed.
fn list(fs: &dyn Fs, folder: &Path, report: &mut Report<'_, '_>) -> Vec<DirEntry> {
    fs.read_dir(folder).unwrap_or_else(|error| {
        report.finding("file-unreadable", About::file(folder), format!("cannot be listed: {error}"));
        Vec::new()
    })
}

/// A small file as it should be; told if it is not. `None`: absent, empty, damaged or unreadable.
fn load<T>(
    fs: &dyn Fs,
    path: &Path,
    about: About<'_>,
    report: &mut Report<'_, '_>,
    decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Option<T> {
    let about = About { path: Some(path), ..about };
    let bytes = match read_small(fs, path) {
        Ok(bytes) => bytes?,
        Err(error) => {
            report.finding("file-unreadable", about, format!("cannot be read: {error}"));
            return None;
        }
    };
    report.summary.files += 1;
    report.summary.bytes += bytes.len() as u64;
    match decode(&bytes) {
        Ok(content) => Some(content),
        Err(error) => {
            let detail = if bytes.is_empty() { "the file is empty".to_owned() } else { error.to_string() };
            report.finding("file-unreadable", about, detail);
            None
        }
    }
}

fn read_small(fs: &dyn Fs, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs.metadata(path)? {
        None => Ok(None),
        Some(metadata) if metadata.len > SMALL_BYTES_MAX => {
            Err(io::Error::other(format!("{} bytes; such a file has at most {SMALL_BYTES_MAX}", metadata.len)))
        }
        Some(_) => fs.read_if_present(path),
    }
}
