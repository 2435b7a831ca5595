use super::*;
use crate::config::KeyIndexing;
use crate::{FindByKeyError, KeyQuery};
use mainstem_env::{CrashPolicy, Fault, FaultAction, OpKind};
use mainstem_record::RecordHeader;
use proptest::prelude::*;

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
    log.find_by_key(&KeyQuery::new(key, 100), &mut u64::MAX.clone())
        .unwrap()
        .records
        .iter()
        .map(|found| found.offset.0)
        .collect()
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
    assert_eq!(log.find_by_key(&KeyQuery::new("alpha", 1), &mut u64::MAX.clone()).unwrap().records.len(), 1);
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
fn a_look_up_reads_so_much_and_no_more_and_the_next_one_goes_on() {
    let (_fs, log) = create(indexed());
    fill_keys(&log, 40);
    let mut asked = 0;
    loop {
        match log.find_by_key(&KeyQuery::new("key-1", 100), &mut 1) {
            Ok(found) => break assert_eq!(found.records.len(), 6),
            Err(FindByKeyError::Behind { done, end, .. }) => assert!(done > asked && end == 40, "{done} of {end}"),
            Err(error) => panic!("{error}"),
        }
        asked += 1;
    }
    assert!(asked > 1);
}

#[test]
fn a_checkpoint_does_not_wait_for_a_look_up() {
    let (fs, log) = create(indexed());
    fill_keys(&log, 10);
    log.flush_blocking().unwrap();
    let looking_up = log.keys.lock();
    assert_eq!(log.prepare_checkpoint().unwrap().recovery_point, Offset(10));
    assert!(!folder_exists(&fs));
    drop(looking_up);
    log.prepare_checkpoint().unwrap();
    assert!(folder_exists(&fs));
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
        let _ = log.find_by_key(&KeyQuery::new("key-1", 10), &mut u64::MAX.clone());
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

#[derive(Debug, Clone)]
enum Op {
    Append { keys: Vec<u8> },
    Find { key: u8 },
    Checkpoint,
    Truncate { back: i64 },
    Retention { bytes: i64 },
    Switch { on: bool },
    LoseIndex,
    Reopen,
    Kill,
    PowerCut { seed: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(0u8..6, 1..4).prop_map(|keys| Op::Append { keys }),
        4 => (0u8..6).prop_map(|key| Op::Find { key }),
        2 => Just(Op::Checkpoint),
        1 => (0i64..8).prop_map(|back| Op::Truncate { back }),
        1 => (0i64..4000).prop_map(|bytes| Op::Retention { bytes }),
        1 => any::<bool>().prop_map(|on| Op::Switch { on }),
        1 => Just(Op::LoseIndex),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(|seed| Op::PowerCut { seed }),
    ]
}

struct Model {
    fs: MemFs,
    log: PartitionLog,
    config: LogConfig,
    facts: OpenFacts,
    /// By offset.
    keys: Vec<u8>,
}

impl Model {
    fn checkpoint(&mut self) {
        self.log.flush_blocking().unwrap();
        let entry = self.log.prepare_checkpoint().unwrap();
        self.log.checkpoint_written(entry.recovery_point);
        self.facts.recovery_point = Some(entry.recovery_point);
        self.facts.log_start = entry.log_start_matters.then_some(entry.log_start);
    }

    fn open(&mut self, facts: OpenFacts) {
        self.log = open(&self.fs, facts, self.config.clone()).0;
        self.keys.truncate(self.log.log_end().0 as usize);
    }

    fn set_config(&mut self, config: LogConfig) {
        self.config = config;
        self.log.set_config(Arc::new(self.config.clone()));
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { keys } => {
                let names: Vec<String> = keys.iter().map(|key| format!("key-{key}")).collect();
                put_keys(&self.log, &names.iter().map(String::as_str).collect::<Vec<_>>());
                self.keys.extend(keys);
            }
            Op::Find { key } => self.expect(*key),
            Op::Checkpoint => self.checkpoint(),
            Op::Truncate { back } => {
                let to = Offset((self.keys.len() as i64 - back).max(self.log.log_start().0));
                let end = self.log.truncate_to(to).unwrap();
                self.keys.truncate(end.0 as usize);
                self.facts.recovery_point = self.facts.recovery_point.map(|point| point.min(end));
                self.facts.log_start = self.facts.log_start.map(|start| start.min(end));
            }
            Op::Retention { bytes } => {
                self.log.set_config(Arc::new(LogConfig { retention_bytes: *bytes, ..self.config.clone() }));
                self.log.retention_pass(NOW, self.log.log_end()).unwrap();
                self.log.set_config(Arc::new(self.config.clone()));
                self.checkpoint();
            }
            Op::Switch { on } => {
                let key_indexing = if *on { KeyIndexing::All } else { KeyIndexing::Headers };
                self.set_config(LogConfig { key_indexing, ..small() });
            }
            Op::LoseIndex => {
                self.checkpoint();
                self.log.close().unwrap();
                let _ = self.fs.remove_dir_all(&Path::new(FOLDER).join(KEYS));
                self.open(OpenFacts { clean: true, recovery_point: Some(self.log.log_end()), ..self.facts });
            }
            Op::Reopen => {
                self.checkpoint();
                self.log.close().unwrap();
                self.open(OpenFacts { clean: true, recovery_point: Some(self.log.log_end()), ..self.facts });
            }
            Op::Kill => {
                self.fs = self.fs.crash(CrashPolicy::Everything);
                self.open(self.facts);
            }
            Op::PowerCut { seed } => {
                self.fs = self.fs.crash(CrashPolicy::Torn(*seed));
                self.open(self.facts);
            }
        }
    }

    fn expect(&self, key: u8) {
        let wanted = self.config.key_indexing == KeyIndexing::All;
        let here = (self.log.log_start().0..self.keys.len() as i64).rev();
        let expected: Vec<i64> = here.filter(|offset| wanted && self.keys[*offset as usize] == key).collect();
        assert_eq!(found(&self.log, &format!("key-{key}")), expected);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn every_record_is_found_by_its_key_whatever_happened(ops in prop::collection::vec(op(), 1..50)) {
        let (fs, log) = create(indexed());
        let mut model = Model { fs, log, config: indexed(), facts: OpenFacts::default(), keys: Vec::new() };
        for op in &ops {
            model.apply(op);
        }
        (0..6).for_each(|key| model.expect(key));
    }
}
