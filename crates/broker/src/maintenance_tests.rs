//! The threads as they run, on a disk that takes long to remove a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use mainstem_env::{
    Clock, CrashPolicy, DirEntry, File, Fs, ManualClock, MemFs, Metadata, OpenDir, OpenOptions, SeededRng,
};
use mainstem_metadata::controller::{NewTopic, TopicRef};
use mainstem_record::BatchBuilder;
use mainstem_store::{Origin, StoreEnv};
use mainstem_types::{Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicPartition};

use super::*;
use crate::broker::Broker;
use crate::partition::Partition;
use crate::retention::wrong_unit;

const NOW: TimestampMs = TimestampMs(1_790_000_000_000);
/// Whatever takes longer than this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);
const REMOVAL: Duration = Duration::from_millis(100);

/// A disk on which each removal of a file takes [`REMOVAL`] while that is switched on.
#[derive(Debug, Clone)]
struct SlowDisk {
    fs: MemFs,
    slow: Arc<AtomicBool>,
    removed: Arc<AtomicUsize>,
}

impl Fs for SlowDisk {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        self.fs.open(path, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.read_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if self.slow.load(Ordering::SeqCst) {
            std::thread::sleep(REMOVAL);
        }
        self.removed.fetch_add(1, Ordering::SeqCst);
        self.fs.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        // As slow as the removal of every file in it.
        if self.slow.load(Ordering::SeqCst) {
            self.fs.read_dir(path)?.iter().for_each(|_| std::thread::sleep(REMOVAL));
        }
        self.fs.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        self.fs.open_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.fs.metadata(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.fs.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.fs.total_space(path)
    }
}

struct Node {
    disk: SlowDisk,
    clock: Arc<ManualClock>,
    broker: Arc<Broker>,
}

impl Node {
    fn start(fs: MemFs, settings: &[(&str, &str)]) -> Node {
        let common = [
            ("node.id", "1"),
            ("listeners", "PLAINTEXT://127.0.0.1:19092"),
            ("offsets.topic.num.partitions", "1"),
            ("mainstem.disk.reserve", "1048576"),
        ];
        let all = common.iter().chain(settings);
        let properties: BTreeMap<String, String> = all.map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let disk = SlowDisk { fs, slow: Arc::default(), removed: Arc::default() };
        let clock = Arc::new(ManualClock::at(NOW));
        let rng = Arc::new(SeededRng::new(1));
        let env = StoreEnv::new(Arc::new(disk.clone()), clock.clone(), rng, 1 << 20, 1).unwrap();
        let broker = Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap().0;
        Node { disk, clock, broker }
    }

    fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect();
        let topic = NewTopic { partitions, configs, ..NewTopic::named(name) };
        let created = wait(self.broker.create_topics(vec![topic], false)).unwrap();
        assert!(created[0].is_ok(), "{created:?}");
    }

    fn partition(&self, name: &str) -> Arc<Partition> {
        Arc::clone(self.broker.topics().by_name(name).unwrap().partition(PartitionIndex(0)).unwrap())
    }

    fn append(&self, name: &str, builder: BatchBuilder) -> Offset {
        self.append_to(&self.partition(name), builder)
    }

    fn append_to(&self, partition: &Partition, mut builder: BatchBuilder) -> Offset {
        let now = self.clock.wall_ms();
        builder.append(now, None, Some(b"value"), &[]);
        let batch = Bytes::from(builder.build().unwrap());
        partition.append(&batch, Origin::Client, now, true).unwrap().next_offset()
    }

    /// Deletes a topic with many files, and waits until their removal has begun.
    fn begin_long_deletion(&self) {
        self.create("gone", 200, &[("file.delete.delay.ms", "0")]);
        for partition in &self.broker.topics().by_name("gone").unwrap().partitions {
            self.append_to(partition, BatchBuilder::new());
        }
        self.disk.slow.store(true, Ordering::SeqCst);
        let before = self.disk.removed.load(Ordering::SeqCst);
        let deleted = wait(self.broker.delete_topics(vec![TopicRef::Name("gone".to_owned())])).unwrap();
        assert!(deleted[0].is_ok());
        eventually("the removal begins", || self.disk.removed.load(Ordering::SeqCst) > before);
    }

    fn waiting(&self) -> usize {
        let entries = self.disk.fs.read_dir(Path::new("/data")).unwrap();
        entries.iter().filter(|entry| entry.name.to_string_lossy().ends_with("-delete")).count()
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_promised_in_time_does_not_wait_behind_deletions() {
    let settings = [
        ("log.initial.task.delay.ms", "1"),
        ("log.retention.check.interval.ms", "1000"),
        ("log.flush.offset.checkpoint.interval.ms", "1000"),
    ];
    let node = Node::start(MemFs::new(), &settings);
    node.create("flushed", 1, &[("flush.ms", "300")]);
    node.create("kept", 1, &[("retention.ms", "2000"), ("file.delete.delay.ms", "0")]);
    node.begin_long_deletion();
    let end = node.append("flushed", BatchBuilder::new());
    node.append("kept", BatchBuilder::new());
    node.disk.fs.set_free_space(1000);
    node.clock.advance(Duration::from_secs(10));
    let kept = node.partition("kept");
    eventually("flush.ms", || node.partition("flushed").log().positions().durable_end == end);
    eventually("the look at the disk", || node.broker.state.space.is_short());
    eventually("retention", || kept.log().log_start() == Offset(1));
    let checkpoint = Path::new("/data/recovery-point-offset-checkpoint");
    eventually("checkpoints", || {
        node.clock.advance(Duration::from_secs(1));
        let text = node.disk.fs.read_if_present(checkpoint).unwrap().unwrap_or_default();
        String::from_utf8(text).unwrap().contains("kept 0 1")
    });
    assert!(node.waiting() > 0, "the deletion went on all the time");
    node.broker.shutdown();
}

#[test]
fn a_stop_does_not_wait_for_deletions_and_the_next_start_finishes_them() {
    let node = Node::start(MemFs::new(), &[]);
    node.begin_long_deletion();
    let began = Instant::now();
    node.broker.shutdown();
    let took = began.elapsed();
    let (removed, left) = (node.disk.removed.load(Ordering::SeqCst), node.waiting());
    assert!(left > 100, "{left} folders are left, {removed} files are removed");
    assert!(took < REMOVAL * 30, "{took:?}, with {left} folders left");
    let again = Node::start(node.disk.fs.crash(CrashPolicy::Everything), &[]);
    eventually("the rest is removed", || again.waiting() == 0);
    again.broker.shutdown();
}

#[test]
fn on_a_full_disk_files_do_not_wait_for_their_delay() {
    ["-1", "0"].iter().for_each(|reserve| files_go_at_once_on_a_full_disk(reserve));
}

fn files_go_at_once_on_a_full_disk(reserve: &str) {
    let node = Node::start(MemFs::new(), &[("log.initial.task.delay.ms", "1"), ("mainstem.disk.reserve", reserve)]);
    let hour = [("file.delete.delay.ms", "3600000"), ("retention.ms", "1000")];
    node.create("gone", 1, &hour);
    node.create("kept", 1, &hour);
    node.append("gone", BatchBuilder::new());
    node.append("kept", BatchBuilder::new());
    assert!(wait(node.broker.delete_topics(vec![TopicRef::Name("gone".to_owned())])).unwrap()[0].is_ok());
    node.clock.advance(Duration::from_secs(60));
    node.broker.apply_retention();
    let deleted_files = || {
        let entries = node.disk.fs.read_dir(Path::new("/data/kept-0")).unwrap();
        entries.iter().filter(|entry| entry.name.to_string_lossy().ends_with(".deleted")).count()
    };
    node.broker.remove_due_files();
    assert!(node.waiting() == 1 && deleted_files() > 0);
    node.disk.fs.set_free_space(1000);
    eventually("their space is free", || node.waiting() == 0 && deleted_files() == 0);
    node.broker.shutdown();
}

#[test]
fn what_retention_says_of_seconds_names_topic_timestamp_unit_and_remedy() {
    let text = wrong_unit(&TopicPartition::new("orders", PartitionIndex(3)), TimestampMs(1_790_000_000), "seconds");
    for part in ["orders-3", "1790000000", "seconds", "milliseconds", "message.timestamp.type=LogAppendTime"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for layout in ["partition", "shared"] {
        let node = Node::start(MemFs::new(), &[("mainstem.layout", layout)]);
        node.create("a", 1, &[]);
        let mut builder = BatchBuilder::new();
        builder.append(TimestampMs(NOW.0 / 1000), None, Some(b"value"), &[]);
        let batch = Bytes::from(builder.build().unwrap());
        let partition = node.partition("a");
        partition.append(&batch, Origin::Client, NOW, true).unwrap();
        let outcome = partition.log().retention_pass(NOW, partition.high_watermark()).unwrap();
        assert_eq!(outcome.newest.and_then(|time| time.other_unit(NOW)), Some("seconds"), "{layout}");
        node.broker.shutdown();
    }
}

#[test]
fn producers_are_looked_at_first_after_one_interval() {
    let settings = [
        ("producer.id.expiration.check.interval.ms", "2000"),
        ("producer.id.expiration.ms", "1000"),
        // Kafka does not wait for this.
        ("log.initial.task.delay.ms", "3600000"),
    ];
    let node = Node::start(MemFs::new(), &settings);
    node.create("a", 1, &[]);
    node.append("a", BatchBuilder::new().producer(ProducerId(9), ProducerEpoch(0), 0));
    let count = || node.partition("a").log().producers().len();
    assert_eq!(count(), 1);
    node.clock.advance(Duration::from_secs(2));
    eventually("the producer is forgotten", || count() == 0);
    node.broker.shutdown();
}
