//! Creating and opening: trust what is known to be good, scan the rest, make lost views again.

mod aside;
mod known;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::config::LogConfig;
use crate::durability::Durability;
use crate::error::{OpenError, io_error};
use crate::formats::{epoch_checkpoint, names, partition_metadata};
use crate::log_types::LogRecovery;
use crate::partition_log::active_index::ActiveIndex;
use crate::partition_log::checked::Checked;
use crate::partition_log::listing::Listing;
use crate::partition_log::producer_snapshots::{FoundSnapshots, Snapshots};
use crate::partition_log::scanner::{NoScan, RecoveryScanner};
use crate::partition_log::segment_file::{SegmentEnd, SegmentFile, random_below};
use crate::partition_log::segments::{SegmentView, Segments};
use crate::partition_log::state::LogState;
use crate::partition_log::unsynced::{CheckpointEntry, Unsynced};
use crate::partition_log::{PartitionLog, journal_options};
use crate::small_file::{self, Loaded};
use crate::store_env::StoreEnv;
use crate::views::epochs::Epochs;
use crate::views::producers::Producers;
use arc_swap::ArcSwap;
use mainstem_env::{Fs, OpenOptions};
use mainstem_journal::{Journal, OpenError as JournalError, RecoverFrom};
use mainstem_types::{Offset, TopicId, TopicPartition};
use parking_lot::Mutex;

/// The facts about a log before it is opened, from the checkpoints of its data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFacts {
    /// The folder was left orderly: indexes and snapshots are trusted.
    pub clean: bool,
    /// Everything below is known to be durable and whole. `None`: nothing is known.
    pub recovery_point: Option<Offset>,
    /// From `log-start-offset-checkpoint`.
    pub log_start: Option<Offset>,
    /// From `cleaner-offset-checkpoint`: compacted up to here, so that offsets may be missing before it.
    pub cleaned_to: Option<Offset>,
    /// A Kafka was killed on this folder: it may have compacted further than the checkpoints say.
    pub foreign: bool,
    /// A snapshot of the metadata has the records below. The start does not look for damage there.
    pub covered_to: Option<Offset>,
    /// What `partition.metadata` says, where that was read already.
    pub topic_id: Option<TopicId>,
}

impl PartitionLog {
    /// Creates the folder of a new partition. Its name is durable when the caller has synced the folder above
    /// ([`crate::DataFolder::create_log`] does); what is in it is with the first flush, the first roll, or
    /// [`PartitionLog::sync_new_files`], which the checkpoints call. A power cut before leaves the folder without some
    /// of its files, or with empty ones: nothing in them was acknowledged as durable, and who knows the topic makes
    /// them again ([`crate::DataFolder::adopt`]). No record is durable before `partition.metadata` is, which tells its
    /// topic from one of the same name.
    pub fn create(
        env: &Arc<StoreEnv>,
        folder: &Path,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<PartitionLog, OpenError> {
        let fs = env.fs.as_ref();
        fs.create_dir_all(folder).map_err(io_error(folder))?;
        if holds_data(fs, folder).map_err(io_error(folder))? {
            return Err(OpenError::Exists { path: folder.to_owned() });
        }
        for suffix in [names::LOG, names::INDEX, names::TIME_INDEX] {
            let path = folder.join(names::segment_file(Offset::ZERO, suffix));
            fs.open(&path, &OpenOptions::create_empty()).map_err(io_error(&path))?;
        }
        let path = folder.join(partition_metadata::FILE_NAME);
        let file = fs.open(&path, &OpenOptions::create_empty()).map_err(io_error(&path))?;
        file.write_all_at(&partition_metadata::encode(topic_id), 0).map_err(io_error(&path))?;
        let facts = OpenFacts { clean: true, ..OpenFacts::default() };
        let (log, _) = PartitionLog::open(env, folder, partition, &facts, config)?;
        log.state.lock().unsynced.set_new_files(true);
        log.journal.note_new_names(&[partition_metadata::FILE_NAME]);
        Ok(log)
    }

    /// Writes `partition.metadata`, durably.
    pub(crate) fn write_topic_id(fs: &dyn Fs, folder: &Path, topic_id: TopicId) -> Result<(), OpenError> {
        let path = folder.join(partition_metadata::FILE_NAME);
        fs.atomic_write(&path, &partition_metadata::encode(topic_id)).map_err(io_error(&path))
    }

    /// Opens an existing folder; scans from the recovery point on unless the stop was clean. The usual way is
    /// [`crate::DataFolder::open_log`].
    pub fn open(
        env: &Arc<StoreEnv>,
        folder: &Path,
        partition: TopicPartition,
        facts: &OpenFacts,
        config: Arc<LogConfig>,
    ) -> Result<(PartitionLog, LogRecovery), OpenError> {
        let mut opening = Opening::begin(env, folder, partition, facts, config)?;
        opening.set_misplaced_aside()?;
        let trusted = opening.trusted_end()?;
        let opened = match trusted {
            Some(end) => opening.open_trusted(end)?,
            None => opening.open_scanning()?,
        };
        if facts.log_start.is_some_and(|log_start| log_start > opened.next_offset) && opening.holds_data()? {
            // What the log start says is gone may be all that is left: a power cut took the end, or the number is
            // wrong.
            drop(opened);
            opening.park_segments()?;
            return PartitionLog::open(env, folder, opening.partition, facts, opening.config);
        }
        opening.assemble(opened)
    }
}

/// A log on its way.
struct Opening<'a> {
    env: &'a Arc<StoreEnv>,
    folder: &'a Path,
    partition: TopicPartition,
    facts: &'a OpenFacts,
    config: Arc<LogConfig>,
    listing: Listing,
    topic_id: Option<TopicId>,
    /// `None`: the file is absent or damaged while there is data. It is made again from the batches.
    epochs: Option<Epochs>,
    /// Segments that were set aside because they begin before their names.
    misplaced: usize,
}

/// What came out of either way to open.
struct Opened {
    journal: Journal,
    index: ActiveIndex,
    end_position: u64,
    next_offset: Offset,
    epochs: Epochs,
    producers: Producers,
    /// The snapshot of them with which the opening began.
    snapshot: Option<Offset>,
    with_aborted: Vec<Offset>,
    /// Segments whose index files were made again, and are not durable.
    rebuilt: Vec<Offset>,
    recovery: LogRecovery,
}

impl<'a> Opening<'a> {
    fn begin(
        env: &'a Arc<StoreEnv>,
        folder: &'a Path,
        partition: TopicPartition,
        facts: &'a OpenFacts,
        config: Arc<LogConfig>,
    ) -> Result<Self, OpenError> {
        let fs = env.fs.as_ref();
        let listing = Listing::read(fs, folder).map_err(io_error(folder))?;
        let topic_id = match facts.topic_id {
            None => known::read_topic_id(fs, folder, &partition)?,
            known => known,
        };
        let epochs = match small_file::load(fs, &folder.join(epoch_checkpoint::FILE_NAME), epoch_checkpoint::decode)? {
            Loaded::Content(entries) => Some(Epochs::new(entries)),
            other => {
                if other != Loaded::Absent {
                    tracing::warn!(%partition, "rebuilding {} from the log: {other:?}", epoch_checkpoint::FILE_NAME);
                }
                None
            }
        };
        Ok(Opening { env, folder, partition, facts, config, listing, topic_id, epochs, misplaced: 0 })
    }

    fn segment_file<R>(
        &self,
        base: Offset,
        work: impl FnOnce(&SegmentFile<'_>) -> io::Result<R>,
    ) -> Result<R, OpenError> {
        let path = self.folder.join(names::segment_file(base, names::LOG));
        let fs = self.env.fs.as_ref();
        let run = || {
            let file = fs.open(&path, &OpenOptions::read())?;
            let len = file.len()?;
            work(&SegmentFile { fs, folder: self.folder, base, file: file.as_ref(), len })
        };
        run().map_err(io_error(&path))
    }

    /// The end of the log, if it can be taken as it is: after an orderly stop, or when nothing was written since
    /// everything was durable. `None`: it must be scanned.
    fn trusted_end(&self) -> Result<Option<(SegmentEnd, u64)>, OpenError> {
        let Some(last) = self.listing.segments.last().copied() else { return Ok(None) };
        let interval = self.config.index_interval_bytes;
        let (end, len) = self.segment_file(last, |segment| Ok((segment.load_end(interval)?, segment.len)))?;
        let Some(end) = end else { return Ok(None) };
        let has_epochs = self.epochs.is_some() || end.next_offset == self.listing.segments[0];
        // An orderly stop notes the end as the recovery point: if the bytes tell another end, they are looked at.
        let as_noted = self.facts.recovery_point.map(|point| point == end.next_offset);
        Ok((has_epochs && as_noted.unwrap_or(self.facts.clean)).then_some((end, len)))
    }

    fn open_trusted(&self, (end, end_position): (SegmentEnd, u64)) -> Result<Opened, OpenError> {
        let rebuilt = self.rebuild_missing_indexes(|_| true)?;
        let (producers, snapshot) = self.producers_at(end.next_offset)?;
        let journal = self.open_journal(RecoverFrom::Clean, &mut NoScan)?.0;
        Ok(Opened {
            journal,
            index: end.index,
            end_position,
            next_offset: end.next_offset,
            epochs: self.epochs.clone().unwrap_or_default(),
            producers,
            snapshot,
            with_aborted: self.settle_transaction_indexes(end.next_offset)?,
            recovery: LogRecovery {
                indexes_rebuilt: rebuilt.len(),
                segments_parked: self.misplaced,
                ..LogRecovery::default()
            },
            rebuilt,
        })
    }

    fn open_scanning(&self) -> Result<Opened, OpenError> {
        let start = self.scan_start()?;
        let first_scanned = start.index.as_ref().map_or(start.offset, |index| index.base);
        let mut recovery = LogRecovery { logs: 1, ..LogRecovery::default() };
        let mut rebuilt = self.rebuild_missing_indexes(|base| base < first_scanned)?;
        let (producers, snapshot) = self.producers_at(start.offset)?;
        let mut scanner = RecoveryScanner {
            fs: self.env.fs.as_ref(),
            folder: self.folder,
            interval_bytes: self.config.index_interval_bytes,
            gaps_allowed: self.gaps_allowed(),
            durable_before: self.facts.recovery_point.max(self.facts.cleaned_to).unwrap_or(Offset::ZERO),
            next_offset: start.offset,
            producers,
            epochs: self.epochs_before(&start)?,
            aborted: self.aborted_before(&start)?,
            index: start.index,
            segments_with_aborted: Vec::new(),
            rebuilt: Vec::new(),
            error: None,
        };
        let (journal, report) = self.open_journal(start.from, &mut scanner)?;
        if report.found_damage() {
            tracing::warn!(partition = %self.partition, "{report}");
        }
        let finished = scanner.finish_segment(false);
        scanner.error.map_or(finished, Err).map_err(io_error(self.folder))?;
        recovery.segments_scanned = report.segments_scanned as usize;
        recovery.bytes_scanned = report.bytes_scanned;
        recovery.bytes_cut = report.cut.map_or(0, |cut| cut.bytes);
        recovery.segments_parked = report.parked.len() + self.misplaced;
        let ends_short = self.facts.recovery_point.is_some_and(|point| scanner.next_offset < point);
        recovery.logs_short = usize::from(ends_short);
        rebuilt.append(&mut scanner.rebuilt);
        recovery.indexes_rebuilt = rebuilt.len();
        let end = self.end_of(&journal)?;
        let base = Offset(end.segment.0 as i64);
        let index = scanner.index.filter(|index| index.base == base).unwrap_or_else(|| ActiveIndex::new(base));
        let before = self.listing.transaction_indexes.iter().copied().filter(|base| *base < first_scanned);
        let with_aborted = before.chain(scanner.segments_with_aborted.iter().copied()).collect();
        let mut epochs = scanner.epochs;
        // An epoch that begins at the end has no record yet; it stays.
        epochs.truncate_end(scanner.next_offset.max(base).plus(1));
        // The file has to say what the batches say.
        let known = self.epochs.as_ref().map(Epochs::entries);
        epochs.dirty = known.unwrap_or_default() != epochs.entries() || (known.is_none() && recovery.bytes_scanned > 0);
        Ok(Opened {
            journal,
            index,
            end_position: end.position,
            next_offset: scanner.next_offset.max(base),
            epochs,
            producers: scanner.producers,
            snapshot,
            with_aborted,
            rebuilt,
            recovery,
        })
    }

    /// Whether a segment may begin above the end of the one before without a reason for it being known. Our own
    /// compaction touches nothing above the recovery point on the disk, so a gap there is what a power cut took.
    fn gaps_allowed(&self) -> bool {
        self.config.cleanup_compact && (self.facts.foreign || self.facts.recovery_point.is_none())
    }

    fn open_journal(
        &self,
        from: RecoverFrom,
        scanner: &mut dyn mainstem_journal::EntryScanner,
    ) -> Result<(Journal, mainstem_journal::RecoveryReport), OpenError> {
        let options = journal_options(&self.config);
        Journal::open(&self.env.host, self.folder, options, from, scanner).map_err(|error| match error {
            JournalError::Directory { dir, source } => OpenError::Io { path: dir, error: source },
            JournalError::Read { path, source } | JournalError::Repair { path, source, .. } => {
                OpenError::Io { path, error: source }
            }
            stopped @ JournalError::Stopped { .. } => OpenError::Journal(stopped.to_string()),
        })
    }

    /// What is not durable of a log that begins with the segment `first`. `rebuilt`: segments whose indexes were made
    /// again.
    fn unsynced(&self, mut rebuilt: Vec<Offset>, first: Offset, state: &LogState) -> Unsynced {
        rebuilt.retain(|base| *base < state.segments.active().base);
        let recovery_point = self.facts.recovery_point.map(|point| point.min(state.next_offset));
        let checkpointed = recovery_point.map(|recovery_point| CheckpointEntry {
            recovery_point,
            log_start: state.log_start,
            log_start_matters: state.log_start > first,
            cleaned_to: self.facts.cleaned_to,
        });
        let mut unsynced = Unsynced::opened(rebuilt, checkpointed, recovery_point.unwrap_or(Offset::ZERO));
        // A process that was killed left names that no sync covers; where nothing is known to be durable, the first
        // files too.
        unsynced.set_new_files(!self.facts.clean && self.facts.recovery_point.is_none_or(|point| point <= first));
        unsynced
    }

    fn assemble(self, opened: Opened) -> Result<(PartitionLog, LogRecovery), OpenError> {
        let fs = self.env.fs.as_ref();
        let journal = opened.journal;
        let mut segments: Vec<_> =
            journal.segment_bases().into_iter().map(|base| SegmentView::new(Offset(base.0 as i64))).collect();
        segments.iter_mut().for_each(|segment| segment.has_aborted = opened.with_aborted.contains(&segment.base));
        let bases: Vec<_> = segments.iter().map(|segment| segment.base).collect();
        self.listing.remove_orphans(fs, self.folder, &bases).map_err(io_error(self.folder))?;
        let found = FoundSnapshots {
            listed: &self.listing.snapshots,
            segments: &bases,
            end: opened.next_offset,
            used: opened.snapshot,
        };
        let durable_up_to = if self.facts.clean { Some(opened.next_offset) } else { self.facts.recovery_point };
        let snapshots = Snapshots::settle(fs, self.folder, &found, durable_up_to)?;
        self.complete_active_segment(opened.index.base, opened.recovery.logs == 0)?;
        let first = bases.first().copied().unwrap_or(opened.next_offset);
        let checked = Checked::new(opened.index.base, opened.end_position);
        let mut state = LogState::new(Segments::new(segments, opened.index, opened.end_position), opened.next_offset);
        state.log_start = self.facts.log_start.unwrap_or(first).clamp(first, opened.next_offset);
        state.segments.active_mut().jitter_ms =
            random_below(self.env.rng.as_ref(), self.config.segment_jitter_ms.min(self.config.segment_ms));
        state.epochs = opened.epochs;
        // A kill may come between the deletion of segments and the file of epochs that follows.
        state.epochs.truncate_start(state.log_start);
        state.producers = opened.producers;
        state.snapshots = snapshots;
        state.cleaned_to = self.facts.cleaned_to;
        state.unsynced = self.unsynced(opened.rebuilt, first, &state);
        if !self.facts.clean {
            journal.note_new_names(&[partition_metadata::FILE_NAME]);
        }
        state.in_order().map_err(io::Error::other).map_err(io_error(self.folder))?;
        let durability = Arc::new(Durability::new(opened.next_offset));
        let observer = Arc::downgrade(&durability);
        journal.set_observer(observer);
        let log = PartitionLog {
            env: Arc::clone(self.env),
            number: crate::log_number::LogNumber::new(self.env.next_log_number()),
            partition: self.partition,
            topic_id: self.topic_id,
            folder: self.folder.to_owned(),
            config: ArcSwap::new(self.config),
            journal: Arc::new(journal),
            compacting: Mutex::default(),
            replacing: Mutex::default(),
            keys: Mutex::default(),
            appending: Mutex::default(),
            state: Mutex::new(state),
            durability,
            hints: Mutex::default(),
            checked,
            failed: OnceLock::new(),
        };
        if let Some(log_start) = self.facts.log_start.filter(|log_start| *log_start > log.log_end()) {
            // The records up to the log start were lost with a power cut; their offsets were seen and are not given
            // again.
            log.restart_at(log_start)?;
        }
        Ok((log, opened.recovery))
    }
}

/// Whether a folder holds a segment that is not the empty first one, which a creation that failed leaves behind.
fn holds_data(fs: &dyn Fs, folder: &Path) -> io::Result<bool> {
    let listing = Listing::read(fs, folder)?;
    let first = folder.join(names::segment_file(Offset::ZERO, names::LOG));
    match listing.segments.as_slice() {
        [] => Ok(false),
        [base] if *base == Offset::ZERO => Ok(fs.metadata(&first)?.is_some_and(|metadata| metadata.len > 0)),
        _ => Ok(true),
    }
}
