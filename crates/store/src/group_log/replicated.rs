//! Copying a commit log: a follower's is the leader's, byte for byte, and its views are made from it.
//!
//! ```text
//! leader    │ entry │ entry │ blank ┊    │ │ entry │ entry │
//! follower  │ entry │ entry │ blank ┊    │ │ entry │            ← the next piece begins here
//! ```
//! A piece is whole entries of one file. A blank ends its file, in the follower's log as in the leader's, so files
//! begin at the same positions whatever size the follower is configured with.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_journal::ReadError as JournalReadError;
use mainstem_record::{BatchHeader, BatchView};
use mainstem_types::{LeaderEpoch, Offset, Position};

use super::append::{Due, Written};
use super::commit_log::CopyError;
use super::state::{PartitionViews, Placed};
use super::unit::PlacedBatch;
use super::{GroupLog, GroupPartition, PartitionKey};
use crate::config::Durability;
use crate::error::{ReplicateError, StorageError};
use crate::formats::commit_log_entry::{self, EntryError, EntryHeader, EntryKind};
use crate::prepare::marker_of;
use crate::views::inspect::inspect;
use crate::views::producers::TransactionEnd;

/// What is to be done with entries of a partition that the group does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownPartitions {
    /// The metadata of this node may be behind the leader's: nothing is appended.
    Refuse,
    /// The metadata is as new as the leader's, so the topic was deleted: the entries are copied, and no view has them.
    Copy,
}

/// An entry of a piece, checked by itself.
struct Copied {
    partition: Option<Arc<GroupPartition>>,
    key: PartitionKey,
    header: BatchHeader,
    marker: Option<TransactionEnd>,
    /// Where its batch is in the piece.
    batch: std::ops::Range<usize>,
    at: u64,
}

impl Copied {
    fn placed(&self, piece: Position) -> PlacedBatch {
        let position = piece.plus(self.at);
        PlacedBatch {
            topic_id: self.key.0,
            partition: self.key.1,
            base_offset: self.header.base_offset,
            next_offset: self.header.next_offset(),
            leader_epoch: self.header.leader_epoch,
            position,
            end: position.plus((commit_log_entry::HEADER_SIZE + self.batch.len()) as u64),
        }
    }
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicated {
    /// Where the log ends now.
    pub end: Position,
    /// In the order of the log, those of unknown partitions among them.
    pub batches: Vec<PlacedBatch>,
}

/// The whole entries of a piece.
#[derive(Default)]
struct Piece {
    entries: Vec<Copied>,
    bytes: usize,
    /// How long the blank at its end says that it is.
    blank: Option<u32>,
}

impl GroupLog {
    /// Whole entries from a position on, those of one file, about `bytes_max` of them and at least one. Empty at the
    /// end. May wait for the disk.
    pub fn read_entries(&self, from: Position, bytes_max: usize) -> Result<Bytes, ReplicateError> {
        self.core.check_alive()?;
        let end = self.end_position();
        if from == end {
            return Ok(Bytes::new());
        }
        let start = self.start_position();
        let out_of_range = || ReplicateError::OutOfRange { log: self.name(), position: from, start, end };
        if from < start || from > end {
            return Err(out_of_range());
        }
        let at = self.core.log.location(from).map_err(|_| out_of_range())?;
        let mut bytes = vec![0; bytes_max.max(commit_log_entry::HEADER_SIZE + mainstem_record::HEADER_SIZE)];
        loop {
            let read = match self.core.log.journal.read_at(at, &mut bytes) {
                Ok(read) => read,
                Err(JournalReadError::Io { path, source }) => {
                    return Err(StorageError { action: "read", path, error: source.into() }.into());
                }
                Err(JournalReadError::NoSegment { .. } | JournalReadError::PastEnd { .. }) => {
                    return Err(out_of_range());
                }
            };
            match whole_entries(&bytes[..read]) {
                Ok(0) => return Err(out_of_range()),
                Ok(whole) => {
                    bytes.truncate(whole);
                    return Ok(bytes.into());
                }
                // One entry alone is larger.
                Err(EntryError::Partial { needed }) if needed > bytes.len() => bytes.resize(needed, 0),
                Err(_) => {
                    let reason = "the leader's own bytes there are no entry".to_owned();
                    return Err(ReplicateError::NotNext { log: self.name(), position: from, reason });
                }
            }
        }
    }

    /// Appends entries that were read from the leader's log at the same position, which must be where this log ends.
    ///
    /// Checked: both checksums of each entry, and that its offsets and epoch continue its partition. Left out are an
    /// entry at the end that the piece has only a part of, and everything from the first entry on whose epoch is later
    /// than `asked`: that leader had lost its role. A partition without records begins wherever its first entry does.
    /// Nothing is appended if there is an error, unless it is `Storage`.
    pub fn append_replicated(
        &self,
        at: Position,
        bytes: &Bytes,
        asked: LeaderEpoch,
        unknown: UnknownPartitions,
    ) -> Result<Replicated, ReplicateError> {
        self.core.check_alive()?;
        let piece = self.take_apart(at, bytes, asked, unknown)?;
        let partitions: BTreeMap<PartitionKey, Arc<GroupPartition>> =
            piece.entries.iter().filter_map(|entry| Some((entry.key, Arc::clone(entry.partition.as_ref()?)))).collect();
        for partition in partitions.values() {
            partition.make_room_for_queue()?;
        }
        // In the order of their keys, as a cut takes them.
        let order: Vec<_> = partitions.values().map(|partition| partition.appending.lock()).collect();
        self.check_follows(at, &piece)?;
        let epochs = piece.entries.iter().map(|entry| (entry.header.leader_epoch, at.plus(entry.at)));
        let written = self.core.log.write_copied(at, &bytes[..piece.bytes], epochs, piece.blank);
        let end = written.map_err(|error| self.copy_failed(at, error, partitions.values().next()))?;
        let due = piece.entries.iter().map(|entry| self.show(at, entry, bytes)).collect::<Result<Vec<_>, _>>()?;
        drop(order);
        for (entry, due) in piece.entries.iter().zip(due) {
            if let Some(partition) = &entry.partition {
                partition.write_due(due)?;
            }
        }
        Ok(Replicated { end, batches: piece.entries.iter().map(|entry| entry.placed(at)).collect() })
    }

    /// Removes everything and begins again at a position above the end: the leader does not have what is before it any
    /// more.
    ///
    /// After a crash in the middle the log is the old one or empty, and this is to be repeated.
    pub fn restart_at(&self, at: Position) -> Result<(), ReplicateError> {
        let journal = &self.core.log.journal;
        let (start, end) = (self.start_position(), self.end_position());
        if at <= end {
            return Err(self.not_next(at, format!("a log that ends at {end} begins anew above that")));
        }
        self.truncate_to(start)?;
        let _last = self.checkpointing.lock();
        let dir = journal.dir();
        Ok(self.core.log.restart_at(at).map_err(|error| self.core.fail("begin anew", dir, error))?)
    }

    fn name(&self) -> String {
        self.core.folder.display().to_string()
    }

    pub(super) fn not_next(&self, position: Position, reason: impl Into<String>) -> ReplicateError {
        ReplicateError::NotNext { log: self.name(), position, reason: reason.into() }
    }

    fn take_apart(
        &self,
        at: Position,
        bytes: &Bytes,
        asked: LeaderEpoch,
        unknown: UnknownPartitions,
    ) -> Result<Piece, ReplicateError> {
        let mut piece = Piece::default();
        while piece.bytes < bytes.len() && piece.blank.is_none() {
            let position = at.plus(piece.bytes as u64);
            let (entry, view) = match commit_log_entry::decode(&bytes[piece.bytes..]) {
                Ok(entry) => entry,
                Err(EntryError::Partial { .. }) => break,
                Err(EntryError::Damaged(reason)) => return Err(self.not_next(position, reason)),
            };
            let (EntryKind::Batch { topic_id, partition }, Some(view)) = (entry.kind, view) else {
                piece.blank = Some(entry.length);
                piece.bytes += entry.stored_len();
                continue;
            };
            if view.header().leader_epoch > asked {
                break;
            }
            let key = (topic_id, partition);
            let known = self.partition(topic_id, partition);
            if known.is_none() && unknown == UnknownPartitions::Refuse {
                return Err(ReplicateError::UnknownPartition { log: self.name(), topic_id, partition });
            }
            let marker = marker_of(&view).map_err(|error| self.not_next(position, error.to_string()))?;
            let batch = piece.bytes + commit_log_entry::HEADER_SIZE..piece.bytes + entry.stored_len();
            let at = piece.bytes as u64;
            piece.entries.push(Copied { partition: known, key, header: *view.header(), marker, batch, at });
            piece.bytes += entry.stored_len();
        }
        Ok(piece)
    }

    /// Whether offsets and epochs of each partition go on where its log ends.
    fn check_follows(&self, at: Position, piece: &Piece) -> Result<(), ReplicateError> {
        let mut ends: BTreeMap<PartitionKey, (Option<Offset>, LeaderEpoch)> = BTreeMap::new();
        for entry in &piece.entries {
            let Some(partition) = &entry.partition else { continue };
            let (due, epoch) = match ends.get(&entry.key) {
                Some(end) => *end,
                None => {
                    let state = partition.state.lock();
                    partition.check_open(&state)?;
                    let epoch = state.epochs.latest().map_or(LeaderEpoch::NONE, |latest| latest.epoch);
                    let due = if is_new(&state) { None } else { Some(state.next_offset) };
                    (due, epoch)
                }
            };
            let header = &entry.header;
            if due.is_some_and(|due| due != header.base_offset) || header.leader_epoch < epoch {
                let reason = format!(
                    "{}: offset {} of epoch {} cannot follow offset {} of epoch {epoch}",
                    partition.partition,
                    header.base_offset,
                    header.leader_epoch,
                    due.unwrap_or(Offset::ZERO)
                );
                return Err(self.not_next(at.plus(entry.at), reason));
            }
            ends.insert(entry.key, (Some(header.next_offset()), header.leader_epoch));
        }
        Ok(())
    }

    /// Brings the views up to date with an entry that was written.
    fn show(&self, at: Position, entry: &Copied, bytes: &Bytes) -> Result<Due, ReplicateError> {
        let Some(partition) = &entry.partition else { return Ok(Due::default()) };
        let config = partition.config.load();
        let Ok(view) = BatchView::parse(&bytes[entry.batch.clone()]) else { return Ok(Due::default()) };
        let inspected = inspect(&view, partition.topic_hash, config.key_indexing);
        let position = at.plus(entry.at);
        let segment = self.core.log.segment_of(position).map_or(0, |segment| segment.0);
        let size = (commit_log_entry::HEADER_SIZE + entry.batch.len()) as u32;
        let placed = Placed { segment, position, size };
        {
            let mut state = partition.state.lock();
            // Its earlier records were deleted before this node had a replica: it begins where the leader's begins now.
            state.from_nothing |= is_new(&state);
        }
        let written = Written { header: entry.header, marker: entry.marker, placed, durability: Durability::Os };
        Ok(partition.observe(written, inspected)?.1)
    }

    fn copy_failed(&self, at: Position, error: CopyError, any: Option<&Arc<GroupPartition>>) -> ReplicateError {
        match (error, any) {
            (CopyError::End(end), _) => self.not_next(at, format!("this log ends at {end}")),
            (CopyError::Write(error), Some(partition)) => partition.write_failed(error).into(),
            // What is copied has its own epochs: it is not fenced.
            (CopyError::Write(error), None) => {
                let (path, error) = (self.core.folder.clone(), std::io::Error::other(format!("{error:?}")));
                StorageError { action: "write", path, error: Arc::new(error) }.into()
            }
        }
    }
}

/// Whether a partition has had no entry yet, as far as the commit log goes back.
fn is_new(state: &PartitionViews) -> bool {
    state.last.size == 0
}

/// The length of the whole entries that the bytes begin with. `Partial`: not even the first one is whole.
fn whole_entries(bytes: &[u8]) -> Result<usize, EntryError> {
    let mut whole = 0;
    while whole < bytes.len() {
        let entry = match EntryHeader::decode(&bytes[whole..]) {
            Ok(entry) => entry,
            Err(EntryError::Partial { .. }) if whole > 0 => break,
            Err(error) => return Err(error),
        };
        let end = whole + entry.stored_len();
        if end > bytes.len() {
            if whole == 0 {
                return Err(EntryError::Partial { needed: end });
            }
            break;
        }
        whole = end;
        if entry.kind == EntryKind::Blank {
            break;
        }
    }
    Ok(whole)
}
