//! Every call to the disk fails once.

use super::*;
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};

/// Appends, rolls, flushes, reads, look-ups, checkpoints, retention and close, whatever fails. Gives the durable ends
/// that were reported.
fn work(group: &GroupLog, logs: &[Arc<GroupPartition>]) -> Vec<i64> {
    let mut durable = vec![0; logs.len()];
    for round in 0..3 {
        for n in 0..24 {
            let log = &logs[n % 2];
            let offset = log.log_end().0;
            let batch = produced(9, 0, offset as i32, &[&value(&log.partition().topic, offset)]);
            let _ = log.append(&batch, &client());
        }
        for (log, durable) in logs.iter().zip(&mut durable) {
            if let Ok(end) = log.flush_blocking() {
                *durable = end.0;
            }
        }
        let log = &logs[0];
        let request = ReadRequest { from: log.log_start(), max_bytes: 500, upper: log.log_end(), min_one_batch: true };
        let _ = log.read(&request);
        let _ = log.find_by_time(NOW, log.log_end());
        let _ = group.find_by_key(TopicId([7; 16]), &KeyQuery::new("k", 3));
        let _ = group.checkpoint();
        if round == 1 {
            logs[0].set_config(Arc::new(LogConfig { retention_bytes: 1500, ..config() }));
            let _ = logs[0].retention_pass(NOW, logs[0].log_end());
            let _ = logs[1].raise_log_start(Offset(10), logs[1].log_end());
            let _ = group.remove_unneeded();
            group.remove_due_files();
        }
    }
    if group.close().is_ok() {
        durable = logs.iter().map(|log| log.log_end().0).collect();
    }
    durable
}

fn run_with(action: FaultAction) -> u64 {
    run_with_fault(|nth| Fault::any(nth).with(action), |_, _| ())
}

/// `check` sees each group after its work. Gives the number of runs.
fn run_with_fault(fault: impl Fn(u64) -> Fault, check: impl Fn(u64, &GroupLog)) -> u64 {
    let mut nth = 1;
    loop {
        let (fs, group, logs) = create();
        let logs = &logs[..2];
        fs.plan_fault(fault(nth));
        let durable = work(&group, logs);
        let met = fs.faults_met() > 0;
        check(nth, &group);
        if group.failure().is_some() {
            assert!(logs[0].append(&batch_at(NOW.0, &["more"]), &client()).is_err(), "an error of the disk is final");
        }
        drop(group);
        fs.clear_faults();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            let (group, report) = open(&fs.crash(policy));
            assert!(report.damaged.is_empty(), "call {nth}: {report:?}");
            for (live, durable) in live().iter().zip(&durable) {
                let log = make(&group, live);
                let (start, end) = (log.log_start().0, log.log_end().0);
                assert!(end >= *durable, "call {nth}, {policy:?}: durable up to {durable}, found up to {end}");
                expect_filled(&log, start..end);
                put(&log, &["goes on"]);
            }
        }
        if !met {
            return nth;
        }
        nth += 1;
    }
}

#[test]
fn each_call_fails_with_an_error() {
    assert!(run_with(FaultAction::Io) > 100);
}

#[test]
fn each_call_finds_the_disk_full() {
    assert!(run_with(FaultAction::NoSpace) > 100);
}

#[test]
fn a_moment_without_descriptors_ends_nothing() {
    for kind in [OpKind::Open, OpKind::SyncDir] {
        let fault = |nth| Fault::of(kind, nth).with(FaultAction::NoDescriptor);
        let goes_on = |nth, group: &GroupLog| {
            assert!(group.failure().is_none(), "{kind:?} {nth}: {:?}", group.failure());
        };
        assert!(run_with_fault(fault, goes_on) > 20, "{kind:?}");
    }
}

#[test]
fn a_checkpoint_without_a_descriptor_says_so_and_the_next_one_makes_up_for_it() {
    for kind in [OpKind::Open, OpKind::SyncDir] {
        for nth in 1.. {
            let (fs, group, logs) = create();
            logs.iter().for_each(|log| fill(log, 30));
            fs.plan_fault(Fault::of(kind, nth).with(FaultAction::NoDescriptor).and_later());
            let failed = group.checkpoint().is_err();
            assert!(fs.faults_met() == 0 || failed, "{kind:?} {nth}: it says nothing");
            fs.clear_faults();
            group.checkpoint().unwrap();
            let (group, report) = open(&fs.crash(CrashPolicy::Nothing));
            assert_eq!((report.views_rebuilt, report.bytes_replayed), (0, 0), "{kind:?} {nth}: {report:?}");
            live().iter().for_each(|live| expect_filled(&make(&group, live), 0..30));
            if !failed {
                assert!(nth > 2, "{nth} calls of {kind:?}");
                break;
            }
        }
    }
}

#[test]
fn each_call_is_interrupted() {
    assert!(run_with(FaultAction::Interrupted) > 100);
}

#[test]
fn each_call_does_a_part_only() {
    assert!(run_with(FaultAction::Short(3)) > 100);
}

#[test]
fn a_full_disk_refuses_and_the_group_goes_on_by_itself_when_there_is_room() {
    let (fs, group, logs) = create();
    fill(&logs[0], 30);
    fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace).and_later());
    for _ in 0..200 {
        let error = logs[0].append(&batch_at(NOW.0, &["refused"]), &client()).unwrap_err();
        assert!(matches!(error, crate::AppendError::DiskFull { .. }), "{error}");
    }
    fs.clear_faults();
    assert!(group.failure().is_none());
    fill(&logs[0], 30);
    group.checkpoint().unwrap();
    expect_filled(&logs[0], 0..60);
}
