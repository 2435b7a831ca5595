//! Finding records by key, and bringing the index up to date that leads to them.

use std::ops::ControlFlow;
use std::sync::Arc;

use mainstem_journal::{EntryScanner, Location, ReadError as JournalReadError, Scan, ScanEnd};
use mainstem_record::BatchView;
use mainstem_types::{Position, TopicId};

use super::commit_log::position_of;
use super::{GroupLog, GroupPartition};
use crate::error::{ReadError, StorageError};
use crate::formats::commit_log_entry::{self, EntryError, EntryHeader, EntryKind, HEADER_SIZE};
use crate::formats::key_index::{continue_hash, stored_hash};
use crate::key_query::{COMPARED_MAX, Candidate, FindByKeyError, FoundByKey, INDEXED_BYTES_MAX, KeyMatches, KeyQuery};
use crate::views::inspect::{inspect, topic_hash};
use crate::views::key_index::CatchUp;

impl GroupLog {
    /// Records of a topic that have a key, in all partitions that are in this group. Waits for the disk.
    pub fn find_by_key(&self, topic_id: TopicId, query: &KeyQuery<'_>) -> Result<KeyMatches, FindByKeyError> {
        let partitions: Vec<_> = self.partitions().into_iter().filter(|known| known.topic_id == topic_id).collect();
        let Some(name) = partitions.first().map(|partition| partition.partition.topic.clone()) else {
            return Ok(KeyMatches { records: Vec::new(), complete: true });
        };
        self.core.check_alive()?;
        if let Some(from) = self.add_keys_missing_in(INDEXED_BYTES_MAX)? {
            let (done, end) = (from.0, self.core.log.end().position().0);
            return Err(FindByKeyError::Behind { log: self.core.folder.display().to_string(), done, end });
        }
        let hash = stored_hash(continue_hash(topic_hash(&name), query.key));
        let (mut records, mut compared, mut failed) = (Vec::new(), 0, None);
        let walked = self.core.index.find(self.core.fs(), hash, |position| {
            compared += 1;
            failed = self.compare(topic_id, Position(position), query, &mut records).err();
            match failed.is_some() || records.len() >= query.max || compared == COMPARED_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let walked = walked.map_err(|error| self.keys_unreadable(error))?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let complete = walked && (records.len() >= query.max || compared < COMPARED_MAX);
        records.truncate(query.max);
        Ok(KeyMatches { records, complete })
    }

    fn keys_unreadable(&self, error: std::io::Error) -> StorageError {
        StorageError { action: "look keys up in", path: self.core.index_dir(), error: error.into() }
    }

    /// Adds the records of one batch that are asked for. What is not there any more, or is something else, has none.
    fn compare(
        &self,
        topic_id: TopicId,
        position: Position,
        query: &KeyQuery<'_>,
        found: &mut Vec<FoundByKey>,
    ) -> Result<(), ReadError> {
        let Some((header, bytes)) = self.entry_at(position)? else { return Ok(()) };
        let EntryKind::Batch { topic_id: of, partition: index } = header.kind else { return Ok(()) };
        let Some(partition) = self.partition(topic_id, index).filter(|_| of == topic_id) else { return Ok(()) };
        let Ok(view) = BatchView::parse(&bytes) else { return Ok(()) };
        if view.header().base_offset >= partition.log_end() {
            return Ok(());
        }
        let batch = Candidate { view: &view, partition: index, position: position.0, log_start: partition.log_start() };
        let aborted = |producer, offset: mainstem_types::Offset| {
            let overlapping = partition.aborted_transactions(offset, offset.plus(1));
            Ok(overlapping.iter().any(|aborted| aborted.producer_id == producer))
        };
        query.take(&batch, aborted, found)
    }

    /// The entry at a position, with its batch; `None`: there is none.
    fn entry_at(&self, position: Position) -> Result<Option<(EntryHeader, Vec<u8>)>, StorageError> {
        let log = &self.core.log;
        if position >= log.end().position() {
            return Ok(None);
        }
        let mut head = [0; HEADER_SIZE + mainstem_record::HEADER_SIZE];
        if !self.read_if_there(position, &mut head)? {
            return Ok(None);
        }
        let Ok(header) = EntryHeader::decode(&head) else { return Ok(None) };
        let mut bytes = vec![0; header.stored_len()];
        if !self.read_if_there(position, &mut bytes)? || commit_log_entry::decode(&bytes).is_err() {
            return Ok(None);
        }
        bytes.drain(..HEADER_SIZE);
        Ok(Some((header, bytes)))
    }

    /// `false`: the bytes are not in the log, or not any more.
    fn read_if_there(&self, position: Position, buffer: &mut [u8]) -> Result<bool, StorageError> {
        match self.core.log.read(position, buffer) {
            Ok(()) => Ok(true),
            Err(JournalReadError::NoSegment { .. } | JournalReadError::PastEnd { .. }) => Ok(false),
            Err(JournalReadError::Io { path, source }) => {
                Err(StorageError { action: "read", path, error: source.into() })
            }
        }
    }

    /// Adds the keys that were left out of the index while the disk was full.
    pub(super) fn add_missing_keys(&self) -> Result<(), StorageError> {
        self.add_keys_missing_in(u64::MAX).map(|_| ())
    }

    /// Reads about `bytes_max` of the commit log for that. Gives the position from which on keys are still missing.
    fn add_keys_missing_in(&self, bytes_max: u64) -> Result<Option<Position>, StorageError> {
        if self.core.index.missing_from().is_none() {
            return Ok(None);
        }
        let fs = self.core.fs();
        let mut adding = self.core.index.catch_up(fs).map_err(|error| self.keys_unreadable(error))?;
        let mut until = None;
        while let Some(from) = adding.missing_from().map(Position) {
            let until = *until.get_or_insert(Position(from.0.saturating_add(bytes_max)));
            if from >= until {
                break;
            }
            let end = self.scan_keys(&mut adding, from, until.min(self.core.log.end().position()))?;
            adding.finish_before(fs, end.0).map_err(|error| self.keys_unreadable(error))?;
        }
        Ok(adding.missing_from().map(Position))
    }

    /// Shows the entries that begin in `from..until` to the index. Gives where the next one begins.
    fn scan_keys(&self, adding: &mut CatchUp<'_>, from: Position, until: Position) -> Result<Position, StorageError> {
        let journal = &self.core.log.journal;
        let mut start = match self.core.log.location(from) {
            Ok(start) => Some(start),
            // The records that were left out are gone.
            Err(_) => journal.first_segment().map(|base| Location::new(base, 0)),
        };
        while let Some(at) = start.take() {
            let mut scan = KeyScan { group: self, adding: &mut *adding, until, next: None, known: None, failed: None };
            let outcome = journal.scan(at, &mut scan).map_err(|error| match error {
                JournalReadError::Io { path, source } => StorageError { action: "read", path, error: source.into() },
                error => self.keys_unreadable(std::io::Error::other(error.to_string())),
            })?;
            if let Some(error) = scan.failed {
                return Err(self.keys_unreadable(error));
            }
            if let Some(next) = scan.next {
                return Ok(next);
            }
            if outcome.reason != ScanEnd::Whole {
                // Damage: the next file begins with an entry.
                start = journal.segment_after(outcome.end.segment).map(|base| Location::new(base, 0));
            }
        }
        Ok(until)
    }
}

/// Takes keys out of entries.
struct KeyScan<'s, 'i> {
    group: &'s GroupLog,
    adding: &'s mut CatchUp<'i>,
    until: Position,
    /// The first entry that was not asked for.
    next: Option<Position>,
    /// The partition of the entry before.
    known: Option<Arc<GroupPartition>>,
    failed: Option<std::io::Error>,
}

impl KeyScan<'_, '_> {
    fn is_asked_for(&mut self, position: Position) -> bool {
        if position >= self.until {
            self.next.get_or_insert(position);
        }
        position < self.until
    }

    fn add(&mut self, header: &EntryHeader, view: &BatchView<'_>, position: Position) -> std::io::Result<()> {
        let EntryKind::Batch { topic_id, partition } = header.kind else { return Ok(()) };
        if self.known.as_ref().is_none_or(|known| known.key() != (topic_id, partition)) {
            self.known = self.group.partition(topic_id, partition);
        }
        let Some(known) = &self.known else { return Ok(()) };
        let keys = inspect(view, known.topic_hash, known.config.load().key_indexing).keys;
        self.adding.add(self.group.core.fs(), &keys, position.0, view.header().max_timestamp.0)
    }
}

impl EntryScanner for KeyScan<'_, '_> {
    fn begin_segment(&mut self, start: Location) -> bool {
        self.is_asked_for(position_of(start))
    }

    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan {
        if !self.is_asked_for(position_of(location)) {
            return Scan::Corrupt { reason: "what follows was not asked for" };
        }
        let (header, view) = match commit_log_entry::decode(bytes) {
            Ok(entry) => entry,
            Err(EntryError::Partial { needed }) => return Scan::Incomplete { needed },
            Err(EntryError::Damaged(reason)) => return Scan::Corrupt { reason },
        };
        if let Some(view) = view
            && let Err(error) = self.add(&header, &view, position_of(location))
        {
            self.failed = Some(error);
            return Scan::Corrupt { reason: "a key could not be written" };
        }
        Scan::Entry { len: header.stored_len() }
    }
}
