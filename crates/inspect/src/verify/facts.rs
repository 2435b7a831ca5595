//! The files at the top of a data folder, which describe all logs.

use std::path::Path;

use mainstem_env::{DirEntry, Fs};
use mainstem_store::formats::names::{self, FolderName};
use mainstem_store::formats::offset_checkpoint::{self, OffsetsByPartition};
use mainstem_store::formats::{checkpoint, clean_shutdown, lock, meta_properties};
use mainstem_types::{Offset, TopicId, TopicPartition};

use super::report::{About, Report};
use super::{load, read_small};

const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
const META_PROPERTIES: &str = "meta.properties";
/// Where the durable end of the metadata log is noted, which Kafka notes nowhere.
const METADATA_LOG: &str = "__cluster_metadata-0";

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The last broker stopped in order: every file is as the broker left it.
    pub(super) clean: bool,
    pub(super) node: Option<i32>,
    /// The id of this folder among those of its node.
    pub(super) directory: Option<TopicId>,
    recovery_points: OffsetsByPartition,
    log_starts: OffsetsByPartition,
    high_watermarks: OffsetsByPartition,
    compacted: OffsetsByPartition,
    metadata_durable: Option<Offset>,
}

impl Facts {
    pub(super) fn read(fs: &dyn Fs, folder: &Path, entries: &[DirEntry], report: &mut Report<'_, '_>) -> Facts {
        let mut offsets = |name: &str| {
            let path = folder.join(name);
            // A Kafka creates them empty.
            let empty = matches!(read_small(fs, &path), Ok(Some(bytes)) if bytes.is_empty());
            let loaded = (!empty).then(|| load(fs, &path, About::default(), report, offset_checkpoint::decode));
            loaded.flatten().unwrap_or_default()
        };
        let mut facts = Facts {
            recovery_points: offsets(RECOVERY_POINTS),
            log_starts: offsets("log-start-offset-checkpoint"),
            high_watermarks: offsets(HIGH_WATERMARKS),
            compacted: offsets("cleaner-offset-checkpoint"),
            ..Facts::default()
        };
        let is_there = |name: &str| entries.iter().any(|entry| entry.name == name);
        let meta = folder.join(META_PROPERTIES);
        let properties = load(fs, &meta, About::default(), report, meta_properties::decode);
        facts.directory = properties.as_ref().and_then(|properties| properties.directory_id);
        facts.node = properties.map(|properties| properties.node_id.0);
        if !is_there(META_PROPERTIES) {
            report.finding(
                "file-missing",
                About::file(&meta),
                "the file names the cluster and the node of this folder; without it a start formats the folder anew",
            );
        }
        for name in [checkpoint::OLD_FILE_NAME, checkpoint::FILE_NAME] {
            let read = load(fs, &folder.join(name), About::default(), report, checkpoint::decode);
            let position = read.and_then(|read| read.positions.get(METADATA_LOG).copied());
            facts.metadata_durable = position.map(Offset).or(facts.metadata_durable);
        }
        facts.read_stop(fs, folder, is_there(clean_shutdown::FILE_NAME), is_there(lock::ABORT_FILE_NAME), report);
        let partition = |entry: &DirEntry| {
            let name = entry.name.to_str().unwrap_or_default();
            entry.is_dir && name != METADATA_LOG && matches!(names::parse_folder(name), FolderName::Partition(_))
        };
        for name in [RECOVERY_POINTS, HIGH_WATERMARKS] {
            if facts.clean && entries.iter().any(partition) && !is_there(name) {
                let path = folder.join(name);
                report.finding(
                    "file-missing",
                    About::file(&path),
                    "an orderly stop writes this file; the next start does not need it",
                );
            }
        }
        facts
    }

    fn read_stop(&mut self, fs: &dyn Fs, folder: &Path, marked: bool, aborted: bool, report: &mut Report<'_, '_>) {
        let path = folder.join(clean_shutdown::FILE_NAME);
        if marked {
            // Old Kafkas wrote an empty file.
            let empty = matches!(read_small(fs, &path), Ok(Some(bytes)) if bytes.is_empty());
            self.clean = empty || load(fs, &path, About::default(), report, clean_shutdown::decode).is_some();
        }
        if !self.clean {
            let how = if aborted { "killed, or the machine stopped" } else { "not stopped in order" };
            let detail = format!(
                "the broker that used the folder last was {how}: unwritten records may be missing at the ends of logs, and views may be behind; the next start repairs this"
            );
            report.note("unclean", About::file(folder), detail);
        }
    }

    /// Up to where a log was durable and whole.
    pub(super) fn recovery_point(&self, partition: &TopicPartition) -> Option<Offset> {
        let noted = self.recovery_points.get(partition).copied();
        noted.or_else(|| self.metadata_durable.filter(|_| partition.to_string() == METADATA_LOG))
    }

    /// Where a log ended when the folder was left in order. Nobody but us notes it of the metadata log, and a Kafka may
    /// have gone on since.
    pub(super) fn noted_end(&self, partition: &TopicPartition) -> Option<Offset> {
        self.recovery_points.get(partition).copied().filter(|_| self.clean)
    }

    pub(super) fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.high_watermarks.get(partition).copied()
    }

    pub(super) fn log_start(&self, partition: &TopicPartition) -> Option<Offset> {
        self.log_starts.get(partition).copied()
    }

    pub(super) fn was_compacted(&self, partition: &TopicPartition) -> bool {
        self.compacted.contains_key(partition)
    }
}
