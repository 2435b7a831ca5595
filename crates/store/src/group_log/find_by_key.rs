//! Finding records by key, and bringing the index up to date that leads to them.

use std::ops::ControlFlow;
use std::sync::Arc;

use mainstem_journal::{EntryScanner, Location, ReadError as JournalReadError, Scan, ScanEnd};
use mainstem_record::BatchView;
use mainstem_types::TopicId;

use super::commit_log::position_of;
use super::inspect::{inspect, topic_hash};
use super::key_index::CatchUp;
use super::{GroupLog, GroupPartition};
use crate::error::{ReadError, StorageError};
use crate::formats::commit_log_entry::{self, EntryError, EntryHeader, EntryKind, HEADER_SIZE};
use crate::formats::key_index::{continue_hash, stored_hash};
use crate::key_query::{COMPARED_MAX, Candidate, FoundByKey, KeyMatches, KeyQuery};

impl GroupLog {
    /// Records of a topic that have a key, in all partitions that are in this group. Waits for the disk.
    pub fn find_by_key(&self, topic_id: TopicId, query: &KeyQuery<'_>) -> Result<KeyMatches, ReadError> {
        let partitions: Vec<_> = self.partitions().into_iter().filter(|known| known.topic_id == topic_id).collect();
        let Some(name) = partitions.first().map(|partition| partition.partition.topic.clone()) else {
            return Ok(KeyMatches { records: Vec::new(), complete: true });
        };
        self.add_missing_keys()?;
        let hash = stored_hash(continue_hash(topic_hash(&name), query.key));
        let (mut records, mut compared, mut failed) = (Vec::new(), 0, None);
        let walked = self.core.index.find(self.core.fs(), hash, |position| {
            compared += 1;
            failed = self.compare(topic_id, position, query, &mut records).err();
            match failed.is_some() || records.len() >= query.max || compared == COMPARED_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let walked = walked.map_err(|error| self.keys_unreadable(error))?;
        if let Some(error) = failed {
            return Err(error);
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
        position: u64,
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
        let batch = Candidate { view: &view, partition: index, position, log_start: partition.log_start() };
        let aborted = |producer, offset: mainstem_types::Offset| {
            let overlapping = partition.aborted_transactions(offset, offset.plus(1));
            Ok(overlapping.iter().any(|aborted| aborted.producer_id == producer))
        };
        query.take(&batch, aborted, found)
    }

    /// The entry at a position, with its batch; `None`: there is none.
    fn entry_at(&self, position: u64) -> Result<Option<(EntryHeader, Vec<u8>)>, StorageError> {
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
    fn read_if_there(&self, position: u64, buffer: &mut [u8]) -> Result<bool, StorageError> {
        match self.core.log.read(position, buffer) {
            Ok(()) => Ok(true),
            Err(JournalReadError::NoSegment { .. } | JournalReadError::PastEnd { .. }) => Ok(false),
            Err(JournalReadError::Io { path, source }) => {
                Err(StorageError { action: "read", path, error: source.into() })
            }
        }
    }

    /// Adds the keys that were left out of the index while the disk was full: reads the commit log from there on.
    pub(super) fn add_missing_keys(&self) -> Result<(), StorageError> {
        if self.core.index.missing_from().is_none() {
            return Ok(());
        }
        let fs = self.core.fs();
        let mut adding = self.core.index.catch_up(fs).map_err(|error| self.keys_unreadable(error))?;
        while let Some(from) = adding.missing_from() {
            let end = self.core.log.end().position();
            self.scan_keys(&mut adding, from, end)?;
            adding.finish_before(fs, end).map_err(|error| self.keys_unreadable(error))?;
        }
        Ok(())
    }

    /// Shows the entries in `from..end` to the index.
    fn scan_keys(&self, adding: &mut CatchUp<'_>, from: u64, end: u64) -> Result<(), StorageError> {
        let journal = &self.core.log.journal;
        let mut start = match self.core.log.location(from) {
            Ok(start) => Some(start),
            // What was left out is gone.
            Err(_) => journal.first_segment().map(|base| Location::new(base, 0)),
        };
        while let Some(at) = start.take().filter(|at| position_of(*at) < end) {
            let mut scan = KeyScan { group: self, adding: &mut *adding, end, known: None, failed: None };
            let outcome = journal.scan(at, &mut scan).map_err(|error| match error {
                JournalReadError::Io { path, source } => StorageError { action: "read", path, error: source.into() },
                error => self.keys_unreadable(std::io::Error::other(error.to_string())),
            })?;
            if let Some(error) = scan.failed {
                return Err(self.keys_unreadable(error));
            }
            if outcome.reason != ScanEnd::Whole {
                // The end that was asked for, or damage: the next file begins with an entry.
                start = journal.segment_after(outcome.end.segment).map(|base| Location::new(base, 0));
            }
        }
        Ok(())
    }
}

/// Takes keys out of entries.
struct KeyScan<'s, 'i> {
    group: &'s GroupLog,
    adding: &'s mut CatchUp<'i>,
    end: u64,
    /// The partition of the entry before.
    known: Option<Arc<GroupPartition>>,
    failed: Option<std::io::Error>,
}

impl KeyScan<'_, '_> {
    fn add(&mut self, header: &EntryHeader, view: &BatchView<'_>, position: u64) -> std::io::Result<()> {
        let EntryKind::Batch { topic_id, partition } = header.kind else { return Ok(()) };
        if self.known.as_ref().is_none_or(|known| known.key() != (topic_id, partition)) {
            self.known = self.group.partition(topic_id, partition);
        }
        let Some(known) = &self.known else { return Ok(()) };
        let keys = inspect(view, known.topic_hash, known.config.load().key_indexing).keys;
        self.adding.add(self.group.core.fs(), &keys, position, view.header().max_timestamp.0)
    }
}

impl EntryScanner for KeyScan<'_, '_> {
    fn begin_segment(&mut self, start: Location) -> bool {
        position_of(start) < self.end
    }

    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan {
        if position_of(location) >= self.end {
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
