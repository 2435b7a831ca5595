use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Fault, Fs, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::NewTopic;
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendError, Origin, StoreEnv};
use mainstem_types::{Offset, PartitionIndex};

use super::*;
use crate::broker::Broker;
use crate::partition::Partition;

/// Two in the afternoon of a day in 2026.
const NOW: TimestampMs = TimestampMs(1_790_000_000_000);

struct Node {
    fs: MemFs,
    clock: Arc<ManualClock>,
    broker: Arc<Broker>,
    log: Arc<Partition>,
}

/// A broker whose records lie in a commit log.
fn start(fs: &MemFs, clock: &Arc<ManualClock>, settings: &[(&str, &str)]) -> (Arc<Broker>, Vec<String>) {
    let common = [
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
        ("offsets.topic.num.partitions", "1"),
        ("mainstem.layout", "shared"),
        ("mainstem.shared.groups", "1"),
        ("mainstem.commitlog.file.bytes", "1048576"),
        ("log.retention.hours", "1"),
        ("log.message.timestamp.before.max.ms", "9223372036854775807"),
    ];
    let properties: BTreeMap<String, String> =
        common.iter().chain(settings).map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let env = StoreEnv::new(Arc::new(fs.clone()), clock.clone(), Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    let (broker, report) = Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap();
    (broker, report.lines)
}

/// With one partition, in several files, whose records are a day old.
fn node(settings: &[(&str, &str)]) -> Node {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(NOW)));
    let broker = start(&fs, &clock, settings).0;
    fill(fs, clock, broker)
}

fn fill(fs: MemFs, clock: Arc<ManualClock>, broker: Arc<Broker>) -> Node {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let created = runtime.block_on(broker.create_topics(vec![NewTopic::named("a")], false)).unwrap();
    assert!(created[0].is_ok(), "{created:?}");
    let log = filled(&broker, "a");
    let node = Node { fs, clock, broker, log };
    assert_eq!(node.files(), 6);
    node
}

/// The one partition of a topic, with records for six files.
fn filled(broker: &Broker, topic: &str) -> Arc<Partition> {
    let log = Arc::clone(broker.topics().by_name(topic).unwrap().partition(PartitionIndex(0)).unwrap());
    (0..55).for_each(|n| append(&log, n).unwrap());
    log
}

fn append(log: &Partition, n: i64) -> Result<(), AppendError> {
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(NOW.0 - 24 * HOUR_MS + n), None, Some(&[7; 100_000]), &[]);
    log.append(&Bytes::from(builder.build().unwrap()), Origin::Client, NOW, true).map(|_| ())
}

impl Node {
    fn files(&self) -> usize {
        self.files_of(&self.log)
    }

    fn files_of(&self, log: &Partition) -> usize {
        let group = log.log().as_group_partition().unwrap().folder().join("commitlog");
        self.fs.read_dir(&group).unwrap().iter().filter(|entry| entry.name.len() == 20).count()
    }

    fn use_disk(&self, percent: u64) {
        let total = self.fs.total_space(Path::new("/data")).unwrap();
        self.fs.set_free_space(total / 100 * (100 - percent) + 100);
        self.broker.look_at_disk();
    }
}

#[test]
fn without_hours_old_files_go_with_every_pass() {
    let node = node(&[]);
    node.broker.apply_retention();
    assert_eq!((node.files(), node.log.log().log_start()), (1, Offset(55)));
    node.broker.shutdown();
}

#[test]
fn old_files_wait_for_their_hour_unless_the_disk_is_full() {
    let now = NOW.0.div_euclid(HOUR_MS).rem_euclid(24);
    let other = ((now + 2) % 24).to_string();
    let settings = [("mainstem.commitlog.delete.hours", &*other), ("mainstem.commitlog.disk.used.max.percent", "60")];
    let first = node(&settings);
    first.use_disk(60);
    first.broker.apply_retention();
    first.broker.make_room();
    assert_eq!((first.files(), first.log.log().log_start()), (6, Offset(0)), "neither the hour nor the disk");
    first.clock.advance(Duration::from_millis(2 * HOUR_MS as u64));
    first.broker.apply_retention();
    assert_eq!(first.files(), 1, "its hour");
    first.broker.shutdown();
    let second = node(&settings);
    second.use_disk(61);
    second.broker.make_room();
    assert_eq!((second.files(), second.log.log().log_start()), (1, Offset(55)), "at any hour");
    second.broker.shutdown();
}

#[test]
fn past_the_last_mark_the_oldest_files_go_before_their_time_one_after_the_other() {
    let node = node(&[("log.retention.hours", "1000"), ("mainstem.commitlog.disk.used.force.percent", "85")]);
    node.use_disk(85);
    node.broker.make_room();
    assert_eq!((node.files(), node.log.log().log_start()), (6, Offset(0)));
    // Deleted files make no room in this file system, so all go but the one that is written.
    node.use_disk(86);
    node.broker.make_room();
    assert_eq!(node.files(), 1);
    let start = node.log.log().log_start();
    assert_eq!(start, Offset(50), "what the written file holds stays");
    assert_eq!(node.log.log().log_end(), Offset(55));
    node.broker.shutdown();
}

#[test]
fn a_group_whose_disk_failed_keeps_no_file_of_another_one() {
    let settings = [
        ("mainstem.layout", "topic"),
        ("log.retention.hours", "1000"),
        ("mainstem.commitlog.disk.used.force.percent", "85"),
    ];
    let node = node(&settings);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(node.broker.create_topics(vec![NewTopic::named("b")], false)).unwrap()[0].is_ok());
    let other = filled(&node.broker, "b");
    let oldest = node.broker.state.folder.oldest_commit_log_files().unwrap().remove(0).group;
    let is_oldest = |log: &Partition| log.log().as_group_partition().unwrap().folder() == oldest;
    let (failed, good) = if is_oldest(&other) { (&other, &node.log) } else { (&node.log, &other) };
    node.fs.plan_fault(Fault::of(OpKind::Write, 1).on(oldest.to_str().unwrap()));
    assert!(append(failed, 55).is_err());
    node.use_disk(86);
    node.broker.make_room();
    assert_eq!((node.files_of(failed), node.files_of(good)), (6, 1));
    node.broker.shutdown();
}

#[test]
fn a_group_whose_files_cannot_be_deleted_keeps_no_file_of_another_one() {
    let settings = [
        ("mainstem.layout", "topic"),
        ("log.retention.hours", "1000"),
        ("mainstem.commitlog.disk.used.force.percent", "85"),
    ];
    let node = node(&settings);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(node.broker.create_topics(vec![NewTopic::named("b")], false)).unwrap()[0].is_ok());
    let other = filled(&node.broker, "b");
    let oldest = node.broker.state.folder.oldest_commit_log_files().unwrap().remove(0).group;
    let is_oldest = |log: &Partition| log.log().as_group_partition().unwrap().folder() == oldest;
    let (stuck, good) = if is_oldest(&other) { (&other, &node.log) } else { (&node.log, &other) };
    let commit_log = oldest.join("commitlog");
    node.fs.plan_fault(Fault::of(OpKind::Rename, 1).on(commit_log.to_str().unwrap()).and_later());
    node.use_disk(86);
    node.broker.make_room();
    assert!(stuck.log().failure().is_none(), "it goes on");
    assert_eq!((node.files_of(stuck), node.files_of(good)), (6, 1));
    node.broker.shutdown();
}

#[test]
fn hours_are_those_of_the_day_in_utc() {
    assert!(is_hour(&[], NOW));
    let midnight = TimestampMs(24 * HOUR_MS * 20_000);
    assert!(is_hour(&[4, 0], midnight) && !is_hour(&[4, 23], midnight));
    assert!(
        is_hour(&[4], TimestampMs(midnight.0 + 5 * HOUR_MS - 1))
            && !is_hour(&[4], TimestampMs(midnight.0 + 5 * HOUR_MS))
    );
}

/// What is in a folder.
fn content(fs: &MemFs, dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let paths = fs.read_dir(dir).unwrap().into_iter().filter(|entry| !entry.is_dir).map(|entry| dir.join(entry.name));
    paths.map(|path| (path.clone(), fs.read_all(&path).unwrap())).collect()
}

#[test]
fn records_of_topics_that_the_metadata_has_lost_stay_as_long_as_others_do() {
    let settings = [("log.retention.hours", "48")];
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(NOW)));
    start(&fs, &clock, &settings).0.shutdown();
    let metadata = Path::new("/data/__cluster_metadata-0");
    let before = [content(&fs, metadata), content(&fs, Path::new("/data"))].concat();
    let node = fill(fs.clone(), clock.clone(), start(&fs, &clock, &settings).0);
    node.broker.shutdown();
    // The metadata is of a time before the topic.
    content(&fs, metadata).iter().for_each(|(path, _)| fs.remove_file(path).unwrap());
    before.iter().for_each(|(path, bytes)| fs.atomic_write(path, bytes).unwrap());
    let (broker, lines) = start(&fs, &clock, &settings);
    assert!(lines.iter().any(|line| line.contains("1 partitions that the metadata does not know")), "{lines:?}");
    broker.apply_retention();
    assert_eq!(node.files(), 6, "a day old, of two");
    clock.advance(Duration::from_millis(25 * HOUR_MS as u64));
    broker.apply_retention();
    assert_eq!(node.files(), 1);
    broker.shutdown();
}
