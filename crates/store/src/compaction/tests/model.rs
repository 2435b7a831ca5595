//! Random operations against a table of the last values, with stops of every kind among them.

use std::collections::HashMap;

use super::*;
use crate::log_types::ProducerSummary;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{create, open};
use mainstem_env::{CrashPolicy, MemFs};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Put { keys: Vec<u8>, size: usize },
    Tombstone { key: u8 },
    Produce { producer: i64, keys: Vec<u8> },
    Transaction { producer: i64, batches: Vec<Vec<u8>>, committed: bool },
    Compact { keys_max: usize, later_ms: i64 },
    RaiseStart { percent: u8 },
    Retention { bytes: i64 },
    Reopen,
    Kill,
    PowerCut { seed: u64 },
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..12, 1..4)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (keys(), 0usize..60).prop_map(|(keys, size)| Op::Put { keys, size }),
        2 => (0u8..12).prop_map(|key| Op::Tombstone { key }),
        3 => (1i64..4, keys()).prop_map(|(producer, keys)| Op::Produce { producer, keys }),
        3 => (4i64..7, prop::collection::vec(keys(), 1..3), any::<bool>())
            .prop_map(|(producer, batches, committed)| Op::Transaction { producer, batches, committed }),
        5 => (1usize..20, 0i64..700).prop_map(|(keys_max, later_ms)| Op::Compact { keys_max, later_ms }),
        1 => (0u8..=60).prop_map(|percent| Op::RaiseStart { percent }),
        1 => (500i64..4000).prop_map(|bytes| Op::Retention { bytes }),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(|seed| Op::PowerCut { seed }),
    ]
}

struct Model {
    fs: MemFs,
    log: PartitionLog,
    /// What was appended at each offset; `None` is a marker. The flag: it is aborted.
    records: Vec<Option<(Kept, bool)>>,
    sequences: HashMap<i64, i32>,
    now: i64,
    facts: OpenFacts,
}

impl Model {
    fn new() -> Self {
        let (fs, log) = create(compacted());
        let (records, sequences) = (Vec::new(), HashMap::new());
        let facts = OpenFacts { recovery_point: Some(Offset(0)), ..OpenFacts::default() };
        Model { fs, log, records, sequences, now: NOW.0, facts }
    }

    fn append(&mut self, builder: BatchBuilder, pairs: &[(u8, Option<String>)], aborted: bool) {
        let names: Vec<_> = pairs.iter().map(|(key, _)| format!("key {key}")).collect();
        let borrowed: Vec<Pair<'_>> =
            names.iter().zip(pairs).map(|(key, (_, v))| (key.as_str(), v.as_deref())).collect();
        let base = self.log.append(&batch_of(builder, &borrowed), &client()).unwrap().base_offset.0;
        assert_eq!(base as usize, self.records.len());
        for (key, value) in names.iter().zip(pairs) {
            let offset = self.records.len() as i64;
            self.records.push(Some(((offset, key.clone(), value.1.clone()), aborted)));
        }
    }

    fn pairs(&self, keys: &[u8], size: usize) -> Vec<(u8, Option<String>)> {
        let from = self.records.len();
        keys.iter().enumerate().map(|(n, key)| (*key, Some(format!("{} {}", from + n, "y".repeat(size))))).collect()
    }

    fn produce(&mut self, id: i64, keys: &[u8], transactional: bool, aborted: bool) {
        let sequence = self.sequences.get(&id).copied().unwrap_or(0);
        let builder = if transactional { producer(id, sequence).transactional() } else { producer(id, sequence) };
        self.append(builder, &self.pairs(keys, 10), aborted);
        self.sequences.insert(id, sequence + keys.len() as i32);
    }

    fn end(&mut self, id: i64, committed: bool) {
        let offset = end_transaction(&self.log, id, committed);
        assert_eq!(offset as usize, self.records.len());
        self.records.push(None);
    }

    fn checkpoint(&mut self) {
        self.log.flush_blocking().unwrap();
        let entry = self.log.prepare_checkpoint().unwrap();
        self.log.checkpoint_written(entry.recovery_point);
        self.facts.recovery_point = Some(entry.recovery_point);
        self.facts.log_start = entry.log_start_matters.then_some(entry.log_start);
        self.facts.cleaned_to = entry.cleaned_to;
    }

    fn producers(&self) -> Vec<(i64, i32, Option<Offset>)> {
        let shown = |p: &ProducerSummary| (p.producer_id.0, p.last_sequence, p.transaction_first_offset);
        self.log.producers().iter().map(shown).collect()
    }

    fn open(&mut self, facts: OpenFacts) {
        self.log = open(&self.fs, facts, compacted()).0;
        self.facts.clean = false;
    }

    fn power_cut(&mut self, seed: u64) {
        self.fs = self.fs.crash(CrashPolicy::Torn(seed));
        self.open(self.facts);
        let end = self.log.log_end();
        assert!(end >= self.facts.recovery_point.unwrap_or(Offset(0)));
        self.records.truncate(end.0 as usize);
        self.sequences.clear();
        for producer in self.log.producers() {
            self.sequences.insert(producer.producer_id.0, producer.last_sequence + 1);
            // The coordinator ends what it finds open.
            if let Some(first) = producer.transaction_first_offset {
                self.abort_from(first.0, producer.producer_id.0);
            }
        }
    }

    /// All records of a transaction that lost its marker were of one operation, so they are those from its first offset
    /// on.
    fn abort_from(&mut self, first: i64, id: i64) {
        for record in self.records[first as usize..].iter_mut().flatten() {
            record.1 = true;
        }
        self.end(id, false);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put { keys, size } => self.append(BatchBuilder::new(), &self.pairs(keys, *size), false),
            Op::Tombstone { key } => self.append(BatchBuilder::new(), &[(*key, None)], false),
            Op::Produce { producer, keys } => self.produce(*producer, keys, false, false),
            Op::Transaction { producer, batches, committed } => {
                for keys in batches {
                    self.produce(*producer, keys, true, !committed);
                }
                self.end(*producer, *committed);
            }
            Op::Compact { keys_max, later_ms } => {
                self.now += later_ms;
                self.checkpoint();
                let limits = CleanerLimits { dedupe_bytes: (keys_max + 1) * 24, load_factor: 1.0, ..LIMITS };
                let now = TimestampMs(self.now);
                let work = self.log.cleanable(now, self.log.log_end()).unwrap().unwrap();
                let done = self.log.compact(&work, &limits, now, &mut Unthrottled).unwrap();
                assert!(done.to > done.from || work.end <= work.first_dirty, "every pass gets on");
                self.checkpoint();
            }
            Op::RaiseStart { percent } => {
                let to = Offset(self.records.len() as i64 * i64::from(*percent) / 100);
                self.log.raise_log_start(to, self.log.log_end()).unwrap();
                self.checkpoint();
            }
            Op::Retention { bytes } => {
                let config = LogConfig { retention_bytes: *bytes, cleanup_delete: true, ..compacted() };
                self.log.set_config(Arc::new(config));
                self.log.retention_pass(NOW, self.log.log_end()).unwrap();
                self.log.set_config(Arc::new(compacted()));
                self.log.remove_due_files();
                self.checkpoint();
            }
            Op::Reopen => {
                self.checkpoint();
                self.log.close().unwrap();
                let before = (self.producers(), self.log.latest_epoch(), self.log.positions().log_start);
                self.open(OpenFacts { clean: true, recovery_point: Some(self.log.log_end()), ..self.facts });
                assert_eq!(before, (self.producers(), self.log.latest_epoch(), self.log.log_start()));
            }
            Op::Kill => {
                let before = (self.producers(), self.log.log_end());
                self.fs = self.fs.crash(CrashPolicy::Everything);
                self.open(self.facts);
                assert_eq!(before, (self.producers(), self.log.log_end()));
            }
            Op::PowerCut { seed } => self.power_cut(*seed),
        }
    }

    fn check(&self) {
        assert_eq!(self.log.log_end().0 as usize, self.records.len());
        let start = self.log.log_start().0;
        let mut found = contents(&self.log);
        for kept in &found {
            assert_eq!(Some(kept), self.records[kept.0 as usize].as_ref().map(|record| &record.0));
        }
        let aborted = |offset: i64| self.records[offset as usize].as_ref().is_none_or(|record| record.1);
        found.retain(|(offset, ..)| !aborted(*offset));
        let all = self.records.iter().flatten().filter(|(kept, aborted)| kept.0 >= start && !aborted);
        let all: Vec<Kept> = all.map(|(kept, _)| kept.clone()).collect();
        assert_eq!(table(&found), table(&all));
        assert_eq!(self.log.positions().first_open_transaction, None);
    }
}

proptest! {
    #![proptest_config(crate::partition_log::tests::cases(96))]

    #[test]
    fn a_compacted_log_is_a_table_that_survives_stops(ops in prop::collection::vec(op(), 1..60)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
            model.log.first_unstable_offset(model.log.log_end());
            model.check();
        }
        check_every_offset(&model.log);
    }
}
