//! A partition of layout `partition` has no folder until its first append.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::{AppendTerms, BatchAppends, BatchOutcome, Partition};
use mainstem_env::{Clock, CrashPolicy, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, OpenOptions};
use mainstem_metadata::controller::{NewTopic, TopicRef};
use mainstem_store::{AppendError, Origin};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, Offset, PartitionIndex};
use support::{Node, batch, block_on, clock, read_all, settings};

fn start(fs: &MemFs, clock: &Arc<ManualClock>) -> Node {
    Node::start(fs, clock, &settings(&[]), 5).expect("a start")
}

fn create(node: &Node, name: &str, partitions: i32) {
    let topic = NewTopic { partitions, ..NewTopic::named(name) };
    let created = node.wait(node.broker.create_topics(vec![topic], false)).expect("the controller");
    assert!(created[0].is_ok(), "{created:?}");
}

fn partition(node: &Node, name: &str, index: i32) -> Arc<Partition> {
    let topics = node.broker.topics();
    Arc::clone(topics.by_name(name).expect("a topic").partition(PartitionIndex(index)).expect("a partition"))
}

fn record(node: &Node) -> Bytes {
    batch(node.clock.wall_ms(), None, &["value".to_owned()])
}

fn append(node: &Node, partition: &Partition) -> Result<Offset, AppendError> {
    let now = node.clock.wall_ms();
    partition.append(&record(node), Origin::Client, now, true).map(|appended| appended.base_offset)
}

/// The folders of the partitions of a topic.
fn folders(fs: &MemFs, topic: &str) -> Vec<String> {
    let entries = fs.read_dir(Path::new("/data")).expect("the data folder").into_iter();
    let names = entries.map(|entry| entry.name.into_string().expect("text"));
    let mut found: Vec<_> = names.filter(|name| name.starts_with(&format!("{topic}-"))).collect();
    found.sort();
    found
}

#[test]
fn partitions_are_created_and_opened_without_a_call_for_each() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    let calls_of = |name: &str, partitions: i32| {
        let before = fs.calls();
        create(&node, name, partitions);
        fs.calls() - before
    };
    let (few, many) = (calls_of("few", 1), calls_of("many", 500));
    assert!(many < few + 20, "{many} calls for 500 partitions, {few} for one");
    assert!(folders(&fs, "many").is_empty());
    node.broker.shutdown();
    drop(node);
    let before = fs.calls();
    let node = start(&fs, &clock);
    let calls = fs.calls() - before;
    assert!(calls < 300, "{calls} calls of a start with 501 partitions without folders");
    assert!(folders(&fs, "many").is_empty());
    assert_eq!(append(&node, &partition(&node, "many", 400)).expect("an append"), Offset(0));
    assert_eq!(folders(&fs, "many"), ["many-400"]);
    assert!(node.said.iter().all(|line| !line.contains("failed")), "{:?}", node.said);
}

#[test]
fn what_was_written_first_survives_a_kill_and_the_others_stay_without_folders() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 3);
    append(&node, &partition(&node, "t", 1)).expect("an append");
    let killed = fs.crash(CrashPolicy::Everything);
    let node = start(&killed, &clock);
    assert_eq!(read_all(&partition(&node, "t", 1)).expect("a read").len(), 1);
    for index in [0, 2] {
        let partition = partition(&node, "t", index);
        assert_eq!((partition.log().log_end(), partition.high_watermark()), (Offset(0), Offset(0)));
        assert!(read_all(&partition).expect("a read").is_empty());
    }
    assert_eq!(folders(&killed, "t"), ["t-1"]);
    assert!(node.said.iter().all(|line| !line.contains("failed")), "{:?}", node.said);
}

#[test]
fn a_lost_folder_is_told_and_an_empty_partition_is_not() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 3);
    for _ in 0..4 {
        append(&node, &partition(&node, "t", 1)).expect("an append");
    }
    node.broker.shutdown();
    drop(node);
    fs.remove_dir_all(Path::new("/data/t-1")).expect("a disk in memory");
    let node = start(&fs, &clock);
    let told: Vec<_> = node.said.iter().filter(|line| line.contains("folder is missing")).collect();
    assert_eq!(told.len(), 1, "{:?}", node.said);
    assert!(told[0].contains("t-1") && told[0].contains("offset 4"), "{told:?}");
    // What the checkpoints said of the lost one has no part in what follows.
    assert_eq!(append(&node, &partition(&node, "t", 1)).expect("an append"), Offset(0));
    partition(&node, "t", 1).log().flush_blocking().expect("a sync");
    let node = start(&fs.crash(CrashPolicy::Nothing), &clock);
    assert_eq!(read_all(&partition(&node, "t", 1)).expect("a read").len(), 1);
    assert!(node.said.iter().all(|line| !line.contains("folder is missing")), "{:?}", node.said);
}

/// A link to a disk that is not there, for example.
#[test]
fn a_name_that_is_taken_is_not_an_empty_partition() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 2);
    node.broker.shutdown();
    drop(node);
    fs.open(Path::new("/data/t-1"), &OpenOptions::create_empty()).expect("a disk in memory");
    let node = start(&fs, &clock);
    assert!(node.said.iter().any(|line| line.contains("t-1 is not served")), "{:?}", node.said);
    let topics = node.broker.topics();
    assert_eq!(topics.by_name("t").expect("a topic").partitions.len(), 1);
}

#[test]
fn the_broker_s_own_topics_have_their_folders_at_once() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    node.wait(node.broker.create_offsets_topic()).expect("the offsets topic");
    assert_eq!(folders(&fs, CONSUMER_OFFSETS_TOPIC).len(), 1);
}

type Told = Vec<(i32, BatchOutcome)>;

/// What a reactor does with one batch for each partition of a topic.
fn on_the_reactor(node: &Node, topic: &str, partitions: i32) -> (BatchAppends<i32>, Told) {
    let terms = AppendTerms { now: node.clock.wall_ms(), zstd_allowed: true, awaits_commits: false };
    let mut appends = BatchAppends::new(partitions as usize, terms);
    let mut told = Vec::new();
    for index in 0..partitions {
        told.extend(
            appends.append(index, &partition(node, topic, index), record(node)).map(|outcome| (index, outcome)),
        );
    }
    (appends, told)
}

/// What other threads do with the rest.
fn go_on(node: &Node, mut appends: BatchAppends<i32>) -> Told {
    let mut told = Vec::new();
    while !appends.is_done() {
        match appends.wants_folders() {
            true => appends.create_folders(&node.broker, |index, _, outcome| told.push((index, outcome))),
            false => appends.take_turn(&*node.clock, |index, _, outcome| told.push((index, outcome))),
        }
    }
    told
}

#[test]
fn a_reactor_creates_no_folder_and_other_threads_create_all_with_one_sync() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 20);
    let before = fs.calls();
    let (appends, told) = on_the_reactor(&node, "t", 20);
    assert_eq!((fs.calls(), told.len()), (before, 0));
    fs.plan_fault(Fault::of(OpKind::SyncDir, 2));
    let told = go_on(&node, appends);
    fs.clear_faults();
    assert!(told.len() == 20 && told.iter().all(|(_, outcome)| outcome.is_ok()), "{told:?}");
    assert_eq!(folders(&fs.crash(CrashPolicy::Nothing), "t").len(), 20);
    let (appends, told) = on_the_reactor(&node, "t", 20);
    assert!(appends.is_done() && told.len() == 20, "from then on the reactor appends");
}

#[test]
fn a_folder_that_cannot_be_created_refuses_its_batch_alone_and_only_once() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 3);
    fs.plan_fault(Fault::of(OpKind::CreateDir, 1).on("t-1").with(FaultAction::NoSpace));
    let (appends, _) = on_the_reactor(&node, "t", 3);
    let mut told = go_on(&node, appends);
    told.sort_by_key(|(index, _)| *index);
    assert!(matches!(told[1].1, Err(AppendError::DiskFull { .. })), "{told:?}");
    assert!(told[0].1.is_ok() && told[2].1.is_ok(), "{told:?}");
    let (appends, mut told) = on_the_reactor(&node, "t", 3);
    told.extend(go_on(&node, appends));
    assert!(told.len() == 3 && told.iter().all(|(_, outcome)| outcome.is_ok()), "{told:?}");
}

#[test]
fn below_the_disk_reserve_no_folder_is_created() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = Node::start(&fs, &clock, &settings(&[("mainstem.disk.reserve", "1000000")]), 5).expect("a start");
    create(&node, "t", 2);
    fs.set_free_space(1000);
    node.broker.look_at_disk();
    let (appends, _) = on_the_reactor(&node, "t", 2);
    let told = go_on(&node, appends);
    assert!(told.iter().all(|(_, outcome)| matches!(outcome, Err(AppendError::DiskReserve { .. }))), "{told:?}");
    assert!(folders(&fs, "t").is_empty());
}

#[test]
fn a_topic_that_is_deleted_leaves_nothing_whether_it_was_written_or_not() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = start(&fs, &clock);
    create(&node, "t", 3);
    let old = partition(&node, "t", 0);
    append(&node, &partition(&node, "t", 1)).expect("an append");
    let deleted = block_on(node.broker.delete_topics(vec![TopicRef::Name("t".to_owned())])).expect("the controller");
    assert!(deleted[0].is_ok());
    assert!(matches!(append(&node, &old), Err(AppendError::Closed { .. })));
    create(&node, "t", 3);
    assert!(append(&node, &old).is_err(), "not into the folder of the new one");
    node.broker.remove_due_files();
    assert!(folders(&fs, "t").is_empty(), "{:?}", folders(&fs, "t"));
    assert_eq!(append(&node, &partition(&node, "t", 1)).expect("an append"), Offset(0));
    let path: PathBuf = partition(&node, "t", 1).log().folder();
    assert_eq!(path, Path::new("/data/t-1"));
}
