//! A shard lives as long as its partition is led here.

use std::collections::BTreeMap;
use std::path::Path;

use mainstem_coordinator::{
    CommitPartition, CommitTopic, CommittedTopic, FetchTopic, JoinProtocol, OffsetCommitRequest, OffsetFetchRequest,
};
use mainstem_env::{Fault, FaultAction, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::image::ImageDelta;
use mainstem_store::StoreEnv;
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, NodeId, Offset, TimestampMs, TopicId};

use super::*;
use crate::Broker;

/// A broker with a coordinator in one partition, and the partition.
struct Bed {
    env: Arc<StoreEnv>,
    clock: Arc<ManualClock>,
    broker: Arc<Broker>,
    partition: Arc<Partition>,
    runtime: tokio::runtime::Runtime,
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(TimestampMs(1_790_000_000_000)))
}

fn start(
    fs: &MemFs,
    clock: &Arc<ManualClock>,
    durability: &str,
) -> (Arc<StoreEnv>, Arc<Broker>, tokio::runtime::Runtime) {
    let settings = [
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
        ("offsets.topic.num.partitions", "1"),
        ("mainstem.durability", durability),
    ];
    let properties: BTreeMap<String, String> = settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let config = BrokerConfig::parse(&properties).unwrap();
    let env = StoreEnv::new(Arc::new(fs.clone()), Arc::<ManualClock>::clone(clock), Arc::new(SeededRng::new(1)), 0, 0)
        .unwrap();
    let (broker, _) = Broker::start(Arc::clone(&env), Path::new("/data"), config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    (env, broker, runtime)
}

impl Bed {
    fn new(durability: &str) -> Bed {
        Bed::on(&MemFs::new(), durability)
    }

    fn on(fs: &MemFs, durability: &str) -> Bed {
        let clock = clock();
        let (env, broker, runtime) = start(fs, &clock, durability);
        runtime.block_on(broker.create_offsets_topic()).unwrap();
        let partition = broker.topics().by_name(CONSUMER_OFFSETS_TOPIC).unwrap().partitions[0].clone();
        Bed { env, clock, broker, partition, runtime }
    }

    fn groups(&self) -> &ConsumerGroups {
        self.broker.consumer_groups()
    }

    fn elected(&self, epoch: i32) {
        self.groups().partition_elected(&self.partition, LeaderEpoch(epoch));
    }

    fn resigned(&self, epoch: i32) {
        self.groups().partition_resigned(PartitionIndex(0), Some(LeaderEpoch(epoch)));
    }

    fn wait<T>(&self, answer: Answer<T>) -> Result<T, GroupError> {
        let limited = async { tokio::time::timeout(std::time::Duration::from_secs(10), answer.wait()).await };
        self.runtime.block_on(limited).expect("nothing answers")
    }

    fn commit(&self, offset: i64) -> Answer<Vec<CommittedTopic>> {
        let partition = CommitPartition {
            partition: PartitionIndex(0),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: None,
        };
        let topic = CommitTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![partition] };
        self.groups().commit_offsets(&OffsetCommitRequest {
            group_id: "g",
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_ms: None,
            reports_missing_group: true,
            topics: vec![topic],
        })
    }

    fn fetch(&self) -> Result<i64, GroupError> {
        let topic = FetchTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![PartitionIndex(0)] };
        let request = OffsetFetchRequest {
            group_id: "g",
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![topic]),
            require_stable: false,
        };
        Ok(self.groups().fetch_offsets(&request)?[0].partitions[0].offset.0)
    }

    /// A join that waits for more members: the clock stands still.
    fn join(&self) -> Answer<JoinedGroup> {
        self.groups().join(&JoinGroupRequest {
            group_id: "lively",
            member_id: "",
            instance_id: None,
            client_id: "client",
            client_host: "/127.0.0.1",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer",
            protocols: vec![JoinProtocol { name: "range", metadata: b"" }],
            requires_known_member_id: false,
            supports_skipping_assignment: true,
            member_uuid: [1; 16],
        })
    }

    /// Waits until the shard has read its log.
    fn loaded_offset(&self) -> i64 {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            match self.fetch() {
                Err(GroupError::CoordinatorLoadInProgress) if std::time::Instant::now() < end => {
                    std::thread::yield_now();
                }
                fetched => return fetched.unwrap(),
            }
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.broker.shutdown();
    }
}

#[test]
fn whoever_waits_is_told_when_the_partition_is_led_elsewhere_and_what_is_stored_comes_back_with_it() {
    let bed = Bed::new("os");
    bed.wait(bed.commit(7)).unwrap();
    let parked = bed.join();
    let shard = bed.groups().shard("g").unwrap();
    assert!(shard.poll(bed.groups().shared.now()).is_some(), "the join has a deadline");
    bed.resigned(10);
    assert_eq!(bed.wait(parked), Err(GroupError::NotCoordinator));
    assert_eq!(bed.fetch(), Err(GroupError::NotCoordinator));
    assert_eq!(bed.wait(bed.join()), Err(GroupError::NotCoordinator));
    assert_eq!(bed.groups().list(&[], &[]), Ok(vec![]));
    assert_eq!(shard.poll(bed.groups().shared.now()), None, "no timer is left");
    assert!(shard.submit(ReplyToken(9), bed.groups().shared.now(), |_, _, _| vec![]).is_err(), "who holds it still");

    bed.elected(11);
    assert_eq!(bed.loaded_offset(), 7);
    let groups = bed.groups().list(&[], &[]).unwrap();
    let states: Vec<_> = groups.iter().map(|group| (&*group.group_id, group.state.name())).collect();
    assert_eq!(states, [("g", "Empty"), ("lively", "Empty")], "members that were in memory alone join again");
}

#[test]
fn epochs_that_are_not_newer_change_nothing() {
    let bed = Bed::new("os");
    bed.wait(bed.commit(7)).unwrap();
    bed.elected(5);
    let shard = bed.groups().shard("g").unwrap();
    let is_same = |bed: &Bed| bed.groups().shard("g").is_ok_and(|now| Arc::ptr_eq(&now, &shard));
    assert!(is_same(&bed), "a leader that stays has missed nothing");
    bed.resigned(4);
    bed.resigned(5);
    assert!(is_same(&bed) && bed.fetch() == Ok(7), "an older loss of the leadership comes late");
    bed.resigned(6);
    assert_eq!(bed.fetch(), Err(GroupError::NotCoordinator));
    bed.elected(5);
    bed.elected(6);
    assert_eq!(bed.fetch(), Err(GroupError::NotCoordinator), "an older election comes late");
    bed.elected(7);
    assert_eq!(bed.loaded_offset(), 7);
    assert!(!is_same(&bed));
}

#[test]
fn a_commit_that_waits_for_the_disk_is_not_acknowledged_after_the_leadership_went() {
    let bed = Bed::new("disk");
    let waiting = bed.commit(7);
    assert_eq!(bed.fetch(), Ok(-1), "not committed yet");
    bed.resigned(10);
    // The record becomes durable here all the same: it is the new leader's decision what it is worth.
    bed.env.run_pending_flushes();
    assert!(bed.partition.high_watermark() > Offset(0));
    assert_eq!(bed.wait(waiting), Err(GroupError::NotCoordinator));
    bed.elected(11);
    assert_eq!(bed.loaded_offset(), 7);
}

#[test]
fn a_partition_that_is_gone_takes_its_shard_along_and_may_come_back_in_any_epoch() {
    let bed = Bed::new("os");
    bed.elected(8);
    let parked = bed.join();
    bed.groups().partition_resigned(PartitionIndex(0), None);
    assert_eq!(bed.wait(parked), Err(GroupError::NotCoordinator));
    bed.elected(0);
    assert_eq!(bed.loaded_offset(), -1);
}

#[test]
fn offsets_of_a_topic_that_is_deleted_while_the_log_is_read_go() {
    let bed = Bed::new("os");
    bed.wait(bed.commit(7)).unwrap();
    bed.resigned(10);
    let shard = Shard::new(GroupConfig::default(), Arc::clone(&bed.partition));
    let now = bed.groups().shared.now();
    shard.topics_deleted(&["orders"], now);
    load::replay(&shard).unwrap();
    shard.loaded(now);
    bed.elected(11);
    assert_eq!(bed.loaded_offset(), -1);
}

#[test]
fn a_shard_that_ends_while_its_log_is_read_stays_ended() {
    let bed = Bed::new("os");
    bed.wait(bed.commit(7)).unwrap();
    let shard = Shard::new(GroupConfig::default(), Arc::clone(&bed.partition));
    let now = bed.groups().shared.now();
    shard.close(now);
    load::replay(&shard).unwrap();
    shard.loaded(now);
    assert_eq!(shard.look(now, |machine| machine.list_groups(&[], &[])), Err(GroupError::NotCoordinator));
}

#[test]
fn a_partition_that_could_not_be_created_at_first_is_loaded_in_the_same_epoch_when_it_exists() {
    let fs = MemFs::new();
    let (_env, broker, runtime) = start(&fs, &clock(), "os");
    fs.plan_fault(Fault::of(OpKind::CreateDir, 1).on(CONSUMER_OFFSETS_TOPIC).with(FaultAction::NoSpace).and_later());
    runtime.block_on(broker.create_offsets_topic()).unwrap();
    assert!(broker.topics().by_name(CONSUMER_OFFSETS_TOPIC).is_none(), "nothing is served");
    fs.clear_faults();
    let image = broker.state.image.load_full();
    let mut delta = ImageDelta::default();
    delta.topics_created.insert(image.topic_id(CONSUMER_OFFSETS_TOPIC).unwrap());
    broker.state.follow(&image, &delta);
    assert_eq!(broker.topics().by_name(CONSUMER_OFFSETS_TOPIC).unwrap().partitions.len(), 1);
    assert_eq!(broker.consumer_groups().list(&[], &[]), Ok(vec![]));
    assert!(broker.consumer_groups().shard("g").is_ok(), "the partition has its coordinator");
    broker.shutdown();
}

#[test]
fn a_log_that_could_not_be_read_is_read_again_after_a_second_and_then_after_two() {
    let fs = MemFs::new();
    let bed = Bed::on(&fs, "os");
    bed.wait(bed.commit(7)).unwrap();
    bed.resigned(10);
    let unreadable = || fs.plan_fault(Fault::of(OpKind::Read, 1).on(CONSUMER_OFFSETS_TOPIC).and_later());
    let second = std::time::Duration::from_secs(1);
    let tries_again_in = |seconds: u32| {
        let end = std::time::Instant::now() + 10 * second;
        let (shard, now) = (bed.groups().shard("g").unwrap(), bed.groups().shared.now());
        while shard.poll(now) != Some(now.monotonic + seconds * second) {
            assert!(std::time::Instant::now() < end, "{:?} at {:?}", shard.poll(now), now.monotonic);
            std::thread::yield_now();
        }
        assert_eq!(bed.fetch(), Err(GroupError::CoordinatorLoadInProgress));
    };
    let pass = |seconds: u32| {
        bed.clock.advance(seconds * second);
        bed.groups().timer.look_at(Some(std::time::Duration::ZERO));
    };
    unreadable();
    bed.elected(11);
    tries_again_in(1);
    pass(1);
    tries_again_in(2);
    fs.clear_faults();
    pass(2);
    assert_eq!(bed.loaded_offset(), 7);

    unreadable();
    bed.resigned(12);
    bed.elected(13);
    tries_again_in(1);
    bed.groups().topics_deleted(&["orders"]);
    fs.clear_faults();
    pass(1);
    assert_eq!(bed.loaded_offset(), -1, "what was deleted meanwhile goes");
}

#[test]
fn a_new_coordinator_shows_nothing_until_all_that_was_there_before_it_is_committed() {
    let bed = Bed::new("disk");
    let waiting = bed.commit(7);
    bed.env.run_pending_flushes();
    bed.wait(waiting).unwrap();
    let _not_synced = bed.commit(9);
    let mut image = bed.broker.state.image.load().topic(CONSUMER_OFFSETS_TOPIC).unwrap().partitions[&0].clone();
    for leader in [2, 1] {
        image.leader = leader;
        image.leader_epoch += 1;
        image.partition_epoch += 1;
        assert!(bed.partition.follow(&image, NodeId(1)).is_none());
        let epoch = image.leader_epoch;
        if leader == 1 { bed.elected(epoch) } else { bed.resigned(epoch) }
    }
    let shard = bed.groups().shard("g").unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while shard.poll(bed.groups().shared.now()).is_none() {
        assert!(std::time::Instant::now() < end, "the shard is not loaded");
        std::thread::yield_now();
    }
    assert!(bed.partition.high_watermark() < bed.partition.log().log_end());
    assert_eq!(bed.fetch(), Err(GroupError::CoordinatorLoadInProgress), "offset 7 would be older than what was told");
    assert_eq!(bed.groups().list(&[], &[]), Err(GroupError::CoordinatorLoadInProgress));
    assert_eq!(bed.groups().describe("g").err(), Some(GroupError::CoordinatorLoadInProgress));
    bed.env.run_pending_flushes();
    assert_eq!(bed.fetch(), Ok(9));
    assert_eq!(bed.groups().list(&[], &[]).unwrap().len(), 1);
}
