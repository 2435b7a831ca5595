//! Random operations on a group, against a list for each partition. A restart is an ordinary operation.

use super::*;
use mainstem_env::CrashPolicy;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Operation {
    Append { partition: usize, records: usize, bytes: usize },
    Read { partition: usize, from: u8, max_bytes: u32 },
    Checkpoint,
    WriteQueues,
    Release,
    Flush,
    RaiseStart { partition: usize, part: u8 },
    Retention { partition: usize, bytes: i64 },
    Remove,
    Restart { clean: bool },
    PowerCut,
    Truncate { partition: usize, part: u8 },
    DeleteView { which: usize },
    DeleteTopic,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => (0usize..3, 1usize..6, 0usize..200).prop_map(|(partition, records, bytes)| Operation::Append { partition, records, bytes }),
        6 => (0usize..3, any::<u8>(), 0u32..2000).prop_map(|(partition, from, max_bytes)| Operation::Read { partition, from, max_bytes }),
        2 => Just(Operation::Checkpoint),
        2 => Just(Operation::WriteQueues),
        1 => Just(Operation::Release),
        1 => Just(Operation::Flush),
        1 => (0usize..3, any::<u8>()).prop_map(|(partition, part)| Operation::RaiseStart { partition, part }),
        1 => (0usize..3, 100i64..2000).prop_map(|(partition, bytes)| Operation::Retention { partition, bytes }),
        1 => Just(Operation::Remove),
        1 => any::<bool>().prop_map(|clean| Operation::Restart { clean }),
        1 => Just(Operation::PowerCut),
        1 => (0usize..3, any::<u8>()).prop_map(|(partition, part)| Operation::Truncate { partition, part }),
        1 => (0usize..3).prop_map(|which| Operation::DeleteView { which }),
        1 => Just(Operation::DeleteTopic),
    ]
}

/// One partition as it should be: the first offset of each batch with its values.
#[derive(Debug, Clone, Default)]
struct Expected {
    start: i64,
    end: i64,
    values: Vec<(i64, String)>,
}

struct World {
    fs: MemFs,
    group: GroupLog,
    live: Vec<LivePartition>,
    expected: Vec<Expected>,
    next: u64,
    id: u8,
}

impl World {
    fn new() -> World {
        let (fs, group, _) = create();
        World { fs, group, live: live(), expected: vec![Expected::default(); 3], next: 0, id: 20 }
    }

    fn log(&self, partition: usize) -> Arc<GroupPartition> {
        make(&self.group, &self.live[partition])
    }

    fn part(&self, partition: usize, part: u8) -> i64 {
        let expected = &self.expected[partition];
        expected.start + (expected.end - expected.start) * i64::from(part) / 255
    }

    fn reopen(&mut self, fs: MemFs, clean: bool) {
        let (group, report) = GroupLog::open(&env_on(&fs), Path::new(FOLDER), options(), &self.live, clean).unwrap();
        assert!(!report.recovery.shorter_than_checkpoint && report.damaged.is_empty(), "{report:?}");
        self.group = group;
        self.fs = fs;
    }

    /// After a power cut: what was durable is there, and nothing else than what was.
    fn accept_loss(&mut self, durable: &[i64]) {
        for (partition, durable) in durable.iter().enumerate() {
            let log = self.log(partition);
            let expected = &mut self.expected[partition];
            assert!(log.log_end().0 >= *durable && log.log_end().0 <= expected.end);
            assert!(log.log_start().0 <= expected.start);
            expected.end = log.log_end().0;
            expected.values.retain(|(offset, _)| *offset < expected.end);
            // A start that no checkpoint told of is the old one again; set it once more, as its owner would.
            let start = expected.start.min(expected.end);
            expected.start = start;
            log.raise_log_start(Offset(start), log.log_end()).unwrap();
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Append { partition, records, bytes } => self.append(partition, records, bytes),
            Operation::Read { partition, from, max_bytes } => self.read(partition, from, max_bytes),
            Operation::Checkpoint => self.group.checkpoint().unwrap(),
            Operation::WriteQueues => self.group.write_queues(),
            Operation::Release => self.group.release_idle(),
            Operation::Flush => self.flush(),
            Operation::RaiseStart { partition, part } => {
                let offset = self.part(partition, part);
                let log = self.log(partition);
                self.expected[partition].start = log.raise_log_start(Offset(offset), log.log_end()).unwrap().0;
            }
            Operation::Retention { partition, bytes } => {
                let log = self.log(partition);
                log.set_config(Arc::new(LogConfig { retention_bytes: bytes, ..config() }));
                let outcome = log.retention_pass(NOW, log.log_end()).unwrap();
                self.expected[partition].start = outcome.log_start.0;
            }
            Operation::Remove => {
                self.group.remove_unneeded().unwrap();
                self.group.remove_due_files();
            }
            Operation::Restart { clean } => {
                // A killed process leaves log starts that no checkpoint told of behind.
                if clean { self.group.close() } else { self.group.checkpoint() }.unwrap();
                self.reopen(self.fs.clone(), clean);
            }
            Operation::PowerCut => {
                let durable: Vec<_> = (0..3).map(|partition| self.log(partition).durable_end().0).collect();
                let crashed = self.fs.crash(CrashPolicy::Torn(self.next));
                self.reopen(crashed, false);
                self.accept_loss(&durable);
            }
            Operation::Truncate { partition, part } => self.truncate(partition, part),
            Operation::DeleteView { which } => {
                self.group.close().unwrap();
                let view = ["consumequeue", "index", "consumequeue/thin"][which];
                let _ = self.fs.remove_dir_all(&Path::new(FOLDER).join(view));
                self.reopen(self.fs.clone(), which == 0);
            }
            Operation::DeleteTopic => {
                let key = (self.live[2].topic_id, PartitionIndex(0));
                self.group.delete(&[key]).unwrap();
                self.id += 1;
                self.live[2] = live_of("thin", self.id, 0, config());
                self.expected[2] = Expected::default();
            }
        }
    }

    fn append(&mut self, partition: usize, records: usize, bytes: usize) {
        let log = self.log(partition);
        let expected = &mut self.expected[partition];
        let values: Vec<_> = (0..records).map(|n| format!("{} {n} {}", self.next, "v".repeat(bytes))).collect();
        self.next += 1;
        let texts: Vec<_> = values.iter().map(String::as_str).collect();
        let appended = log.append(&batch_at(NOW.0, &texts), &client()).unwrap();
        assert_eq!(appended.base_offset, Offset(expected.end));
        for value in values {
            expected.values.push((expected.end, value));
            expected.end += 1;
        }
    }

    fn read(&mut self, partition: usize, from: u8, max_bytes: u32) {
        let (log, from) = (self.log(partition), self.part(partition, from));
        let expected = &self.expected[partition];
        let request = ReadRequest { from: Offset(from), max_bytes, upper: log.log_end(), min_one_batch: true };
        let found = records(&bytes_of(&log.read(&request).unwrap()));
        assert_eq!(found.is_empty(), from == expected.end);
        for (offset, value) in found {
            let at = expected.values.iter().find(|(known, _)| *known == offset).map(|(_, value)| value);
            assert_eq!(at, Some(&value));
        }
    }

    fn flush(&mut self) {
        for partition in 0..3 {
            let log = self.log(partition);
            assert_eq!(log.flush_blocking().unwrap().0, self.expected[partition].end);
        }
    }

    fn truncate(&mut self, partition: usize, part: u8) {
        let offset = self.part(partition, part);
        let log = self.log(partition);
        let Some(position) = log.position_of(Offset(offset)).unwrap() else { return };
        self.group.truncate_to(position).unwrap();
        for partition in 0..3 {
            let log = self.log(partition);
            let expected = &mut self.expected[partition];
            assert!(log.log_end().0 <= expected.end);
            expected.end = log.log_end().0;
            expected.values.retain(|(offset, _)| *offset < expected.end);
            assert_eq!(log.log_start().0, expected.start.min(expected.end));
            expected.start = log.log_start().0;
        }
        assert!(log.log_end().0 <= offset);
    }

    fn check(&self) {
        for (partition, expected) in self.expected.iter().enumerate() {
            let log = self.log(partition);
            assert_eq!((log.log_start().0, log.log_end().0), (expected.start, expected.end));
            let values: Vec<_> =
                expected.values.iter().filter(|(offset, _)| *offset >= expected.start).cloned().collect();
            assert_eq!(all_records(&log), values);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn a_group_is_a_list_for_each_partition(operations in prop::collection::vec(operation(), 1..70)) {
        let mut world = World::new();
        for operation in &operations {
            world.apply(operation);
        }
        world.check();
    }
}
