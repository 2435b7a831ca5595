//! Reads of what left memory.

use super::*;
use crate::error::ReadError;

fn request(from: i64, log: &GroupPartition) -> ReadRequest {
    ReadRequest { from: Offset(from), max_bytes: 8 << 20, upper: log.log_end(), min_one_batch: true }
}

/// Twice: what nobody has used since the first time goes.
fn forget_memory(group: &GroupLog) {
    group.checkpoint().unwrap();
    group.release_idle();
    group.release_idle();
}

#[test]
fn what_left_memory_is_read_without_waiting_once_its_files_are_open() {
    let (_fs, group, logs) = create();
    (0..200).for_each(|n| fill(&logs[n % 3], 1));
    forget_memory(&group);
    let log = &logs[0];
    assert!(matches!(log.read_nowait(&request(0, log)), Err(ReadError::WouldBlock)));
    let waited = bytes_of(&log.read(&request(0, log)).unwrap());
    assert_eq!(bytes_of(&log.read_nowait(&request(0, log)).unwrap()), waited);
    assert_eq!(records(&waited).len(), 67);
    let from_the_middle = records(&bytes_of(&log.read_nowait(&request(40, log)).unwrap()));
    assert_eq!((from_the_middle.len(), from_the_middle[0].0), (27, 40));
}

#[test]
fn threads_that_must_not_wait_take_no_long_look() {
    let fs = MemFs::new();
    let options = GroupOptions { file_bytes: 1 << 20, tail_cache_bytes: 0, ..options() };
    let (group, _) = GroupLog::open(&env_on(&fs), Path::new(FOLDER), options, &[], true).unwrap();
    let logs: Vec<_> = live().iter().map(|live| make(&group, live)).collect();
    let foreign = "x".repeat(3000);
    for _ in 0..1100 {
        put(&logs[0], &["own"]);
        put(&logs[1], &[&foreign]);
    }
    forget_memory(&group);
    let log = &logs[0];
    assert_eq!(records(&bytes_of(&log.read(&request(0, log)).unwrap())).len(), 1100);
    assert!(matches!(log.read_nowait(&request(0, log)), Err(ReadError::WouldBlock)));
    assert_eq!(records(&bytes_of(&log.read_nowait(&request(100, log)).unwrap())).len(), 1000);
}

#[test]
fn files_that_readers_have_open_are_not_believed_after_a_cut() {
    let (_fs, group, logs) = create();
    let log = &logs[0];
    fill(log, 40);
    forget_memory(&group);
    let position = log.position_of(Offset(10)).unwrap().unwrap();
    assert_eq!(records(&bytes_of(&log.read(&request(30, log)).unwrap())).len(), 10);
    group.truncate_to(position).unwrap();
    for n in 10..40 {
        put(log, &[&format!("other {n}")]);
    }
    forget_memory(&group);
    let found = records(&bytes_of(&log.read(&request(10, log)).unwrap()));
    let expected: Vec<_> = (10..40).map(|n| (n, format!("other {n}"))).collect();
    assert_eq!(found, expected);
}
