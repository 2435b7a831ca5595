//! Appending the batches of one request: on the reactor as long as that is little work, the rest in turns on threads
//! for heavy work. Folders of partitions that have none yet are created before that, on threads that may wait.
//!
//! Numbers: on a reactor at most 256 batches of a request, whose records take 4 MiB together once they are decompressed
//! (64 KiB each is always allowed); elsewhere 20 ms a turn (and one batch at least).
//!
//! The order of the batches is kept: once one is left for later, so are all behind it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_env::Clock;
use mainstem_store::{AppendError, Appended, Origin};
use mainstem_types::TimestampMs;

use crate::broker::Broker;
use crate::commit_wait::Commit;
use crate::new_folders;
use crate::partition::{Partition, is_too_much_to_unpack};

const REACTOR_BATCHES_MAX: usize = 256;
const REACTOR_UNPACKED_BYTES_MAX: usize = 4 << 20;
const REACTOR_UNPACKED_BYTES_MIN: usize = 64 << 10;
const TURN: Duration = Duration::from_millis(20);

/// The parts that the batches of one request share.
#[derive(Debug, Clone, Copy)]
pub struct AppendTerms {
    pub now: TimestampMs,
    pub zstd_allowed: bool,
    /// Whether the request waits until the records are committed.
    pub awaits_commits: bool,
}

/// A batch that was appended, and the wait until it is committed: `Done` if the request does not wait.
#[derive(Debug)]
pub struct AppendedBatch {
    pub appended: Appended,
    pub commit: Commit,
}

/// What became of a batch.
pub type BatchOutcome = Result<AppendedBatch, AppendError>;

/// The batches of one request. `P` says where in its answer a batch belongs.
pub struct BatchAppends<P> {
    terms: AppendTerms,
    /// Nothing more is appended on the reactor.
    is_full: bool,
    unpacked_bytes_max: usize,
    rest: std::collections::VecDeque<(P, Arc<Partition>, Bytes)>,
}

impl<P> BatchAppends<P> {
    /// For a request of `count` batches.
    pub fn new(count: usize, terms: AppendTerms) -> BatchAppends<P> {
        BatchAppends {
            terms,
            is_full: count > REACTOR_BATCHES_MAX,
            unpacked_bytes_max: (REACTOR_UNPACKED_BYTES_MAX / count.max(1)).max(REACTOR_UNPACKED_BYTES_MIN),
            rest: std::collections::VecDeque::new(),
        }
    }

    /// Appends a batch if that is little work, and its partition has a folder; else it is kept for
    /// [`BatchAppends::take_turn`], and the outcome is `None`.
    pub fn append(&mut self, place: P, partition: &Arc<Partition>, batch: Bytes) -> Option<BatchOutcome> {
        self.is_full |= partition.log().without_folder().is_some();
        if !self.is_full {
            match append(partition, &batch, self.terms, self.unpacked_bytes_max) {
                Err(error) if is_too_much_to_unpack(&error) => self.is_full = true,
                outcome => return Some(outcome),
            }
        }
        self.rest.push_back((place, Arc::clone(partition), batch));
        None
    }

    /// Whether every batch has its outcome.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether a partition of a kept batch has no folder yet: then [`BatchAppends::create_folders`] comes next, on a
    /// thread that may wait for the disk.
    pub fn wants_folders(&self) -> bool {
        self.rest.iter().any(|(_, partition, _)| partition.log().without_folder().is_some())
    }

    /// Creates the folders that kept batches need, and tells the outcome of each batch whose partition gets none. Not
    /// for a reactor.
    pub fn create_folders(&mut self, broker: &Broker, mut tell: impl FnMut(P, &Partition, BatchOutcome)) {
        let kept = std::mem::take(&mut self.rest);
        let partitions: Vec<_> = kept.iter().map(|(_, partition, _)| Arc::clone(partition)).collect();
        let refused = new_folders::create(&broker.state.folder, &partitions);
        for (place, partition, batch) in kept {
            match refused.get(&(partition.topic_id, partition.index)) {
                Some(error) => tell(place, &partition, Err(error.clone())),
                None => self.rest.push_back((place, partition, batch)),
            }
        }
    }

    /// Appends kept batches for some time, and tells the outcome of each. Not for a reactor.
    pub fn take_turn(&mut self, clock: &dyn Clock, mut tell: impl FnMut(P, &Partition, BatchOutcome)) {
        let until = clock.monotonic() + TURN;
        while let Some((place, partition, batch)) = self.rest.pop_front() {
            // Here the log's own limits are the only ones.
            let outcome = append(&partition, &batch, self.terms, usize::MAX);
            tell(place, &partition, outcome);
            if clock.monotonic() >= until {
                return;
            }
        }
    }
}

fn append(partition: &Partition, batch: &Bytes, terms: AppendTerms, unpacked_bytes_max: usize) -> BatchOutcome {
    let AppendTerms { now, zstd_allowed, awaits_commits } = terms;
    let (appended, epoch) = partition.append_within(batch, Origin::Client, now, zstd_allowed, unpacked_bytes_max)?;
    let commit = if awaits_commits { partition.committed(appended.next_offset(), epoch) } else { Commit::Done };
    Ok(AppendedBatch { appended, commit })
}
