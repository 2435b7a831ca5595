//! What is to be durable before the next checkpoint: log starts of DeleteRecords, and which partitions are gone with
//! their topics.
//!
//! One small file, written as a whole: a checkpoint syncs the queues of all partitions, this at most the commit log.
//! Whoever comes while it is written is served by the next write, together with all others who wait. The file only ever
//! raises log starts, so what it says of a partition may be older than the checkpoint; it says it until two checkpoints
//! have said it too.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use mainstem_env::Fs;
use parking_lot::Mutex;

use super::{GroupLog, GroupPartition, GroupReport, PartitionKey};
use crate::error::{OpenError, StorageError};
use crate::formats::group_log_starts::{self, DELETED, FILE_NAME};
use crate::small_file::{self, Loaded};
use mainstem_types::Offset;

#[derive(Debug, Default)]
pub(super) struct LogStarts {
    /// Those that the file does not tell of yet.
    pending: Mutex<BTreeSet<PartitionKey>>,
    /// Held while the file is written.
    pub(super) written: Mutex<Written>,
}

/// The content of the file.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Since the last checkpoint.
    new: group_log_starts::LogStarts,
    /// Since the one before.
    old: group_log_starts::LogStarts,
}

impl LogStarts {
    /// The content of the file at the start.
    pub(super) fn read(fs: &dyn Fs, folder: &Path, report: &mut GroupReport) -> Result<LogStarts, OpenError> {
        let path = folder.join(FILE_NAME);
        let new = match small_file::load(fs, &path, group_log_starts::decode)? {
            Loaded::Content(known) => known,
            Loaded::Absent => Default::default(),
            Loaded::Empty => {
                report.unreadable.push((path, "the file is empty".to_owned()));
                Default::default()
            }
            Loaded::Damaged(error) => {
                report.unreadable.push((path, error.to_string()));
                Default::default()
            }
        };
        Ok(LogStarts { written: Mutex::new(Written { new, ..Written::default() }), ..LogStarts::default() })
    }

    /// Where a partition begins at least.
    pub(super) fn log_start(&self, key: &PartitionKey) -> Option<Offset> {
        self.written.lock().new.get(key).copied().filter(|start| *start != DELETED)
    }

    /// Partitions whose topics were deleted.
    pub(super) fn deleted(&self) -> BTreeSet<PartitionKey> {
        let written = self.written.lock();
        written.new.iter().filter(|(_, start)| **start == DELETED).map(|(key, _)| *key).collect()
    }

    /// A checkpoint was written, and not only because it says the same as the last one.
    pub(super) fn checkpointed(&self) {
        let mut written = self.written.lock();
        written.old = std::mem::take(&mut written.new);
    }
}

impl Written {
    /// The checkpoint says everything, and the file is to be removed.
    pub(super) fn clear(&mut self) {
        *self = Written::default();
    }
}

impl GroupLog {
    /// Makes the log starts of these partitions durable. See [`GroupPartition::raise_log_start`].
    pub fn write_log_starts(&self, partitions: &[Arc<GroupPartition>]) -> Result<(), StorageError> {
        let keys: Vec<_> = partitions.iter().map(|partition| partition.key()).collect();
        self.note(&keys)
    }

    /// Makes durable where these partitions begin, or that they are gone.
    pub(super) fn note(&self, keys: &[PartitionKey]) -> Result<(), StorageError> {
        self.core.check_alive()?;
        self.log_starts.pending.lock().extend(keys);
        let mut written = self.log_starts.written.lock();
        let wanted = {
            let mut pending = self.log_starts.pending.lock();
            if !keys.iter().any(|key| pending.contains(key)) {
                // Another one wrote these with its own.
                return Ok(());
            }
            std::mem::take(&mut *pending)
        };
        let done = self.write_noted(&mut written, &wanted);
        if done.is_err() {
            self.log_starts.pending.lock().extend(wanted);
        }
        done
    }

    fn write_noted(&self, written: &mut Written, wanted: &BTreeSet<PartitionKey>) -> Result<(), StorageError> {
        let mut unsynced = Vec::new();
        let mut next = written.new.clone();
        for key in wanted {
            let start = self.partition(key.0, key.1).map_or(DELETED, |partition| {
                let start = partition.log_start();
                if start > partition.durable_end() {
                    unsynced.push(partition);
                }
                start
            });
            next.insert(*key, start);
        }
        if !unsynced.is_empty() {
            // A log start must not lie above what a power cut leaves: offsets would be missing.
            for partition in &unsynced {
                partition.mark_end(&mut partition.state.lock());
            }
            self.core.flush()?;
        }
        let mut all = written.old.clone();
        all.extend(&next);
        let path = self.core.folder.join(FILE_NAME);
        let wrote = self.core.fs().atomic_write(&path, &group_log_starts::encode(&all));
        wrote.map_err(|error| self.view_error("write", &path, error))?;
        written.new = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FOLDER, create, expect_filled, fill, live, open, open_with};
    use super::*;
    use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};
    use mainstem_types::Position;

    #[test]
    fn deleted_records_stay_deleted_without_a_checkpoint_also_after_a_power_cut() {
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            for checkpoints in 0..4 {
                let (fs, group, logs) = create();
                logs.iter().for_each(|log| fill(log, 30));
                group.checkpoint().unwrap();
                logs[1].raise_log_start(Offset(7), Offset(30)).unwrap();
                group.write_log_starts(&logs[1..2]).unwrap();
                fill(&logs[0], 5);
                logs[0].raise_log_start(Offset(33), Offset(35)).unwrap();
                group.write_log_starts(&logs[..1]).unwrap();
                for _ in 0..checkpoints {
                    fill(&logs[2], 1);
                    group.checkpoint().unwrap();
                }
                logs[2].raise_log_start(Offset(1), Offset(30)).unwrap();
                group.write_log_starts(&logs[2..]).unwrap();
                let crashed = fs.crash(policy);
                if checkpoints > 0 {
                    // The last one is lost.
                    crashed.remove_file(&Path::new(FOLDER).join("checkpoint")).unwrap();
                }
                let (group, _) = open(&crashed);
                let at = |n: usize| group.partition(live()[n].topic_id, live()[n].name.partition).unwrap();
                assert_eq!([0, 1, 2].map(|n| at(n).log_start()), [Offset(33), Offset(7), Offset(1)], "{checkpoints}");
                expect_filled(&at(0), 33..35);
                expect_filled(&at(1), 7..30);
            }
        }
    }

    #[test]
    fn a_write_that_fails_is_said_to_everybody_and_a_full_disk_ends_nothing() {
        let (fs, group, logs) = create();
        logs.iter().for_each(|log| fill(log, 3));
        logs.iter().for_each(|log| assert!(log.raise_log_start(Offset(1), Offset(3)).is_ok()));
        fs.plan_fault(Fault::of(OpKind::Write, 1).on(FILE_NAME).with(FaultAction::NoSpace));
        assert!(group.write_log_starts(&logs[..1]).is_err());
        assert!(group.failure().is_none());
        fs.clear_faults();
        // With log starts that were not written before.
        group.write_log_starts(&logs[1..2]).unwrap();
        let (group, _) = open(&fs.crash(CrashPolicy::Nothing));
        let start = |n: usize| group.partition(live()[n].topic_id, live()[n].name.partition).unwrap().log_start();
        assert_eq!([0, 1].map(start), [Offset(1); 2]);
    }

    #[test]
    fn deletions_touch_no_queue_and_those_of_many_threads_are_all_noted() {
        let (fs, group, logs) = create();
        logs.iter().for_each(|log| fill(log, 100));
        fs.plan_fault(Fault::any(1).on("consumequeue").and_later());
        std::thread::scope(|scope| {
            for log in &logs {
                scope.spawn(|| {
                    for start in 1..=50 {
                        log.raise_log_start(Offset(start), Offset(100)).unwrap();
                        group.write_log_starts(std::slice::from_ref(log)).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs.faults_met(), 0);
        fs.clear_faults();
        let (group, _) = open(&fs);
        assert!(group.partitions().iter().all(|log| log.log_start() == Offset(50)));
    }

    #[test]
    fn records_of_a_topic_that_was_deleted_just_before_a_crash_keep_no_file() {
        let (fs, group, logs) = create();
        logs.iter().for_each(|log| fill(log, 30));
        group.checkpoint().unwrap();
        fill(&logs[0], 10);
        let topic = live()[0].topic_id;
        group.delete(&[logs[0].key(), logs[1].key()]).unwrap();
        drop(group);
        let crashed = fs.crash(CrashPolicy::Nothing);
        for _ in 0..2 {
            let (group, _) = open_with(&crashed, &live()[2..], false);
            assert_eq!(group.stray_count(), 0);
            // All entries are read again.
            drop(group);
            crashed.remove_dir_all(&Path::new(FOLDER).join("index")).unwrap_or_default();
        }
        // The metadata lost that it was deleted: what counts is what it says.
        let (group, _) = open(&crashed);
        expect_filled(&group.partition(topic, live()[0].name.partition).unwrap(), 0..30);
    }

    #[test]
    fn what_a_cut_takes_away_is_not_hidden_when_it_is_there_again() {
        let (fs, group, logs) = create();
        fill(&logs[0], 20);
        logs[0].raise_log_start(Offset(15), Offset(20)).unwrap();
        group.write_log_starts(&logs[..1]).unwrap();
        group.truncate_to(Position::ZERO).unwrap();
        fill(&logs[0], 5);
        let kept = (logs[0].log_start(), logs[0].log_end());
        drop(group);
        let (group, _) = open(&fs);
        let log = group.partition(live()[0].topic_id, live()[0].name.partition).unwrap();
        assert_eq!((log.log_start(), log.log_end()), kept);
    }
}
