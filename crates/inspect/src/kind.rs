//! What a file of a data folder is, by its name and the folder that it is in.

use std::path::Path;

use mainstem_store::formats::{checkpoint, clean_shutdown, group_log_starts, key_index_state, lock, names};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, Offset, TRANSACTION_STATE_TOPIC};

/// Every kind of file that a data folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A segment of a partition, with its base offset.
    Log(Offset),
    OffsetIndex(Offset),
    TimeIndex(Offset),
    TransactionIndex,
    ProducerSnapshot,
    LeaderEpochs,
    PartitionMetadata,
    /// A snapshot of the metadata, or what a folder was formatted with.
    MetadataSnapshot,
    QuorumState,
    MetaProperties,
    CleanShutdown,
    /// `.lock` and `abort`: a process id.
    ProcessId,
    /// One of the checkpoints that have an offset for each partition.
    OffsetCheckpoint,
    /// `checkpoint` of the data folder or of a group: the content tells.
    Checkpoint,
    /// Of a group.
    LogStarts,
    /// With the position of its first byte.
    CommitLog(u64),
    /// With the offset of its first entry.
    ConsumeQueue(Offset),
    KeyIndex,
    /// How far the key index of a partition has come.
    KeyIndexState,
    /// Space for a full disk.
    Reserve,
}

/// What a segment holds, as its folder tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Messages,
    Metadata,
    Groups,
    Transactions,
}

/// The folder of a partition's key index.
pub(crate) const KEY_INDEX: &str = "key-index";

const OFFSET_CHECKPOINTS: [&str; 4] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
];
/// What recovery cut off a segment has its name, and from which byte on it was there.
const CUT_OFF: &str = ".from-";
/// Space that the broker keeps for a full disk. Nothing is in it.
const RESERVE: &str = ".reserve";
/// What a file may be called besides, while it waits to be removed or to take its place.
const SUFFIXES: [&str; 6] = [names::DELETED, names::CLEANED, names::SWAP, names::PART, ".parked", ".tmp"];
const QUEUE_ENTRY_SIZE: i64 = mainstem_store::formats::queue_entry::ENTRY_SIZE as i64;

impl FileKind {
    /// `None`: a name that neither Kafka nor Mainstem gives.
    pub fn of(path: &Path) -> Option<FileKind> {
        let mut name = path.file_name()?.to_str()?;
        while let Some(rest) = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)) {
            name = rest;
        }
        if let Some((rest, position)) = name.split_once(CUT_OFF)
            && position.bytes().all(|byte| byte.is_ascii_digit())
        {
            name = rest;
        }
        let folder = path.parent().and_then(|folder| folder.file_name()?.to_str());
        if name == key_index_state::FILE_NAME && folder == Some(KEY_INDEX) {
            return Some(FileKind::KeyIndexState);
        }
        Self::of_fixed_name(name).or_else(|| Self::of_segment(name)).or_else(|| Self::of_digits(path, name))
    }

    fn of_fixed_name(name: &str) -> Option<FileKind> {
        Some(match name {
            "leader-epoch-checkpoint" => FileKind::LeaderEpochs,
            "partition.metadata" => FileKind::PartitionMetadata,
            "quorum-state" => FileKind::QuorumState,
            "meta.properties" => FileKind::MetaProperties,
            RESERVE => FileKind::Reserve,
            "bootstrap.checkpoint" => FileKind::MetadataSnapshot,
            clean_shutdown::FILE_NAME => FileKind::CleanShutdown,
            lock::LOCK_FILE_NAME | lock::ABORT_FILE_NAME => FileKind::ProcessId,
            checkpoint::FILE_NAME | checkpoint::OLD_FILE_NAME => FileKind::Checkpoint,
            group_log_starts::FILE_NAME => FileKind::LogStarts,
            name if OFFSET_CHECKPOINTS.contains(&name) => FileKind::OffsetCheckpoint,
            _ => return None,
        })
    }

    fn of_segment(name: &str) -> Option<FileKind> {
        let base = |suffix| names::parse_segment_file(name, suffix);
        if let Some(base) = base(names::LOG) {
            return Some(FileKind::Log(base));
        }
        if let Some(base) = base(names::INDEX) {
            return Some(FileKind::OffsetIndex(base));
        }
        if let Some(base) = base(names::TIME_INDEX) {
            return Some(FileKind::TimeIndex(base));
        }
        let plain = base(names::TRANSACTION_INDEX).map(|_| FileKind::TransactionIndex);
        plain
            .or_else(|| base(names::PRODUCER_SNAPSHOT).map(|_| FileKind::ProducerSnapshot))
            .or_else(|| names::parse_snapshot_file(name).map(|_| FileKind::MetadataSnapshot))
    }

    fn of_digits(path: &Path, name: &str) -> Option<FileKind> {
        let number: u64 = name.parse().ok().filter(|_| name.bytes().all(|byte| byte.is_ascii_digit()))?;
        let above = |levels: usize| path.ancestors().nth(levels).and_then(|dir| dir.file_name()?.to_str());
        match name.len() {
            17 => Some(FileKind::KeyIndex),
            20 if above(3) == Some("consumequeue") => {
                Some(FileKind::ConsumeQueue(Offset(i64::try_from(number).ok()? / QUEUE_ENTRY_SIZE)))
            }
            20 => Some(FileKind::CommitLog(number)),
            _ => None,
        }
    }

    /// What people call it.
    pub fn describe(self) -> &'static str {
        match self {
            FileKind::Log(_) => "log segment",
            FileKind::OffsetIndex(_) => "offset index",
            FileKind::TimeIndex(_) => "time index",
            FileKind::TransactionIndex => "transaction index",
            FileKind::ProducerSnapshot => "producer snapshot",
            FileKind::LeaderEpochs => "leader epochs",
            FileKind::PartitionMetadata => "partition metadata",
            FileKind::MetadataSnapshot => "metadata snapshot",
            FileKind::QuorumState => "quorum state",
            FileKind::MetaProperties => "meta properties",
            FileKind::CleanShutdown => "clean shutdown mark",
            FileKind::ProcessId => "process id",
            FileKind::OffsetCheckpoint => "offset checkpoint",
            FileKind::Checkpoint => "checkpoint",
            FileKind::LogStarts => "log starts",
            FileKind::CommitLog(_) => "commit log",
            FileKind::ConsumeQueue(_) => "consume queue",
            FileKind::KeyIndex => "key index",
            FileKind::KeyIndexState => "key index state",
            FileKind::Reserve => "reserve",
        }
    }
}

impl Content {
    /// By the name of the partition's folder.
    pub fn of(path: &Path) -> Content {
        let folder = path.parent().and_then(|folder| folder.file_name()?.to_str()).unwrap_or_default();
        if folder == names::METADATA_FOLDER || FileKind::of(path) == Some(FileKind::MetadataSnapshot) {
            Content::Metadata
        } else {
            match folder.rsplit_once('-').map(|(topic, _)| topic) {
                Some(CONSUMER_OFFSETS_TOPIC) => Content::Groups,
                Some(TRANSACTION_STATE_TOPIC) => Content::Transactions,
                _ => Content::Messages,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_data_folder_is_known_by_its_name() {
        let kinds = [
            ("/d/t-0/00000000000000000042.log", FileKind::Log(Offset(42))),
            ("/d/t-0/00000000000000000042.log.parked", FileKind::Log(Offset(42))),
            ("/d/t-0/00000000000000000042.log.from-1234.parked", FileKind::Log(Offset(42))),
            ("/d/.reserve", FileKind::Reserve),
            ("/d/t-0/00000000000000000042.index.deleted", FileKind::OffsetIndex(Offset(42))),
            ("/d/t-0/00000000000000000042.timeindex", FileKind::TimeIndex(Offset(42))),
            ("/d/t-0/00000000000000000042.txnindex.cleaned", FileKind::TransactionIndex),
            ("/d/t-0/00000000000000000042.snapshot", FileKind::ProducerSnapshot),
            ("/d/__cluster_metadata-0/00000000000000000042-0000000001.checkpoint", FileKind::MetadataSnapshot),
            ("/d/bootstrap.checkpoint", FileKind::MetadataSnapshot),
            ("/d/.lock", FileKind::ProcessId),
            ("/d/abort", FileKind::ProcessId),
            ("/d/checkpoint.old", FileKind::Checkpoint),
            ("/d/mainstem/shared-0/log-starts", FileKind::LogStarts),
            ("/d/cleaner-offset-checkpoint", FileKind::OffsetCheckpoint),
            ("/d/mainstem/shared-0/commitlog/00000000001073741824", FileKind::CommitLog(1 << 30)),
            ("/d/mainstem/shared-0/consumequeue/t/0/00000000000006000000", FileKind::ConsumeQueue(Offset(300_000))),
            ("/d/mainstem/shared-0/index/20260101000000000", FileKind::KeyIndex),
            ("/d/t-0/key-index/20260101000000000", FileKind::KeyIndex),
            ("/d/t-0/key-index/applied", FileKind::KeyIndexState),
        ];
        for (path, kind) in kinds {
            assert_eq!(FileKind::of(Path::new(path)), Some(kind), "{path}");
        }
        assert_eq!(FileKind::of(Path::new("/d/t-0/notes.txt")), None);
        assert_eq!(FileKind::of(Path::new("/d/12345")), None);
        assert_eq!(FileKind::of(Path::new("/d/t-0/applied")), None);
        assert_eq!(Content::of(Path::new("/d/__transaction_state-7/00000000000000000000.log")), Content::Transactions);
        assert_eq!(Content::of(Path::new("/d/__consumer_offsets-7/00000000000000000000.log")), Content::Groups);
        assert_eq!(Content::of(Path::new("/d/bootstrap.checkpoint")), Content::Metadata);
    }
}
