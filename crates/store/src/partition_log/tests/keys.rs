use super::*;
use crate::config::KeyIndexing;
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};
use mainstem_record::RecordHeader;

const KEYS: &str = "key-index";

fn indexed() -> LogConfig {
    LogConfig { key_indexing: KeyIndexing::All, ..small() }
}

/// Records with these keys, in one batch.
fn put_keys(log: &PartitionLog, keys: &[&str]) {
    let mut builder = BatchBuilder::new();
    for key in keys {
        builder.append(NOW, Some(key.as_bytes()), Some(&[b'v'; 60]), &[]);
    }
    log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
}

fn found(log: &PartitionLog, key: &str) -> Vec<i64> {
    log.find_by_key(key, 100).unwrap().iter().map(|found| found.offset.0).collect()
}

fn key_of(offset: i64) -> String {
    format!("key-{}", offset % 7)
}

fn fill_keys(log: &PartitionLog, count: usize) {
    for _ in 0..count {
        put_keys(log, &[&key_of(log.log_end().0)]);
    }
}

/// Every key is found where the records are, newest first.
fn expect_keys(log: &PartitionLog) {
    let (start, end) = (log.log_start().0, log.log_end().0);
    for number in 0..7 {
        let key = key_of(number);
        let expected: Vec<i64> = (start..end).rev().filter(|offset| key_of(*offset) == key).collect();
        assert_eq!(found(log, &key), expected, "{key} in {start}..{end}");
    }
}

fn folder_exists(fs: &MemFs) -> bool {
    fs.exists(&Path::new(FOLDER).join(KEYS)).unwrap()
}

#[test]
fn records_are_found_by_key_word_and_unique_id_newest_first() {
    let (_fs, log) = create(indexed());
    put_keys(&log, &["alpha", "beta", "alpha"]);
    let mut builder = BatchBuilder::new().codec(Codec::Lz4);
    let headers = [RecordHeader::new("KEYS", Some(b"beta alpha")), RecordHeader::new("UNIQ_KEY", Some(b"0A0B"))];
    builder.append(NOW, None, Some(b"v"), &headers);
    log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    // Java's classic pair with one hash.
    put_keys(&log, &["Aa"]);
    put_keys(&log, &["BB"]);
    assert_eq!(found(&log, "alpha"), [3, 2, 0]);
    assert_eq!(log.find_by_key("alpha", 1).unwrap().len(), 1);
    assert_eq!(found(&log, "0A0B"), [3]);
    assert_eq!((found(&log, "Aa"), found(&log, "BB")), (vec![4], vec![5]));
    assert_eq!((found(&log, "none"), found(&log, "")), (vec![], vec![]));
}

#[test]
fn without_the_setting_there_is_no_index_and_switching_it_off_removes_it() {
    let (fs, log) = create(small());
    fill_keys(&log, 10);
    log.flush_blocking().unwrap();
    log.prepare_checkpoint().unwrap();
    assert_eq!((found(&log, "key-1"), folder_exists(&fs)), (vec![], false));
    log.set_config(Arc::new(indexed()));
    expect_keys(&log);
    log.prepare_checkpoint().unwrap();
    assert!(folder_exists(&fs));
    log.set_config(Arc::new(small()));
    log.prepare_checkpoint().unwrap();
    assert_eq!((found(&log, "key-1"), folder_exists(&fs)), (vec![], false));
}

#[test]
fn the_index_goes_on_after_a_stop_and_is_made_again_when_it_is_lost_or_damaged() {
    let (fs, log) = create(indexed());
    fill_keys(&log, 40);
    expect_keys(&log);
    log.close().unwrap();
    let state = Path::new(FOLDER).join(KEYS).join("applied");
    assert!(fs.exists(&state).unwrap());
    let (log, _) = open(&fs, clean(), indexed());
    // Nothing below is read again: the records are not there any more, and their entries are.
    expect_keys(&log);
    fill_keys(&log, 20);
    expect_keys(&log);
    log.close().unwrap();
    let bytes = fs.read_all(&state).unwrap();
    for damage in [0, bytes.len() / 2, bytes.len()] {
        let mut damaged = bytes.clone();
        match damaged.get_mut(damage) {
            Some(byte) => *byte ^= 1,
            None => damaged.truncate(3),
        }
        fs.atomic_write(&state, &damaged).unwrap();
        expect_keys(&open(&fs, clean(), indexed()).0);
    }
    fs.remove_dir_all(&Path::new(FOLDER).join(KEYS)).unwrap();
    expect_keys(&open(&fs, clean(), indexed()).0);
}

#[test]
fn what_is_cut_retained_or_lost_with_the_power_is_not_found_and_what_follows_is() {
    let (fs, log) = create(indexed());
    fill_keys(&log, 40);
    expect_keys(&log);
    log.truncate_to(Offset(15)).unwrap();
    put_keys(&log, &["other"]);
    assert_eq!(found(&log, "other"), [15]);
    log.truncate_to(Offset(15)).unwrap();
    fill_keys(&log, 40);
    expect_keys(&log);
    log.raise_log_start(Offset(30), log.log_end()).unwrap();
    log.retention_pass(NOW, log.log_end()).unwrap();
    expect_keys(&log);
    log.flush_blocking().unwrap();
    log.prepare_checkpoint().unwrap();
    fill_keys(&log, 20);
    expect_keys(&log);
    let facts = OpenFacts { log_start: Some(Offset(30)), ..OpenFacts::default() };
    for seed in 0..10 {
        let crashed = fs.crash(CrashPolicy::Torn(seed));
        let (log, _) = open(&crashed, facts, indexed());
        // Grown past what was there before, ahead of the first look.
        fill_keys(&log, 30);
        expect_keys(&log);
    }
}

#[test]
fn an_index_of_another_log_under_the_same_offsets_is_made_again() {
    let (fs, log) = create(indexed());
    fill_keys(&log, 30);
    log.close().unwrap();
    // As a Kafka would that lost the end, without this index, and wrote on.
    let (log, _) = open(&fs, clean(), small());
    log.truncate_to(Offset(10)).unwrap();
    for _ in 0..30 {
        put_keys(&log, &["foreign"]);
    }
    let log_end = log.log_end().0;
    log.flush_blocking().unwrap();
    drop(log);
    let (log, _) = open(&fs.crash(CrashPolicy::Everything), OpenFacts::default(), indexed());
    assert_eq!(found(&log, "foreign"), (10..log_end).rev().collect::<Vec<_>>());
    assert_eq!(found(&log, "key-1"), [8, 1]);
}

#[test]
fn an_error_of_the_index_s_files_costs_time_and_nothing_else() {
    let kinds = [OpKind::Open, OpKind::Write, OpKind::Sync, OpKind::Rename, OpKind::SetLen, OpKind::CreateDir];
    for (kind, action) in kinds.into_iter().flat_map(|kind| [(kind, FaultAction::Io), (kind, FaultAction::NoSpace)]) {
        let (fs, log) = create(indexed());
        fill_keys(&log, 20);
        log.flush_blocking().unwrap();
        fs.plan_fault(Fault::of(kind, 1).on("/key-index").with(action).and_later());
        let _ = log.find_by_key("key-1", 10);
        log.prepare_checkpoint().unwrap();
        assert!(fs.faults_met() > 0, "{kind:?}");
        assert!(log.failure().is_none(), "the log goes on");
        fs.clear_faults();
        fill_keys(&log, 5);
        expect_keys(&log);
        log.flush_blocking().unwrap();
        log.prepare_checkpoint().unwrap();
        let (log, _) = open(&fs.crash(CrashPolicy::Nothing), OpenFacts::default(), indexed());
        expect_keys(&log);
    }
}
