//! Every IO call fails once.

use super::*;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{create, open};
use mainstem_env::{CrashPolicy, Fault, FaultAction};

fn appended(log: &PartitionLog, count: usize, all: &mut Vec<Kept>) {
    for _ in 0..count {
        let offset = log.log_end().0;
        let (key, value) = (format!("key {}", offset % 5), format!("value {offset} {}", "x".repeat(40)));
        if log.append(&batch_of(BatchBuilder::new(), &[(&key, Some(&value))]), &client()).is_ok() {
            all.push((offset, key, Some(value)));
        }
    }
}

/// Appends and compacts, whatever fails.
fn work(log: &PartitionLog, all: &mut Vec<Kept>, facts: &mut OpenFacts) -> Option<CompactError> {
    let mut failed = None;
    for round in 0..2 {
        appended(log, 14, all);
        if log.flush_blocking().is_ok()
            && let Ok(entry) = log.prepare_checkpoint()
        {
            log.checkpoint_written(entry.recovery_point);
            facts.recovery_point = Some(entry.recovery_point);
        }
        let now = TimestampMs(NOW.0 + round * 2000);
        match log.cleanable(now, log.log_end()) {
            Ok(Some(work)) => failed = log.compact(&work, &LIMITS, now, &mut Unthrottled).err().or(failed),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
        log.remove_due_files();
    }
    failed
}

fn run_with(action: FaultAction) -> u64 {
    let mut nth = 1;
    let (mut kept_going, mut ended) = (0, 0);
    loop {
        let (fs, log) = create(compacted());
        let mut all = Vec::new();
        let mut facts = OpenFacts { recovery_point: Some(Offset(0)), ..OpenFacts::default() };
        fs.plan_fault(Fault::any(nth).with(action));
        let failed = work(&log, &mut all, &mut facts);
        let met = fs.faults_met() > 0;
        fs.clear_faults();
        // Reads go on in any case, and see the last value of each key.
        let found = contents(&log);
        assert_eq!(table(&found), table(&all), "call {nth}: {failed:?}");
        check_every_offset(&log);
        match log.failure() {
            Some(_) => ended += 1,
            None => {
                kept_going += u64::from(failed.is_some());
                // The next pass finds nothing in its way.
                appended(&log, 5, &mut all);
                compact(&log);
                facts.recovery_point = Some(log.checkpointed_end());
                assert_eq!(table(&contents(&log)), table(&all), "call {nth}");
            }
        }
        drop(log);
        for policy in [CrashPolicy::Everything, CrashPolicy::Torn(nth)] {
            let (log, _) = open(&fs.crash(policy), facts, compacted());
            let end = log.log_end().0;
            all.retain(|(offset, ..)| *offset < end);
            assert_eq!(table(&contents(&log)), table(&all), "call {nth}, {policy:?}");
        }
        if !met {
            assert!(kept_going > 20 && ended > 10, "{kept_going} went on, {ended} ended");
            return nth;
        }
        nth += 1;
    }
}

#[test]
fn every_call_that_fails_with_eio_leaves_every_key_its_last_value() {
    assert!(run_with(FaultAction::Io) > 100);
}

#[test]
fn every_call_that_fails_with_enospc_leaves_every_key_its_last_value() {
    assert!(run_with(FaultAction::NoSpace) > 100);
}
