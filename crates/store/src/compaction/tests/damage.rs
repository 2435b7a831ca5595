//! A damaged batch: its segment stays as it is, the others are compacted, and no reader loses anything by it.

use super::*;
use crate::formats::names;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{FOLDER, create, env_on, open, partition};
use mainstem_env::{CrashPolicy, Fs, MemFs, OpenOptions};
use std::path::Path;

/// What of a batch its own checksum leaves out, and a byte of its records.
const BYTES: [usize; 4] = [7, 10, 16, 67];

/// Several sealed segments; left orderly.
fn folder() -> MemFs {
    let (fs, log) = create(compacted());
    for n in 0..24 {
        let value = (n % 7 != 6).then(|| format!("value {n} {}", "x".repeat(40)));
        put(&log, &[(&format!("key {}", n % 5), value.as_deref())]);
    }
    seal(&log);
    log.close().unwrap();
    fs
}

fn facts(log_end: Offset) -> OpenFacts {
    OpenFacts { clean: true, recovery_point: Some(log_end), ..OpenFacts::default() }
}

fn reopened(fs: &MemFs) -> PartitionLog {
    open(fs, OpenFacts { clean: true, ..OpenFacts::default() }, compacted()).0
}

/// The base of the segment that holds an offset, and the position of its batch.
fn place_of(log: &PartitionLog, offset: i64) -> (Offset, u64) {
    let sealed = log.sealed().unwrap().unwrap();
    let base = sealed.segments.iter().rev().find(|segment| segment.base.0 <= offset).unwrap().base;
    (base, log.position_of(base, Offset(offset)).unwrap())
}

/// Changes a byte of the batch that holds an offset, in a folder that is not open. Gives the file.
fn damage(fs: &MemFs, offset: i64, byte: usize) -> std::path::PathBuf {
    let log = reopened(fs);
    let (base, position) = place_of(&log, offset);
    let path = log.file(base, names::LOG);
    let file = fs.open(&path, &OpenOptions::read_write()).unwrap();
    let mut old = [0];
    file.read_exact_at(&mut old, position + byte as u64).unwrap();
    file.write_all_at(&[old[0] ^ 0x41], position + byte as u64).unwrap();
    file.sync_all().unwrap();
    path
}

/// Every record that a consumer can read that passes over what it is told is damaged.
fn readable(log: &PartitionLog) -> Vec<Kept> {
    let mut found: Vec<Kept> = Vec::new();
    let mut from = log.log_start();
    while from < log.log_end() {
        let request = ReadRequest { from, max_bytes: 1, upper: log.log_end(), min_one_batch: true };
        let bytes = log.read(&request).map(|reading| bytes_of(&reading)).unwrap_or_default();
        let Some(batch) = Batches::new(&bytes).next() else {
            from = from.plus(1);
            continue;
        };
        let batch = batch.unwrap();
        if batch.crc_is_valid() && !batch.header().attributes.is_control() {
            found.extend(records_of(batch.as_bytes()));
        }
        from = batch.header().next_offset().max(from.plus(1));
    }
    found
}

#[test]
fn the_other_segments_are_compacted_and_every_key_keeps_its_newest_intact_value() {
    let folder = folder();
    let segments = reopened(&folder).segment_count();
    assert!(segments > 5);
    for victim in 0..24 {
        for byte in BYTES {
            let fs = folder.crash(CrashPolicy::Everything);
            let path = damage(&fs, victim, byte);
            let bytes = fs.read_all(&path).unwrap();
            let log = reopened(&fs);
            let before = readable(&log);
            let what = format!("byte {byte} of {victim}");
            assert!(before.len() >= 23 && before.iter().all(|(offset, ..)| *offset != victim), "{what}: {before:?}");
            // Tombstones get their horizon in the first pass, and go, if they may, in a later one.
            for round in 0..3 {
                put(&log, &[("~", Some("newer"))]);
                seal(&log);
                let done = compact_at(&log, NOW.0 + round * 2000, &LIMITS).unwrap();
                assert_eq!(done.segments_damaged, 1, "{what}");
                assert_eq!(fs.read_all(&path).unwrap(), bytes, "{what}");
                let mut after = readable(&log);
                assert_eq!(log.cleanable(NOW, log.log_end()).unwrap().unwrap().dirty_bytes, 0, "{what}");
                after.retain(|(_, key, _)| key != "~");
                let mut expected = before.clone();
                expected.retain(|(_, key, _)| key != "~");
                assert_eq!(table(&after), table(&expected), "{what}");
                assert!(after.len() <= 13, "{what}: {after:?}");
            }
            let after = readable(&log);
            log.close().unwrap();
            drop(log);
            for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
                let once = fs.crash(policy);
                assert_eq!(readable(&reopened(&once)), after, "{what}");
                assert_eq!(readable(&reopened(&once.crash(policy))), after, "{what}, again");
            }
        }
    }
}

#[test]
fn a_crash_at_every_step_beside_a_damaged_segment_and_a_second_one_take_no_value() {
    let folder = folder();
    for victim in [1, 9, 22] {
        let damaged = folder.crash(CrashPolicy::Everything);
        let path = damage(&damaged, victim, 10);
        let bytes = damaged.read_all(&path).unwrap();
        let before = readable(&reopened(&damaged));
        for step in 0.. {
            let fs = damaged.crash(CrashPolicy::Everything);
            let log = reopened(&fs);
            let facts = facts(log.log_end());
            checkpoint(&log);
            let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
            fs.stop_after(step);
            let done = log.compact(&work, &LIMITS, NOW, &mut Unthrottled);
            for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(step)] {
                let once = fs.crash(policy);
                once.stop_after(step % 7);
                let config = Arc::new(compacted());
                let killed = OpenFacts { clean: false, ..facts };
                drop(PartitionLog::open(&env_on(&once), Path::new(FOLDER), partition(), &killed, config));
                let twice = once.crash(policy);
                let (log, _) = open(&twice, killed, compacted());
                assert_eq!(table(&readable(&log)), table(&before), "{victim}, {step}, {policy:?}");
                assert_eq!(twice.read_all(&path).unwrap(), bytes, "{victim}, {step}, {policy:?}");
            }
            if done.is_ok() {
                assert!(step > 10, "{step}");
                break;
            }
        }
    }
}

/// `value`, and its tombstone in a later segment; then passes until every horizon is over. Whether the tombstone stays.
fn tombstone_stays(damaged: bool) -> bool {
    let (fs, log) = create(compacted());
    put(&log, &[("k", Some("value"))]);
    put(&log, &[("other", Some("1"))]);
    seal(&log);
    put(&log, &[("k", None)]);
    seal(&log);
    log.close().unwrap();
    drop(log);
    if damaged {
        damage(&fs, 1, 16);
    }
    let log = reopened(&fs);
    for round in 0..4 {
        put(&log, &[("~", Some("newer"))]);
        seal(&log);
        compact_at(&log, NOW.0 + round * 2000, &LIMITS).unwrap();
    }
    readable(&log).iter().any(|(_, key, value)| key == "k" && value.is_none())
}

#[test]
fn a_tombstone_behind_a_segment_that_is_left_alone_stays_because_the_value_may_be_in_it() {
    assert!(tombstone_stays(true));
    assert!(!tombstone_stays(false));
}

/// Appends one record of a transaction.
fn put_in_transaction(log: &PartitionLog, sequence: i32, key: &str) -> i64 {
    let batch = batch_of(producer(5, sequence).transactional(), &[(key, Some("in a transaction"))]);
    log.append(&batch, &client()).unwrap().base_offset.0
}

#[test]
fn an_abort_whose_marker_cannot_be_read_takes_no_later_transaction_with_it() {
    let (fs, log) = create(compacted());
    put_in_transaction(&log, 0, "aborted");
    let marker = end_transaction(&log, 5, false);
    seal(&log);
    let committed = put_in_transaction(&log, 1, "committed");
    end_transaction(&log, 5, true);
    seal(&log);
    log.close().unwrap();
    drop(log);
    damage(&fs, marker, 16);
    let log = reopened(&fs);
    compact(&log);
    assert!(readable(&log).iter().any(|(offset, ..)| *offset == committed));
    let aborted = log.aborted_transactions(Offset(0), log.log_end()).unwrap();
    assert_eq!(aborted.len(), 1, "the index of the segment that was left alone stays");
}

#[test]
fn an_abort_of_records_in_a_segment_that_is_left_alone_stays_known_and_marked() {
    let (fs, log) = create(compacted());
    put(&log, &[("other", Some("1"))]);
    let first = put_in_transaction(&log, 0, "aborted");
    seal(&log);
    let marker = end_transaction(&log, 5, false);
    put(&log, &[("other", Some("2"))]);
    seal(&log);
    log.close().unwrap();
    drop(log);
    damage(&fs, 0, 16);
    let log = reopened(&fs);
    for round in 0..4 {
        put(&log, &[("~", Some("newer"))]);
        seal(&log);
        compact_at(&log, NOW.0 + round * 2000, &LIMITS).unwrap();
    }
    assert!(readable(&log).iter().any(|(offset, ..)| *offset == first), "it is in the segment still");
    let aborted = log.aborted_transactions(Offset(0), log.log_end()).unwrap();
    let found: Vec<_> = aborted.iter().map(|found| (found.first_offset.0, found.last_offset.0)).collect();
    assert_eq!(found, [(first, marker)]);
    let request = ReadRequest { from: Offset(marker), max_bytes: 1, upper: log.log_end(), min_one_batch: true };
    let bytes = bytes_of(&log.read(&request).unwrap());
    let header = *Batches::new(&bytes).next().unwrap().unwrap().header();
    assert!(header.base_offset.0 == marker && header.attributes.is_control());
}
