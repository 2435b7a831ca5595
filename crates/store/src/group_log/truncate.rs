//! Cutting the end of a group: for replication.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_journal::Location;
use mainstem_types::{Offset, Position};

use super::commit_log::End;
use super::leader_epochs::LeaderEpochs;
use super::open::load_checkpoint;
use super::queue::Queue;
use super::queue_files::QueueFiles;
use super::queue_folder::QueueFolder;
use super::replay::{Making, Replay, Views};
use super::state::PartitionViews;
use super::strays::Unknown;
use super::{GroupLog, GroupPartition, PartitionKey};
use crate::config::KeyIndexing;
use crate::error::StorageError;
use crate::formats::group_checkpoint::{self, GroupCheckpoint};
use crate::formats::group_log_starts;

impl GroupLog {
    /// Where the next entry goes: every entry lies before. See [`GroupLog::truncate_to`].
    pub fn end_position(&self) -> Position {
        self.core.log.end().position()
    }

    /// Removes every entry at and above a position, durably, from all partitions. The position must be the start of an
    /// entry, or the end. Gives the partitions that became shorter.
    ///
    /// Holds appends up and reads the commit log from the checkpoint on, or from its start if the checkpoint lies
    /// above. A reader that holds a slice of what is cut gets fewer bytes.
    pub fn truncate_to(&self, position: Position) -> Result<Vec<Arc<GroupPartition>>, StorageError> {
        let mut last = self.checkpointing.lock();
        self.core.check_alive()?;
        if position >= self.end_position() {
            // An epoch that began at the end has no record, and is the leader's to begin.
            self.core.log.with_epochs(|epochs, end| epochs.truncate_end(end));
            self.partitions().iter().for_each(|partition| partition.state.lock().forget_empty_epoch());
            return Ok(Vec::new());
        }
        let partitions = self.partitions();
        let _order: Vec<_> = partitions.iter().map(|partition| partition.appending.lock()).collect();
        // Log starts may go back: from here on the checkpoint alone tells of them.
        let mut log_starts = self.log_starts.written.lock();
        let dir = self.core.log.journal.dir().to_owned();
        let failed = |error: io::Error| self.core.fail("cut", &dir, error);
        let at = self.core.log.location(position).map_err(|error| failed(io::Error::other(error.to_string())))?;
        let affected: Vec<_> =
            partitions.iter().filter(|partition| partition.state.lock().end_position() > position).cloned().collect();
        // Everything that the new checkpoint relies on is durable before it is written.
        for partition in &partitions {
            partition.mark_end(&mut partition.state.lock());
        }
        self.core.flush()?;
        let states = self.states_before(position, &affected).map_err(failed)?;
        let mut snapshots: Vec<_> = partitions
            .iter()
            .map(|partition| {
                let state = partition.state.lock();
                let state = states.get(&partition.key()).map_or(&*state, |making| &making.state);
                state.snapshot(partition.topic_id, partition.partition.partition)
            })
            .collect();
        let strays = self.strays_before(position);
        snapshots.extend(strays.iter().cloned());
        let written = self.core.index.write(self.core.fs());
        written.map_err(|error| self.view_error("write", &self.core.index_dir(), error))?;
        self.add_missing_keys()?;
        let synced = self.core.index.sync(self.core.fs());
        let indexes = synced.map_err(|error| self.sync_error(&self.core.index_dir(), error))?;
        self.core.high_watermark.fetch_min(position.0, Ordering::AcqRel);
        self.write_checkpoint(&mut last, End { location: at, next_segment: None }, snapshots, indexes)?;
        // The older checkpoint may describe entries that are cut. It would be believed with other entries in their
        // place.
        self.remove_older().map_err(failed)?;
        log_starts.clear();
        self.core.log.truncate(at).map_err(|error| failed(io::Error::other(error.to_string())))?;
        *self.strays.lock() = strays;
        self.install(&affected, states).map_err(failed)?;
        Ok(affected)
    }

    /// The states of these partitions as they were before the position.
    fn states_before(
        &self,
        position: Position,
        affected: &[Arc<GroupPartition>],
    ) -> io::Result<BTreeMap<PartitionKey, Making>> {
        let known = self.usable_checkpoint(position, affected)?;
        let journal = &self.core.log.journal;
        let mut states: BTreeMap<PartitionKey, Making> = affected
            .iter()
            .map(|partition| {
                let key = partition.key();
                // The queue itself is cut, not made again: this one takes nothing.
                let files = QueueFiles::new(PathBuf::new(), 1);
                let queue = Queue::new(files.clone(), &self.core.env.queues, Offset(i64::MAX));
                let queue_folder = QueueFolder::new(files, partition.topic_id);
                let state = match known.as_ref().and_then(|known| find(known, &key)) {
                    Some(known) => PartitionViews::restore(queue, known),
                    None => PartitionViews::new(queue),
                };
                (key, Making { state, queue_folder, topic_hash: 0, key_indexing: KeyIndexing::None })
            })
            .collect();
        let from =
            known.as_ref().map(|known| Location::new(mainstem_journal::SegmentBase(known.segment), known.position));
        let first = journal.first_segment().map(|base| Location::new(base, 0));
        let Some(from) = from.or(first) else { return Ok(states) };
        let next_segment = known.and_then(|known| known.next_segment);
        let mut unknown = Unknown::passed_over();
        // The list of epochs itself is cut, not made again.
        let mut epochs = LeaderEpochs::default();
        let views = Views::new(&self.core.env, &self.core.options, &mut states, None, &mut unknown, &mut epochs);
        let mut replay = Replay::make(next_segment, views).until(position);
        journal.scan(from, &mut replay).map_err(|error| io::Error::other(error.to_string()))?;
        replay.finish()?;
        for partition in affected {
            let old = partition.state.lock();
            if let Some(making) = states.get_mut(&partition.key()) {
                let end =
                    making.state.next_offset.max(if making.state.from_nothing { old.log_start } else { Offset::ZERO });
                making.state.next_offset = end;
                making.state.log_start = making.state.log_start.min(end);
                making.state.raise_log_start(old.log_start.min(end));
                making.state.closed = old.closed;
            }
        }
        Ok(states)
    }

    /// A checkpoint on the disk that tells of nothing at or above the position.
    fn usable_checkpoint(
        &self,
        position: Position,
        affected: &[Arc<GroupPartition>],
    ) -> io::Result<Option<GroupCheckpoint>> {
        for name in [group_checkpoint::FILE_NAME, group_checkpoint::OLD_FILE_NAME] {
            let loaded = load_checkpoint(self.core.fs(), &self.core.folder, name);
            let Some(known) = loaded.map_err(|error| io::Error::other(error.to_string()))?.content() else { continue };
            let below = known.covered_to() <= position
                && self.core.log.journal.segment_bases().iter().any(|base| base.0 == known.segment);
            let covers = |partition: &Arc<GroupPartition>| {
                find(&known, &partition.key()).is_none_or(|state| state.end_position() <= position)
            };
            if below && affected.iter().all(covers) {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// Removes the older checkpoint and the file of log starts, which the new checkpoint replaces.
    fn remove_older(&self) -> io::Result<()> {
        let fs = self.core.fs();
        for name in [group_checkpoint::OLD_FILE_NAME, group_log_starts::FILE_NAME] {
            match fs.remove_file(&self.core.folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs.sync_dir(&self.core.folder)
    }

    fn install(&self, affected: &[Arc<GroupPartition>], mut states: BTreeMap<PartitionKey, Making>) -> io::Result<()> {
        for partition in affected {
            let Some(making) = states.remove(&partition.key()) else { continue };
            // So that nothing writes entries that are cut.
            let mut folder = partition.queue_folder.lock();
            let (old_number, end, written) = {
                let mut state = partition.state.lock();
                let mut made = making.state;
                std::mem::swap(&mut made.queue, &mut state.queue);
                *state = made;
                let end = state.next_offset;
                state.queue.truncate(end);
                let old_number = state.queue.files().number;
                state.queue.set_number(self.core.env.next_log_number());
                (old_number, end, state.queue.written())
            };
            folder.cut(self.core.fs(), written)?;
            self.core.env.indexes.forget(old_number);
            partition.durability.truncate(end);
            partition.lost.lock().clear();
        }
        Ok(())
    }
}

fn find<'c>(checkpoint: &'c GroupCheckpoint, key: &PartitionKey) -> Option<&'c group_checkpoint::PartitionState> {
    checkpoint.partitions.iter().find(|state| (state.topic_id, state.partition) == *key)
}
