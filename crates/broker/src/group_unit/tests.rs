//! Two nodes, each with its own metadata, joined by hand: what one asks is answered by the other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use mainstem_env::{CrashPolicy, ManualClock, MemFs, SeededRng};
use mainstem_kafka_wire::metadata_records::{ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::Decision;
use mainstem_metadata::image::{ConfigResource, DIRECTORY_UNASSIGNED};
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendError, Origin, StoreEnv, UnknownPartitions};
use mainstem_types::TimestampMs;

use super::*;
use crate::Broker;
use crate::commit_wait::{Commit, CommitFailed};
use crate::partition::{Isolation, Partition};

const NOW: TimestampMs = TimestampMs(1_790_000_000_000);
/// Topic and partition; `disk` waits for syncs, `two` for two replicas in sync.
const PARTITIONS: [(&str, u8, i32); 4] = [("plain", 1, 0), ("plain", 1, 1), ("disk", 2, 0), ("two", 3, 0)];
const CONFIGS: [(&str, &str, &str); 2] = [("disk", "mainstem.durability", "disk"), ("two", "min.insync.replicas", "2")];

struct Node {
    id: i32,
    fs: MemFs,
    env: Arc<StoreEnv>,
    broker: Arc<Broker>,
}

impl Node {
    fn start(id: i32, fs: &MemFs) -> Node {
        let id_text = id.to_string();
        let settings = [
            ("node.id", id_text.as_str()),
            ("listeners", "PLAINTEXT://127.0.0.1:19092"),
            ("mainstem.shared.groups", "1"),
        ];
        let properties: BTreeMap<String, String> = settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let config = BrokerConfig::parse(&properties).unwrap();
        let clock = Arc::new(ManualClock::at(NOW));
        let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 0).unwrap();
        let (broker, _) = Broker::start(Arc::clone(&env), Path::new("/data"), config).unwrap();
        Node { id, fs: fs.clone(), env, broker }
    }

    /// With the topics, which node 1 leads in epoch 100; both are in sync.
    fn new(id: i32) -> Node {
        let node = Node::start(id, &MemFs::new());
        let mut records: Vec<MetadataRecord<'static>> = Vec::new();
        let set = |topic: &str, name: &str, value: &str| {
            let cow = |text: &str| Cow::Owned(text.to_owned());
            let (resource_type, value) = (ConfigResource::TOPIC, Some(cow(value)));
            ConfigRecord { resource_type, resource_name: cow(topic), name: cow(name), value }.into()
        };
        for (name, id, _) in PARTITIONS.iter().filter(|(_, _, index)| *index == 0) {
            records.push(TopicRecord { name: Cow::Borrowed(name), topic_id: TopicId([*id; 16]) }.into());
            records.push(set(name, "mainstem.layout", "shared"));
        }
        records.extend(CONFIGS.iter().map(|(topic, name, value)| set(topic, name, value)));
        records.extend(placed(1, 100, &[1, 2]));
        node.change(records);
        node
    }

    fn crashed(&self, policy: CrashPolicy) -> Node {
        Node::start(self.id, &self.fs.crash(policy))
    }

    fn change(&self, records: Vec<MetadataRecord<'static>>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let changed = self.broker.change_metadata(move |_, _, _| Decision { records, reply: () });
        runtime.block_on(changed).unwrap();
    }

    fn elect(&self, leader: i32, epoch: i32, in_sync: &[i32]) {
        self.change(placed(leader, epoch, in_sync).collect());
    }

    fn partitions(&self) -> Vec<Arc<Partition>> {
        let topics = self.broker.topics();
        let find = |(name, _, index): &(&str, u8, i32)| {
            Arc::clone(topics.by_name(name).unwrap().partition(PartitionIndex(*index)).unwrap())
        };
        PARTITIONS.iter().map(find).collect()
    }

    fn unit(&self) -> Arc<GroupUnit> {
        Arc::clone(self.partitions()[0].group_unit().unwrap())
    }

    /// One append to each partition; the waits for them.
    fn append(&self, value: &str) -> Vec<Commit> {
        self.partitions().iter().map(|partition| append(partition, value).unwrap()).collect()
    }

    fn sync(&self) {
        self.env.run_pending_flushes();
    }

    fn high_watermarks(&self) -> Vec<i64> {
        self.partitions().iter().map(|partition| partition.high_watermark().0).collect()
    }

    fn ends(&self) -> Vec<i64> {
        self.partitions().iter().map(|partition| partition.log().log_end().0).collect()
    }

    /// What consumers see of each partition.
    fn seen(&self) -> Vec<Vec<u8>> {
        let read = |partition: &Arc<Partition>| {
            let reading = partition.read(Offset(0), 1 << 20, true, Isolation::ReadUncommitted).unwrap().reading;
            let bytes = reading.chunks.iter().map(|chunk| match chunk {
                mainstem_store::ReadChunk::Bytes(bytes) => bytes.to_vec(),
                mainstem_store::ReadChunk::Slice(slice) => slice.read().unwrap().to_vec(),
            });
            bytes.collect::<Vec<_>>().concat()
        };
        self.partitions().iter().map(read).collect()
    }

    fn log_bytes(&self) -> Bytes {
        let log = self.unit();
        log.log().read_entries(log.log().start_position(), 1 << 20).unwrap()
    }

    fn fetch(&self, epoch: i32, bytes_max: usize) -> FollowerFetch {
        let unit = self.unit();
        let (from, last_epoch) = (unit.log().end_position(), unit.log().last_epoch().unwrap());
        FollowerFetch { node: NodeId(self.id), epoch: LeaderEpoch(epoch), from, last_epoch, bytes_max }
    }

    /// One fetch and what follows from it. Whether records came, or were cut.
    fn fetch_once(&self, leader: &Node, epoch: i32, bytes_max: usize) -> Result<bool, UnitError> {
        let (unit, fetch) = (self.unit(), self.fetch(epoch, bytes_max));
        match leader.unit().answer(&fetch)? {
            UnitAnswer::Diverging(end) => unit.cut(fetch.epoch, end).map(|_| true),
            UnitAnswer::Entries { bytes, high_watermark } => {
                let (at, epoch, unknown) = (fetch.from, fetch.epoch, UnknownPartitions::Refuse);
                let came = !bytes.is_empty();
                unit.append_replicated(&LeaderPiece { at, bytes, epoch, high_watermark, unknown }).map(|_| came)
            }
        }
    }

    /// Fetches until nothing more comes, and once again to hear what is committed.
    fn follow(&self, leader: &Node, epoch: i32) {
        while self.fetch_once(leader, epoch, 300).unwrap() {}
        assert!(!self.fetch_once(leader, epoch, 300).unwrap());
    }
}

/// All partitions are placed together.
fn placed(leader: i32, epoch: i32, in_sync: &[i32]) -> impl Iterator<Item = MetadataRecord<'static>> {
    PARTITIONS
        .iter()
        .map(move |(_, id, index)| one_placed(*id, *index, leader, epoch, in_sync))
        .collect::<Vec<_>>()
        .into_iter()
}

fn one_placed(id: u8, index: i32, leader: i32, epoch: i32, in_sync: &[i32]) -> MetadataRecord<'static> {
    let record = PartitionRecord {
        partition_id: index,
        topic_id: TopicId([id; 16]),
        replicas: vec![1, 2],
        isr: in_sync.to_vec(),
        leader,
        leader_epoch: epoch,
        directories: vec![DIRECTORY_UNASSIGNED; 2],
        ..PartitionRecord::default()
    };
    record.into()
}

fn batch(value: &str) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.append(NOW, None, Some(value.as_bytes()), &[]);
    Bytes::from(builder.build().unwrap())
}

fn append(partition: &Partition, value: &str) -> Result<Commit, AppendError> {
    let (appended, epoch) = partition.append_within(&batch(value), Origin::Client, NOW, true, usize::MAX)?;
    Ok(partition.committed(appended.next_offset(), epoch))
}

fn outcome(commit: &mut Commit) -> Option<Result<(), CommitFailed>> {
    match commit {
        Commit::Done => Some(Ok(())),
        Commit::Waiting(receiver) => receiver.try_recv().ok(),
    }
}

fn outcomes(commits: &mut [Commit]) -> Vec<Option<Result<(), CommitFailed>>> {
    commits.iter_mut().map(outcome).collect()
}

const DONE: Option<Result<(), CommitFailed>> = Some(Ok(()));
const NOT_LEADER: Option<Result<(), CommitFailed>> = Some(Err(CommitFailed::NotLeader));

#[test]
fn what_all_in_sync_replicas_have_is_committed_and_only_its_partition_is_told() {
    let (leader, follower) = (Node::new(1), Node::new(2));
    let mut waits = leader.append("one");
    leader.sync();
    assert_eq!((outcomes(&mut waits), leader.high_watermarks()), (vec![None; 4], vec![0; 4]));
    assert!(leader.seen().iter().all(Vec::is_empty));
    // One entry at a time: the fetch after it says that the follower has it.
    for done in 0..4 {
        assert!(follower.fetch_once(&leader, 100, 1).unwrap());
        let expected: Vec<_> = (0..4).map(|index| if index < done { 1 } else { 0 }).collect();
        assert_eq!(leader.high_watermarks(), expected);
        let told: Vec<_> = waits.iter_mut().skip(done).map(outcome).collect();
        assert!(told.iter().all(Option::is_none), "{told:?}");
        if done > 0 {
            assert_eq!(outcome(&mut waits[done - 1]), DONE);
        }
    }
    follower.sync();
    follower.follow(&leader, 100);
    assert_eq!((leader.high_watermarks(), follower.high_watermarks()), (vec![1; 4], vec![1; 4]));
    assert_eq!(follower.log_bytes(), leader.log_bytes());
}

#[test]
fn one_replica_commits_what_each_topic_s_durability_acknowledges() {
    let node = Node::new(1);
    node.elect(1, 101, &[1]);
    let mut waits = node.append("one");
    // `two` wants two replicas in sync.
    assert_eq!(outcomes(&mut waits), [DONE, DONE, None, None]);
    assert_eq!(node.high_watermarks(), [1, 1, 0, 0]);
    node.sync();
    assert_eq!(outcome(&mut waits[2]), DONE);
    assert_eq!(node.high_watermarks(), [1, 1, 1, 0]);
    assert!(node.partitions()[3].check_min_in_sync(2).is_err() && node.partitions()[0].check_min_in_sync(1).is_ok());
    node.elect(1, 101, &[1, 2]);
    assert_eq!((outcome(&mut waits[3]), node.high_watermarks()), (DONE, vec![1; 4]));
    assert!(node.unit().high_watermark() == node.unit().log().end_position());
}

#[test]
fn all_partitions_of_a_group_change_their_role_in_one_step() {
    let (old, new) = (Node::new(1), Node::new(2));
    let mut waits = old.append("one");
    new.follow(&old, 100);
    let mut lost = old.append("two");
    old.elect(2, 101, &[1, 2]);
    new.elect(2, 101, &[1, 2]);
    assert_eq!((outcomes(&mut lost), outcomes(&mut waits)[0]), (vec![NOT_LEADER; 4], DONE));
    for (was, is) in old.partitions().iter().zip(new.partitions()) {
        assert_eq!((was.role(), was.leads()), (Role::Follower { leader: Some(NodeId(2)) }, false));
        assert_eq!((is.role(), is.leads(), is.leader_epoch()), (Role::Leader, true, LeaderEpoch(101)));
        assert!(matches!(append(was, "late"), Err(AppendError::NotLeader { .. })));
        assert!(matches!(was.check_leader_epoch(LeaderEpoch(100)), Err(EpochCheckError::Fenced { .. })));
    }
    assert!(matches!(old.unit().answer(&new.fetch(100, 1)), Err(UnitError::NotLeader)));
    assert!(matches!(old.fetch_once(&new, 100, 1), Err(UnitError::Event(_))), "an old epoch");
    let mut waits = new.append("three");
    new.sync();
    old.follow(&new, 101);
    assert_eq!((outcomes(&mut waits), new.high_watermarks()), (vec![DONE; 4], vec![2; 4]));
}

#[test]
fn a_follower_cuts_what_its_leader_does_not_have_and_a_crash_brings_nothing_back() {
    for policy in [CrashPolicy::Everything, CrashPolicy::Nothing] {
        let (old, new) = (Node::new(1), Node::new(2));
        old.append("both");
        new.follow(&old, 100);
        new.sync();
        old.append("old alone");
        old.append("old alone, again");
        new.elect(2, 101, &[2]);
        new.append("new");
        new.sync();
        old.elect(2, 101, &[2]);
        let before = old.high_watermarks();
        old.follow(&new, 101);
        old.sync();
        assert_eq!((old.log_bytes(), old.ends()), (new.log_bytes(), vec![2; 4]));
        assert!(old.high_watermarks().iter().zip(&before).all(|(after, before)| after >= before));
        assert_eq!(old.seen(), new.seen(), "also `disk`, which was synced, and `two`, which the old leader committed");
        // Twice: what the second start finds is what the first one left.
        let mut crashed = old.crashed(policy);
        for epoch in [200, 300] {
            crashed = crashed.crashed(policy);
            crashed.elect(2, epoch, &[2]);
            new.elect(2, epoch, &[2]);
            crashed.follow(&new, epoch);
            crashed.sync();
            assert_eq!(crashed.log_bytes(), new.log_bytes());
            assert_eq!(crashed.seen()[0], new.seen()[0]);
        }
    }
}

#[test]
fn what_was_cut_is_not_called_committed_by_what_comes_in_its_place() {
    let (old, new) = (Node::new(1), Node::new(2));
    old.append("both");
    new.follow(&old, 100);
    old.append("old alone");
    old.append("old alone, again");
    for node in [&old, &new] {
        node.elect(2, 101, &[1, 2]);
    }
    // Its first entry reaches over all that is cut.
    let long = "new".repeat(1000);
    [long.as_str(), "short"].iter().for_each(|value| _ = new.append(value));
    let first = &old.partitions()[0];
    while first.log().log_end() < Offset(3) || first.log().epoch_for_offset(Offset(2)) != Some(LeaderEpoch(101)) {
        assert!(old.fetch_once(&new, 101, 1).unwrap());
    }
    // The ends of the log are looked at again.
    first.set_config(first.log().config());
    assert_eq!(first.high_watermark(), Offset(2), "the leader has not heard yet that the last one came");
    old.follow(&new, 101);
    assert_eq!(first.high_watermark(), Offset(3));
}

#[test]
fn who_led_without_writing_takes_what_an_earlier_leader_wrote() {
    let (old, new) = (Node::new(1), Node::new(2));
    old.append("both");
    new.follow(&old, 100);
    old.append("old alone");
    new.elect(2, 101, &[1, 2]);
    for node in [&old, &new] {
        node.elect(1, 102, &[1, 2]);
    }
    new.follow(&old, 102);
    assert_eq!((new.log_bytes(), new.ends()), (old.log_bytes(), vec![2; 4]));
    let epoch = |partition: &Arc<Partition>| partition.log().epoch_for_offset(Offset(1));
    assert!(new.partitions().iter().all(|partition| epoch(partition) == Some(LeaderEpoch(100))));
    assert_eq!(new.unit().log().last_epoch().unwrap(), LeaderEpoch(100));
}

/// As a thread that holds the group's lock for ever would: a hang is the failure.
#[test]
fn an_append_takes_no_lock_of_the_group_while_one_replica_counts() {
    let node = Node::new(1);
    node.elect(1, 101, &[1]);
    let (unit, partition) = (node.unit(), Arc::clone(&node.partitions()[0]));
    let held = unit.settled();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(outcome(&mut append(&partition, "one").unwrap())).unwrap();
        partition.high_watermark()
    });
    let told = receiver.recv_timeout(std::time::Duration::from_secs(60));
    drop(held);
    assert_eq!((told, thread.join().unwrap()), (Ok(DONE), Offset(1)));
}

#[test]
fn an_unclean_election_takes_committed_records_back_in_order() {
    let (old, new) = (Node::new(1), Node::new(2));
    old.append("both");
    new.follow(&old, 100);
    old.elect(1, 101, &[1]);
    let mut waits = old.append("committed by one");
    old.sync();
    assert_eq!((outcomes(&mut waits)[..3].to_vec(), old.high_watermarks()), (vec![DONE; 3], vec![2, 2, 2, 1]));
    new.elect(2, 102, &[2]);
    old.elect(2, 102, &[2]);
    let changes: Vec<_> = old.partitions().iter().map(|partition| partition.fetch_waiters().changes()).collect();
    old.follow(&new, 102);
    assert_eq!((old.ends(), old.high_watermarks()), (vec![1; 4], vec![1; 4]));
    for (partition, changes) in old.partitions().iter().zip(changes) {
        let positions = partition.positions();
        assert!(positions.high_watermark <= positions.log_end && partition.log().failure().is_none());
        assert!(partition.fetch_waiters().changes() > changes);
    }
    assert_eq!(old.log_bytes(), new.log_bytes());
}

#[test]
fn partitions_that_do_not_agree_are_led_by_nobody_until_they_do() {
    let node = Node::new(1);
    let mut waits = node.append("one");
    node.change(vec![one_placed(1, 0, 1, 100, &[1])]);
    assert_eq!(outcomes(&mut waits), vec![NOT_LEADER; 4]);
    for partition in node.partitions() {
        assert_eq!(partition.role(), Role::Follower { leader: None });
        assert!(matches!(append(&partition, "late"), Err(AppendError::NotLeader { .. })));
    }
    node.elect(1, 100, &[1]);
    assert!(node.partitions().iter().all(|partition| partition.leads()));
    let mut waits = node.append("two");
    assert_eq!(outcomes(&mut waits)[..2], [DONE; 2]);
    // Older metadata changes nothing.
    node.elect(2, 99, &[2]);
    assert!(node.partitions().iter().all(|partition| partition.leads()));
}

#[test]
fn after_a_start_what_the_checkpoint_does_not_call_committed_waits_for_the_others() {
    let (old, new) = (Node::new(1), Node::new(2));
    old.append("one");
    old.sync();
    new.follow(&old, 100);
    new.sync();
    // The checkpoint tells of the first four batches, and that they are committed.
    new.unit().log().checkpoint().unwrap();
    old.append("two");
    old.sync();
    new.follow(&old, 100);
    new.sync();
    new.elect(1, 101, &[1]);
    let again = new.crashed(CrashPolicy::Everything);
    assert_eq!(again.partitions()[0].role(), Role::Follower { leader: Some(NodeId(1)) }, "it was not in sync");
    assert_eq!((again.high_watermarks(), again.ends()), (vec![1, 1, 1, 0], vec![2; 4]));
    again.elect(2, 102, &[1, 2]);
    old.elect(2, 102, &[1, 2]);
    assert_eq!(again.high_watermarks(), [1; 4]);
    assert!(!again.partitions()[0].has_committed_earlier_epochs(), "the other has not said yet what it has");
    old.follow(&again, 102);
    assert!(again.partitions()[0].has_committed_earlier_epochs());
    assert_eq!((again.high_watermarks(), old.high_watermarks()), (vec![2; 4], vec![2; 4]));
}

#[test]
fn a_new_topic_takes_the_role_of_its_group() {
    let node = Node::new(1);
    node.elect(1, 101, &[1]);
    let before = node.unit();
    let topic_id = TopicId([9; 16]);
    let layout = ConfigRecord {
        resource_type: ConfigResource::TOPIC,
        resource_name: "late".into(),
        name: "mainstem.layout".into(),
        value: Some("shared".into()),
    };
    node.change(vec![
        TopicRecord { name: "late".into(), topic_id }.into(),
        layout.into(),
        one_placed(9, 0, 1, 101, &[1]),
    ]);
    let late = Arc::clone(&node.broker.topics().by_name("late").unwrap().partitions[0]);
    assert!(Arc::ptr_eq(late.group_unit().unwrap(), &before));
    assert_eq!((late.role(), late.leader_epoch()), (Role::Leader, LeaderEpoch(101)));
    assert_eq!(late.log().end_offset_for_epoch(LeaderEpoch(101)), (LeaderEpoch(101), Offset(0)));
    assert_eq!(outcome(&mut append(&late, "one").unwrap()), DONE);
    assert_eq!(late.log().epoch_for_offset(Offset(0)), Some(LeaderEpoch(101)));
    let remove = mainstem_kafka_wire::metadata_records::RemoveTopicRecord { topic_id };
    node.change(vec![remove.into()]);
    assert!(!before.keys().contains(&(topic_id, PartitionIndex(0))));
    node.elect(1, 102, &[1]);
    assert!(node.partitions().iter().all(|partition| partition.leader_epoch() == LeaderEpoch(102)));
}

/// Also where an assertion fails: the scope waits for its threads.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Appends of several threads while the in-sync set grows and shrinks, and a follower copies.
#[test]
fn no_wait_is_missed_while_the_in_sync_set_changes_under_appends() {
    let (leader, follower) = (Node::new(1), Node::new(2));
    let stop = AtomicBool::new(false);
    let mut waits: Vec<Commit> = std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let appends = (0..3).map(|thread| {
            let leader = &leader;
            scope.spawn(move || {
                let partitions = leader.partitions();
                let one = |n: usize| append(&partitions[(thread + n) % 2], &format!("{thread} {n}")).unwrap();
                (0..300).map(one).collect::<Vec<_>>()
            })
        });
        let appends: Vec<_> = appends.collect();
        let (copying, leader, stop) = (&follower, &leader, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                copying.fetch_once(leader, 100, 2000).unwrap();
            }
        });
        for turn in 0..40 {
            let in_sync: &[i32] = if turn % 2 == 0 { &[1, 2] } else { &[1] };
            leader.elect(1, 100, in_sync);
        }
        appends.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    leader.elect(1, 100, &[1, 2]);
    follower.follow(&leader, 100);
    assert!(outcomes(&mut waits).iter().all(|outcome| *outcome == DONE));
    let ends = leader.ends();
    assert_eq!((leader.high_watermarks(), ends[0] + ends[1]), (ends.clone(), 900));
    assert_eq!(follower.ends(), ends);
}

/// When another replica begins to count, an append that is under way is either below what the group calls committed, or
/// waits for that replica.
#[test]
fn nothing_is_committed_above_the_committed_position_when_a_second_replica_begins_to_count() {
    let leader = Node::new(1);
    let (unit, stop) = (leader.unit(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let threads = (0..2).map(|index| {
            let (leader, stop) = (&leader, &stop);
            scope.spawn(move || {
                let partition = Arc::clone(&leader.partitions()[index]);
                while !stop.load(Ordering::SeqCst) {
                    append(&partition, "value").unwrap();
                }
            })
        });
        let _threads: Vec<_> = threads.collect();
        let mut from = unit.log().start_position();
        let mut ends = [Offset(0); 2];
        for _ in 0..100 {
            leader.elect(1, 100, &[1]);
            leader.elect(1, 100, &[1, 2]);
            let committed = unit.log().high_watermark();
            assert_ne!(committed, Position::MAX);
            let batches = unit.log().batches_from(from).unwrap();
            for batch in batches.iter().filter(|batch| batch.end <= committed) {
                ends[batch.partition.0 as usize] = batch.next_offset;
                from = batch.end;
            }
            for (partition, end) in leader.partitions().iter().zip(ends) {
                assert!(partition.high_watermark() <= end, "{} > {end}", partition.high_watermark());
            }
        }
    });
}
