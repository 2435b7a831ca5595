//! A power cut at every write, rename and sync, and another one during the recovery from it.

use super::*;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{FOLDER, create, env_on, open, partition};
use mainstem_env::{CrashPolicy, MemFs};
use std::path::Path;

/// What the test knows when the disk stops.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Every record that was appended, or could have been, by offset.
    records: Vec<Kept>,
    /// Offsets below were reported durable.
    durable: i64,
    facts: OpenFacts,
}

fn append(log: &PartitionLog, known: &mut Known) -> Result<(), ()> {
    let offset = log.log_end().0;
    let key = format!("key {}", offset % 7);
    let value = (offset % 5 != 3).then(|| format!("value {offset} {}", "x".repeat(40)));
    known.records.truncate(offset as usize);
    known.records.push((offset, key.clone(), value.clone()));
    let batch = batch_of(producer(9, offset as i32), &[(&key, value.as_deref())]);
    log.append(&batch, &client()).map(|_| ()).map_err(|_| ())
}

fn compact_now(log: &PartitionLog, known: &mut Known, now: i64) -> Result<(), ()> {
    known.durable = known.durable.max(log.flush_blocking().map_err(|_| ())?.0);
    let entry = log.prepare_checkpoint().map_err(|_| ())?;
    // As the data folder would have written it.
    known.facts.recovery_point = Some(entry.recovery_point);
    log.checkpoint_written(entry.recovery_point);
    let Some(work) = log.cleanable(TimestampMs(now), log.log_end()).map_err(|_| ())? else { return Ok(()) };
    let done = log.compact(&work, &LIMITS, TimestampMs(now), &mut Unthrottled).map_err(|_| ())?;
    known.facts.cleaned_to = Some(done.to);
    Ok(())
}

/// Opens, appends, compacts three times so that tombstones go too, closes.
fn run(fs: &MemFs, known: &mut Known) -> Result<(), ()> {
    let config = Arc::new(compacted());
    let opened = PartitionLog::open(&env_on(fs), Path::new(FOLDER), partition(), &known.facts, config);
    let log = opened.map_err(|_| ())?.0;
    known.facts.clean = false;
    for round in 0..3 {
        for _ in 0..9 {
            append(&log, known)?;
        }
        compact_now(&log, known, NOW.0 + round * 1000)?;
        log.remove_due_files();
    }
    log.close().map_err(|_| ())?;
    known.durable = log.log_end().0;
    known.facts.recovery_point = Some(log.log_end());
    known.facts.clean = true;
    Ok(())
}

/// Opens the log after a crash and checks what must hold; gives what it holds.
fn check(fs: &MemFs, known: &Known) -> Vec<Kept> {
    let (log, _) = open(fs, known.facts, compacted());
    let end = log.log_end().0;
    assert!(end >= known.durable, "durable up to {}, found up to {end}", known.durable);
    assert!(end <= known.records.len() as i64);
    let found = contents(&log);
    for kept in &found {
        assert_eq!(*kept, known.records[kept.0 as usize]);
    }
    assert_eq!(table(&found), table(&known.records[..end as usize]));
    if end > 0 {
        assert_eq!(i64::from(log.producers()[0].last_sequence), end - 1);
    }
    check_every_offset(&log);
    found
}

#[test]
fn a_crash_at_every_step_and_again_during_the_recovery_leaves_the_old_segments_or_the_new_ones() {
    let mut after = 0;
    loop {
        let (fs, log) = create(compacted());
        drop(log);
        let facts = OpenFacts { recovery_point: Some(Offset(0)), ..OpenFacts::default() };
        let mut known = Known { facts, ..Known::default() };
        fs.stop_after(after);
        let finished = run(&fs, &mut known).is_ok();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            check_second_crash(&crashed, &known, after);
            let first = check(&crashed, &known);
            let facts = OpenFacts { clean: false, ..known.facts };
            let second = check(&crashed.crash(CrashPolicy::Nothing), &Known { facts, ..known.clone() });
            assert_eq!(first, second, "what a recovery has shown stays");
        }
        if finished {
            break;
        }
        after += 1;
    }
    assert!(after > 150, "{after} places to stop");
}

fn check_second_crash(crashed: &MemFs, known: &Known, seed: u64) {
    for step in [seed % 5, 5 + seed % 11] {
        let again = crashed.crash(CrashPolicy::Everything);
        again.stop_after(step);
        let config = Arc::new(compacted());
        drop(PartitionLog::open(&env_on(&again), Path::new(FOLDER), partition(), &known.facts, config));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Torn(seed)] {
            check(&again.crash(policy), known);
        }
    }
}
