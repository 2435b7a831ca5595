//! Writing down up to where the views are on the disk.
//!
//! The position is taken first, then the state of each partition, then everything is made durable, then the file is
//! written: so no entry before the position is missing in a state, and no state tells of an entry that is not durable.
//! Appends go on meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::commit_log::End;
use super::queue_files::{ID_FILE, Unsynced};
use super::queue_folder::Missing;
use super::time_marks::{self, GROUP_MARKS_MAX};
use super::{GroupLog, GroupPartition, flush};
use crate::error::StorageError;
use crate::formats::group_checkpoint::{self, GroupCheckpoint, IndexFact, PartitionState};
use crate::parallel;
use mainstem_env::{OpenOptions, is_out_of_descriptors};
use mainstem_journal::CloseError;
use mainstem_types::Position;

/// So many queues have the file system synced first, which may hold others' files, too.
const SYNC_AHEAD_QUEUES: usize = 64;

/// What the file says that was written last.
#[derive(Debug, Default)]
pub(super) struct Last {
    pub(super) length: usize,
    pub(super) checksum: u32,
}

impl GroupLog {
    /// Makes everything durable and writes the checkpoint, unless it would say the same again. Syncs many files: call
    /// it where nobody waits, about once a minute. A full disk, or no file descriptor left, is an error that ends
    /// nothing.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        match self.checkpoint_with(&mut self.checkpointing.lock()) {
            Err(_) if self.core.has_left() => Ok(()),
            done => done,
        }
    }

    pub(super) fn checkpoint_with(&self, last: &mut Last) -> Result<(), StorageError> {
        self.core.check_alive()?;
        let end = self.core.log.end();
        self.thin_marks();
        let (mut states, unsynced) = self.collect(self.partitions())?;
        states.extend(self.strays_before(Position::MAX));
        self.core.flush()?;
        let indexes = self.sync_views(&unsynced)?;
        if self.write_checkpoint(last, end, states, indexes)? {
            self.log_starts.checkpointed();
        }
        Ok(())
    }

    /// However many partitions there are, the file stays within a few MB.
    fn thin_marks(&self) {
        let partitions = self.partitions();
        let count = |partition: &Arc<GroupPartition>| partition.state.lock().marks.entries().len();
        let counts: Vec<usize> = partitions.iter().map(count).collect();
        let most = time_marks::marks_max(&counts, GROUP_MARKS_MAX);
        for (partition, _) in partitions.iter().zip(counts).filter(|(_, count)| *count > most) {
            partition.state.lock().marks.thin(most);
        }
    }

    /// The state of each partition, with what of its queue is to be synced.
    #[allow(clippy::type_complexity)] // reason: two lists that go separate ways at once.
    fn collect(
        &self,
        partitions: Vec<Arc<GroupPartition>>,
    ) -> Result<(Vec<PartitionState>, Vec<(Arc<GroupPartition>, Unsynced)>), StorageError> {
        let mut states = Vec::new();
        let mut unsynced = Vec::new();
        for (partition, outcome) in partitions.iter().zip(parallel::map(&partitions, |one| self.collect_one(one))) {
            if let Some((state, files)) = outcome? {
                states.push(state);
                unsynced.extend(files.map(|files| (Arc::clone(partition), files)));
            }
        }
        Ok((states, unsynced))
    }

    /// `None`: the partition's topic was deleted meanwhile.
    fn collect_one(
        &self,
        partition: &Arc<GroupPartition>,
    ) -> Result<Option<(PartitionState, Option<Unsynced>)>, StorageError> {
        let state = {
            // Whoever wrote an entry before the position was taken has shown it to the views when this is granted.
            let _order = partition.appending.lock();
            let mut state = partition.state.lock();
            partition.mark_end(&mut state);
            state.snapshot(partition.topic_id, partition.partition.partition)
        };
        // After the state was taken: the files have all that it tells of, and what was appended since.
        let mut folder = partition.queue_folder.lock();
        // The queue of a deleted topic is gone, and the folder may be that of another topic of the name by now.
        if folder.is_gone() {
            return Ok(None);
        }
        let written = partition.write_queue_to(&mut folder, Missing::Create);
        let files = folder.take_unsynced();
        drop(folder);
        written.map_err(|error| self.view_error("write", &self.core.queue_dir(&partition.partition), error))?;
        Ok(Some((state, files)))
    }

    fn sync_views(&self, unsynced: &[(Arc<GroupPartition>, Unsynced)]) -> Result<Vec<IndexFact>, StorageError> {
        let fs = self.core.fs();
        let mut dirs = BTreeSet::new();
        let mut synced = Vec::with_capacity(unsynced.len());
        if unsynced.len() >= SYNC_AHEAD_QUEUES {
            self.sync_ahead(&unsynced[0].1);
        }
        let outcomes = parallel::map(unsynced, |(_, files)| files.sync(fs));
        for ((partition, files), outcome) in unsynced.iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    dirs.extend(files.unsynced_dirs(&self.core.folder));
                    synced.push(partition);
                }
                // Its topic was deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && partition.state.lock().closed => {}
                Err(error) => return Err(self.sync_error(&files.dir, error)),
            }
        }
        // Each once, although many partitions share some.
        let dirs: Vec<&Path> = dirs.into_iter().collect();
        for (dir, outcome) in dirs.iter().zip(parallel::map(&dirs, |dir| fs.sync_dir(dir))) {
            match outcome {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.sync_error(dir, error));
                }
                _ => {}
            }
        }
        synced.iter().for_each(|partition| partition.queue_folder.lock().synced());
        let dir = self.core.index_dir();
        self.core.index.write(fs).map_err(|error| self.view_error("write", &dir, error))?;
        // The checkpoint says that the index has everything before it.
        self.add_missing_keys()?;
        self.core.index.sync(fs).map_err(|error| self.sync_error(&dir, error))
    }

    /// Has the file system write everything at once, so that the sync of each file and folder finds nothing left to
    /// write. It is those syncs that tell of errors, so an error is none here, and a system that cannot is as good.
    fn sync_ahead(&self, files: &Unsynced) {
        let options = OpenOptions::read();
        let synced = self.core.fs().open(&files.dir.join(ID_FILE), &options).and_then(|file| file.sync_file_system());
        if let Err(error) = synced {
            tracing::debug!("{}: the file system is not synced, each file is: {error}", files.dir.display());
        }
    }

    /// An error of a sync ends the group, also when the disk is full: what a failed sync left out, the next one does
    /// not know of. Where no descriptor was left to open a file, the next checkpoint syncs it.
    pub(super) fn sync_error(&self, path: &Path, error: io::Error) -> StorageError {
        match is_out_of_descriptors(&error) {
            true => StorageError { action: "sync", path: path.to_owned(), error: Arc::new(error) },
            false => self.core.fail("sync", path, error),
        }
    }

    /// False: it says what it said before.
    pub(super) fn write_checkpoint(
        &self,
        last: &mut Last,
        end: End,
        partitions: Vec<PartitionState>,
        indexes: Vec<IndexFact>,
    ) -> Result<bool, StorageError> {
        let (segment, position) = (end.location.segment.0, end.location.position);
        let covered_to = Position(segment + position);
        let first = self.start_position();
        let (epochs, epochs_from) = self.core.log.with_epochs(|epochs, _| {
            epochs.truncate_start(first);
            (epochs.before(covered_to).to_vec(), epochs.known_from().min(covered_to))
        });
        let checkpoint = GroupCheckpoint {
            segment,
            position,
            next_segment: end.next_segment,
            high_watermark: self.high_watermark().min(end.position()),
            epochs,
            epochs_from,
            indexes,
            partitions,
        };
        let bytes = group_checkpoint::encode(&checkpoint);
        let now = Last { length: bytes.len(), checksum: crate::crc32c(&bytes) };
        if (now.length, now.checksum) == (last.length, last.checksum) {
            return Ok(false);
        }
        let fs = self.core.fs();
        let path = self.core.folder.join(group_checkpoint::FILE_NAME);
        let old = self.core.folder.join(group_checkpoint::OLD_FILE_NAME);
        *last = Last::default();
        match fs.rename(&path, &old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.view_error("rename", &path, error));
            }
            _ => {}
        }
        fs.atomic_write(&path, &bytes).map_err(|error| self.view_error("write", &path, error))?;
        *last = now;
        Ok(true)
    }

    /// An error of the disk ends the group, unless it is for want of space or descriptors.
    pub(super) fn view_error(&self, action: &'static str, path: &Path, error: io::Error) -> StorageError {
        match mainstem_env::may_pass(&error) {
            true => StorageError { action, path: path.to_owned(), error: Arc::new(error) },
            false => self.core.fail(action, path, error),
        }
    }

    /// Refuses appends and reads from now on, makes everything durable and writes the checkpoint: the next open then
    /// scans nothing.
    pub fn close(&self) -> Result<(), StorageError> {
        let mut last = self.checkpointing.lock();
        for partition in self.partitions() {
            let _order = partition.appending.lock();
            partition.state.lock().closed = true;
        }
        self.checkpoint_with(&mut last)?;
        match self.core.log.journal.close() {
            Ok(_) => Ok(()),
            Err(CloseError::Failed(failure)) => Err(flush::storage_error(&failure)),
            Err(CloseError::Flush(error)) => Err(flush::flush_error(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{
        FOLDER, batch_at, client, config, create, expect_filled, fill, live_of, make, open_with,
    };
    use super::super::time_marks::GROUP_MARKS_MAX;
    use super::super::time_marks::TimeMarks;
    use super::{ID_FILE, SYNC_AHEAD_QUEUES};
    use crate::formats::group_checkpoint::{FILE_NAME, TimeMark};
    use mainstem_env::{CrashPolicy, Fault, FaultAction, Fs, OpKind};
    use mainstem_types::{Offset, TimestampMs};
    use std::path::Path;

    #[test]
    fn the_file_stays_small_however_many_partitions_have_many_marks() {
        let (fs, group, logs) = create();
        for time in 0..600 {
            logs[0].append(&batch_at(time, &["v"]), &client()).unwrap();
        }
        let long = || {
            let mark = |n: i64| TimeMark { first_offset: Offset(n * 256), newest_ms: n };
            TimeMarks::restore(256, (0..1024).map(mark).collect())
        };
        let count = if std::env::var_os("MAINSTEM_FULL").is_some() { 10_000 } else { 1000 };
        for index in 1..count {
            make(&group, &live_of("many", 9, index, config())).state.lock().marks = long();
        }
        group.checkpoint().unwrap();
        let path = Path::new(FOLDER).join(FILE_NAME);
        let length = || fs.metadata(&path).unwrap().unwrap().len;
        let limit = (GROUP_MARKS_MAX * 16 + count as usize * 200) as u64;
        assert!((limit / 3..limit).contains(&length()), "{} of {limit}", length());
        // What is left of the marks is still right.
        for _ in 0..2 {
            for time in (0..600).step_by(50) {
                let found = logs[0].find_by_time(TimestampMs(time), Offset(600)).unwrap();
                assert_eq!(found.unwrap().offset, Offset(time));
            }
            logs[0].state.lock().marks.thin(1);
        }
        // What says the same is not written again.
        group.checkpoint().unwrap();
        let before = fs.mutations();
        group.checkpoint().unwrap();
        assert_eq!(fs.mutations(), before);
    }

    #[test]
    fn a_group_that_has_left_has_nothing_to_say() {
        for leaves in [true, false] {
            let (fs, group, logs) = create();
            fill(&logs[0], 3);
            group.delete(&logs.iter().map(|log| log.key()).collect::<Vec<_>>()).unwrap();
            if leaves {
                group.leave();
            }
            // As if its folder were gone.
            fs.plan_fault(Fault::any(1).and_later());
            assert_eq!(group.checkpoint().is_ok(), leaves);
            assert_eq!(group.remove_unneeded().is_ok(), leaves);
        }
    }

    #[test]
    fn many_queues_are_durable_after_a_checkpoint_also_where_the_file_system_is_not_synced_at_once() {
        for (queues, syncs_ahead) in [(SYNC_AHEAD_QUEUES, true), (SYNC_AHEAD_QUEUES - 1, false)] {
            let (fs, group, logs) = create();
            let live: Vec<_> = (1..=queues as i32).map(|index| live_of("many", 9, index, config())).collect();
            live.iter().for_each(|live| fill(&make(&group, live), 3));
            // The first sync of such a file is that of the file system, or else that of this file.
            fs.plan_fault(Fault::of(OpKind::Sync, 1).on(ID_FILE).with(FaultAction::NoSpace));
            assert_eq!(group.checkpoint().is_ok(), syncs_ahead);
            assert_eq!(fs.faults_met(), 1);
            if !syncs_ahead {
                continue;
            }
            drop((logs, group));
            let (group, report) = open_with(&fs.crash(CrashPolicy::Nothing), &live, false);
            assert_eq!((report.views_rebuilt, report.bytes_replayed), (0, 0), "{report:?}");
            for live in &live {
                expect_filled(&group.partition(live.topic_id, live.name.partition).unwrap(), 0..3);
            }
        }
    }

    #[test]
    fn a_topic_that_is_deleted_during_a_checkpoint_ends_nothing_and_touches_no_other_of_its_name() {
        for appended in [3, 300] {
            let (fs, group, logs) = create();
            fill(&logs[0], appended);
            fill(&logs[2], 3);
            // What a checkpoint took along before the topic was deleted, created again, and written to.
            let partitions = group.partitions();
            fill(&logs[0], 3);
            group.delete(&[logs[0].key()]).unwrap();
            let again = live_of("orders", 9, 0, config());
            let new = make(&group, &again);
            fill(&new, 70);
            let (states, _) = group.collect(partitions).unwrap();
            assert_eq!(states.len(), 2, "nothing is said of it");
            assert!(group.failure().is_none());
            group.close().unwrap();
            drop((logs, new, group));
            let (group, report) = open_with(&fs, &[again.clone(), live_of("thin", 8, 0, config())], true);
            assert_eq!((report.views_rebuilt, report.bytes_replayed), (0, 0), "{report:?}");
            expect_filled(&group.partition(again.topic_id, again.name.partition).unwrap(), 0..70);
        }
    }
}
