//! Every IO call fails once.

use mainstem_env::{CrashPolicy, Fault, FaultAction, MemFs, OpKind};

use crate::crash::{SCRIPTS, run_until, script};
use crate::support::{Oracle, Rig, Step, open};

/// Runs the whole script with one fault, going on after errors as far as the journal lets it, then restarts without the
/// fault. Gives whether a step failed and whether the fault met a call.
fn run_with(script: fn() -> Vec<Step>, fault: Fault) -> (bool, bool) {
    let what = format!("{fault:?}");
    let fs = MemFs::new();
    let Ok(mut rig) = Rig::on(fs.clone(), Oracle::default(), 0) else { panic!("the empty journal does not open") };
    fs.plan_fault(fault);
    let mut failed = false;
    for step in script() {
        if let Err(error) = rig.run(&step) {
            failed = true;
            // The old journal died with its process, and the new one did not open: there is nothing to go on with.
            if matches!(step, Step::KillAndReopen) {
                break;
            }
            // A journal that ended stays ended and says why, whatever is tried next.
            if rig.journal.failure().is_some() {
                assert!(rig.journal.append(&[]).is_err(), "{what}: appends work after {step:?}: {error}");
                assert!(rig.journal.flush().is_err(), "{what}: a flush works after {step:?}: {error}");
                break;
            }
            // A failed reopen leaves a closed journal: its owner opens it again.
            if rig.journal.append(&[]).is_err_and(|error| error.to_string().contains("closed")) {
                break;
            }
            rig.check().unwrap_or_else(|error| panic!("{what}: after {step:?}: {error}"));
        }
    }
    let met = fs.faults_met() > 0;
    fs.clear_faults();
    for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(1), CrashPolicy::Torn(2)] {
        let restarted = Rig::on(fs.crash(policy), rig.oracle.clone(), rig.epoch);
        restarted.and_then(|rig| rig.check()).unwrap_or_else(|error| panic!("{what}, {policy:?}: {error}"));
    }
    (failed, met)
}

fn fail_every_call(script: fn() -> Vec<Step>, action: FaultAction) -> u64 {
    for nth in 1.. {
        let (failed, met) = run_with(script, Fault::any(nth).with(action));
        if !met {
            assert!(!failed, "a step failed without a fault");
            return nth;
        }
    }
    unreachable!("the script ends")
}

#[test]
fn every_call_fails_once_with_eio() {
    SCRIPTS.into_iter().for_each(|script| assert!(fail_every_call(script, FaultAction::Io) > 100));
}

#[test]
fn every_call_fails_once_with_enospc() {
    SCRIPTS.into_iter().for_each(|script| assert!(fail_every_call(script, FaultAction::NoSpace) > 100));
}

#[test]
fn every_opening_fails_once_with_emfile() {
    for kind in [OpKind::Open, OpKind::SyncDir] {
        for script in SCRIPTS {
            let met = |nth| run_with(script, Fault::of(kind, nth).with(FaultAction::NoDescriptor)).1;
            let calls = (1..).take_while(|nth| met(*nth)).count();
            assert!(calls > 5, "{calls} calls of {kind:?}");
        }
    }
}

#[test]
fn short_reads_and_writes_are_no_errors() {
    for bytes in 1..40 {
        let (failed, met) = run_with(script, Fault::any(1).with(FaultAction::Short(bytes)).and_later());
        assert!(met && !failed, "{bytes} bytes at once");
    }
}

#[test]
fn every_call_of_a_recovery_fails_once() {
    for mutations in (0..).step_by(3) {
        let (fs, oracle, epoch, stopped) = run_until(script, mutations);
        let image = fs.crash(CrashPolicy::Torn(mutations));
        for nth in 1.. {
            let again = image.crash(CrashPolicy::Everything);
            again.plan_fault(Fault::any(nth));
            // Whether it opens or not: what was durable is there at the next try.
            let _ = open(&again);
            let met = again.faults_met() > 0;
            for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
                let what = format!("stop after {mutations}, call {nth} of the recovery fails, {policy:?}");
                let restarted = Rig::on(again.crash(policy), oracle.clone(), epoch);
                restarted.and_then(|rig| rig.check()).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            if !met {
                break;
            }
        }
        if !stopped {
            return;
        }
    }
}
