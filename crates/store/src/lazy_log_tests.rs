use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_record::BatchBuilder;
use mainstem_types::{PartitionIndex, TimestampMs};

use super::*;
use crate::config::Durability;
use crate::data_folder::{DataFolder, FolderReport};
use crate::log_types::{Appended, Origin};
use crate::topic_log::TopicLog;

const PATH: &str = "/data";
const NOW: TimestampMs = TimestampMs(1_700_000_000_000);
const ID: TopicId = TopicId([7; 16]);

fn open_on(fs: &MemFs) -> (DataFolder, FolderReport) {
    let (clock, rng) = (Arc::new(ManualClock::at(NOW)), Arc::new(SeededRng::new(fs.mutations())));
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, rng, 1 << 20, 0).unwrap();
    DataFolder::open(&env, Path::new(PATH)).unwrap()
}

fn name(index: i32) -> TopicPartition {
    TopicPartition::new("orders", PartitionIndex(index))
}

fn lazy_logs(folder: &DataFolder, count: i32) -> Vec<TopicLog> {
    let wanted: Vec<_> = (0..count).map(|index| (name(index), ID, Arc::new(LogConfig::default()))).collect();
    folder.lazy_logs(&wanted).unwrap().into_iter().map(TopicLog::from).collect()
}

#[test]
fn the_first_rolls_of_a_log_with_small_segments_wait_for_no_sync() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let config = LogConfig { segment_bytes: 1 << 10, ..LogConfig::default() };
    let log = TopicLog::from(folder.lazy_logs(&[(name(0), ID, Arc::new(config))]).unwrap().remove(0));
    append(&log).unwrap();
    for kind in [OpKind::Sync, OpKind::SyncDir] {
        fs.plan_fault(Fault::of(kind, 1).and_later());
    }
    for _ in 0..100 {
        append(&log).unwrap();
    }
    assert!(log.segment_count() > 3, "{}", log.segment_count());
    assert_eq!(fs.faults_met(), 0);
}

fn one_on(fs: &MemFs) -> (DataFolder, TopicLog) {
    let (folder, _) = open_on(fs);
    let log = lazy_logs(&folder, 1).remove(0);
    (folder, log)
}

fn append_in(log: &TopicLog, epoch: i32) -> Result<Appended, AppendError> {
    let mut builder = BatchBuilder::new();
    builder.append(NOW, None, Some(b"value"), &[]);
    let context = AppendContext {
        origin: Origin::Client,
        leader_epoch: LeaderEpoch(epoch),
        now: NOW,
        zstd_allowed: true,
        unpacked_bytes_max: usize::MAX,
    };
    log.append(&Bytes::from(builder.build().unwrap()), &context)
}

fn append(log: &TopicLog) -> Result<Appended, AppendError> {
    append_in(log, 0)
}

/// What lies in the data folder of these partitions, under whatever name.
fn folders(fs: &MemFs) -> Vec<String> {
    let entries = fs.read_dir(Path::new(PATH)).unwrap().into_iter();
    entries.map(|entry| entry.name.into_string().unwrap()).filter(|name| name.starts_with("orders")).collect()
}

#[test]
fn partitions_without_folders_cost_no_call_and_answer_as_empty_ones() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let before = fs.calls();
    let logs = lazy_logs(&folder, 1000);
    for log in &logs {
        log.begin_epoch(LeaderEpoch(3)).unwrap();
        let positions = log.positions();
        assert_eq!((positions.log_start, positions.log_end, positions.durable_end), Default::default());
        let mut request = ReadRequest { from: Offset::ZERO, max_bytes: 100, upper: Offset::ZERO, min_one_batch: true };
        assert_eq!(log.read_nowait(&request).unwrap().bytes, 0);
        request.from = Offset(1);
        assert!(matches!(log.read(&request), Err(ReadError::OutOfRange { .. })));
        assert_eq!(log.end_offset_for_epoch(LeaderEpoch(3)), (LeaderEpoch(3), Offset::ZERO));
        assert_eq!(log.end_offset_for_epoch(LeaderEpoch(2)), (LeaderEpoch(2), Offset::ZERO));
        assert_eq!(log.end_offset_for_epoch(LeaderEpoch(4)), (LeaderEpoch::NONE, Offset::NONE));
        assert_eq!(log.raise_log_start(Offset::ZERO, Offset::ZERO).unwrap(), Offset::ZERO);
        assert!(log.raise_log_start(Offset(1), Offset::ZERO).is_err());
        assert_eq!(log.retention_pass(NOW, Offset::ZERO).unwrap().segments_removed, 0);
        assert_eq!(log.flush_blocking().unwrap(), Offset::ZERO);
        assert_eq!(log.size_bytes(), 0);
        assert!(log.producers().is_empty() && log.find_max_timestamp(Offset::ZERO).unwrap().is_none());
    }
    let to_cut = folder.truncate_to(&logs[0], Offset::ZERO).unwrap();
    assert_eq!(to_cut, Offset::ZERO);
    let deleted = folder.write_checkpoints_of(&[(logs[0].clone(), Offset::ZERO)]);
    assert!(deleted.iter().all(Result::is_ok));
    assert_eq!(fs.calls(), before);
}

#[test]
fn concurrent_first_appends_create_the_folder_once_and_durably() {
    let fs = MemFs::new();
    let (_folder, log) = one_on(&fs);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| append(&log).unwrap());
        }
    });
    assert_eq!(log.log_end(), Offset(8));
    assert_eq!(folders(&fs), ["orders-0"]);
    assert_eq!(folders(&fs.crash(CrashPolicy::Nothing)), ["orders-0"], "the name is durable");
}

#[test]
fn many_folders_are_created_with_one_sync() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let logs = lazy_logs(&folder, 40);
    let lazy: Vec<_> = logs.iter().filter_map(TopicLog::without_folder).collect();
    fs.plan_fault(Fault::of(OpKind::SyncDir, 2));
    assert!(folder.create_folders(&lazy).into_iter().all(|created| created.is_ok()));
    assert_eq!(fs.faults_met(), 0, "a second sync");
    assert_eq!(folders(&fs.crash(CrashPolicy::Nothing)).len(), 40);
    assert!(logs.iter().all(|log| log.without_folder().is_none()));
}

#[test]
fn what_it_was_told_before_the_first_append_holds_afterwards() {
    let fs = MemFs::new();
    let (folder, log) = one_on(&fs);
    log.begin_epoch(LeaderEpoch(2)).unwrap();
    log.end_epoch(LeaderEpoch(3)).unwrap();
    assert!(matches!(append_in(&log, 3), Err(AppendError::NotLeader { .. })), "that epoch has ended");
    assert!(folders(&fs).is_empty(), "a refused batch needs no folder");
    log.begin_epoch(LeaderEpoch(5)).unwrap();
    log.set_config(Arc::new(LogConfig { durability: Durability::Disk, ..LogConfig::default() }));
    let told = Arc::new(AtomicI64::new(-1));
    let listener = Arc::clone(&told);
    log.set_durable_listener(Box::new(move |end| listener.store(end.unwrap().0, Ordering::SeqCst)));
    append_in(&log, 5).unwrap();
    assert_eq!(log.latest_epoch().map(|entry| (entry.epoch, entry.start_offset)), Some((LeaderEpoch(5), Offset::ZERO)));
    assert!(matches!(append_in(&log, 4), Err(AppendError::NotLeader { .. })));
    assert_eq!(log.ends().acknowledged, Offset::ZERO, "the settings ask for a sync");
    folder.env().run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

/// Any call of the first append fails once. What is refused leaves the log as it was, and the next append goes on.
fn each_call_fails_once(action: FaultAction) -> Vec<AppendError> {
    let mut errors = Vec::new();
    for call in 1.. {
        let fs = MemFs::new();
        let (folder, log) = one_on(&fs);
        fs.plan_fault(Fault::any(call).with(action));
        let first = append(&log);
        let met = fs.faults_met() > 0;
        fs.clear_faults();
        let is_final = log.failure().is_some();
        if let Err(error) = first {
            assert_eq!(log.log_end(), Offset::ZERO, "{error}");
            assert!(!is_final || matches!(error, AppendError::Storage(_)), "{error}");
            errors.push(error);
        }
        match append(&log) {
            Ok(appended) => assert_eq!(appended.base_offset, Offset(log.log_end().0 - 1)),
            Err(error) => assert!(is_final, "call {call}: {error}"),
        }
        assert!(folder.delete_own_logs(&[(&log, Duration::ZERO)])[0].is_ok());
        folder.remove_due();
        assert!(folders(&fs).is_empty(), "call {call}: {:?}", folders(&fs));
        if !met {
            return errors;
        }
    }
    unreachable!()
}

#[test]
fn an_error_of_a_creation_refuses_the_batch_and_the_next_one_tries_again() {
    let full = each_call_fails_once(FaultAction::NoSpace);
    assert!(full.len() > 5, "{full:?}");
    let without = each_call_fails_once(FaultAction::NoDescriptor);
    assert!(without.iter().any(|error| matches!(error, AppendError::NoFolder { .. })), "{without:?}");
    assert!(full.iter().any(|error| matches!(error, AppendError::DiskFull { .. })), "{full:?}");
    let failed = each_call_fails_once(FaultAction::Io);
    assert!(failed.iter().any(|error| matches!(error, AppendError::Storage(_))), "{failed:?}");
}

#[test]
fn a_failed_sync_of_the_name_is_final() {
    let fs = MemFs::new();
    let (_folder, log) = one_on(&fs);
    fs.plan_fault(Fault::of(OpKind::SyncDir, 1));
    assert!(matches!(append(&log), Err(AppendError::Storage(_))));
    assert!(matches!(append(&log), Err(AppendError::Storage(_))), "what a sync lost is not synced by the next");
    assert!(log.failure().is_some());
}

#[test]
fn a_deleted_log_creates_nothing() {
    let fs = MemFs::new();
    let (folder, log) = one_on(&fs);
    let before = fs.calls();
    assert!(folder.delete_own_logs(&[(&log, Duration::ZERO)])[0].is_ok());
    assert!(matches!(append(&log), Err(AppendError::Closed { .. })));
    let request = ReadRequest { from: Offset::ZERO, max_bytes: 100, upper: Offset::ZERO, min_one_batch: true };
    assert!(matches!(log.read(&request), Err(ReadError::Closed { .. })));
    assert_eq!(fs.calls(), before);
}

#[test]
fn deletions_and_first_appends_at_the_same_time_leave_nothing() {
    for _ in 0..50 {
        let fs = MemFs::new();
        let (folder, log) = one_on(&fs);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| match append(&log) {
                    Ok(_) | Err(AppendError::Closed { .. }) => {}
                    Err(error) => panic!("{error}"),
                });
            }
            scope.spawn(|| assert!(folder.delete_own_logs(&[(&log, Duration::ZERO)])[0].is_ok()));
        });
        folder.remove_due();
        assert!(folders(&fs).is_empty());
        assert!(append(&log).is_err());
    }
}

#[test]
fn a_stop_creates_nothing_and_needs_no_folder() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let logs = lazy_logs(&folder, 2);
    append(&logs[0]).unwrap();
    folder.end_creations();
    assert!(matches!(append(&logs[1]), Err(AppendError::Closed { .. })));
    append(&logs[0]).unwrap();
    folder.close(&[(Arc::clone(logs[0].as_partition_log().unwrap()), Offset(2))], 1).unwrap();
    assert!(matches!(append(&logs[0]), Err(AppendError::Closed { .. })));
    drop(folder);
    let (folder, report) = open_on(&fs);
    assert_eq!(report.partitions.len(), 1);
    assert_eq!(folder.lost_end(&name(0)), Some(Offset(2)), "what the checkpoints say");
    assert_eq!(folder.lost_end(&name(1)), None);
}

#[test]
fn what_the_checkpoints_say_of_an_earlier_partition_is_forgotten() {
    let fs = MemFs::new();
    let (folder, log) = one_on(&fs);
    append(&log).unwrap();
    append(&log).unwrap();
    log.raise_log_start(Offset(2), Offset(2)).unwrap();
    folder.write_checkpoints(&[(Arc::clone(log.as_partition_log().unwrap()), Offset(2))], &|| true).unwrap();
    folder.delete_own_logs(&[(&log, Duration::ZERO)]).remove(0).unwrap();
    let again = lazy_logs(&folder, 1).remove(0);
    append(&again).unwrap();
    again.flush_blocking().unwrap();
    drop(folder);
    let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
    let (opened, _) = folder.open_log(&report.partitions[0], Arc::new(LogConfig::default())).unwrap();
    assert_eq!((opened.log_start(), opened.log_end()), (Offset::ZERO, Offset(1)));
}
