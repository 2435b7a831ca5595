//! From entries of the commit log to the views: how they are made at the start, after a crash, and after a cut.

use std::collections::BTreeMap;
use std::io;

use mainstem_journal::{EntryScanner, Location, Scan};
use mainstem_record::BatchView;

use super::GroupOptions;
use super::PartitionKey;
use super::commit_log::position_of;
use super::leader_epochs::LeaderEpochs;
use super::queue_folder::{Missing, QueueFolder};
use super::state::{PartitionViews, Placed};
use super::strays::Unknown;
use crate::config::KeyIndexing;
use crate::formats::commit_log_entry::{self, EntryError, EntryHeader, EntryKind};
use crate::formats::queue_entry::ENTRY_SIZE;
use crate::prepare::marker_of;
use crate::store_env::StoreEnv;
use crate::views::inspect::inspect;
use crate::views::key_index::{self, KeyIndex};
use mainstem_types::{Offset, Position};

/// A partition while its views are made.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) state: PartitionViews,
    pub(super) queue_folder: QueueFolder,
    pub(super) topic_hash: i32,
    pub(super) key_indexing: KeyIndexing,
}

/// Checks entries in the order of the log, and shows them to the views, if there are any.
pub(super) struct Replay<'a> {
    /// The file that must follow the one that ended with a blank.
    next_segment: Option<u64>,
    views: Option<Views<'a>>,
    /// Entries from here on are not looked at.
    until: Position,
    begun: bool,
}

/// The views that are made.
pub(super) struct Views<'a> {
    env: &'a StoreEnv,
    partitions: &'a mut BTreeMap<PartitionKey, Making>,
    /// With the position from which on keys are missing.
    index: Option<(&'a KeyIndex, Position)>,
    /// Entries of partitions that nobody wants.
    unknown: &'a mut Unknown,
    /// Of all entries.
    epochs: &'a mut LeaderEpochs,
    /// What was added to queues since they were written, and how much of it may wait.
    queue_bytes: usize,
    queue_bytes_max: usize,
    error: Option<io::Error>,
}

impl<'a> Replay<'a> {
    /// Checks alone. `next_segment`: what a checkpoint says about the file in which it lies.
    pub(super) fn check(next_segment: Option<u64>) -> Replay<'static> {
        Replay { next_segment, views: None, until: Position::MAX, begun: false }
    }

    pub(super) fn make(next_segment: Option<u64>, views: Views<'a>) -> Replay<'a> {
        Replay { next_segment, views: Some(views), until: Position::MAX, begun: false }
    }

    /// Stops before a position.
    pub(super) fn until(mut self, position: Position) -> Replay<'a> {
        self.until = position;
        self
    }

    /// The last entry seen was a blank: the next file begins there.
    pub(super) fn next_segment(&self) -> Option<u64> {
        self.next_segment
    }

    /// The error that ended the replay, if one did.
    pub(super) fn finish(self) -> io::Result<()> {
        self.views.and_then(|views| views.error).map_or(Ok(()), Err)
    }
}

impl EntryScanner for Replay<'_> {
    fn begin_segment(&mut self, start: Location) -> bool {
        let is_first = !std::mem::replace(&mut self.begun, true);
        if start.position > 0 {
            // In the middle of a file, as a checkpoint says.
            return true;
        }
        let follows = self.next_segment == Some(start.segment.0);
        if follows || is_first {
            self.next_segment = None;
        }
        follows
    }

    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan {
        if position_of(location) >= self.until {
            return Scan::Corrupt { reason: "what follows was not asked for" };
        }
        if self.next_segment.is_some() {
            return Scan::Corrupt { reason: "something follows the end of a file" };
        }
        let (header, view) = match commit_log_entry::decode(bytes) {
            Ok(entry) => entry,
            Err(EntryError::Partial { needed }) => return Scan::Incomplete { needed },
            Err(EntryError::Damaged(reason)) => return Scan::Corrupt { reason },
        };
        let position = position_of(location);
        let Some(view) = view else {
            self.next_segment = Some(position.0 + u64::from(header.length));
            return Scan::Entry { len: header.stored_len() };
        };
        if let Some(views) = &mut self.views {
            let placed = Placed { segment: location.segment.0, position, size: header.length };
            if let Err(error) = views.observe(&header, &view, &placed) {
                views.error = Some(error);
                return Scan::Corrupt { reason: "a view could not be written" };
            }
        }
        Scan::Entry { len: header.stored_len() }
    }
}

impl<'a> Views<'a> {
    pub(super) fn new(
        env: &'a StoreEnv,
        options: &GroupOptions,
        partitions: &'a mut BTreeMap<PartitionKey, Making>,
        index: Option<(&'a KeyIndex, Position)>,
        unknown: &'a mut Unknown,
        epochs: &'a mut LeaderEpochs,
    ) -> Views<'a> {
        let queue_bytes_max = options.queue_bytes;
        Views { env, partitions, index, unknown, epochs, queue_bytes: 0, queue_bytes_max, error: None }
    }

    fn observe(&mut self, header: &EntryHeader, view: &BatchView<'_>, placed: &Placed) -> io::Result<()> {
        let EntryKind::Batch { topic_id, partition } = header.kind else { return Ok(()) };
        let key = (topic_id, partition);
        self.epochs.observe(view.header().leader_epoch, placed.position);
        let Some(making) = self.partitions.get_mut(&key) else {
            self.unknown.observe(self.env, key, view, placed);
            return Ok(());
        };
        let batch = view.header();
        let index = self.index.filter(|(_, from)| placed.position >= *from);
        let is_new = batch.next_offset() > making.state.queue.end() || batch.next_offset() > making.state.next_offset;
        if index.is_none() && !is_new {
            return Ok(());
        }
        let inspected = inspect(view, making.topic_hash, making.key_indexing);
        if let Some((index, _)) = index
            && index.add(&inspected.keys, placed.position.0, batch.max_timestamp.0)
        {
            key_index::unless_full(index.write(self.env.fs.as_ref()))?;
        }
        let marker = marker_of(view).ok().flatten();
        let before = making.state.queue.bytes();
        making.state.observe(batch, marker, placed, inspected);
        self.queue_bytes += making.state.queue.bytes() - before;
        if self.queue_bytes >= self.queue_bytes_max {
            self.queue_bytes = 0;
            self.write_queues()?;
        }
        Ok(())
    }

    fn write_queues(&mut self) -> io::Result<()> {
        let mut entries = Vec::new();
        for making in self.partitions.values_mut() {
            let queue = &mut making.state.queue;
            while let Some(from) = queue.unwritten(queue.end(), &mut entries) {
                making.queue_folder.write(self.env.fs.as_ref(), from, &entries, Missing::Create)?;
                let written = Offset(from + (entries.len() / ENTRY_SIZE) as i64);
                queue.wrote(written, self.env.queues.kept_max(self.queue_bytes_max));
            }
        }
        Ok(())
    }
}
