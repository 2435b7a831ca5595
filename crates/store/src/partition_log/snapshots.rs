//! The producers' states on the disk.
//!
//! A producer is known until it expires, also when its records are gone: taken by retention, by DeleteRecords, by
//! compaction. So
//!
//! - before segments go from the front, the snapshot at the base of the first one that stays is whole and durable
//!   ([`PartitionLog::keep_producers`]): from there on the batches tell the rest;
//! - before a recovery point is written down, the snapshots below it are durable, so that a recovery need not go far
//!   back;
//! - a snapshot that is at no segment's base goes when a younger one takes its place: one that is durable, and below
//!   the recovery point that is on the disk.
//!
//! Others are hints: a torn one is not believed.

use std::io;

use super::listing::{self, Listing};
use super::producer_snapshots::{file, load};
use super::segment_file::SegmentFile;
use super::state::LogState;
use super::{PartitionLog, segment_base};
use crate::error::{OpenError, StorageError};
use crate::formats::{names, producer_snapshot};
use crate::views::index_file;
use crate::views::producers::Producers;
use mainstem_env::{Fs, OpenDir, OpenOptions};
use mainstem_types::Offset;

impl PartitionLog {
    /// Writes the producers' state as of `offset`, below which the log has all it will have, unless there is a snapshot
    /// of it. Not durable.
    pub(super) fn take_snapshot(&self, state: &mut LogState, offset: Offset) -> Result<(), StorageError> {
        if state.snapshots.newest.is_some_and(|newest| newest >= offset) || offset == Offset::ZERO {
            return Ok(());
        }
        let path = file(&self.folder, offset);
        let bytes = producer_snapshot::encode(&state.producers.snapshot());
        // An empty one in its place, so that none has to be created.
        self.journal.take_prepared(names::PRODUCER_SNAPSHOT, &path);
        let write = |fs: &dyn Fs| fs.open(&path, &OpenOptions::create_empty())?.write_all_at(&bytes, 0);
        write(self.fs()).map_err(|error| StorageError { action: "write", path: path.clone(), error: error.into() })?;
        let of_segment = state.segments.has(offset);
        state.snapshots.taken(offset, of_segment);
        Ok(())
    }

    /// Makes durable the snapshots that were written since the last call.
    pub(super) fn sync_snapshots(&self) -> Result<(), StorageError> {
        let (unsynced, cuts) = {
            let state = self.state.lock();
            (state.snapshots.unsynced(), state.segments.cuts())
        };
        for offset in unsynced {
            let path = file(&self.folder, offset);
            index_file::sync(self.fs(), &path).map_err(|error| self.sync_error(&path, error))?;
            let mut state = self.state.lock();
            // After a cut it may be another file.
            if state.segments.cuts() == cuts {
                state.snapshots.synced(offset);
            }
        }
        Ok(())
    }

    /// Removes snapshots whose place younger ones have taken. To be called when the recovery point on the disk is
    /// known.
    pub(super) fn remove_superseded_snapshots(&self) {
        let gone: Vec<Offset> = {
            let mut state = self.state.lock();
            let recovery_point = state.unsynced.recovery_point();
            let mut gone = state.snapshots.superseded(recovery_point);
            gone.retain(|offset| !state.segments.has(*offset));
            gone
        };
        for offset in gone {
            // This only saves space; the next opening removes leftover files.
            let _ = self.fs().remove_file(&file(&self.folder, offset));
        }
    }

    /// Puts what the batches before `first` tell of their producers into a durable snapshot there, unless there is one:
    /// before these go. The folder is to be synced by the caller if `first` is the base of a segment whose name is not
    /// durable.
    pub(super) fn keep_producers(&self, first: Offset) -> Result<(), StorageError> {
        let path = file(&self.folder, first);
        let keep = || {
            if load(self.fs(), &self.folder, first).map_err(io_of)?.is_some() {
                return index_file::sync(self.fs(), &path);
            }
            let bases = self.journal.segment_bases();
            let mut segments = Vec::with_capacity(bases.len());
            for base in bases.into_iter().map(|base| Offset(base.0 as i64)).take_while(|base| *base < first) {
                let len = self.journal.segment_len(segment_base(base));
                segments.push((base, len.map_err(|error| io::Error::other(error.to_string()))?));
            }
            let (producers, _) = self.producers_from_files(&segments, first)?;
            self.fs().atomic_write(&path, &producer_snapshot::encode(&producers.snapshot()))
        };
        keep().map_err(|error| StorageError {
            action: "keep the producers in",
            path: path.clone(),
            error: error.into(),
        })
    }

    /// The producers' state as of `end`, from the youngest good snapshot up to there and the headers after it; and that
    /// snapshot.
    fn producers_from_files(&self, segments: &[(Offset, u64)], end: Offset) -> io::Result<(Producers, Option<Offset>)> {
        let mut producers = Producers::default();
        let mut used = None;
        for offset in Listing::look(self.fs(), &self.folder)?.snapshots.into_iter().rev().filter(|at| *at <= end) {
            let known = load(self.fs(), &self.folder, offset).map_err(io_of)?;
            if let Some(known) = known {
                (producers, used) = (known, Some(offset));
                break;
            }
        }
        let from = producers.end.max(segments.first().map_or(end, |(base, _)| *base));
        let index = segments.partition_point(|(base, _)| *base <= from).saturating_sub(1);
        for (base, len) in &segments[index..] {
            self.with_segment(*base, *len, |segment: &SegmentFile<'_>| segment.replay(&mut producers, from, end))?;
        }
        producers.end = end;
        Ok((producers, used))
    }

    /// The producers' state as of `end`, where the last of these segments will end.
    pub(super) fn producers_below(&self, segments: &[(Offset, u64)], end: Offset) -> io::Result<ProducersBelow> {
        let listed = Listing::look(self.fs(), &self.folder)?.snapshots;
        let above = listed.into_iter().filter(|offset| *offset > end).collect();
        let (producers, used) = self.producers_from_files(segments, end)?;
        Ok(ProducersBelow { producers, used, above })
    }

    /// After a cut at `end`: that is their state, and no snapshot tells of what was above. Opens nothing.
    pub(super) fn settle_producers(
        &self,
        state: &mut LogState,
        end: Offset,
        below: ProducersBelow,
        folder: &dyn OpenDir,
    ) -> io::Result<()> {
        for offset in &below.above {
            listing::remove_if_present(self.fs(), &file(&self.folder, *offset))?;
        }
        if !below.above.is_empty() {
            // Other batches will have these offsets: what a power cut brings back must not speak of them.
            folder.sync()?;
        }
        state.producers = below.producers;
        state.snapshots.cut(end, below.used);
        Ok(())
    }
}

/// Whether a descriptor was missing must stay known.
fn io_of(error: OpenError) -> io::Error {
    match error {
        OpenError::Io { error, .. } => error,
        other => io::Error::other(other.to_string()),
    }
}

/// What a cut makes of the producers.
pub(super) struct ProducersBelow {
    producers: Producers,
    /// The snapshot that it comes from.
    used: Option<Offset>,
    /// Snapshots above the cut.
    above: Vec<Offset>,
}
