//! The group as a unit of replication.

use super::*;
use crate::formats::group_checkpoint::{self, EpochStart, FILE_NAME};
use crate::{AppendError, UnknownPartitions};
use mainstem_env::{CrashPolicy, Fs};

fn put_in(log: &GroupPartition, epoch: i32, value: &str) -> Result<Appended, AppendError> {
    let context = AppendContext { leader_epoch: LeaderEpoch(epoch), ..client() };
    log.append(&batch_at(NOW.0, &[value]), &context)
}

/// Where each epoch ends, as the log is asked.
fn ends(group: &GroupLog) -> Vec<Option<(i32, u64)>> {
    let end = |epoch| group.end_position_for_epoch(LeaderEpoch(epoch)).unwrap();
    (0..9).map(|epoch| end(epoch).map(|end: EpochStart| (end.epoch.0, end.position.0))).collect()
}

/// The same, from the entries alone.
fn ends_by_entries(group: &GroupLog) -> Vec<Option<(i32, u64)>> {
    let mut starts: Vec<(i32, u64)> = Vec::new();
    for batch in group.batches_from(group.start_position()).unwrap() {
        if starts.last().is_none_or(|last| batch.leader_epoch.0 > last.0) {
            starts.push((batch.leader_epoch.0, batch.position.0));
        }
    }
    let end = |epoch: i32| {
        let later = starts.iter().position(|start| start.0 > epoch);
        let floor = starts.iter().rev().find(|start| start.0 <= epoch);
        match (floor, later.map(|at| starts[at])) {
            (Some(floor), None) if floor.0 == epoch => Some((epoch, group.end_position().0)),
            (_, None) => None,
            (floor, Some(next)) => Some((floor.map_or(epoch, |floor| floor.0), next.1)),
        }
    };
    (0..9).map(end).collect()
}

/// Epochs 1, 3 and 6, over several files; partitions that count their own epochs, as an earlier version wrote them.
fn write(logs: &[Arc<GroupPartition>]) {
    for (epoch, count) in [(1, 9), (3, 12), (6, 7)] {
        for n in 0..count {
            put_in(&logs[n % 3], if n % 3 == 2 { 0 } else { epoch }, &format!("value {n} of {epoch}")).unwrap();
        }
    }
}

#[test]
fn epochs_by_position_are_those_of_the_entries_after_any_end() {
    for checkpoints in 0..3 {
        let (fs, group, logs) = create();
        write(&logs);
        for _ in 0..checkpoints {
            group.checkpoint().unwrap();
            put_in(&logs[1], 7, "later").unwrap();
        }
        let expected = ends_by_entries(&group);
        assert_eq!(ends(&group), expected);
        assert!(group.file_count() > 1 && expected.contains(&None));
        let crashed = fs.crash(CrashPolicy::Everything);
        let (again, _) = open(&crashed);
        assert_eq!(ends(&again), expected);
        assert_eq!(again.last_epoch().unwrap(), LeaderEpoch(if checkpoints == 0 { 6 } else { 7 }));
        drop(again);
        let (twice, _) = open(&crashed.crash(CrashPolicy::Everything));
        assert_eq!(ends(&twice), expected);
    }
}

#[test]
fn a_folder_of_an_earlier_version_tells_the_same_epochs() {
    let (fs, group, logs) = create();
    write(&logs);
    let expected = ends_by_entries(&group);
    group.close().unwrap();
    drop((logs, group));
    let path = Path::new(FOLDER).join(FILE_NAME);
    let mut known = group_checkpoint::decode(&fs.read_all(&path).unwrap()).unwrap();
    // What a file of version 1 is read as.
    (known.epochs, known.epochs_from, known.high_watermark) = (Vec::new(), known.covered_to(), Position::ZERO);
    fs.atomic_write(&path, &group_checkpoint::encode(&known)).unwrap();
    let (group, report) = open_with(&fs, &live(), true);
    assert_eq!(report.bytes_replayed, 0);
    let log = group.partition(live()[0].topic_id, PartitionIndex(0)).unwrap();
    put_in(&log, 2, "of an epoch that was before").unwrap();
    assert_eq!(ends(&group), ends_by_entries(&group));
    assert_eq!(ends(&group)[..6], expected[..6]);
    group.checkpoint().unwrap();
    let known = group_checkpoint::decode(&fs.read_all(&path).unwrap()).unwrap();
    assert_eq!((known.epochs.len(), known.epochs_from), (3, Position::ZERO), "found out once");
}

#[test]
fn a_cut_and_deleted_files_leave_the_epochs_of_what_remains() {
    let (fs, group, logs) = create();
    write(&logs);
    let batches = group.batches_from(group.start_position()).unwrap();
    let third = batches.iter().find(|batch| batch.leader_epoch.0 == 6).unwrap();
    group.truncate_to(third.position).unwrap();
    assert_eq!((group.last_epoch().unwrap(), ends(&group)), (LeaderEpoch(3), ends_by_entries(&group)));
    for log in &logs {
        log.raise_log_start(log.log_end(), log.log_end()).unwrap();
    }
    assert!(group.remove_unneeded().unwrap() > 0);
    put_in(&logs[0], 8, "new").unwrap();
    group.checkpoint().unwrap();
    assert_eq!(group.last_epoch().unwrap(), LeaderEpoch(8));
    let (again, _) = open(&fs.crash(CrashPolicy::Everything));
    let at = again.start_position().0;
    assert_eq!(ends(&again)[8], Some((8, again.end_position().0)));
    assert!(ends(&again)[..7].iter().flatten().all(|end| end.1 >= at), "{:?} of a log from {at} on", ends(&again));
}

#[test]
fn an_epoch_whose_first_entry_lies_in_the_next_file_begins_there() {
    let (fs, group, logs) = create();
    let value = "x".repeat(300);
    let mut files = 0;
    for epoch in 0..8 {
        let end = group.end_position();
        group.begin_epoch(LeaderEpoch(epoch)).unwrap();
        put_in(&logs[0], epoch, &value).unwrap();
        let started = group.end_position_for_epoch(LeaderEpoch(epoch - 1)).unwrap();
        files += usize::from(started.is_some_and(|start| start.position > end));
        assert_eq!(ends(&group), ends_by_entries(&group), "epoch {epoch}");
    }
    assert!(files > 0, "each entry followed the one before");
    let expected = ends(&group);
    group.close().unwrap();
    drop((logs, group));
    assert_eq!(ends(&open(&fs).0), expected);
}

#[test]
fn an_epoch_ends_in_the_whole_group_at_once() {
    let (_, group, logs) = create();
    group.begin_epoch(LeaderEpoch(4)).unwrap();
    for log in &logs {
        assert!(matches!(put_in(log, 3, "late"), Err(AppendError::NotLeader { .. })));
        put_in(log, 4, "in time").unwrap();
        assert_eq!(log.end_offset_for_epoch(LeaderEpoch(4)), (LeaderEpoch(4), Offset(1)));
    }
    group.end_epoch(LeaderEpoch(4)).unwrap();
    for log in &logs {
        assert!(matches!(put_in(log, 4, "late"), Err(AppendError::NotLeader { .. })));
        assert_eq!(log.log_end(), Offset(1));
    }
    // The next leader's entries come all the same.
    let (_, leader, theirs) = create();
    leader.begin_epoch(LeaderEpoch(4)).unwrap();
    theirs.iter().for_each(|log| _ = put_in(log, 4, "in time").unwrap());
    put_in(&theirs[1], 5, "next").unwrap();
    let piece = leader.read_entries(group.end_position(), 4096).unwrap();
    let copied = group.append_replicated(group.end_position(), &piece, LeaderEpoch(5), UnknownPartitions::Refuse);
    let copied = copied.unwrap();
    assert_eq!((copied.end, copied.batches.len()), (leader.end_position(), 1));
    assert_eq!((copied.batches[0].next_offset, copied.batches[0].end), (Offset(2), copied.end));
    assert_eq!(ends(&group), ends(&leader));
}

#[test]
fn the_high_watermark_is_that_of_the_checkpoint_and_goes_with_a_cut() {
    let (fs, group, logs) = create();
    write(&logs);
    let end = group.end_position();
    group.set_high_watermark(Position::MAX);
    group.checkpoint().unwrap();
    let (again, _) = open(&fs.crash(CrashPolicy::Everything));
    assert_eq!(again.high_watermark(), end, "everything that the checkpoint covers");
    let first = again.batches_from(Position::ZERO).unwrap()[4];
    again.set_high_watermark(first.end);
    again.checkpoint().unwrap();
    let (third, _) = open(&fs.crash(CrashPolicy::Everything));
    assert_eq!(third.high_watermark(), end, "another disk");
    third.set_high_watermark(first.end);
    third.truncate_to(first.position).unwrap();
    assert_eq!(third.high_watermark(), first.position);
}
