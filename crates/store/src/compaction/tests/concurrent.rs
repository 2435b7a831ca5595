//! Appends, reads, lookups and retention go on while the log is compacted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::error::ReadError;
use crate::partition_log::tests::create;

const APPENDS: i64 = 1500;
const KEYS: i64 = 40;

fn key(offset: i64) -> String {
    format!("key {}", (offset * 7) % KEYS)
}

fn value(offset: i64) -> String {
    format!("{} at {offset} {}", key(offset), "x".repeat((offset % 50) as usize))
}

/// Reads from `from` to the end as it was; every record must be the one that was appended at its offset.
fn read_through(log: &PartitionLog, from: Offset) -> i64 {
    let (mut from, upper) = (from, log.log_end());
    let mut count = 0;
    while from < upper {
        let bytes = match log.read(&ReadRequest { from, max_bytes: 700, upper, min_one_batch: true }) {
            Ok(reading) => bytes_of(&reading),
            // Retention was faster.
            Err(ReadError::OutOfRange { log_start, .. }) => {
                from = log_start;
                continue;
            }
            Err(error) => panic!("a read from {from} failed: {error}"),
        };
        let mut last = from.0 - 1;
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.crc_is_valid());
            for (offset, found_key, found) in records_of(batch.as_bytes()) {
                assert_eq!((found_key, found), (key(offset), Some(value(offset))));
                count += 1;
            }
            assert!(batch.header().last_offset().0 > last, "a read goes on");
            last = batch.header().last_offset().0;
        }
        if bytes.is_empty() {
            return count;
        }
        from = Offset(last + 1);
    }
    count
}

fn append_all(log: &PartitionLog) {
    for offset in 0..APPENDS {
        let codec = mainstem_record::Codec::ALL[(offset % 5) as usize];
        let batch = batch_of(BatchBuilder::new().codec(codec), &[(&key(offset), Some(&value(offset)))]);
        assert_eq!(log.append(&batch, &client()).unwrap().base_offset.0, offset);
    }
}

fn compact_again_and_again(log: &PartitionLog, done: &AtomicBool) -> u64 {
    let mut passes = 0;
    while !done.load(Ordering::Relaxed) {
        checkpoint(log);
        let Some(work) = log.cleanable(NOW, log.log_end()).unwrap().filter(Cleanable::is_due) else { continue };
        match log.compact(&work, &LIMITS, NOW, &mut Unthrottled) {
            Ok(_) | Err(CompactError::Superseded { .. }) => passes += 1,
            Err(error) => panic!("{error}"),
        }
        log.remove_due_files();
    }
    passes
}

fn run(config: LogConfig, with_retention: bool) -> PartitionLog {
    let (_, log) = create(config);
    let done = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let passes = scope.spawn(|| compact_again_and_again(&log, &done));
        for reader in 0..2 {
            let (log, done, read) = (&log, &done, &read);
            scope.spawn(move || {
                let mut n = reader;
                while !done.load(Ordering::Relaxed) {
                    n += 13;
                    let end = log.log_end().0;
                    let from = if end == 0 { 0 } else { n % end };
                    read.fetch_add(read_through(log, Offset(from).max(log.log_start())) as u64, Ordering::Relaxed);
                    match log.find_by_time(NOW, log.log_end()) {
                        // The segment it looked into was deleted.
                        Err(ReadError::Gone { .. }) if with_retention => {}
                        found => drop(found.unwrap()),
                    }
                    log.aborted_transactions(log.log_start(), log.log_end()).unwrap();
                }
            });
        }
        if with_retention {
            let (log, done) = (&log, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    log.retention_pass(NOW, log.log_end()).unwrap();
                    std::thread::yield_now();
                }
            });
        }
        append_all(&log);
        // At least once after everything was appended, whatever the scheduler did.
        while read.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        assert!(passes.join().unwrap() > 0);
    });
    assert!(log.failure().is_none());
    log
}

#[test]
fn readers_see_what_was_appended_at_every_moment() {
    let log = run(compacted(), false);
    compact(&log);
    let found = contents(&log);
    let newest = |key: &str| (0..APPENDS).rev().find(|offset| self::key(*offset) == *key).unwrap();
    let table = table(&found);
    assert_eq!(table.len() as i64, KEYS);
    for (key, found) in table {
        assert_eq!(found, value(newest(&key)));
    }
    check_every_offset(&log);
}

#[test]
fn retention_may_take_segments_away_from_under_it() {
    let log = run(LogConfig { cleanup_delete: true, retention_bytes: 1500, ..compacted() }, true);
    log.retention_pass(NOW, log.log_end()).unwrap();
    assert!(log.log_start() > Offset(0));
    check_every_offset(&log);
}
