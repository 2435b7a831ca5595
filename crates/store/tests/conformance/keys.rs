//! Look-ups by key.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fs, MemFs, OpenOptions, SeededRng};
use mainstem_record::{BatchBuilder, ControlRecord};
use mainstem_store::{AppendContext, INDEXED_BYTES_MAX, KeyIndexing, KeyMatches, KeyQuery, LogConfig, Origin};
use mainstem_types::{Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicId};

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    every_record_is_found_as_soon_as_its_append_returns
    what_is_not_served_is_not_found
    records_of_aborted_transactions_are_left_out_on_request
    a_stop_a_kill_and_a_power_cut_leave_what_is_there_to_be_found
    a_damaged_index_names_no_other_record
}

fn start(fs: &MemFs, layout: Layout) -> Node {
    let config = LogConfig { key_indexing: KeyIndexing::All, ..config() };
    Node::try_start(fs, layout, TopicId([7; 16]), config).unwrap()
}

fn key_of(offset: i64) -> String {
    format!("key-{}", offset % 3)
}

fn put_key(node: &Node, partition: usize) {
    let mut builder = BatchBuilder::new();
    let offset = node.logs[partition].log_end().0;
    builder.append(NOW, Some(key_of(offset).as_bytes()), Some(&[b'v'; 40]), &[]);
    node.logs[partition].append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
}

fn find(node: &Node, query: &KeyQuery<'_>) -> Vec<(i32, i64)> {
    let mut bytes_left = INDEXED_BYTES_MAX;
    let mut parts: Vec<KeyMatches> = Vec::new();
    for log in node.logs.iter().filter_map(|log| log.as_partition_log()) {
        parts.push(log.find_by_key(query, &mut bytes_left).unwrap());
    }
    if !node.layout.has_own_files() {
        parts.extend(node.folder.find_by_key(node.topic_id, query).unwrap());
    }
    assert!(parts.iter().all(|part| part.complete));
    parts.iter().flat_map(|part| &part.records).map(|found| (found.partition.0, found.offset.0)).collect()
}

/// Of each partition, newest first.
fn expect_keys(node: &Node) {
    for key in 0..3 {
        let name = key_of(key);
        let found = find(node, &KeyQuery::new(&name, 1000));
        for (partition, log) in (0..).zip(&node.logs) {
            let here = (log.log_start().0..log.log_end().0).rev().filter(|offset| offset % 3 == key);
            let found: Vec<i64> = found.iter().filter(|(of, _)| *of == partition).map(|(_, offset)| *offset).collect();
            assert_eq!(found, here.collect::<Vec<_>>(), "{name} in partition {partition}");
        }
    }
}

fn every_record_is_found_as_soon_as_its_append_returns(layout: Layout) {
    let node = start(&MemFs::new(), layout);
    for n in 0..120 {
        put_key(&node, n % 2);
        let newest = node.logs[n % 2].log_end().0 - 1;
        let found = find(&node, &KeyQuery::new(&key_of(newest), 1000));
        assert!(found.contains(&(n as i32 % 2, newest)), "{n}");
        if n % 17 == 0 {
            node.checkpoint().unwrap();
        }
    }
    expect_keys(&node);
}

fn what_is_not_served_is_not_found(layout: Layout) {
    let mut node = start(&MemFs::new(), layout);
    (0..80).for_each(|n| put_key(&node, n % 2));
    expect_keys(&node);
    node.logs[1].raise_log_start(Offset(15), Offset(40)).unwrap();
    expect_keys(&node);
    node.retention(NOW).unwrap();
    node.folder.truncate_to(&node.logs[0], Offset(20)).unwrap();
    expect_keys(&node);
    (0..20).for_each(|n| put_key(&node, n % 2));
    expect_keys(&node);
    let committed = |index: PartitionIndex| (index.0 == 0).then_some(Offset(12));
    let found = find(&node, &KeyQuery { upper: &committed, ..KeyQuery::new("key-0", 1000) });
    assert_eq!(found, [(0, 9), (0, 6), (0, 3), (0, 0)]);
    node.delete();
    node.create_again(TopicId([8; 16]));
    assert_eq!(find(&node, &KeyQuery::new("key-0", 1000)), []);
}

fn records_of_aborted_transactions_are_left_out_on_request(layout: Layout) {
    let node = start(&MemFs::new(), layout);
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    let log = &node.logs[0];
    for (sequence, committed) in (0..).zip([false, true, false]) {
        let mut builder = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), sequence).transactional();
        builder.append(NOW, Some(b"k"), None, &[]);
        log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
        let mut marker = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), -1).transactional();
        marker.append_control(NOW, &ControlRecord::EndTransaction { committed, coordinator_epoch: 3 });
        log.append(&Bytes::from(marker.build().unwrap()), &coordinator).unwrap();
        put(log, &["of no transaction"]);
    }
    let all = KeyQuery::new("k", 10);
    assert_eq!(find(&node, &all), [(0, 8), (0, 6), (0, 5), (0, 3), (0, 2), (0, 0)]);
    assert_eq!(find(&node, &KeyQuery { with_aborted: false, ..all }), [(0, 8), (0, 5), (0, 3), (0, 2)]);
}

fn a_stop_a_kill_and_a_power_cut_leave_what_is_there_to_be_found(layout: Layout) {
    let node = start(&MemFs::new(), layout);
    (0..60).for_each(|n| put_key(&node, n % 2));
    expect_keys(&node);
    let fs = node.stop().unwrap();
    let node = start(&fs, layout);
    expect_keys(&node);
    (0..30).for_each(|n| put_key(&node, n % 2));
    node.checkpoint().unwrap();
    (0..30).for_each(|n| put_key(&node, n % 2));
    let crashed = [CrashPolicy::Everything, CrashPolicy::Nothing, CrashPolicy::Torn(3), CrashPolicy::Torn(4)];
    let crashed: Vec<_> = crashed.into_iter().map(|policy| fs.crash(policy)).collect();
    drop(node);
    for fs in crashed {
        let node = start(&fs, layout);
        (0..10).for_each(|n| put_key(&node, n % 2));
        expect_keys(&node);
    }
}

/// Every file of the index, with its bytes.
fn index_files(fs: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/data")];
    while let Some(folder) = folders.pop() {
        for entry in fs.read_dir(&folder).unwrap() {
            let path = folder.join(&entry.name);
            if entry.is_dir {
                folders.push(path);
            } else if folder.ends_with("index") || folder.ends_with("key-index") {
                let bytes = fs.read_all(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found
}

/// A file without a checksum may lose a key to a byte that changed. It never names another record, nor keeps the log
/// from being served.
fn a_damaged_index_names_no_other_record(layout: Layout) {
    let node = start(&MemFs::new(), layout);
    (0..24).for_each(|n| put_key(&node, n % 2));
    expect_keys(&node);
    let fs = node.stop().unwrap();
    let mut files = index_files(&fs);
    // Of one partition: its files are large.
    files.retain(|(path, _)| !layout.has_own_files() || path.starts_with("/data/orders-0"));
    assert!(!files.is_empty());
    let some = if layout.has_own_files() { 2 } else { 8 };
    let rng = SeededRng::new(1);
    for (path, bytes) in &files {
        let used: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
        let some = (0..some).map(|_| used[rng.below(used.len() as u64) as usize]);
        let flips = [39, 36, 4].into_iter().filter(|at| *at < bytes.len()).chain(some).map(Damage::Flipped);
        let cuts = [0, bytes.len() / 2, bytes.len() - 1].map(Damage::Cut);
        for damage in flips.chain(cuts).chain([Damage::Removed]) {
            let fs = fs.crash(CrashPolicy::Everything);
            damage.apply(&fs, path, bytes, 1 << rng.below(8));
            let node = start(&fs, layout);
            (0..4).for_each(|n| put_key(&node, n % 2));
            assert!(node.logs.iter().all(|log| log.log_end() == Offset(14)));
            for key in 0..3 {
                for (_, offset) in find(&node, &KeyQuery::new(&key_of(key), 1000)) {
                    assert_eq!(offset % 3, key, "{} {damage:?} leads to offset {offset}", path.display());
                }
            }
            if !matches!(damage, Damage::Flipped(_)) {
                expect_keys(&node);
            }
        }
    }
}

#[derive(Debug)]
enum Damage {
    Flipped(usize),
    Cut(usize),
    Removed,
}

impl Damage {
    fn apply(&self, fs: &MemFs, path: &Path, bytes: &[u8], bits: u8) {
        let open = || fs.open(path, &OpenOptions::read_write()).unwrap();
        match self {
            Damage::Flipped(at) => open().write_all_at(&[bytes[*at] ^ bits], *at as u64).unwrap(),
            Damage::Cut(to) => open().set_len(*to as u64).unwrap(),
            Damage::Removed => fs.remove_file(path).unwrap(),
        }
    }
}
