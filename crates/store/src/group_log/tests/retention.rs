use super::*;
use mainstem_env::CrashPolicy;

#[test]
fn a_file_goes_when_no_partition_needs_it() {
    let (fs, group, logs) = create();
    fill(&logs[2], 1);
    for _ in 0..30 {
        fill(&logs[0], 1);
        fill(&logs[1], 1);
    }
    let files = group.file_count();
    for log in &logs[..2] {
        log.set_config(Arc::new(LogConfig { retention_bytes: 400, ..config() }));
        let outcome = log.retention_pass(NOW, log.log_end()).unwrap();
        assert!(outcome.segments_removed > 3 && outcome.log_start > Offset(0), "{outcome:?}");
        assert_eq!(outcome.log_start, log.log_start());
        let from = log.log_start().0;
        expect_filled(log, from..30);
    }
    // The thin topic has its only record in the first file.
    assert_eq!(group.remove_unneeded().unwrap(), 0);
    logs[2].raise_log_start(Offset(1), Offset(1)).unwrap();
    let removed = group.remove_unneeded().unwrap();
    assert!(removed > 2, "{removed} of {files}");
    assert_eq!(group.file_count(), files - removed);
    assert_eq!(group.remove_due_files(), removed);
    let starts: Vec<_> = logs.iter().map(|log| log.log_start()).collect();
    drop((logs, group));
    let (group, report) = open(&fs);
    assert_eq!(report.views_rebuilt, 0, "{report:?}");
    let logs = group.partitions();
    assert_eq!(logs.iter().map(|log| log.log_start()).collect::<Vec<_>>(), starts);
    expect_filled(&logs[0], starts[0].0..30);
    assert_eq!((logs[2].log_start(), logs[2].log_end()), (Offset(1), Offset(1)));
    assert_eq!(put(&logs[2], &["offsets are not given twice"]).base_offset, Offset(1));
}

#[test]
fn by_time_each_partition_has_its_own_rule() {
    let (_fs, group, logs) = create();
    for n in 0..40 {
        for log in &logs[..2] {
            log.append(&batch_at(NOW.0 - 4000 + n * 100, &[&value("orders", n)]), &client()).unwrap();
        }
    }
    logs[0].set_config(Arc::new(LogConfig { retention_ms: 2000, ..config() }));
    logs[0].retention_pass(NOW, Offset(40)).unwrap();
    logs[1].retention_pass(NOW, Offset(40)).unwrap();
    let start = logs[0].log_start().0;
    assert!((10..=20).contains(&start), "{start}");
    assert_eq!(logs[1].log_start(), Offset(0));
    assert_eq!(group.remove_unneeded().unwrap(), 0);
    // All of it, the active file included; the watermark holds it up.
    logs[0].set_config(Arc::new(LogConfig { retention_ms: 1, ..config() }));
    logs[0].retention_pass(TimestampMs(NOW.0 + 10_000), Offset(35)).unwrap();
    assert!(logs[0].log_start() <= Offset(35));
    logs[0].retention_pass(TimestampMs(NOW.0 + 10_000), Offset(40)).unwrap();
    assert_eq!(logs[0].log_start(), Offset(40));
    assert_eq!(logs[0].size_bytes(), 0);
}

#[test]
fn a_deleted_topic_frees_its_files() {
    let (fs, group, logs) = create();
    fill(&logs[0], 40);
    fill(&logs[2], 1);
    group.delete(&[logs[0].key()]).unwrap();
    assert!(group.remove_unneeded().unwrap() > 2);
    group.remove_due_files();
    assert!(group.size_bytes() < 4096);
    assert_eq!(fs.metadata(&Path::new(FOLDER).join("consumequeue/orders/0")).unwrap(), None);
    expect_filled(&logs[2], 0..1);
}

#[test]
fn a_file_can_go_before_its_time_but_not_before_it_is_committed() {
    let (_fs, group, logs) = create();
    for _ in 0..30 {
        fill(&logs[0], 1);
        fill(&logs[1], 1);
    }
    let oldest = group.oldest_file().unwrap().unwrap();
    assert_eq!((oldest.group.as_path(), oldest.end), (Path::new(FOLDER), Position(2048)));
    assert_eq!(logs[0].hide_before(oldest.end, Offset(1)).unwrap().segments_removed, 0, "not all of it is committed");
    for log in &logs[..2] {
        let outcome = log.hide_before(oldest.end, log.log_end()).unwrap();
        assert_eq!((outcome.segments_removed, outcome.log_start), (1, log.log_start()));
        expect_filled(log, log.log_start().0..30);
    }
    assert_eq!(group.remove_unneeded().unwrap(), 1);
    assert_eq!(group.oldest_file().unwrap().unwrap().end, Position(4096));
    let (_fs, group, _logs) = create();
    assert_eq!(group.oldest_file().unwrap(), None, "the file that is written stays");
}

#[test]
fn the_written_file_goes_too_when_nobody_needs_it() {
    let (fs, group, logs) = create();
    for round in 0..3 {
        fill(&logs[0], 3);
        fill(&logs[1], 2);
        logs[0].raise_log_start(logs[0].log_end(), logs[0].log_end()).unwrap();
        assert_eq!(group.remove_unneeded().unwrap(), 0, "the other partition needs it");
        logs[1].raise_log_start(logs[1].log_end(), logs[1].log_end()).unwrap();
        assert_eq!(group.remove_unneeded().unwrap(), 1);
        assert_eq!(
            (group.file_count(), group.size_bytes(), group.end_position()),
            (1, 0, Position(2048 * (round + 1)))
        );
        assert_eq!(group.remove_unneeded().unwrap(), 0, "an empty file stays");
        group.remove_due_files();
    }
    drop((logs, group));
    let (group, report) = open(&fs);
    assert_eq!((report.views_rebuilt, report.recovery.cut), (0, None), "{report:?}");
    let logs = group.partitions();
    assert_eq!((logs[0].log_start(), logs[0].log_end()), (Offset(9), Offset(9)));
    assert_eq!(put(&logs[0], &["offsets go on"]).base_offset, Offset(9));
    assert_eq!(put(&logs[1], &["offsets go on"]).base_offset, Offset(6));
}

/// Until the thread that removes files, which holds `checkpointing` then, waits for a lock; or is done, because it
/// waits for none. Where there is no `/proc` it has only begun.
fn wait_until_blocked<T>(group: &GroupLog, thread: Option<&std::path::Path>, removing: &std::thread::JoinHandle<T>) {
    let state = || std::fs::read_to_string(std::path::Path::new("/proc").join(thread?).join("stat")).ok();
    let sleeps = || state().is_none_or(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')));
    let waits_for_a_lock = || group.checkpointing.try_lock().is_none() && sleeps();
    while !removing.is_finished() && !waits_for_a_lock() {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_stays_for_an_entry_that_was_written_and_is_not_known_yet() {
    let (_fs, group, logs) = create();
    fill(&logs[0], 1);
    // As between the write of an entry and the views.
    let order = logs[0].appending.lock();
    let shares = std::mem::take(&mut logs[0].state.lock().shares);
    let group = Arc::new(group);
    let (tell, told) = std::sync::mpsc::channel();
    let removing = std::thread::spawn({
        let group = Arc::clone(&group);
        move || {
            tell.send(std::fs::read_link("/proc/thread-self").ok()).unwrap();
            group.remove_unneeded().unwrap()
        }
    });
    let thread = told.recv().unwrap();
    wait_until_blocked(&group, thread.as_deref(), &removing);
    logs[0].state.lock().shares = shares;
    drop(order);
    assert_eq!(removing.join().unwrap(), 0);
    expect_filled(&logs[0], 0..1);
}

#[test]
fn a_crash_while_all_of_a_log_goes_brings_nothing_back_and_gives_no_offset_twice() {
    let mut after = 0;
    loop {
        let (fs, group, logs) = create();
        fill(&logs[0], 5);
        group.checkpoint().unwrap();
        logs[0].raise_log_start(Offset(5), Offset(5)).unwrap();
        fs.stop_after(after);
        let removed = group.remove_unneeded().is_ok_and(|files| files == 1);
        let appended = removed && logs[0].append(&batch_at(NOW.0, &[&value("orders", 5)]), &client()).is_ok();
        let durable = appended && logs[0].flush_blocking().is_ok();
        drop((logs, group));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            for _ in 0..2 {
                let (group, report) = open(&crashed);
                assert!(!report.recovery.shorter_than_checkpoint && report.damaged.is_empty(), "{after}: {report:?}");
                let log = make(&group, &live()[0]);
                let (start, end) = (log.log_start().0, log.log_end().0);
                assert!(end == 6 || (end == 5 && !durable), "stopped after {after}, {policy:?}: the log ends at {end}");
                assert!(
                    start == 5 || (start == 0 && !removed),
                    "stopped after {after}, {policy:?}: it begins at {start}"
                );
                expect_filled(&log, start..end);
            }
        }
        if durable {
            break;
        }
        after += 1;
    }
    assert!(after > 10, "{after} places to stop");
}
