//! Opening a group: the commit log is checked from the checkpoint on, then the views are brought up to its end.
//!
//! 1. The checkpoint is read, or the one before it.
//! 2. The commit log's tail is checked; what follows the last whole entry is cut.
//! 3. Each view is taken over as the checkpoint tells it; what ran ahead is cut, what is missing is rebuilt.
//! 4. The entries after the checkpoint, or all of them if a view is missing, are shown to the views.
//! 5. Records whose files are gone are no longer part of their partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use mainstem_env::{Fs, is_disk_full};
use mainstem_journal::{
    DurabilityObserver, Journal, Location, OpenError as JournalError, RecoverFrom, ScanEnd, SegmentBase,
};
use mainstem_types::{Offset, Position, TopicId, TopicPartition};
use parking_lot::{Mutex, RwLock};

use super::commit_log::{self, CommitLog};
use super::leader_epochs::LeaderEpochs;
use super::log_starts::LogStarts;
use super::queue::Queue;
use super::queue_files::QueueFiles;
use super::queue_folder::QueueFolder;
use super::replay::{Making, Replay, Views};
use super::report::GroupReport;
use super::resync;
use super::state::PartitionViews;
use super::strays::Unknown;
use super::{COMMIT_LOG, CONSUME_QUEUE, GroupCore, GroupLog, GroupOptions, GroupPartition, INDEX, PartitionKey};
use crate::config::LogConfig;
use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::group_checkpoint::{self, GroupCheckpoint, PartitionState};
use crate::formats::queue_entry::QueueEntry;
use crate::small_file::{self, Loaded};
use crate::store_env::StoreEnv;
use crate::views::inspect::topic_hash;
use crate::views::key_index::{self, KeyIndex};

/// A partition that the metadata knows.
#[derive(Debug, Clone)]
pub struct LivePartition {
    pub name: TopicPartition,
    pub topic_id: TopicId,
    pub config: Arc<LogConfig>,
}

pub(super) fn load_checkpoint(fs: &dyn Fs, folder: &Path, name: &str) -> Result<Loaded<GroupCheckpoint>, OpenError> {
    small_file::load(fs, &folder.join(name), group_checkpoint::decode)
}

impl GroupLog {
    /// Opens the group in a folder, or begins one there. Of the partitions in `live` it has those that the checkpoint
    /// names or that have records in the commit log; the others are to be created, here or in another group. `clean`:
    /// the folder was left orderly.
    pub fn open(
        env: &Arc<StoreEnv>,
        folder: &Path,
        options: GroupOptions,
        live: &[LivePartition],
        clean: bool,
    ) -> Result<(GroupLog, GroupReport), OpenError> {
        let fs = env.fs.as_ref();
        fs.create_dir_all_synced(folder).map_err(io_error(folder))?;
        let mut report = GroupReport::default();
        let known = find_checkpoint(fs, folder, &mut report)?;
        let log_starts = LogStarts::read(fs, folder, &mut report)?;
        let (journal, next_segment) = open_journal(env, folder, &options, known.as_ref(), &mut report)?;
        // Durable entries are gone: what the checkpoint says may be of others than will be in their place.
        let believed = known.as_ref().filter(|_| !report.recovery.shorter_than_checkpoint);
        let mut opening =
            Opening { env, fs, folder, options: &options, live, report: &mut report, full: believed.is_none() };
        let mut partitions = opening.take_partitions(known.as_ref(), believed, &journal)?;
        let (index, index_from) = opening.take_index(believed, clean)?;
        let full = opening.full;
        let mut unknown = Unknown::of(believed, &partitions, env, log_starts.deleted());
        let epochs = opening.replay(&journal, believed, &mut partitions, (&index, index_from), &mut unknown)?;
        opening.settle(&journal, &mut partitions, &log_starts)?;
        let strays = unknown.into_strays(journal.first_segment().map_or(0, |base| base.0), &log_starts);
        opening.report.strays = strays.len();
        let strays = Mutex::new(strays);
        opening.remove_strange_queues();
        let core = Arc::new(GroupCore {
            env: Arc::clone(env),
            folder: folder.to_owned(),
            options,
            log: CommitLog::new(journal, &options, next_segment, epochs),
            high_watermark: AtomicU64::new(known.as_ref().map_or(0, |known| known.high_watermark.0)),
            index,
            waiting: Arc::default(),
            failed: OnceLock::new(),
            left: AtomicBool::new(false),
            follows: AtomicBool::new(false),
        });
        let observer: Arc<dyn DurabilityObserver> = core.waiting.clone();
        core.log.journal.set_observer(Arc::downgrade(&observer));
        let (partitions_made, checkpointing) = (RwLock::default(), Mutex::default());
        let mut group = GroupLog { core, partitions: partitions_made, strays, checkpointing, log_starts };
        group.take_over(live, partitions, known.as_ref());
        if full && known.is_some() {
            // So that rebuilt views are not rebuilt again. Without room for it, they are.
            match group.checkpoint() {
                Err(error) if !is_disk_full(&error.error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok((group, report))
    }

    fn take_over(
        &mut self,
        live: &[LivePartition],
        mut made: BTreeMap<PartitionKey, Making>,
        known: Option<&GroupCheckpoint>,
    ) {
        let named: BTreeSet<PartitionKey> =
            known.iter().flat_map(|known| &known.partitions).map(|state| (state.topic_id, state.partition)).collect();
        let partitions = self.partitions.get_mut();
        for partition in live {
            let key = (partition.topic_id, partition.name.partition);
            let Some(making) = made.remove(&key) else { continue };
            if named.contains(&key) || making.state.next_offset > Offset::ZERO {
                let (name, config) = (partition.name.clone(), Arc::clone(&partition.config));
                let state = PartitionViews { from_nothing: false, ..making.state };
                let made = (state, making.queue_folder);
                let partition = GroupPartition::new(&self.core, name, partition.topic_id, config, made);
                partitions.insert(key, partition);
            }
        }
    }
}

fn find_checkpoint(fs: &dyn Fs, folder: &Path, report: &mut GroupReport) -> Result<Option<GroupCheckpoint>, OpenError> {
    for name in [group_checkpoint::FILE_NAME, group_checkpoint::OLD_FILE_NAME] {
        match load_checkpoint(fs, folder, name)? {
            Loaded::Content(known) => return Ok(Some(known)),
            Loaded::Absent => {}
            Loaded::Empty => report.unreadable.push((folder.join(name), "the file is empty".to_owned())),
            Loaded::Damaged(error) => report.unreadable.push((folder.join(name), error.to_string())),
        }
    }
    Ok(None)
}

/// Gives also where the next file begins, if the last one is full.
fn open_journal(
    env: &StoreEnv,
    folder: &Path,
    options: &GroupOptions,
    known: Option<&GroupCheckpoint>,
    report: &mut GroupReport,
) -> Result<(Journal, Option<u64>), OpenError> {
    let dir = folder.join(COMMIT_LOG);
    let from = match known {
        Some(known) => RecoverFrom::Checkpoint(location(known)),
        None => RecoverFrom::Start,
    };
    let mut check = Replay::check(known.and_then(|known| known.next_segment));
    let opened = Journal::open(&env.host, &dir, commit_log::journal_options(options), from, &mut check);
    let (journal, recovery) = opened.map_err(|error| match error {
        JournalError::Directory { dir: path, source: error } | JournalError::Read { path, source: error } => {
            OpenError::Io { path, error }
        }
        JournalError::Repair { path, source: error, .. } => OpenError::Io { path, error },
        stopped @ JournalError::Stopped { .. } => OpenError::Journal(stopped.to_string()),
    })?;
    report.recovery = recovery;
    if journal.end().is_none() {
        // Durable by name before the first append: a power cut must not leave a later file alone.
        let begun = journal.roll(SegmentBase(0)).map_err(|error| error.to_string());
        let begun = begun.and_then(|()| journal.flush().map_err(|error| error.to_string()));
        begun.map_err(OpenError::Journal)?;
    }
    Ok((journal, check.next_segment()))
}

fn location(known: &GroupCheckpoint) -> Location {
    Location::new(SegmentBase(known.segment), known.position)
}

fn damaged_place(damaged: Location, next: Option<Location>) -> String {
    match next.filter(|next| next.segment == damaged.segment) {
        Some(next) => format!("{} from byte {} to {}", damaged.segment, damaged.position, next.position),
        None => format!("{} from byte {} on", damaged.segment, damaged.position),
    }
}

struct Opening<'a> {
    env: &'a StoreEnv,
    fs: &'a dyn Fs,
    folder: &'a Path,
    options: &'a GroupOptions,
    live: &'a [LivePartition],
    report: &'a mut GroupReport,
    /// The views have to see all entries.
    full: bool,
}

impl Opening<'_> {
    fn queue_files(&self, name: &TopicPartition) -> QueueFiles {
        let dir = self.folder.join(CONSUME_QUEUE).join(&*name.topic).join(name.partition.to_string());
        QueueFiles::new(dir, self.options.queue_entries)
    }

    /// The live partitions with their known state.
    fn take_partitions(
        &mut self,
        known: Option<&GroupCheckpoint>,
        believed: Option<&GroupCheckpoint>,
        journal: &Journal,
    ) -> Result<BTreeMap<PartitionKey, Making>, OpenError> {
        let states: BTreeMap<PartitionKey, &PartitionState> = known
            .iter()
            .flat_map(|known| &known.partitions)
            .map(|state| ((state.topic_id, state.partition), state))
            .collect();
        let end = journal.end().map_or(Position::ZERO, commit_log::position_of);
        let mut partitions = BTreeMap::new();
        for partition in self.live {
            let key = (partition.topic_id, partition.name.partition);
            let files = self.queue_files(&partition.name);
            let mut queue_folder = QueueFolder::new(files.clone(), partition.topic_id);
            let failed = io_error(self.folder);
            let state = match (states.get(&key), believed) {
                (Some(state), Some(_)) => self.take_known(&mut queue_folder, files, state).map_err(failed)?,
                (state, _) => {
                    // Offsets that the files know of are not given again, even if all their records are gone.
                    let by_files = queue_folder.end_by_files(self.fs, end).map_err(io_error(self.folder))?;
                    queue_folder.reset(self.fs).map_err(failed)?;
                    let floor = state.map_or(Offset::ZERO, |state| state.log_start);
                    let mut state = PartitionViews::new(Queue::new(files, &self.env.queues, Offset::ZERO));
                    state.log_start = floor;
                    state.idle_end = by_files.unwrap_or(Offset::NONE);
                    state
                }
            };
            let topic_hash = topic_hash(&partition.name.topic);
            let key_indexing = partition.config.key_indexing;
            partitions.insert(key, Making { state, queue_folder, topic_hash, key_indexing });
        }
        Ok(partitions)
    }

    fn take_known(
        &mut self,
        folder: &mut QueueFolder,
        files: QueueFiles,
        known: &PartitionState,
    ) -> io::Result<PartitionViews> {
        let last = QueueEntry { position: known.last_position, size: known.last_size, tag_hash: 0 };
        let adopted = folder.adopt(self.fs, known.log_start, known.next_offset, last)?;
        if !adopted {
            folder.reset(self.fs)?;
            self.full = true;
            self.report.views_rebuilt += 1;
        }
        let begin = if adopted { known.next_offset } else { known.log_start };
        Ok(PartitionViews::restore(Queue::new(files, &self.env.queues, begin), known))
    }

    /// The index, with the position from which on its entries are to be made.
    fn take_index(
        &mut self,
        believed: Option<&GroupCheckpoint>,
        clean: bool,
    ) -> Result<(KeyIndex, Position), OpenError> {
        let dir = self.folder.join(INDEX);
        let failed = io_error(&dir);
        let size = self.options.index_size();
        if let Some(known) = believed {
            match KeyIndex::open(self.fs, &dir, size, &known.indexes, clean) {
                Ok(Some(index)) => return Ok((index, known.covered_to())),
                Ok(None) => {}
                // No room to take it back to where the checkpoint is. Without it there is some.
                Err(error) if is_disk_full(&error) => {}
                Err(error) => return Err(failed(error)),
            }
            self.full = true;
            self.report.views_rebuilt += 1;
        }
        Ok((KeyIndex::create(self.fs, &dir, size).map_err(io_error(&dir))?, Position::ZERO))
    }

    fn replay(
        &mut self,
        journal: &Journal,
        believed: Option<&GroupCheckpoint>,
        partitions: &mut BTreeMap<PartitionKey, Making>,
        index: (&KeyIndex, Position),
        unknown: &mut Unknown,
    ) -> Result<LeaderEpochs, OpenError> {
        let bases = journal.segment_bases();
        let first = bases.first().map(|base| Location::new(*base, 0));
        let checkpoint = believed.filter(|known| !self.full && bases.contains(&SegmentBase(known.segment)));
        let mut epochs = match checkpoint {
            Some(known) => LeaderEpochs::restore(known.epochs.clone(), known.epochs_from),
            None => LeaderEpochs::from(first.map_or(Position::ZERO, commit_log::position_of)),
        };
        let mut from = checkpoint.map(location).or(first);
        let mut next_segment = checkpoint.and_then(|known| known.next_segment);
        while let Some(start) = from.take() {
            let views = Views::new(self.env, self.options, partitions, Some(index), unknown, &mut epochs);
            let mut replay = Replay::make(next_segment.take(), views);
            let outcome = journal.scan(start, &mut replay).map_err(|error| OpenError::Journal(error.to_string()))?;
            let file_ended = replay.next_segment().is_some();
            replay.finish().map_err(io_error(self.folder))?;
            self.report.bytes_replayed += outcome.bytes;
            if outcome.reason != ScanEnd::Whole {
                // The tail was checked: this is inside.
                let next = match file_ended {
                    true => Ok(journal.segment_after(outcome.end.segment).map(|base| Location::new(base, 0))),
                    false => resync::go_on_behind(journal, outcome.end),
                };
                from = next.map_err(|error| OpenError::Journal(error.to_string()))?;
                self.report.damaged.push(damaged_place(outcome.end, from));
            }
        }
        key_index::unless_full(index.0.write(self.fs)).map_err(io_error(self.folder))?;
        self.report.unknown = unknown.count();
        Ok(epochs)
    }

    /// The partitions as they are after the replay.
    fn settle(
        &self,
        journal: &Journal,
        partitions: &mut BTreeMap<PartitionKey, Making>,
        log_starts: &LogStarts,
    ) -> Result<(), OpenError> {
        let first = journal.first_segment().map_or(0, |base| base.0);
        for (key, making) in partitions {
            let state = &mut making.state;
            let log_start = state.log_start.max(log_starts.log_start(key).unwrap_or(Offset::ZERO));
            // For a moment it stands in for the state from the files.
            let by_files = std::mem::replace(&mut state.idle_end, Offset::NONE);
            if state.from_nothing {
                state.next_offset = state.next_offset.max(by_files);
            }
            // Offsets below the log start were given out, even if their records are gone.
            let records_end = state.next_offset;
            state.next_offset = state.next_offset.max(log_start);
            let end = state.next_offset;
            if end > records_end {
                // The last record is none of those before the end: a queue need not have it there.
                state.last = QueueEntry::default();
            }
            state.queue.skip_to(end);
            let start = state.shares.iter().find(|share| share.segment >= first);
            let start = start.map_or(end, |share| share.first_offset);
            let start = start.max(log_start);
            state.raise_log_start(start);
        }
        Ok(())
    }

    /// Removes queues of partitions that are not known. Their records are in the commit log, if they are still to be
    /// had.
    fn remove_strange_queues(&self) {
        let known: BTreeSet<(&str, String)> =
            self.live.iter().map(|live| (&*live.name.topic, live.name.partition.to_string())).collect();
        let root = self.folder.join(CONSUME_QUEUE);
        for topic in self.fs.read_dir(&root).unwrap_or_default() {
            let dir = root.join(&topic.name);
            let name = topic.name.to_str().unwrap_or_default();
            let partitions = self.fs.read_dir(&dir).unwrap_or_default();
            let strange = |partition: &str| !known.contains(&(name, partition.to_owned()));
            for partition in partitions.iter().filter(|entry| strange(entry.name.to_str().unwrap_or_default())) {
                if let Err(error) = self.fs.remove_dir_all(&dir.join(&partition.name)) {
                    tracing::warn!("cannot remove {}: {error}", dir.join(&partition.name).display());
                }
            }
        }
    }
}
