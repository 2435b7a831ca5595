//! Random operations against a list of values, with stops of every kind among them.

use super::*;
use mainstem_env::CrashPolicy;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Append { records: usize, size: usize, epoch_step: i32 },
    Produce { producer: i64, records: usize },
    Repeat { producer: i64 },
    Flush,
    Checkpoint,
    RaiseStart { percent: u8 },
    Retention { bytes: i64 },
    Truncate { back: i64 },
    Reopen,
    Kill,
    PowerCut { seed: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1usize..4, 0usize..120, 0i32..2).prop_map(|(records, size, epoch_step)| Op::Append { records, size, epoch_step }),
        4 => (1i64..4, 1usize..4).prop_map(|(producer, records)| Op::Produce { producer, records }),
        2 => (1i64..4).prop_map(|producer| Op::Repeat { producer }),
        1 => Just(Op::Flush),
        1 => Just(Op::Checkpoint),
        1 => (0u8..=100).prop_map(|percent| Op::RaiseStart { percent }),
        1 => (0i64..4000).prop_map(|bytes| Op::Retention { bytes }),
        1 => (0i64..6).prop_map(|back| Op::Truncate { back }),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(|seed| Op::PowerCut { seed }),
    ]
}

/// A batch of a producer: its sequence, its offset, its values.
type SentBatch = (i32, i64, Vec<String>);

struct Model {
    fs: MemFs,
    log: PartitionLog,
    /// By offset, from 0; those below the log start are not looked at.
    values: Vec<String>,
    durable: usize,
    epoch: i32,
    next_sequence: std::collections::HashMap<i64, i32>,
    /// By producer, oldest first.
    sent: std::collections::HashMap<i64, Vec<SentBatch>>,
    facts: OpenFacts,
}

impl Model {
    fn new() -> Self {
        let (fs, log) = create(small());
        Model {
            fs,
            log,
            values: Vec::new(),
            durable: 0,
            epoch: 0,
            next_sequence: Default::default(),
            sent: Default::default(),
            facts: OpenFacts::default(),
        }
    }

    fn append(&mut self, bytes: Bytes, values: Vec<String>) {
        let context = AppendContext { leader_epoch: LeaderEpoch(self.epoch), ..client() };
        let appended = self.log.append(&bytes, &context).unwrap();
        assert_eq!((appended.base_offset.0, appended.duplicate), (self.values.len() as i64, false));
        self.values.extend(values);
        assert_eq!(appended.next_offset().0, self.values.len() as i64);
    }

    fn produce(&mut self, producer: i64, records: usize) {
        let sequence = self.next_sequence.get(&producer).copied().unwrap_or(0);
        let values: Vec<_> = (0..records).map(|n| format!("{producer}/{}", sequence + n as i32)).collect();
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        let bytes = produced(producer, 0, sequence, &texts);
        self.sent.entry(producer).or_default().push((sequence, self.values.len() as i64, values.clone()));
        self.append(bytes, values);
        self.next_sequence.insert(producer, sequence + records as i32);
    }

    fn repeat(&mut self, producer: i64) {
        let Some((sequence, offset, values)) = self.sent.get(&producer).and_then(|sent| sent.last()) else { return };
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        let again = self.log.append(&produced(producer, 0, *sequence, &texts), &client()).unwrap();
        assert_eq!((again.duplicate, again.base_offset.0), (true, *offset));
    }

    fn open(&mut self, facts: OpenFacts) {
        // What retention removed is not in the checkpoints; the first segment tells.
        self.log = open(&self.fs, facts, small()).0;
        self.facts.clean = false;
    }

    fn power_cut(&mut self, seed: u64) {
        self.fs = self.fs.crash(CrashPolicy::Torn(seed));
        self.open(self.facts);
        let end = self.log.log_end().0 as usize;
        assert!(end >= self.durable && end <= self.values.len(), "{} ≤ {end} ≤ {}", self.durable, self.values.len());
        self.lose_from(end);
        self.durable = end;
    }

    /// Offsets from `end` on are gone: the producers are as if they had never sent them.
    fn lose_from(&mut self, end: usize) {
        self.values.truncate(end);
        self.sent.values_mut().for_each(|sent| sent.retain(|batch| batch.1 < end as i64));
        self.sent.retain(|_, sent| !sent.is_empty());
        self.next_sequence = self.expected_sequences();
    }

    /// The sequence after the last one of each producer: known until it expires, whatever was removed from the front.
    fn expected_sequences(&self) -> std::collections::HashMap<i64, i32> {
        let next = |(id, sent): (&i64, &Vec<SentBatch>)| {
            sent.last().map(|(sequence, _, values)| (*id, sequence + values.len() as i32))
        };
        self.sent.iter().filter_map(next).collect()
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { records, size, epoch_step } => {
                self.epoch += epoch_step;
                let values: Vec<_> =
                    (0..*records).map(|n| format!("{}+{n} {}", self.values.len(), "y".repeat(*size))).collect();
                let texts: Vec<&str> = values.iter().map(String::as_str).collect();
                self.append(batch(&texts), values.clone());
            }
            Op::Produce { producer, records } => self.produce(*producer, *records),
            Op::Repeat { producer } => self.repeat(*producer),
            Op::Flush => self.durable = self.log.flush_blocking().unwrap().0 as usize,
            Op::Checkpoint => {
                let entry = self.log.prepare_checkpoint().unwrap();
                self.facts.recovery_point = Some(entry.recovery_point);
                self.facts.log_start = entry.log_start_matters.then_some(entry.log_start);
            }
            Op::RaiseStart { percent } => {
                let to = Offset(self.values.len() as i64 * i64::from(*percent) / 100);
                self.log.raise_log_start(to, self.log.log_end()).unwrap();
                self.apply(&Op::Checkpoint);
            }
            Op::Retention { bytes } => {
                self.log.set_config(Arc::new(LogConfig { retention_bytes: *bytes, ..small() }));
                self.log.retention_pass(NOW, self.log.log_end()).unwrap();
                self.log.set_config(Arc::new(small()));
                self.apply(&Op::Checkpoint);
            }
            Op::Truncate { back } => {
                let to = Offset((self.values.len() as i64 - back).max(self.log.log_start().0));
                let end = self.log.truncate_to(to).unwrap().0 as usize;
                assert!(end as i64 <= to.0);
                self.lose_from(end);
                self.durable = self.durable.min(end);
                self.facts.recovery_point = self.facts.recovery_point.map(|point| point.min(Offset(end as i64)));
                self.facts.log_start = self.facts.log_start.map(|start| start.min(Offset(end as i64)));
            }
            Op::Reopen => {
                self.apply(&Op::Checkpoint);
                self.log.close().unwrap();
                let before = (self.log.producers(), self.epoch_of_records(), self.log.positions().log_start);
                self.durable = self.values.len();
                self.open(OpenFacts { clean: true, recovery_point: Some(self.log.log_end()), ..self.facts });
                assert_eq!(before, (self.log.producers(), self.epoch_of_records(), self.log.log_start()));
            }
            Op::Kill => {
                self.fs = self.fs.crash(CrashPolicy::Everything);
                self.open(self.facts);
                assert_eq!(self.log.log_end().0 as usize, self.values.len());
                self.durable = self.values.len();
            }
            Op::PowerCut { seed } => self.power_cut(*seed),
        }
    }

    /// An epoch without a record is not kept.
    fn epoch_of_records(&self) -> Option<LeaderEpoch> {
        self.log.epoch_for_offset(self.log.log_end().plus(-1))
    }

    fn check(&self) {
        let positions = self.log.positions();
        assert_eq!(positions.log_end.0 as usize, self.values.len());
        assert!(positions.log_start <= positions.log_end && positions.durable_end <= positions.log_end);
        let expected: Vec<_> = (positions.log_start.0..positions.log_end.0)
            .map(|offset| (offset, self.values[offset as usize].clone()))
            .collect();
        assert_eq!(all_records(&self.log), expected);
        let known = self.log.producers().into_iter().map(|known| (known.producer_id.0, known.last_sequence + 1));
        assert_eq!(known.collect::<std::collections::HashMap<_, _>>(), self.expected_sequences());
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn the_log_is_a_list_that_survives_stops(ops in prop::collection::vec(op(), 1..60)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
            model.check();
        }
    }
}
