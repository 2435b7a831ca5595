//! A power cut at every write and sync, and another one during the recovery from it.

use super::*;
use mainstem_env::CrashPolicy;

/// What the test knows when the disk stops.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Offsets below were reported durable.
    durable: i64,
    /// The largest log end that an append answered, or could have.
    appended_max: i64,
    /// A log start was checkpointed up to here.
    log_start_max: i64,
    facts: OpenFacts,
}

fn value(offset: i64) -> String {
    format!("value {offset:04} {}", "x".repeat(40))
}

/// Offset 2, which retention removes, is of a producer that sends nothing else: it must be known all the same.
fn producer_of(offset: i64) -> (i64, i32) {
    match offset {
        2 => (8, 0),
        _ => (9, (offset - i64::from(offset > 2)) as i32),
    }
}

fn append_one(log: &PartitionLog, known: &mut Known) -> Result<(), ()> {
    let offset = log.log_end().0;
    known.appended_max = known.appended_max.max(offset + 1);
    let (id, sequence) = producer_of(offset);
    let batch = produced(id, 0, sequence, &[&value(offset)]);
    let context = AppendContext { leader_epoch: LeaderEpoch(offset as i32 / 10), ..client() };
    log.append(&batch, &context).map(|_| ()).map_err(|_| ())
}

/// Appends, rolls, flushes, checkpoints, retention, a clean close and a new start. Stops at the first error.
fn run(fs: &MemFs, known: &mut Known) -> Result<(), ()> {
    let env = env_on(fs);
    let config = Arc::new(LogConfig { file_delete_delay_ms: 0, ..small() });
    let log = PartitionLog::open(&env, Path::new(FOLDER), partition(), &known.facts, Arc::clone(&config));
    let log = log.map_err(|_| ())?.0;
    known.facts.clean = false;
    for round in 0..3 {
        for _ in 0..12 {
            append_one(&log, known)?;
        }
        known.durable = known.durable.max(log.flush_blocking().map_err(|_| ())?.0);
        append_one(&log, known)?;
        let entry = log.prepare_checkpoint().map_err(|_| ())?;
        // As the data folder would have written it.
        known.facts.recovery_point = Some(entry.recovery_point);
        if round == 1 {
            log.raise_log_start(Offset(5), log.log_end()).map_err(|_| ())?;
            known.facts.log_start = Some(Offset(5));
            log.set_config(Arc::new(LogConfig { retention_bytes: 2000, ..(*config).clone() }));
            known.log_start_max = i64::MAX;
            log.retention_pass(NOW, log.log_end()).map_err(|_| ())?;
            log.remove_due_files();
        }
    }
    log.close().map_err(|_| ())?;
    known.durable = log.log_end().0;
    known.facts.recovery_point = Some(log.log_end());
    known.facts.clean = true;
    Ok(())
}

fn scenario(fs: &MemFs, known: &mut Known) -> Result<(), ()> {
    run(fs, known)?;
    run(fs, known)
}

/// Opens the log after a crash and checks what must hold; gives the values.
fn check(fs: &MemFs, known: &Known) -> Vec<(i64, String)> {
    let facts = OpenFacts { clean: known.facts.clean, ..known.facts };
    let (log, _) = open(fs, facts, small());
    let found = all_records(&log);
    let (start, end) = (log.log_start().0, log.log_end().0);
    assert!(end >= known.durable, "durable up to {}, found up to {end}", known.durable);
    assert!(end <= known.appended_max, "appended up to {}, found up to {end}", known.appended_max);
    assert!(start == 0 || known.log_start_max > 0);
    let expected: Vec<_> = (start..end).map(|offset| (offset, value(offset))).collect();
    assert_eq!(found, expected);
    // The views say what the batches say, those that are gone included.
    let last = |id| (0..end).map(producer_of).rfind(|(of, _)| *of == id);
    let known_producers: Vec<_> = log.producers().iter().map(|p| (p.producer_id.0, p.last_sequence)).collect();
    assert_eq!(known_producers, last(8).into_iter().chain(last(9)).collect::<Vec<_>>());
    if end > start {
        assert_eq!(log.epoch_for_offset(Offset(end - 1)), Some(LeaderEpoch((end - 1) as i32 / 10)));
        assert_eq!(log.find_by_time(NOW, Offset(end)).unwrap().unwrap().offset, Offset(start));
    }
    assert_eq!(log.durable_end(), Offset(end));
    drop(log);
    found
}

#[test]
fn a_crash_at_every_write_and_sync_and_again_during_the_recovery_loses_nothing_durable() {
    let mut after = 0;
    loop {
        let (fs, log) = create(small());
        drop(log);
        let mut known = Known::default();
        fs.stop_after(after);
        let finished = scenario(&fs, &mut known).is_ok();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            check_second_crash(&crashed, &known, after);
            let first = check(&crashed, &known);
            let second = check(
                &crashed.crash(CrashPolicy::Nothing),
                &Known { facts: OpenFacts { clean: false, ..known.facts }, ..known },
            );
            assert_eq!(first, second, "what a recovery has shown stays");
        }
        if finished {
            break;
        }
        after += 1;
    }
    assert!(after > 100, "{after} places to stop");
}

fn check_second_crash(crashed: &MemFs, known: &Known, seed: u64) {
    // One place in the recovery for each place of the first stop; together they cover all.
    let again = crashed.crash(CrashPolicy::Everything);
    again.stop_after(seed % 13);
    let facts = known.facts;
    let opened = PartitionLog::open(&env_on(&again), Path::new(FOLDER), partition(), &facts, Arc::new(small()));
    drop(opened);
    for policy in [CrashPolicy::Nothing, CrashPolicy::Torn(seed)] {
        check(&again.crash(policy), known);
    }
}
