use super::*;
use crate::FindByKeyError;
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};

fn keyed(key: Option<&str>, headers: &[(&str, &str)], value: &str) -> Bytes {
    let mut builder = BatchBuilder::new();
    let headers: Vec<_> = headers.iter().map(|(name, value)| RecordHeader::new(name, Some(value.as_bytes()))).collect();
    builder.append(NOW, key.map(str::as_bytes), Some(value.as_bytes()), &headers);
    Bytes::from(builder.build().unwrap())
}

fn offsets(group: &GroupLog, id: u8, key: &str, max: usize) -> Vec<(i32, i64)> {
    let found = group.find_by_key(TopicId([id; 16]), &KeyQuery::new(key, max)).unwrap();
    found.records.iter().map(|found| (found.partition.0, found.offset.0)).collect()
}

#[test]
fn records_are_found_by_key_word_and_unique_id_newest_first() {
    let (_fs, group, logs) = create();
    logs[0].append(&keyed(Some("alpha"), &[], "0"), &client()).unwrap();
    logs[1].append(&keyed(None, &[("KEYS", "beta alpha  gamma")], "1"), &client()).unwrap();
    logs[0].append(&keyed(Some("delta"), &[("UNIQ_KEY", "0A0B")], "2"), &client()).unwrap();
    logs[2].append(&keyed(Some("alpha"), &[], "another topic"), &client()).unwrap();
    assert_eq!(offsets(&group, 7, "alpha", 10), [(1, 0), (0, 0)]);
    assert_eq!(offsets(&group, 7, "alpha", 1), [(1, 0)]);
    assert_eq!(offsets(&group, 7, "gamma", 10), [(1, 0)]);
    assert_eq!(offsets(&group, 7, "0A0B", 10), [(0, 1)]);
    assert_eq!(offsets(&group, 8, "alpha", 10), [(0, 0)]);
    assert_eq!(offsets(&group, 7, "none", 10), []);
    assert_eq!(offsets(&group, 7, "", 10), []);
}

#[test]
fn what_is_indexed_is_a_setting() {
    let (fs, group, logs) = create();
    let batch = keyed(Some("own"), &[("KEYS", "word"), ("UNIQ_KEY", "0A0B")], "v");
    let found = |group: &GroupLog| ["own", "word", "0A0B"].map(|key| offsets(group, 7, key, 10).len());
    let set = |key_indexing| logs[0].set_config(Arc::new(LogConfig { key_indexing, ..config() }));
    set(KeyIndexing::None);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [0, 0, 0]);
    assert!(!fs.exists(&Path::new(FOLDER).join("index")).unwrap(), "no file without a key");
    set(KeyIndexing::Headers);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [0, 1, 1]);
    set(KeyIndexing::All);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [1, 2, 2]);
}

#[test]
fn keys_with_the_same_hash_are_told_apart() {
    let (_fs, group, logs) = create();
    // Java's classic pair.
    logs[0].append(&keyed(Some("Aa"), &[], "0"), &client()).unwrap();
    logs[0].append(&keyed(Some("BB"), &[], "1"), &client()).unwrap();
    assert_eq!(offsets(&group, 7, "Aa", 10), [(0, 0)]);
    assert_eq!(offsets(&group, 7, "BB", 10), [(0, 1)]);
}

#[test]
fn index_files_follow_one_another_and_survive_a_restart_at_any_point() {
    let (fs, group, logs) = create();
    for n in 0..70 {
        logs[n % 2].append(&keyed(Some(&format!("key-{}", n % 10)), &[], "v"), &client()).unwrap();
        if n == 33 {
            group.checkpoint().unwrap();
        }
        if n % 7 == 0 {
            assert!(!offsets(&group, 7, "key-0", 10).is_empty());
        }
    }
    let expected = offsets(&group, 7, "key-3", 100);
    assert_eq!(expected.len(), 7);
    let files = fs.read_dir(&Path::new(FOLDER).join("index")).unwrap();
    assert_eq!(files.len(), 4, "{files:?}");
    assert_eq!(files[0].name.to_str().unwrap(), "20231114221320000");
    drop((logs, group));
    let (group, report) = open(&fs);
    assert_eq!(report.views_rebuilt, 0);
    assert_eq!(offsets(&group, 7, "key-3", 100), expected);
    group.close().unwrap();
    drop(group);
    let (group, _) = open_with(&fs, &live(), true);
    assert_eq!(offsets(&group, 7, "key-3", 100), expected);
}

fn fill_keys(logs: &[Arc<GroupPartition>], range: std::ops::Range<usize>) {
    for n in range {
        logs[n % 2].append(&keyed(Some(&format!("key-{}", n % 5)), &[], "v"), &client()).unwrap();
    }
}

/// The keys of the first `count` records are found, newest first.
fn expect_keys(group: &GroupLog, count: usize) {
    for key in 0..5 {
        let expected: Vec<_> =
            (0..count).rev().filter(|n| n % 5 == key).map(|n| ((n % 2) as i32, (n / 2) as i64)).collect();
        assert_eq!(offsets(group, 7, &format!("key-{key}"), 10_000), expected);
    }
}

fn fill_disk(fs: &MemFs) {
    for kind in [OpKind::Write, OpKind::SetLen, OpKind::CreateDir] {
        fs.plan_fault(Fault::of(kind, 1).on("/index").with(FaultAction::NoSpace).and_later());
    }
}

#[test]
fn on_a_full_disk_keys_wait_up_to_a_limit_and_what_is_left_out_is_added_later() {
    for begun in [0, 30] {
        let (fs, group, logs) = create();
        fill_keys(&logs, 0..begun);
        expect_keys(&group, begun);
        fill_disk(&fs);
        fill_keys(&logs, begun..100);
        expect_keys(&group, 100);
        fill_keys(&logs, 100..900);
        assert!(group.core.index.waiting() <= 192, "{} keys wait", group.core.index.waiting());
        let error = group.find_by_key(TopicId([7; 16]), &KeyQuery::new("key-1", 1)).unwrap_err();
        assert!(
            matches!(&error, FindByKeyError::Read(crate::ReadError::Storage(error)) if mainstem_env::is_disk_full(&error.error)),
            "{error}"
        );
        assert!(group.checkpoint().is_err(), "it would say that the index has everything");
        assert!(group.failure().is_none());
        let crashed = fs.crash(CrashPolicy::Everything);
        fs.clear_faults();
        fill_keys(&logs, 900..950);
        match begun {
            0 => group.write_keys(),
            _ => group.checkpoint().unwrap(),
        }
        fill_keys(&logs, 950..1000);
        expect_keys(&group, 1000);
        group.checkpoint().unwrap();
        drop((logs, group));
        expect_keys(&open(&fs).0, 1000);
        expect_keys(&open(&crashed).0, 900);
    }
}

#[test]
fn a_group_is_opened_on_a_full_disk_whatever_its_index_needs() {
    for damage in ["none", "checkpoint", "index"] {
        let (fs, group, logs) = create();
        fill_keys(&logs, 0..50);
        group.checkpoint().unwrap();
        fill_keys(&logs, 50..400);
        expect_keys(&group, 400);
        logs[0].flush_blocking().unwrap();
        drop((logs, group));
        let fs = fs.crash(CrashPolicy::Everything);
        match damage {
            "checkpoint" => fs.remove_file(&Path::new(FOLDER).join("checkpoint")).unwrap(),
            "index" => fs.remove_dir_all(&Path::new(FOLDER).join("index")).unwrap(),
            _ => {}
        }
        fill_disk(&fs);
        let (group, _) = open(&fs);
        let logs: Vec<_> = live().iter().map(|live| make(&group, live)).collect();
        fill_keys(&logs, 400..500);
        assert!(group.find_by_key(TopicId([7; 16]), &KeyQuery::new("key-1", 1)).is_err(), "{damage}");
        fs.clear_faults();
        expect_keys(&group, 500);
    }
}

#[test]
fn times_partitions_and_upper_offsets_narrow_a_look_up() {
    let (_fs, group, logs) = create();
    for n in 0..10 {
        let mut builder = BatchBuilder::new();
        builder.append(TimestampMs(NOW.0 + n), Some(b"k"), None, &[]);
        logs[n as usize % 2].append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    }
    let found = |query: KeyQuery<'_>| -> Vec<i64> {
        let found = group.find_by_key(TopicId([7; 16]), &query).unwrap();
        assert!(found.complete);
        found.records.iter().map(|found| found.timestamp.0 - NOW.0).collect()
    };
    let all = KeyQuery::new("k", 100);
    assert_eq!(found(all), (0..10).rev().collect::<Vec<_>>());
    assert_eq!(found(KeyQuery { from: TimestampMs(NOW.0 + 3), to: TimestampMs(NOW.0 + 5), ..all }), [5, 4, 3]);
    assert_eq!(found(KeyQuery { max: 2, to: TimestampMs(NOW.0 + 5), ..all }), [5, 4]);
    let upper = |index: PartitionIndex| (index.0 == 1).then_some(Offset(3));
    assert_eq!(found(KeyQuery { upper: &upper, ..all }), [5, 3, 1]);
}

#[test]
fn so_many_records_of_a_key_that_older_ones_are_not_looked_at_is_said() {
    let (_fs, group, logs) = create();
    logs[0].append(&keyed(Some("k"), &[], "old"), &client()).unwrap();
    logs[1].append(&keyed(Some("other"), &[], "v"), &client()).unwrap();
    for _ in 0..crate::key_query::COMPARED_MAX {
        logs[1].append(&keyed(Some("k"), &[], "v"), &client()).unwrap();
    }
    let upper = |index: PartitionIndex| (index.0 == 0).then_some(Offset(i64::MAX));
    let query = KeyQuery { upper: &upper, ..KeyQuery::new("k", 1) };
    let found = group.find_by_key(TopicId([7; 16]), &query).unwrap();
    assert_eq!((found.records.len(), found.complete), (0, false));
    assert_eq!(offsets(&group, 7, "k", 5).len(), 5);
}
