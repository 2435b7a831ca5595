//! One partition: its segments, its indexes, its producers, its epochs.
//!
//! The parts of a log each hide what they hold, and keep its rules in one file:
//!
//! | part | its knowledge |
//! | --- | --- |
//! | `segments.rs` | which segments there are, the index of the active one, where it ends, what was cut or swapped |
//! | `unsynced.rs` | what is not known to be durable, and what the checkpoint files say |
//! | `producer_snapshots.rs` | the snapshots of the producers' states |
//! | `deleted_files.rs` | files that are removed later |
//! | `views/epochs.rs`, `views/producers.rs` | leader epochs; producers and their open transactions |
//! | `durability.rs` | from the journal's durable location to the durable end; who is told |
//! | `state.rs` | these parts under one lock, and the order of positions |
//!
//! Locks, in the order in which they may be taken: `replacing` (held by whoever changes files of sealed segments:
//! retention, a cut, the swap of a compaction; for as long as that takes) → `appending` (held across the page-cache
//! write of an append, and by whoever rolls, cuts or closes) → `state` (held for moments; across IO only while segments
//! change) → the journal's own → `marks` of the durability. Reads take `state` for a moment, and no lock while they
//! read: they wait for no append, however slow the disk is.

pub(crate) mod active_index;
mod append;
mod begin_below;
mod checked;
mod damage;
mod deleted_files;
mod flush;
mod headers;
mod keys;
mod listing;
mod locate;
mod look;
mod open;
mod producer_snapshots;
mod read;
mod replace;
mod replicated;
mod retention;
mod roll;
mod scanner;
mod sealed;
mod segment_file;
mod segments;
mod snapshots;
mod span;
mod state;
mod time_lookup;
mod truncate;
mod unsynced;

#[cfg(test)]
pub(crate) mod tests;

pub use open::OpenFacts;
pub(crate) use replace::Replacement;
pub(crate) use sealed::{LastOfProducer, Sealed, SealedSegment};
pub(crate) use unsynced::CheckpointEntry;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mainstem_env::Fs;
use mainstem_journal::{Journal, JournalOptions};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};
use parking_lot::Mutex;
use state::LogState;

use crate::config::{self, LogConfig};
use crate::durability::{self, Durability};
use crate::error::StorageError;
use crate::formats::epoch_checkpoint::EpochEntry;
use crate::formats::names;
use crate::log_number::LogNumber;
use crate::log_types::{LogEnds, LogPositions, ProducerSummary, ReadPositions};
use crate::store_env::StoreEnv;
use crate::views::producers;

/// One partition of one topic. The crate documentation has the guarantees.
#[derive(Debug)]
pub struct PartitionLog {
    env: Arc<StoreEnv>,
    number: LogNumber,
    partition: TopicPartition,
    topic_id: Option<TopicId>,
    folder: PathBuf,
    config: ArcSwap<LogConfig>,
    journal: Arc<Journal>,
    /// One compaction at a time.
    pub(crate) compacting: Mutex<()>,
    replacing: Mutex<()>,
    keys: Mutex<keys::Keys>,
    appending: Mutex<()>,
    state: Mutex<LogState>,
    durability: Arc<Durability>,
    hints: Mutex<locate::Hints>,
    checked: checked::Checked,
    /// An error of the disk outside the journal: in an index or a checkpoint of this log.
    failed: OnceLock<StorageError>,
}

impl PartitionLog {
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// From `partition.metadata`; `None` when the file is absent (folders of old Kafkas).
    pub fn topic_id(&self) -> Option<TopicId> {
        self.topic_id
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Exchanges the settings; they apply from the next append or pass on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.journal.set_options(journal_options(&config));
        let promises_more = config.durability != config::Durability::Memory;
        let old = self.config.swap(config);
        if promises_more && old.durability == config::Durability::Memory {
            durability::write_out(&self.journal);
        }
    }

    pub fn positions(&self) -> LogPositions {
        let state = self.state.lock();
        LogPositions {
            log_start: state.log_start,
            durable_end: self.durability.end().min(state.next_offset),
            log_end: state.next_offset,
            first_open_transaction: state.producers.first_open(),
        }
    }

    /// Under one lock: every fetch asks.
    pub fn read_positions(&self, high_watermark: Offset) -> ReadPositions {
        let mut state = self.state.lock();
        ReadPositions {
            log_start: state.log_start,
            log_end: state.next_offset,
            first_unstable: state.producers.first_unstable(high_watermark),
        }
    }

    pub fn log_start(&self) -> Offset {
        self.state.lock().log_start
    }

    pub fn log_end(&self) -> Offset {
        self.state.lock().next_offset
    }

    /// Where the log ends, and which of its records may be acknowledged.
    pub fn ends(&self) -> LogEnds {
        let state = self.state.lock();
        let log_end = state.next_offset;
        // The settings after the lock: a batch is never judged by settings that are older than it.
        let durability = self.config.load().durability;
        LogEnds { log_end, acknowledged: self.durability.acknowledged_end(durability, log_end) }
    }

    /// Everything below is on the disk.
    pub fn durable_end(&self) -> Offset {
        self.durability.end()
    }

    /// Bytes in `.log` files.
    pub fn size_bytes(&self) -> u64 {
        // A file whose length cannot be asked is one that cannot be read either; this is a number for people.
        self.journal.total_bytes().unwrap_or(0)
    }

    pub fn segment_count(&self) -> usize {
        self.state.lock().segments.all().len()
    }

    /// First offset of the oldest open transaction, given the high watermark: a transaction whose marker is not yet
    /// below it counts as open.
    pub fn first_unstable_offset(&self, high_watermark: Offset) -> Option<Offset> {
        self.state.lock().producers.first_unstable(high_watermark)
    }

    pub fn producers(&self) -> Vec<ProducerSummary> {
        let state = self.state.lock();
        let summary = |(id, producer): (&mainstem_types::ProducerId, &producers::Producer)| ProducerSummary {
            producer_id: *id,
            epoch: producer.epoch,
            last_sequence: producer.last_sequence(),
            last_timestamp: TimestampMs(producer.last_timestamp_ms),
            coordinator_epoch: producer.coordinator_epoch,
            transaction_first_offset: producer.transaction_first_offset,
        };
        let mut all: Vec<_> = state.producers.iter().map(summary).collect();
        all.sort_unstable_by_key(|producer| producer.producer_id);
        all
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`; gives their number.
    pub fn expire_producers(&self, now: TimestampMs) -> usize {
        let expiration_ms = self.config.load().producer_id_expiration_ms;
        self.state.lock().producers.expire(now, expiration_ms)
    }

    /// The newest epoch noted, with its start.
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.state.lock().epochs.latest()
    }

    /// Notes that `epoch` begins at the log end, as a new leader does before its first append. Older epochs are
    /// ignored.
    ///
    /// Costs no IO: the file is written when the log is rolled, checkpointed or closed, and what a crash takes of it
    /// follows from the batches.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.check_alive()?;
        // Not between the write of a batch of the epoch before and its entry into the views.
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        let end = state.next_offset;
        state.epochs.begin(epoch, end);
        state.fence = state.fence.max(epoch);
        Ok(())
    }

    /// This node does not lead in `epoch`: batches that would be stamped with it, or with an earlier one, are refused
    /// from now on.
    pub fn end_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.check_alive()?;
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        state.fence = state.fence.max(LeaderEpoch(epoch.0.saturating_add(1)));
        Ok(())
    }

    /// Ends the log because what is known of it cannot be right; says so, and gives the error that appends get from
    /// now on.
    pub fn end_with(&self, reason: String) -> StorageError {
        self.fail("trust", &self.folder, std::io::Error::other(reason))
    }

    /// OffsetForLeaderEpoch: (largest epoch at or below the requested, its end offset). The current epoch ends at the
    /// log end; one older than all that is known ends where the oldest begins; (-1, -1) is "unknown", also for a newer
    /// one.
    pub fn end_offset_for_epoch(&self, requested: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let state = self.state.lock();
        state.epochs.end_offset_for(requested, state.next_offset)
    }

    /// The epoch of the record at an offset.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.state.lock().epochs.epoch_for(offset)
    }

    /// To be called after each change of the positions, with the state that holds them: what is out of order ends the
    /// log, and nothing is served or written that rests on it.
    fn check_order(&self, state: &LogState) -> Result<(), StorageError> {
        state.in_order().map_err(|reason| self.end_with(reason))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.state.lock().leaving
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The error that ended this log, if one did.
    pub fn failure(&self) -> Option<StorageError> {
        self.failed.get().cloned().or_else(|| self.journal.failure().map(|f| durability::storage_error(&f)))
    }

    /// Frees the tail cache if nothing was appended since the last call. To be called now and then.
    pub fn release_if_idle(&self) {
        let mut state = self.state.lock();
        let end = state.next_offset;
        let idle = std::mem::replace(&mut state.idle_end, end) == end;
        drop(state);
        if idle {
            self.journal.release_tail();
        }
    }

    pub(crate) fn check_alive(&self) -> Result<(), StorageError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Ends the log with an error; the first one stays.
    fn fail(&self, action: &'static str, path: &Path, error: std::io::Error) -> StorageError {
        let failure = StorageError { action, path: path.to_owned(), error: Arc::new(error) };
        tracing::error!(partition = %self.partition, "{failure}");
        self.failed.get_or_init(|| failure).clone()
    }

    /// An error of the disk ends the log, unless it is for want of space or descriptors and nothing of what was there
    /// is lost.
    fn file_error(&self, action: &'static str, path: &Path, error: std::io::Error) -> StorageError {
        if mainstem_env::may_pass(&error) {
            return StorageError { action, path: path.to_owned(), error: Arc::new(error) };
        }
        self.fail(action, path, error)
    }

    /// An error of a sync ends the log: what was written may be lost, and a second sync would not tell. A file that
    /// could not be opened for want of a descriptor is synced later.
    fn sync_error(&self, path: &Path, error: std::io::Error) -> StorageError {
        if mainstem_env::is_out_of_descriptors(&error) {
            return StorageError { action: "open for a sync", path: path.to_owned(), error: Arc::new(error) };
        }
        self.fail("sync", path, error)
    }

    pub(crate) fn file(&self, base: Offset, suffix: &str) -> PathBuf {
        self.folder.join(names::segment_file(base, suffix))
    }

    pub(crate) fn fs(&self) -> &dyn Fs {
        self.env.fs.as_ref()
    }

    pub(crate) fn env(&self) -> &StoreEnv {
        &self.env
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    /// See [`LogNumber::renew`].
    fn renew_number(&self) {
        let old = self.number.renew(self.env.next_log_number());
        self.env.indexes.forget(old);
        self.hints.lock().clear();
    }

    /// See [`LogNumber::unmixed`].
    fn unmixed<R>(&self, look: impl Fn() -> R) -> R {
        self.number.unmixed(look)
    }
}

impl Drop for PartitionLog {
    fn drop(&mut self) {
        self.env.indexes.forget(self.number());
    }
}

/// Bytes of the tail cache of one log: enough for a consumer that is a few round trips behind.
const TAIL_CACHE_BYTES: usize = 64 << 10;
/// The largest batch that recovery believes in; `max.message.bytes` may have been larger than it is now.
const BATCH_BYTES_MAX: usize = 512 << 20;

fn journal_options(config: &LogConfig) -> JournalOptions {
    JournalOptions {
        suffix: names::LOG,
        segment_bytes: u64::from(config.segment_bytes),
        max_entry_bytes: BATCH_BYTES_MAX,
        tail_cache_bytes: TAIL_CACHE_BYTES,
        // Reserved blocks do not change the length of the file, so a Kafka that finds it sees nothing of them.
        preallocate: true,
        companions: &[names::INDEX, names::TIME_INDEX, names::PRODUCER_SNAPSHOT],
        ..JournalOptions::default()
    }
}

fn segment_base(base: Offset) -> mainstem_journal::SegmentBase {
    mainstem_journal::SegmentBase(base.0.max(0) as u64)
}
