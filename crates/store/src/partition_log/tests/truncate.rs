use super::*;
use crate::error::AppendError;
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};
use mainstem_record::ControlRecord;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(48))]

    /// After a cut the log is as if the rest had never been written, before and after it is opened again.
    #[test]
    fn a_cut_log_is_one_that_never_had_the_rest(count in 1usize..60, cut in 0i64..60, more in 0usize..20, kill in any::<bool>()) {
        let (fs, log) = create(small());
        for n in 0..count {
            let value = format!("value {n:04} {}", "x".repeat(40));
            log.append(&produced(1, 0, n as i32, &[&value]), &AppendContext { leader_epoch: LeaderEpoch(n as i32 / 7), ..client() }).unwrap();
        }
        let cut = cut.min(count as i64);
        prop_assert_eq!(log.truncate_to(Offset(cut)).unwrap(), Offset(cut));
        let (_, reference) = create(small());
        for n in 0..cut {
            let value = format!("value {n:04} {}", "x".repeat(40));
            reference.append(&produced(1, 0, n as i32, &[&value]), &AppendContext { leader_epoch: LeaderEpoch(n as i32 / 7), ..client() }).unwrap();
        }
        for log in [&log, &reference] {
            fill(log, more);
        }
        let same = |log: &PartitionLog| {
            assert_eq!(all_records(log), all_records(&reference));
            assert_eq!(log.producers(), reference.producers());
            assert_eq!(log.latest_epoch().map(|e| e.start_offset), reference.latest_epoch().map(|e| e.start_offset));
            let (a, b) = (log.find_max_timestamp(log.log_end()), reference.find_max_timestamp(log.log_end()));
            assert_eq!(a.unwrap(), b.unwrap());
        };
        same(&log);
        if kill {
            same(&open(&fs.crash(mainstem_env::CrashPolicy::Everything), OpenFacts::default(), small()).0);
        } else {
            log.close().unwrap();
            same(&open(&fs, clean(), small()).0);
        }
    }
}

#[test]
fn a_batch_that_holds_the_offset_goes_as_a_whole() {
    let (_, log) = create(small());
    put(&log, &["a", "b", "c"]);
    put(&log, &["d", "e", "f"]);
    assert_eq!(log.truncate_to(Offset(4)).unwrap(), Offset(3));
    assert_eq!(log.log_end(), Offset(3));
    assert_eq!(put(&log, &["g"]).base_offset, Offset(3));
}

#[test]
fn a_log_can_begin_anew_above_its_end() {
    let (fs, log) = create(small());
    fill(&log, 30);
    log.restart_at(Offset(1000)).unwrap();
    assert_eq!((log.log_start(), log.log_end(), log.segment_count()), (Offset(1000), Offset(1000), 1));
    fill(&log, 20);
    expect_filled(&log, 1000..1020);
    let killed = fs.crash(mainstem_env::CrashPolicy::Everything);
    expect_filled(&open(&killed, OpenFacts::default(), small()).0, 1000..1020);
    log.close().unwrap();
    expect_filled(&open(&fs, clean(), small()).0, 1000..1020);
}

/// KAFKA-10706, found by the simulation: the follower cut to its own end and asked again, for ever.
#[test]
fn a_cut_at_the_log_end_forgets_an_epoch_without_records() {
    let (_, log) = create(small());
    put(&log, &["a", "b"]);
    let before = log.latest_epoch();
    log.begin_epoch(LeaderEpoch(9)).unwrap();
    assert_eq!(log.truncate_to(Offset(2)).unwrap(), Offset(2));
    assert_eq!(log.latest_epoch(), before);
}

#[test]
fn what_lies_below_a_cut_is_still_synced_and_acknowledged() {
    let config = LogConfig { durability: crate::Durability::Disk, ..small() };
    for config in [config.clone(), LogConfig { durability: crate::Durability::Os, flush_messages: 2, ..config }] {
        let env = env_on(&MemFs::new());
        let log = create_with(&env, config);
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        log.set_durable_listener(Box::new(move |outcome| sink.lock().push(outcome.unwrap())));
        // Of two segments: a cut syncs the last one alone.
        fill(&log, 15);
        assert_eq!(log.truncate_to(Offset(12)).unwrap(), Offset(12));
        env.run_pending_flushes();
        assert_eq!((log.ends().acknowledged, log.log_end()), (Offset(12), Offset(12)));
        assert_eq!(told.lock().last(), Some(&Offset(12)));
    }
}

/// Ten records from offset 10 on, as a leader has them.
fn leader_s_batch() -> Bytes {
    let (_, leader) = create(small());
    fill(&leader, 10);
    put(&leader, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    let request = ReadRequest { from: Offset(10), max_bytes: 1, upper: Offset(20), min_one_batch: true };
    bytes_of(&leader.read(&request).unwrap()).into()
}

/// A log that begins at an offset inside of that batch.
fn begins_inside() -> (MemFs, PartitionLog) {
    let (fs, log) = create(small());
    log.restart_at(Offset(15)).unwrap();
    (fs, log)
}

#[test]
fn a_crash_at_every_step_of_a_first_batch_below_the_log_start_leaves_it_or_an_empty_log() {
    let batch = leader_s_batch();
    for step in 0.. {
        let (fs, log) = begins_inside();
        fs.stop_after(step);
        let appended = log.append_replicated(&batch, LeaderEpoch(0), NOW);
        let durable = appended.is_ok() && log.flush_blocking().is_ok();
        assert!(appended.is_err() || (log.log_start(), log.log_end()) == (Offset(15), Offset(20)));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(step)] {
            for log_start in [None, Some(Offset(15))] {
                let facts = OpenFacts { recovery_point: Some(Offset(15)), log_start, ..OpenFacts::default() };
                let mut fs = fs.crash(policy);
                for crash in 0..2 {
                    let (log, _) = open(&fs, facts, small());
                    let found: Vec<_> = all_records(&log).into_iter().map(|(offset, _)| offset).collect();
                    let whole: Vec<_> = (log.log_start().0..20).collect();
                    let what = format!("step {step}, {policy:?}, {log_start:?}, crash {crash}: {found:?}");
                    assert!(found == whole || (!durable && found.is_empty()), "{what}");
                    assert!(found.is_empty() || log_start.is_none_or(|start| log.log_start() == start), "{what}");
                    // The follower goes on.
                    if found.is_empty() && log.log_start() == Offset(15) {
                        log.append_replicated(&batch, LeaderEpoch(0), NOW).unwrap();
                    }
                    fs = fs.crash(policy);
                }
            }
        }
        if durable {
            assert!(step > 3, "{step}");
            return;
        }
    }
}

#[test]
fn a_first_batch_below_the_log_start_is_refused_whole_without_a_descriptor_or_if_it_does_not_hold_it() {
    let batch = leader_s_batch();
    let mut refused = 0;
    for nth in 1.. {
        let (fs, log) = begins_inside();
        log.close().unwrap();
        let (log, _) = open(&fs, OpenFacts { log_start: Some(Offset(15)), ..clean() }, small());
        fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor));
        let appended = log.append_replicated(&batch, LeaderEpoch(0), NOW);
        let met = fs.faults_met() > 0;
        fs.clear_faults();
        assert!(log.failure().is_none(), "open {nth}: {:?}", log.failure());
        if appended.is_err() {
            refused += 1;
            assert_eq!((log.log_start(), log.log_end()), (Offset(15), Offset(15)));
            log.append_replicated(&batch, LeaderEpoch(0), NOW).unwrap();
        }
        assert_eq!((log.log_start(), log.log_end()), (Offset(15), Offset(20)));
        assert_eq!(all_records(&log).len(), 5);
        if !met {
            break;
        }
    }
    assert!(refused > 0);
    // The log start is behind it, or there are records.
    for start in [20, 30] {
        let (_, log) = create(small());
        log.restart_at(Offset(start)).unwrap();
        assert!(matches!(log.append_replicated(&batch, LeaderEpoch(0), NOW), Err(AppendError::NotNext { .. })));
        assert_eq!((log.log_start(), log.log_end()), (Offset(start), Offset(start)));
    }
    let (_, log) = create(small());
    fill(&log, 15);
    log.raise_log_start(Offset(15), Offset(15)).unwrap();
    assert!(matches!(log.append_replicated(&batch, LeaderEpoch(0), NOW), Err(AppendError::NotNext { .. })));
}

/// Several segments, with producers and an aborted transaction in each of the first twenty records.
fn with_transactions() -> (MemFs, PartitionLog) {
    let (fs, log) = create(small());
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    let transactional = |control: bool, sequence| {
        let mut builder = BatchBuilder::new().producer(ProducerId(9), ProducerEpoch(0), sequence).transactional();
        match control {
            true => {
                _ = builder
                    .append_control(NOW, &ControlRecord::EndTransaction { committed: false, coordinator_epoch: 1 })
            }
            false => _ = builder.append(NOW, None, Some(b"in a transaction"), &[]),
        }
        Bytes::from(builder.build().unwrap())
    };
    for n in 0..10 {
        log.append(&transactional(false, n), &client()).unwrap();
        log.append(&transactional(true, -1), &coordinator).unwrap();
        log.append(&produced(1, 0, n, &["plain"]), &client()).unwrap();
    }
    log.close().unwrap();
    let (log, _) = open(&fs, clean(), small());
    (fs, log)
}

#[test]
fn a_cut_without_descriptors_changes_nothing_or_is_whole() {
    let aborted = |log: &PartitionLog| log.aborted_transactions(Offset(0), log.log_end()).unwrap();
    for at in [29, 17, 14, 1] {
        let (_, reference) = with_transactions();
        let before = (all_records(&reference), reference.producers(), aborted(&reference));
        reference.truncate_to(Offset(at)).unwrap();
        let mut refused = 0;
        for nth in 1.. {
            let (fs, log) = with_transactions();
            // From here on there is no descriptor.
            fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor).and_later());
            fs.plan_fault(Fault::of(OpKind::SyncDir, 1).with(FaultAction::NoDescriptor).and_later());
            let cut = log.truncate_to(Offset(at));
            fs.clear_faults();
            assert!(log.failure().is_none(), "{at}, open {nth}: {:?}", log.failure());
            if cut.is_err() {
                refused += 1;
                assert_eq!((all_records(&log), log.producers(), aborted(&log)), before, "{at}, open {nth}");
                log.truncate_to(Offset(at)).unwrap();
            }
            let done = cut.is_ok();
            let check = |log: &PartitionLog| {
                assert_eq!((log.log_end(), all_records(log)), (Offset(at), all_records(&reference)));
                assert_eq!((log.producers(), aborted(log)), (reference.producers(), aborted(&reference)));
            };
            check(&log);
            let once = fs.crash(CrashPolicy::Nothing);
            check(&open(&once, OpenFacts::default(), small()).0);
            check(&open(&once.crash(CrashPolicy::Nothing), OpenFacts::default(), small()).0);
            fill(&log, 3);
            assert_eq!(log.flush_blocking().unwrap(), Offset(at + 3));
            if done {
                break;
            }
        }
        assert!(refused > 4, "{at}: {refused}");
    }
}

#[test]
fn a_new_beginning_without_descriptors_changes_nothing_or_is_whole() {
    for at in [30, 47] {
        let mut refused = 0;
        for nth in 1.. {
            let (fs, log) = with_transactions();
            let before = (log.log_start(), all_records(&log), log.producers());
            fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor).and_later());
            fs.plan_fault(Fault::of(OpKind::SyncDir, 1).with(FaultAction::NoDescriptor).and_later());
            let begun = log.restart_at(Offset(at));
            fs.clear_faults();
            assert!(log.failure().is_none(), "{at}, open {nth}: {:?}", log.failure());
            if begun.is_err() {
                refused += 1;
                assert_eq!((log.log_start(), all_records(&log), log.producers()), before, "{at}, open {nth}");
                // What was there goes on, also after a power cut.
                let (after, _) = open(&fs.crash(CrashPolicy::Everything), OpenFacts::default(), small());
                assert_eq!((after.log_start(), all_records(&after), after.producers()), before, "{at}, open {nth}");
                fill(&log, 1);
                log.truncate_to(Offset(30)).unwrap();
                log.restart_at(Offset(at)).unwrap();
            }
            let check = |log: &PartitionLog| {
                assert_eq!((log.log_start(), log.log_end(), log.segment_count()), (Offset(at), Offset(at), 1));
                assert!(log.producers().is_empty());
            };
            check(&log);
            let facts = OpenFacts { log_start: Some(Offset(at)), ..OpenFacts::default() };
            let once = fs.crash(CrashPolicy::Nothing);
            check(&open(&once, facts, small()).0);
            check(&open(&once.crash(CrashPolicy::Nothing), facts, small()).0);
            fill(&log, 3);
            assert_eq!(log.flush_blocking().unwrap(), Offset(at + 3));
            if begun.is_ok() {
                break;
            }
        }
        assert!(refused > 1, "{at}: {refused}");
    }
}
