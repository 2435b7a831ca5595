//! Every IO call fails once.

use super::*;
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};

/// Appends, rolls, flushes, reads, retention and close, whatever fails. Gives the durable end that was reported.
fn work(log: &PartitionLog) -> i64 {
    let mut durable = 0;
    for round in 0..3 {
        for _ in 0..15 {
            let offset = log.log_end().0;
            let _ = log.append(&produced(9, 0, offset as i32, &[&format!("value {offset:04}")]), &client());
        }
        if let Ok(end) = log.flush_blocking() {
            durable = end.0;
        }
        let request = ReadRequest { from: log.log_start(), max_bytes: 500, upper: log.log_end(), min_one_batch: true };
        let _ = log.read(&request);
        let _ = log.find_by_time(NOW, log.log_end());
        let _ = log.prepare_checkpoint();
        if round == 1 {
            let _ = log.retention_pass(TimestampMs(NOW.0 + 1), log.log_end());
        }
    }
    if log.close().is_ok() {
        durable = log.log_end().0;
    }
    durable
}

fn config() -> LogConfig {
    LogConfig { retention_bytes: 3000, ..small() }
}

fn run_with(action: FaultAction) -> u64 {
    let mut nth = 1;
    loop {
        let (fs, log) = create(config());
        fs.plan_fault(Fault::any(nth).with(action));
        let durable = work(&log);
        let met = fs.faults_met() > 0;
        let failed = log.failure().is_some();
        if failed {
            assert!(log.append(&batch(&["more"]), &client()).is_err(), "an error of the disk is final");
        }
        drop(log);
        fs.clear_faults();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            let (log, _) = open(&fs.crash(policy), OpenFacts::default(), config());
            let (start, end) = (log.log_start().0, log.log_end().0);
            assert!(end >= durable, "call {nth}: durable up to {durable}, found up to {end}");
            let expected: Vec<_> = (start..end).map(|offset| (offset, format!("value {offset:04}"))).collect();
            assert_eq!(all_records(&log), expected, "call {nth}");
        }
        if !met {
            return nth;
        }
        nth += 1;
    }
}

#[test]
fn every_call_that_fails_with_eio_loses_nothing_that_was_reported_durable() {
    assert!(run_with(FaultAction::Io) > 100);
}

#[test]
fn every_call_that_fails_with_enospc_loses_nothing_that_was_reported_durable() {
    assert!(run_with(FaultAction::NoSpace) > 100);
}

#[test]
fn a_checkpoint_without_descriptors_is_made_later_and_ends_no_log() {
    let (fs, log) = create(config());
    for round in 0..3 {
        for _ in 0..15 {
            let offset = log.log_end().0;
            log.append(&produced(9, 0, offset as i32, &[&format!("value {offset:04}")]), &client()).unwrap();
        }
        log.flush_blocking().unwrap();
        let end = log.log_end();
        let mut refused = 0;
        for nth in 1.. {
            fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor));
            let met = fs.faults_met();
            let prepared = log.prepare_checkpoint();
            assert!(log.failure().is_none(), "round {round}, open {nth}: {:?}", log.failure());
            refused += usize::from(prepared.is_err());
            if fs.faults_met() == met {
                assert_eq!(prepared.unwrap().recovery_point, end, "round {round}: everything is synced in the end");
                break;
            }
            if let Ok(entry) = prepared {
                assert!(entry.recovery_point <= end);
            }
        }
        fs.clear_faults();
        assert!(refused > 0, "round {round}");
    }
    let (log, _) = open(&fs.crash(CrashPolicy::Nothing), OpenFacts::default(), config());
    assert_eq!(log.log_end(), Offset(45));
}

#[test]
fn short_and_interrupted_calls_are_gone_on_with() {
    for action in [FaultAction::Short(1), FaultAction::Short(7), FaultAction::Interrupted] {
        let (fs, log) = create(config());
        for kind in [OpKind::Read, OpKind::Write] {
            // Every third, so that a repeated call succeeds.
            (0..400).for_each(|n| fs.plan_fault(Fault::of(kind, 1 + 3 * n).with(action)));
        }
        let durable = work(&log);
        assert!(log.failure().is_none(), "{action:?}: {:?}", log.failure());
        assert_eq!(durable, 45);
    }
}

#[test]
fn an_error_of_the_disk_ends_its_log_alone_and_is_told() {
    let fs = MemFs::new();
    let env = env_on(&fs);
    let log = create_with(&env, small());
    let other = PartitionLog::create(
        &env,
        Path::new("/data/other-0"),
        TopicPartition::new("other", PartitionIndex(0)),
        TopicId([8; 16]),
        Arc::new(small()),
    )
    .unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    log.set_durable_listener(Box::new(move |outcome| sink.lock().push(outcome.map_err(|error| error.to_string()))));
    fill(&log, 2);
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("orders-0"));
    assert!(!log.request_flush(Offset(2)));
    env.run_pending_flushes();
    let told = told.lock().clone();
    assert!(told.len() == 1 && told[0].as_ref().is_err_and(|error| error.contains("sync")), "{told:?}");
    assert!(log.append(&batch(&["more"]), &client()).is_err());
    assert!(log.failure().is_some() && log.flush_blocking().is_err() && log.close().is_err());
    fill(&other, 30);
    assert_eq!(other.flush_blocking().unwrap(), Offset(30));
}

#[test]
fn a_disk_without_room_for_the_epochs_does_not_end_the_log() {
    let (fs, log) = create(small());
    fill(&log, 2);
    fs.plan_fault(Fault::any(1).with(FaultAction::NoSpace).on("leader-epoch-checkpoint").and_later());
    let error = log.prepare_checkpoint().expect_err("there is no room for the epochs");
    assert_eq!(error.error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    assert!(fs.faults_met() > 0 && log.failure().is_none());
    fill(&log, 1);
    fs.clear_faults();
    log.prepare_checkpoint().unwrap();
    log.flush_blocking().unwrap();
    let (log, _) = open(&fs.crash(CrashPolicy::Nothing), OpenFacts::default(), small());
    assert!(log.log_end() == Offset(3) && log.latest_epoch().is_some());
}

#[test]
fn positions_that_are_out_of_order_end_the_log_and_are_told() {
    let (_, log) = create(config());
    put(&log, &["a", "b"]);
    log.state.lock().log_start = Offset(9);
    let refused = log.append(&batch(&["c"]), &client()).unwrap_err().to_string();
    assert!(refused.contains("log start 9") && refused.contains("log end 3"), "{refused}");
    let failure = log.failure().unwrap().to_string();
    assert!(failure.contains("out of order"), "{failure}");
    assert!(log.append(&batch(&["d"]), &client()).is_err() && log.prepare_checkpoint().is_err(), "it stays so");
}
