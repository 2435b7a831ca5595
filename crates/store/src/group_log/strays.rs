//! Partitions with records in the commit log that the metadata does not know.
//!
//! Where a part of the metadata was lost, these records are all that is left of their topics: so they keep their files
//! as long as the broker keeps records of a topic that says nothing else, and the checkpoint tells of them. If the
//! metadata knows them again at a later start, they are served again. Topics that were deleted are not named in it, or
//! the log starts say so; their records keep nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mainstem_record::BatchView;
use mainstem_types::{Offset, Position, TimestampMs};

use super::log_starts::LogStarts;
use super::queue::Queue;
use super::queue_files::QueueFiles;
use super::state::{PartitionViews, Placed};
use super::{GroupLog, PartitionKey};
use crate::error::StorageError;
use crate::formats::group_checkpoint::{GroupCheckpoint, PartitionState, Share};
use crate::prepare::marker_of;
use crate::store_env::StoreEnv;
use crate::views::inspect::Inspected;

/// Of a partition that nobody reads, in each checkpoint.
const MARKS_MAX: usize = 16;

/// What a replay meets that nobody wants.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    states: BTreeMap<PartitionKey, PartitionViews>,
    /// Entries before are of deleted topics, unless the checkpoint names them.
    new_from: Position,
    seen: BTreeSet<PartitionKey>,
    /// Their topics were deleted, after the checkpoint perhaps.
    deleted: BTreeSet<PartitionKey>,
}

impl Unknown {
    /// Keeps nothing.
    pub(super) fn passed_over() -> Unknown {
        Unknown { new_from: Position::MAX, ..Unknown::default() }
    }

    /// With what a checkpoint says of partitions that are not among the known ones.
    pub(super) fn of<T>(
        checkpoint: Option<&GroupCheckpoint>,
        known: &BTreeMap<PartitionKey, T>,
        env: &StoreEnv,
        deleted: BTreeSet<PartitionKey>,
    ) -> Unknown {
        let Some(checkpoint) = checkpoint else { return Unknown { deleted, ..Unknown::default() } };
        let keyed = checkpoint.partitions.iter().map(|state| ((state.topic_id, state.partition), state));
        let strange = keyed.filter(|(key, _)| !known.contains_key(key) && !deleted.contains(key));
        let states = strange.map(|(key, state)| (key, PartitionViews::restore(no_queue(env), state))).collect();
        Unknown { states, new_from: checkpoint.covered_to(), seen: BTreeSet::new(), deleted }
    }

    pub(super) fn observe(&mut self, env: &StoreEnv, key: PartitionKey, view: &BatchView<'_>, placed: &Placed) {
        self.seen.insert(key);
        if placed.position >= self.new_from && !self.deleted.contains(&key) {
            self.states.entry(key).or_insert_with(|| PartitionViews::new(no_queue(env)));
        }
        let Some(state) = self.states.get_mut(&key) else { return };
        if view.header().next_offset() > state.next_offset {
            state.observe(view.header(), marker_of(view).ok().flatten(), placed, Inspected::default());
        }
    }

    /// How many partitions there are.
    pub(super) fn count(&self) -> usize {
        self.states.keys().chain(&self.seen).collect::<BTreeSet<_>>().len()
    }

    /// Those that have records in the commit log, whose first file is given.
    pub(super) fn into_strays(self, first_file: u64, log_starts: &LogStarts) -> Vec<PartitionState> {
        let states = self.states.into_iter().map(|(key, mut state)| {
            let log_start = log_starts.log_start(&key).unwrap_or(Offset::ZERO);
            state.raise_log_start(log_start.min(state.next_offset));
            state.marks.thin(MARKS_MAX);
            state.snapshot(key.0, key.1)
        });
        states.filter_map(|state| without(state, |share| share.segment < first_file)).collect()
    }
}

/// These records are in no queue: it takes nothing.
fn no_queue(env: &StoreEnv) -> Queue {
    Queue::new(QueueFiles::new(PathBuf::new(), 1), &env.queues, Offset(i64::MAX))
}

/// The state without its first shares, as far as they go. `None`: nothing is left.
fn without(mut state: PartitionState, goes: impl Fn(&Share) -> bool) -> Option<PartitionState> {
    let count = state.shares.iter().take_while(|share| goes(share)).count();
    state.shares.drain(..count);
    state.log_start = state.log_start.max(state.shares.first()?.first_offset);
    Some(state)
}

impl GroupLog {
    /// Partitions that the metadata does not know, whose records are kept.
    pub fn stray_count(&self) -> usize {
        self.strays.lock().len()
    }

    /// Lets go of records of unknown partitions that are older than `retention_ms` (below 0: of none). See
    /// [`GroupLog::remove_unneeded`].
    pub fn expire_strays(&self, now: TimestampMs, retention_ms: i64) -> Result<(), StorageError> {
        let mut strays = self.strays.lock();
        if strays.is_empty() || retention_ms < 0 {
            return Ok(());
        }
        let mut ages = BTreeMap::new();
        for share in strays.iter().flat_map(|stray| &stray.shares) {
            ages.insert((share.segment, share.newest_ms), now.0.saturating_sub(self.core.newest_ms(share)?));
        }
        let is_old = |share: &Share| ages.get(&(share.segment, share.newest_ms)).is_some_and(|age| *age > retention_ms);
        *strays = strays.drain(..).filter_map(|stray| without(stray, is_old)).collect();
        Ok(())
    }

    /// Lets go of records of unknown partitions in the files before a position.
    pub fn hide_strays_before(&self, position: Position) {
        let mut strays = self.strays.lock();
        *strays = strays.drain(..).filter_map(|stray| without(stray, |share| share.segment < position.0)).collect();
    }

    /// What a checkpoint is to say of them, as far as they lie before a position.
    pub(super) fn strays_before(&self, position: Position) -> Vec<PartitionState> {
        let lies_before = |stray: &&PartitionState| stray.end_position() <= position;
        self.strays.lock().iter().filter(lies_before).cloned().collect()
    }

    /// The first file that they need.
    pub(super) fn first_needed_by_strays(&self) -> Option<u64> {
        self.strays.lock().iter().filter_map(|stray| stray.shares.first()).map(|share| share.segment).min()
    }
}
