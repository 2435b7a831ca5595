//! A damaged batch costs its own records: all others are read, and found by time, wherever they lie.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fs, MemFs, OpenOptions};
use mainstem_record::BatchBuilder;
use mainstem_store::{INDEXED_BYTES_MAX, KeyIndexing, KeyQuery, LogConfig, ReadError, ReadRequest, TopicLog};
use mainstem_types::{Offset, TimestampMs, TopicId};

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    every_record_but_those_of_a_damaged_batch_is_read
    records_before_and_behind_two_damaged_batches_are_read
    every_record_but_those_of_a_damaged_batch_is_found_by_its_key
    what_is_behind_the_log_start_is_read_although_what_was_deleted_is_damaged
}

const RECORDS: i64 = 40;

/// What of a batch its own checksum leaves out.
const BASE_OFFSET: usize = 7;
const LENGTH: usize = 10;
const FORMAT: usize = 16;
/// Under the batch's own checksum; a reader goes on behind the last offset.
const LAST_OFFSET_DELTA: usize = 26;
/// In the record's value.
const VALUE: usize = 100;

/// Of a record of the partition that is damaged; the other partition has the same values.
fn time_of(offset: i64) -> i64 {
    NOW.0 + 1 + offset
}

/// A folder with one record a batch, one a millisecond, and the value of each; left orderly.
fn folder(layout: Layout) -> MemFs {
    let node = Node::start(&MemFs::new(), layout);
    for offset in 0..RECORDS {
        node.logs[0].append(&batch_at(time_of(offset), &[&value(offset)]), &client()).unwrap();
        fill(&node.logs[1], 1);
    }
    node.stop().unwrap()
}

/// The file and the byte in it at which the batch of a record begins.
fn batch_of(fs: &MemFs, layout: Layout, offset: i64) -> (PathBuf, usize) {
    let text = value(offset);
    let find = |bytes: &[u8]| bytes.windows(text.len()).position(|window| window == text.as_bytes());
    let value_at = find(&batch_at(NOW.0, &[&text])).unwrap();
    let groups = Path::new("/data/mainstem");
    let dirs: Vec<PathBuf> = match layout {
        Layout::Partition | Layout::Lazy => vec![PathBuf::from("/data/orders-0")],
        _ => fs.read_dir(groups).unwrap().iter().map(|group| groups.join(&group.name).join("commitlog")).collect(),
    };
    for dir in dirs {
        for entry in fs.read_dir(&dir).unwrap_or_default() {
            let path = dir.join(&entry.name);
            let bytes = fs.read_all(&path).unwrap();
            let mut from = 0;
            while let Some(found) = find(&bytes[from..]) {
                let start = from + found - value_at;
                let time = i64::from_be_bytes(bytes[start + 27..start + 35].try_into().unwrap());
                if time == time_of(offset) {
                    return (path, start);
                }
                from += found + 1;
            }
        }
    }
    panic!("the batch of {offset} is in no file");
}

fn change(fs: &MemFs, (path, at): (PathBuf, usize), byte: usize) {
    let file = fs.open(&path, &OpenOptions::read_write()).unwrap();
    let mut bytes = [0];
    file.read_exact_at(&mut bytes, (at + byte) as u64).unwrap();
    file.write_all_at(&[bytes[0] ^ 0x41], (at + byte) as u64).unwrap();
}

fn read_from(log: &TopicLog, from: i64, max_bytes: u32) -> Result<Vec<(i64, String)>, ReadError> {
    let request = ReadRequest { from: Offset(from), max_bytes, upper: log.log_end(), min_one_batch: true };
    log.read(&request).map(|reading| records(&bytes_of(&reading)))
}

/// Every record but the lost ones is read from its own offset on, and nothing else is.
fn check(log: &TopicLog, lost: &[i64], what: &str) {
    for offset in log.log_start().0..RECORDS {
        for max_bytes in [1, 300, 1 << 20] {
            match read_from(log, offset, max_bytes) {
                Ok(found) => {
                    assert!(!lost.contains(&offset), "{what}: {offset} is damaged, and {found:?} is read");
                    let expected: Vec<_> = (offset..offset + found.len() as i64).map(|at| (at, value(at))).collect();
                    assert!(!found.is_empty() && found == expected, "{what}: from {offset}: {found:?}");
                }
                Err(ReadError::Corrupt { .. }) => assert!(lost.contains(&offset), "{what}: {offset} is not read"),
                Err(error) => panic!("{what}: {offset}: {error}"),
            }
        }
        let next = (offset..RECORDS).find(|offset| !lost.contains(offset));
        let found = log.find_by_time(TimestampMs(time_of(offset)), log.log_end()).unwrap();
        assert_eq!(found.map(|found| found.offset.0), next, "{what}: by the time of {offset}");
    }
}

fn every_record_but_those_of_a_damaged_batch_is_read(layout: Layout) {
    let folder = folder(layout);
    for victim in 0..RECORDS - 1 {
        for byte in [BASE_OFFSET, LENGTH, FORMAT, LAST_OFFSET_DELTA] {
            let fs = folder.crash(CrashPolicy::Everything);
            change(&fs, batch_of(&fs, layout, victim), byte);
            let node = Node::start(&fs, layout);
            let what = format!("byte {byte} of {victim}");
            assert_eq!(node.logs[0].log_end(), Offset(RECORDS), "{what}");
            check(&node.logs[0], &[victim], &what);
            expect_filled(&node.logs[1], 0..RECORDS);
        }
    }
}

fn records_before_and_behind_two_damaged_batches_are_read(layout: Layout) {
    let folder = folder(layout);
    for (first, second) in [(3, 4), (3, 5), (10, 24)] {
        let fs = folder.crash(CrashPolicy::Everything);
        change(&fs, batch_of(&fs, layout, first), LENGTH);
        change(&fs, batch_of(&fs, layout, second), FORMAT);
        check(&Node::start(&fs, layout).logs[0], &[first, second], &format!("{first} and {second}"));
    }
}

/// Records that have the key of an offset, in the first partition.
fn find_key(node: &Node, offset: i64) -> Vec<i64> {
    let key = key_of(offset);
    let query = KeyQuery::new(&key, 1000);
    let found = match node.logs[0].as_partition_log() {
        Some(log) => vec![log.find_by_key(&query, &mut INDEXED_BYTES_MAX.clone()).unwrap()],
        None => node.folder.find_by_key(node.topic_id, &query).unwrap(),
    };
    assert!(found.iter().all(|part| part.complete), "{offset}");
    found.iter().flat_map(|part| &part.records).map(|found| found.offset.0).collect()
}

/// Of one byte.
fn key_of(offset: i64) -> String {
    char::from(b'0' + offset as u8).to_string()
}

fn every_record_but_those_of_a_damaged_batch_is_found_by_its_key(layout: Layout) {
    let start = |fs: &MemFs, key_indexing| {
        Node::try_start(fs, layout, TopicId([7; 16]), LogConfig { key_indexing, ..config() }).unwrap()
    };
    // The index is there before the damage, or made beside it; a commit log is indexed as it is written.
    let befores = [KeyIndexing::All, KeyIndexing::None];
    for before in befores.into_iter().filter(|before| layout.has_own_files() || *before == KeyIndexing::All) {
        let node = start(&MemFs::new(), before);
        for offset in 0..RECORDS {
            let mut builder = BatchBuilder::new();
            let (key, value) = (key_of(offset), value(offset));
            builder.append(TimestampMs(time_of(offset)), Some(key.as_bytes()), Some(value.as_bytes()), &[]);
            node.logs[0].append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
        }
        let folder = node.stop().unwrap();
        let bytes = [BASE_OFFSET, LENGTH, FORMAT, LAST_OFFSET_DELTA, VALUE];
        for (victim, byte) in (0..RECORDS - 1).step_by(4).flat_map(|victim| bytes.map(|byte| (victim, byte))) {
            let fs = folder.crash(CrashPolicy::Everything);
            change(&fs, batch_of(&fs, layout, victim), byte);
            let node = start(&fs, KeyIndexing::All);
            for offset in 0..RECORDS {
                let expected = if offset == victim { vec![] } else { vec![offset] };
                assert_eq!(find_key(&node, offset), expected, "byte {byte} of {victim}, indexed before: {before:?}");
            }
        }
    }
}

fn what_is_behind_the_log_start_is_read_although_what_was_deleted_is_damaged(layout: Layout) {
    let fs = folder(layout);
    change(&fs, batch_of(&fs, layout, 14), LENGTH);
    let node = Node::start(&fs, layout);
    let log = &node.logs[0];
    log.raise_log_start(Offset(15), Offset(RECORDS)).unwrap();
    check(log, &[], "deleted up to the damage");
    assert_eq!(all_records(log).len() as i64, RECORDS - 15);
    assert_eq!(put(log, &["next"]).base_offset, Offset(RECORDS));
}
