//! Which segments a pass takes, when it is due, and what it leaves on the disk.

use super::*;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{FOLDER, clean, create, open};
use mainstem_env::{Fs, MemFs};

fn names(fs: &MemFs) -> Vec<String> {
    let entries = fs.read_dir(std::path::Path::new(FOLDER)).unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn fill(log: &PartitionLog, count: usize, keys: usize) {
    for n in 0..count {
        put(log, &[(&format!("key {}", n % keys), Some(&format!("value {n} {}", "x".repeat(30))))]);
    }
}

#[test]
fn small_segments_become_one_and_their_files_go() {
    let (fs, log) = create(compacted());
    fill(&log, 40, 3);
    let before = log.segment_count();
    assert!(before > 6);
    let done = compact(&log);
    assert!(done.bytes_after < done.bytes_before / 5);
    // Each was as large as a segment may be, so they are put together by the next pass, when they are small.
    assert_eq!((done.segments_before, done.segments_after), (before - 1, before - 1));
    fill(&log, 10, 3);
    compact(&log);
    assert!(log.segment_count() <= before / 2, "{} of {before}", log.segment_count());
    log.remove_due_files();
    let left = names(&fs);
    let of_segments = left.iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(of_segments, log.segment_count());
    assert!(
        !left.iter().any(|name| [".cleaned", ".swap", ".deleted"].iter().any(|end| name.ends_with(end))),
        "{left:?}"
    );
    check_every_offset(&log);
    assert_eq!(table(&contents(&log)).len(), 3);
    // Nothing is left to do.
    assert!(!log.cleanable(NOW, log.log_end()).unwrap().unwrap().is_due());
}

#[test]
fn a_compacted_log_opens_as_it_was_closed_or_killed() {
    for killed in [false, true] {
        let (fs, log) = create(compacted());
        fill(&log, 40, 5);
        compact(&log);
        fill(&log, 7, 5);
        let expected = (contents(&log), log.log_end(), log.positions().log_start);
        let facts = match killed {
            true => OpenFacts { recovery_point: Some(log.checkpointed_end()), ..OpenFacts::default() },
            false => {
                log.close().unwrap();
                clean()
            }
        };
        let (log, recovery) = open(&fs.crash(mainstem_env::CrashPolicy::Everything), facts, compacted());
        assert_eq!((contents(&log), log.log_end(), log.positions().log_start), expected);
        assert_eq!((recovery.bytes_cut, recovery.segments_parked), (0, 0));
        check_every_offset(&log);
    }
}

#[test]
fn gaps_are_no_damage_even_when_the_policy_has_changed_since() {
    let (fs, log) = create(compacted());
    // The last segment of the range keeps its last batch, others lose theirs.
    put(&log, &[("a", Some("1"))]);
    seal(&log);
    put(&log, &[("a", Some("2"))]);
    seal(&log);
    log.set_config(Arc::new(LogConfig { segment_bytes: 100, ..compacted() }));
    let done = compact(&log);
    assert!(log.segment_count() > 2);
    let expected = contents(&log);
    let deleted = LogConfig { cleanup_compact: false, ..compacted() };
    let facts = [
        OpenFacts { recovery_point: Some(log.checkpointed_end()), ..OpenFacts::default() },
        OpenFacts { cleaned_to: Some(done.to), ..OpenFacts::default() },
    ];
    for facts in facts {
        let (log, recovery) = open(&fs.crash(mainstem_env::CrashPolicy::Everything), facts, deleted.clone());
        assert_eq!((contents(&log), recovery.segments_parked), (expected.clone(), 0), "{facts:?}");
    }
}

#[test]
fn the_ratio_the_lags_and_the_checkpoint_decide_what_is_due() {
    let config = LogConfig { min_cleanable_dirty_ratio: 0.5, ..compacted() };
    let (_, log) = create(config.clone());
    fill(&log, 20, 100);
    seal(&log);
    let all = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    assert!((all.clean_bytes, all.ratio()) == (0, 1.0) && all.is_due());
    compact(&log);
    let none = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    assert!((none.dirty_bytes, none.ratio()) == (0, 0.0) && !none.is_due());
    assert_eq!(none.first_dirty, none.end);
    fill(&log, 3, 100);
    seal(&log);
    let some = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    assert!(some.ratio() > 0.0 && some.ratio() < 0.5 && !some.is_due());
    // Overdue: whatever the ratio is.
    log.set_config(Arc::new(LogConfig { max_compaction_lag_ms: 5000, ..config.clone() }));
    assert_eq!(log.cleanable(TimestampMs(NOW.0 + 5210), log.log_end()).unwrap().unwrap().overdue_ms, 0);
    let overdue = log.cleanable(TimestampMs(NOW.0 + 5211), log.log_end()).unwrap().unwrap();
    assert!(overdue.overdue_ms == 1 && overdue.is_due());
    // Too young: the segment of a young record, and all after it.
    log.set_config(Arc::new(LogConfig { min_compaction_lag_ms: 1000, min_cleanable_dirty_ratio: 0.0, ..config }));
    assert!(!log.cleanable(TimestampMs(NOW.0 + 999), log.log_end()).unwrap().unwrap().is_due());
    let due = log.cleanable(TimestampMs(NOW.0 + 2_000_000), log.log_end()).unwrap().unwrap();
    assert!(due.is_due());
}

#[test]
fn a_record_that_is_to_be_compacted_soon_does_not_stay_in_the_active_segment() {
    let (_, log) = create(LogConfig { max_compaction_lag_ms: 1000, ..compacted() });
    put(&log, &[("a", Some("1"))]);
    let mut later = BatchBuilder::new();
    later.append(TimestampMs(NOW.0 + 1001), Some(b"a"), Some(b"2"), &[]);
    log.append(&Bytes::from(later.build().unwrap()), &client()).unwrap();
    assert_eq!(log.segment_count(), 2);
}

#[test]
fn what_a_checkpoint_says_outside_the_log_is_not_believed() {
    let (fs, log) = create(compacted());
    fill(&log, 20, 3);
    log.raise_log_start(Offset(5), log.log_end()).unwrap();
    log.close().unwrap();
    for (said, expected) in [(3, 5), (5, 5), (9, 9), (20, 20), (21, 5)] {
        let facts = OpenFacts { cleaned_to: Some(Offset(said)), log_start: Some(Offset(5)), ..clean() };
        let (log, _) = open(&fs, facts, compacted());
        assert_eq!(log.cleanable(NOW, log.log_end()).unwrap().unwrap().first_dirty, Offset(expected), "{said}");
    }
}

#[test]
fn a_cut_takes_the_compacted_end_along() {
    let (_, log) = create(compacted());
    fill(&log, 40, 3);
    let done = compact(&log);
    assert!(done.to > Offset(10));
    log.truncate_to(Offset(10)).unwrap();
    assert_eq!(log.log_end(), Offset(10));
    fill(&log, 20, 3);
    let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    assert_eq!(work.first_dirty, Offset(10));
    compact(&log);
    check_every_offset(&log);
    assert_eq!(table(&contents(&log)).len(), 3);
}

#[test]
fn retention_works_on_a_log_that_is_compacted_too() {
    let config = LogConfig { cleanup_delete: true, retention_bytes: 600, ..compacted() };
    let (_, log) = create(config);
    fill(&log, 60, 50);
    compact(&log);
    let before = contents(&log);
    let outcome = log.retention_pass(NOW, log.log_end()).unwrap();
    assert!(outcome.segments_removed > 0);
    assert!(log.log_start() > Offset(0) && log.size_bytes() <= 1200);
    let after = contents(&log);
    assert_eq!(after, before[before.len() - after.len()..]);
    fill(&log, 20, 50);
    compact(&log);
    check_every_offset(&log);
}

#[test]
fn everything_can_go_and_an_empty_segment_is_a_segment() {
    let (fs, log) = create(compacted());
    put(&log, &[("a", Some("1"))]);
    seal(&log);
    put(&log, &[("a", Some("2"))]);
    log.set_config(Arc::new(LogConfig { segment_bytes: 100, ..compacted() }));
    seal(&log);
    compact(&log);
    assert_eq!(contents(&log)[0].0, 1);
    let empty = log.file(Offset(0), crate::formats::names::LOG);
    assert_eq!(fs.metadata(&empty).unwrap().unwrap().len, 0);
    check_every_offset(&log);
    assert_eq!(log.find_by_time(NOW, log.log_end()).unwrap().unwrap().offset, Offset(1));
    let expected = contents(&log);
    // With every checkpoint lost too.
    for recovery_point in [Some(log.checkpointed_end()), None] {
        let facts = OpenFacts { recovery_point, ..OpenFacts::default() };
        let (log, _) = open(&fs.crash(mainstem_env::CrashPolicy::Everything), facts, compacted());
        assert_eq!((contents(&log), log.log_start()), (expected.clone(), Offset(0)));
    }
}

#[test]
fn one_at_a_time_and_whoever_wants_can_stop_it() {
    struct Stop(usize);
    impl CleaningControl for Stop {
        fn proceed(&mut self, _: u64) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }
    }
    let (fs, log) = create(compacted());
    fill(&log, 40, 30);
    checkpoint(&log);
    let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    {
        let _one = log.compacting.lock();
        assert!(matches!(log.compact(&work, &LIMITS, NOW, &mut Unthrottled), Err(CompactError::Busy { .. })));
    }
    let before = table(&contents(&log));
    let mut stops = 0;
    for after in 1.. {
        match log.compact(&work, &LIMITS, NOW, &mut Stop(after)) {
            Err(CompactError::Stopped { .. }) => stops += 1,
            outcome => {
                outcome.unwrap();
                break;
            }
        }
        assert!(!names(&fs).iter().any(|name| name.contains("cleaned") || name.contains("swap")));
        assert_eq!(table(&contents(&log)), before);
        check_every_offset(&log);
    }
    assert!(stops > 5, "{stops}");
}
