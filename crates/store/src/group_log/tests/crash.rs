//! A power cut at every write and sync, and another one during the recovery from it.

use super::*;
use mainstem_env::CrashPolicy;

/// What the test knows of one partition when the disk stops.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Offsets below were reported durable.
    durable: i64,
    /// The largest log end that an append answered, or could have.
    appended_max: i64,
    /// Offsets below may have been removed.
    log_start_max: i64,
}

#[derive(Debug, Clone, Default)]
struct World {
    partitions: [Known; 3],
    clean: bool,
}

fn append_one(log: &GroupPartition, known: &mut Known) -> Result<(), ()> {
    let offset = log.log_end().0;
    known.appended_max = known.appended_max.max(offset + 1);
    let batch = produced(9, 0, offset as i32, &[&value(&log.partition().topic, offset)]);
    let context = AppendContext { leader_epoch: LeaderEpoch(offset as i32 / 10), ..client() };
    log.append(&batch, &context).map(|_| ()).map_err(|_| ())
}

/// Appends, rolls, flushes, checkpoints, retention, a clean close and a new start. Stops at the first error.
fn run(fs: &MemFs, world: &mut World) -> Result<(), ()> {
    let opened = GroupLog::open(&env_on(fs), Path::new(FOLDER), options(), &live(), world.clean);
    let group = opened.map_err(|_| ())?.0;
    world.clean = false;
    let logs: Vec<_> = live().iter().map(|live| make(&group, live)).collect();
    for round in 0..3 {
        for n in 0..9 {
            append_one(&logs[n % 3], &mut world.partitions[n % 3])?;
            if n == 6 {
                group.write_queues();
            }
        }
        let end = logs[round].flush_blocking().map_err(|_| ())?.0;
        world.partitions[round].durable = world.partitions[round].durable.max(end);
        append_one(&logs[0], &mut world.partitions[0])?;
        group.find_by_key(TopicId([7; 16]), &KeyQuery::new("k", 1)).map_err(|_| ())?;
        if round == 1 {
            let start = logs[1].log_end();
            world.partitions[1].log_start_max = world.partitions[1].log_start_max.max(start.0);
            logs[1].raise_log_start(start, start).map_err(|_| ())?;
            logs[0].set_config(Arc::new(LogConfig { retention_bytes: 1000, ..config() }));
            world.partitions[0].log_start_max = i64::MAX;
            logs[0].retention_pass(NOW, logs[0].log_end()).map_err(|_| ())?;
            group.remove_unneeded().map_err(|_| ())?;
            group.remove_due_files();
        } else {
            group.checkpoint().map_err(|_| ())?;
            for (log, known) in logs.iter().zip(&mut world.partitions) {
                known.durable = known.durable.max(log.log_end().0);
            }
        }
    }
    group.close().map_err(|_| ())?;
    for (log, known) in logs.iter().zip(&mut world.partitions) {
        known.durable = log.log_end().0;
    }
    world.clean = true;
    Ok(())
}

/// Opens the group after a crash and checks what must hold; gives the values.
fn check(fs: &MemFs, world: &World) -> Vec<Vec<(i64, String)>> {
    let (group, report) = open_with(fs, &live(), world.clean);
    assert!(!report.recovery.shorter_than_checkpoint && report.damaged.is_empty(), "{report:?}");
    let mut all = Vec::new();
    for (live, known) in live().iter().zip(&world.partitions) {
        let log = make(&group, live);
        let found = all_records(&log);
        let (start, end) = (log.log_start().0, log.log_end().0);
        assert!(end >= known.durable, "durable up to {}, found up to {end}", known.durable);
        assert!(end <= known.appended_max, "appended up to {}, found up to {end}", known.appended_max);
        assert!(start <= known.log_start_max, "start {start}, {known:?}");
        let expected: Vec<_> = (start..end).map(|offset| (offset, value(&live.name.topic, offset))).collect();
        assert_eq!(found, expected);
        if end > start {
            assert_eq!(log.producers()[0].last_sequence as i64, end - 1);
            assert_eq!(log.epoch_for_offset(Offset(end - 1)), Some(LeaderEpoch((end - 1) as i32 / 10)));
            assert_eq!(log.find_by_time(NOW, Offset(end)).unwrap().unwrap().offset, Offset(start));
        }
        assert_eq!(log.durable_end(), Offset(end));
        // The files of the queue say the same as memory.
        log.release_if_idle();
        log.release_if_idle();
        assert_eq!(all_records(&log), found);
        all.push(found);
    }
    all
}

#[test]
fn a_crash_at_every_write_and_sync_and_again_during_the_recovery_loses_nothing_durable() {
    let mut after = 0;
    loop {
        let fs = MemFs::new();
        fs.create_dir_all_synced(Path::new("/data/mainstem")).unwrap();
        let mut world = World::default();
        fs.stop_after(after);
        let finished = run(&fs, &mut world).is_ok() && run(&fs, &mut world).is_ok();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            check_second_crash(&crashed, &world, after);
            let first = check(&crashed, &world);
            let second = check(&crashed.crash(CrashPolicy::Nothing), &World { clean: false, ..world.clone() });
            assert_eq!(first, second, "what a recovery has shown stays, stopped after {after}");
        }
        if finished {
            break;
        }
        after += 1;
    }
    assert!(after > 100, "{after} places to stop");
}

fn check_second_crash(crashed: &MemFs, world: &World, seed: u64) {
    // One place in the recovery for each place of the first stop; together they cover all.
    let again = crashed.crash(CrashPolicy::Everything);
    again.stop_after(seed % 17);
    let opened = GroupLog::open(&env_on(&again), Path::new(FOLDER), options(), &live(), world.clean);
    drop(opened);
    for policy in [CrashPolicy::Nothing, CrashPolicy::Torn(seed)] {
        check(&again.crash(policy), &World { clean: false, ..world.clone() });
    }
}

/// A cut loses what is to be lost, and nothing comes back in its place.
#[test]
fn a_crash_in_a_cut_leaves_the_log_before_or_after_it() {
    let mut after = 0;
    loop {
        let (fs, group, logs) = create();
        for n in 0..30 {
            append_one(&logs[n % 2], &mut Known::default()).unwrap();
            if n == 12 || n == 26 {
                group.checkpoint().unwrap();
            }
        }
        group.checkpoint().unwrap();
        let position = logs[0].position_of(Offset(10)).unwrap().unwrap();
        fs.stop_after(after);
        let cut = group.truncate_to(position).is_ok();
        let appended = cut && append_one(&logs[1], &mut Known::default()).is_ok() && group.checkpoint().is_ok();
        drop((logs, group));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            for _ in 0..2 {
                let (group, _) = open(&crashed);
                let ends: Vec<_> = group.partitions().iter().map(|log| log.log_end().0).collect();
                // A killed process may leave a part of the cut: then none of it was answered.
                let whole = ends[0] == 15 && ends[1] == 15;
                let done = ends[0] == 10 && (10..=11).contains(&ends[1]);
                let torn = !cut && ends[0] >= 10 && ends[1] >= 10;
                assert!(done || (!cut && whole) || torn, "{ends:?}, cut {cut}, stopped after {after}");
                for log in group.partitions().iter().take(2) {
                    expect_filled(log, 0..log.log_end().0);
                    assert_eq!(log.producers()[0].last_sequence as i64, log.log_end().0 - 1);
                }
            }
        }
        if appended {
            break;
        }
        after += 1;
    }
}
