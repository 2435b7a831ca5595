//! Stops at every write and every sync, twice in a row.

use mainstem_env::{CrashPolicy, MemFs};

use crate::support::{Oracle, Rig, Step, open};

/// Everything a journal does, in an order that leaves something un-synced everywhere.
pub fn script() -> Vec<Step> {
    use Step::*;
    vec![
        Append { payload_len: 10 },
        Append { payload_len: 100 },
        Flush,
        Append { payload_len: 0 },
        Checkpoint,
        Append { payload_len: 200 },
        Append { payload_len: 30 },
        Append { payload_len: 250 },
        Roll,
        Flush,
        Append { payload_len: 50 },
        Append { payload_len: 150 },
        Append { payload_len: 150 },
        Append { payload_len: 150 },
        Append { payload_len: 150 },
        Checkpoint,
        Truncate { entries: 2 },
        Append { payload_len: 120 },
        Append { payload_len: 260 },
        Flush,
        Delete { segments: 3 },
        RemoveDeleted,
        Append { payload_len: 40 },
        Append { payload_len: 240 },
        Append { payload_len: 240 },
        KillAndReopen,
        Append { payload_len: 40 },
        CloseAndReopen,
        Append { payload_len: 220 },
        Append { payload_len: 220 },
        Checkpoint,
        Delete { segments: 1 },
        Append { payload_len: 220 },
        Truncate { entries: 5 },
        Append { payload_len: 5 },
        Flush,
        Append { payload_len: 6 },
    ]
}

/// The same with every second append to memory.
pub fn script_in_memory() -> Vec<Step> {
    let mut appends = 0;
    let in_memory = |step| match step {
        Step::Append { payload_len } => {
            appends += 1;
            if appends % 2 == 0 { Step::AppendInMemory { payload_len } } else { step }
        }
        step => step,
    };
    script().into_iter().map(in_memory).chain([Step::WriteOut]).collect()
}

pub const SCRIPTS: [fn() -> Vec<Step>; 2] = [script, script_in_memory];

fn policies(seeds: u64) -> impl Iterator<Item = CrashPolicy> {
    [CrashPolicy::Nothing, CrashPolicy::Everything].into_iter().chain((0..seeds).map(CrashPolicy::Torn))
}

/// Runs the script until it stops after `mutations`; gives the disk, the oracle and the epoch, and whether it stopped.
pub fn run_until(script: fn() -> Vec<Step>, mutations: u64) -> (MemFs, Oracle, u32, bool) {
    let fs = MemFs::new();
    fs.stop_after(mutations);
    let Ok(mut rig) = Rig::on(fs.clone(), Oracle::default(), 0) else { return (fs, Oracle::default(), 0, true) };
    let stopped = script().iter().any(|step| rig.run(step).is_err());
    assert_eq!(stopped, fs.stopped(), "a step failed, but not because of the stop");
    (fs, rig.oracle, rig.epoch, stopped)
}

/// Opens a crash image, checks it, and goes on working with it: what is acknowledged then must survive too.
fn check(image: MemFs, oracle: &Oracle, epoch: u32, what: &str) {
    let mut rig = Rig::on(image, oracle.clone(), epoch).unwrap_or_else(|error| panic!("{what}: {error}"));
    rig.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    let steps = [
        Step::Append { payload_len: 33 },
        Step::Append { payload_len: 280 },
        Step::Flush,
        Step::Append { payload_len: 1 },
        Step::CrashAndReopen { policy: CrashPolicy::Nothing },
    ];
    for step in &steps {
        rig.run(step).unwrap_or_else(|error| panic!("{what}, afterwards {step:?}: {error}"));
    }
    rig.check().unwrap_or_else(|error| panic!("{what}, afterwards: {error}"));
}

fn stop_everywhere(script: fn() -> Vec<Step>) {
    for mutations in 0.. {
        let (fs, oracle, epoch, stopped) = run_until(script, mutations);
        for policy in policies(20) {
            check(fs.crash(policy), &oracle, epoch, &format!("stop after {mutations}, {policy:?}"));
        }
        if !stopped {
            assert!(mutations > 60, "the script has only {mutations} writes and syncs");
            return;
        }
    }
}

#[test]
fn a_stop_at_every_write_and_sync_keeps_what_was_durable() {
    SCRIPTS.into_iter().for_each(stop_everywhere);
}

#[test]
fn a_second_stop_at_every_write_and_sync_of_the_recovery_loses_nothing_either() {
    stop_everywhere_twice(script, 1);
    // Recovery does not know how the bytes came: some places are enough.
    stop_everywhere_twice(script_in_memory, if std::env::var_os("MAINSTEM_FULL").is_some() { 1 } else { 9 });
}

fn stop_everywhere_twice(script: fn() -> Vec<Step>, step: usize) {
    for mutations in (0..).step_by(step) {
        let (fs, oracle, epoch, stopped) = run_until(script, mutations);
        for first in policies(5) {
            // What the first crash left decides what recovery has to do, so the image is made once.
            let image = fs.crash(first);
            for recovery_mutations in 0.. {
                let again = image.crash(CrashPolicy::Everything);
                again.stop_after(recovery_mutations);
                let done = open(&again).is_ok();
                for second in policies(3) {
                    let what = format!("stop after {mutations}, {first:?}, then {recovery_mutations}, {second:?}");
                    check(again.crash(second), &oracle, epoch, &what);
                }
                if done {
                    break;
                }
            }
        }
        if !stopped {
            return;
        }
    }
}
