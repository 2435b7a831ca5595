use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use mainstem_coordinator::{CommitPartition, CommitTopic, OffsetCommitRequest, OffsetFetchRequest};
use mainstem_env::{Clock, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, RealClock, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::NewTopic;
use mainstem_record::{BatchBuilder, Codec};
use mainstem_store::{Origin, PartitionLog, StoreEnv};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, LeaderEpoch, Offset, TimestampMs};

use super::*;
use crate::Broker;

const NOW: i64 = 1_790_000_000_000;
/// Wall-clock luck decides nothing: this is how long a thread may take.
const LIMIT: Duration = Duration::from_secs(60);

fn start_at(fs: &MemFs, clock: Arc<dyn Clock>, settings: &[(&str, &str)]) -> Arc<Broker> {
    let own = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092"), ("log.segment.delete.delay.ms", "0")];
    let all = own.iter().chain(settings);
    let properties: BTreeMap<String, String> = all.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap().0
}

fn start(fs: &MemFs, settings: &[(&str, &str)]) -> Arc<Broker> {
    start_at(fs, Arc::new(ManualClock::at(TimestampMs(NOW))), settings)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn create(broker: &Broker, name: &str, configs: &[(&str, &str)]) {
    let topic = NewTopic {
        name: name.to_owned(),
        partitions: 1,
        replication_factor: 1,
        configs: configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect(),
        ..NewTopic::named(name)
    };
    wait(broker.create_topics(vec![topic], false)).unwrap().pop().unwrap().unwrap();
}

const COMPACTED: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"), ("segment.ms", "1")];

/// One segment for each record: their times are that far apart.
fn fill(broker: &Broker, name: &str, count: i64, keys: i64) {
    let topics = broker.topics();
    let partition = &topics.by_name(name).unwrap().partitions[0];
    for n in 0..count {
        let time = TimestampMs(NOW - 1_000_000 + 10 * partition.log().log_end().0);
        let mut batch = BatchBuilder::new().codec(Codec::None);
        batch.append(time, Some(format!("key {}", n % keys).as_bytes()), Some(b"value"), &[]);
        let batch = Bytes::from(batch.build().unwrap());
        partition.append(&batch, Origin::Client, TimestampMs(NOW), true).unwrap();
    }
}

fn log(broker: &Broker, name: &str) -> Arc<PartitionLog> {
    Arc::clone(broker.topics().by_name(name).unwrap().partitions[0].log().as_partition_log().unwrap())
}

#[test]
fn due_logs_are_compacted_and_the_checkpoint_says_so() {
    let fs = MemFs::new();
    let broker = start(&fs, &[]);
    create(&broker, "compacted", &COMPACTED);
    create(&broker, "deleted", &[("segment.ms", "1")]);
    fill(&broker, "compacted", 30, 3);
    fill(&broker, "deleted", 30, 3);
    assert_eq!(broker.compact_logs(), 1);
    let (compacted, deleted) = (log(&broker, "compacted"), log(&broker, "deleted"));
    assert!(compacted.segment_count() < 3 && deleted.segment_count() == 30);
    assert_eq!(fs.read_all(Path::new("/data/cleaner-offset-checkpoint")).unwrap(), b"0\n1\ncompacted 0 29\n");
    assert_eq!(broker.compact_logs(), 0, "nothing is due any more");
    broker.shutdown();
    drop((broker, compacted, deleted));
    let broker = start(&fs, &[]);
    assert_eq!(broker.compact_logs(), 0, "nor after a restart");
    fill(&broker, "compacted", 3, 3);
    assert_eq!(broker.compact_logs(), 1);
    broker.shutdown();
}

#[test]
fn the_threads_do_it_by_themselves_as_many_as_the_settings_say() {
    let fs = MemFs::new();
    let broker =
        start_at(&fs, Arc::new(RealClock::new()), &[("log.cleaner.backoff.ms", "5"), ("log.cleaner.threads", "2")]);
    for name in ["a", "b", "c"] {
        create(&broker, name, &COMPACTED);
        fill(&broker, name, 20, 2);
    }
    let began = Instant::now();
    while ["a", "b", "c"].iter().any(|name| log(&broker, name).segment_count() > 3) {
        assert!(began.elapsed() < LIMIT, "the threads do nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(broker.cleaner.shared.threads.lock().len(), 2);
    broker.shutdown();
    assert!(broker.cleaner.shared.threads.lock().is_empty());
}

#[test]
fn without_log_cleaner_enable_there_is_no_thread() {
    let broker = start(&MemFs::new(), &[("log.cleaner.enable", "false")]);
    assert!(broker.cleaner.shared.threads.lock().is_empty());
    broker.shutdown();
}

#[test]
fn a_log_that_cannot_be_compacted_rests_and_the_others_go_on() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(TimestampMs(NOW)));
    let broker = start_at(&fs, Arc::clone(&clock) as Arc<dyn Clock>, &[]);
    for name in ["a", "b"] {
        create(&broker, name, &COMPACTED);
        fill(&broker, name, 10, 2);
    }
    fs.plan_fault(Fault::of(OpKind::Write, 1).on("/data/a-0/00000000000000000000.log.cleaned").and_later());
    assert_eq!(broker.compact_logs(), 2);
    assert!(log(&broker, "b").segment_count() < 3 && log(&broker, "a").segment_count() == 10);
    assert_eq!(broker.compact_logs(), 0, "it rests");
    clock.advance(REST_MIN);
    assert_eq!(broker.compact_logs(), 1);
    clock.advance(REST_MIN);
    assert_eq!(broker.compact_logs(), 0, "longer");
    // Repaired: it is compacted after its rest.
    fs.clear_faults();
    clock.advance(REST_MIN);
    assert_eq!(broker.compact_logs(), 1);
    assert!(log(&broker, "a").segment_count() < 3);
    broker.shutdown();
}

#[test]
fn a_log_that_found_the_disk_full_is_compacted_as_soon_as_there_is_space_again() {
    const RESERVE: u64 = 1 << 20;
    let fs = MemFs::new();
    let broker = start(&fs, &[("mainstem.disk.reserve", &RESERVE.to_string())]);
    create(&broker, "a", &COMPACTED);
    fill(&broker, "a", 10, 2);
    fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace).on(".cleaned").and_later());
    assert_eq!(broker.compact_logs(), 1);
    assert!(fs.faults_met() > 0 && log(&broker, "a").segment_count() == 10);
    // Nobody but the pass noticed yet.
    assert_eq!(broker.compact_logs(), 0, "it rests");
    fs.set_free_space(RESERVE - 1);
    broker.look_at_disk();
    assert_eq!(broker.compact_logs(), 0, "there is no space");
    fs.clear_faults();
    fs.set_free_space(2 * RESERVE);
    broker.look_at_disk();
    assert_eq!(broker.compact_logs(), 1);
    assert!(log(&broker, "a").segment_count() < 3);
    broker.shutdown();
}

#[test]
fn the_pace_holds_a_pass_back_and_a_stop_ends_the_wait() {
    let shared = CleanerState::default();
    let env = StoreEnv::new(
        Arc::new(MemFs::new()),
        Arc::new(ManualClock::at(TimestampMs(NOW))),
        Arc::new(SeededRng::new(1)),
        1 << 20,
        0,
    );
    let space = Space::new(env.unwrap(), "/data".into());
    let mut slow = Pace { shared: &shared, space: &space, bytes_per_second: 1000.0, owed: Duration::ZERO };
    let began = Instant::now();
    (0..5).for_each(|_| assert!(slow.proceed(10)));
    assert!(began.elapsed() >= Duration::from_millis(50));
    shared.signal.stop();
    assert!(!slow.proceed(u64::MAX));
    assert!(!Pace::unlimited(&shared, &space).proceed(1));
    assert!(began.elapsed() < LIMIT);
}

fn commit(broker: &Broker, group: &str, offset: i64) -> bool {
    let partition = CommitPartition {
        partition: PartitionIndex(0),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::NONE,
        metadata: None,
    };
    let request = OffsetCommitRequest {
        group_id: group,
        generation: -1,
        member_id: "",
        instance_id: None,
        retention_ms: None,
        reports_missing_group: false,
        topics: vec![CommitTopic { name: "t", topic_id: TopicId::ZERO, partitions: vec![partition] }],
    };
    match wait(broker.consumer_groups().commit_offsets(&request).wait()) {
        Ok(topics) => topics[0].partitions[0].result.is_ok(),
        Err(_) => false,
    }
}

fn committed(broker: &Broker, group: &str) -> Vec<String> {
    let request =
        OffsetFetchRequest { group_id: group, member_id: None, member_epoch: -1, topics: None, require_stable: false };
    // After a start the offsets are being read for a moment.
    let began = Instant::now();
    loop {
        match broker.consumer_groups().fetch_offsets(&request) {
            Ok(topics) => return topics.iter().map(|topic| format!("{topic:?}")).collect(),
            Err(error) => assert!(began.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn groups_come_back_from_a_compacted_offsets_topic() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(TimestampMs(NOW)));
    let settings =
        [("offsets.topic.num.partitions", "1"), ("log.cleaner.min.cleanable.ratio", "0.0"), ("log.roll.ms", "1")];
    let broker = start_at(&fs, Arc::clone(&clock) as Arc<dyn Clock>, &settings);
    create(&broker, "t", &[]);
    wait(broker.create_offsets_topic()).unwrap();
    for n in 0..40 {
        clock.advance(Duration::from_millis(10));
        let began = Instant::now();
        while !commit(&broker, if n % 2 == 0 { "a" } else { "b" }, n) {
            assert!(began.elapsed() < LIMIT, "no commit is taken");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let before = (committed(&broker, "a"), committed(&broker, "b"));
    assert!(log(&broker, CONSUMER_OFFSETS_TOPIC).segment_count() > 30);
    assert_eq!(broker.compact_logs(), 1);
    assert!(log(&broker, CONSUMER_OFFSETS_TOPIC).segment_count() < 4);
    assert_eq!(wait(broker.verify_views()).unwrap(), Vec::<String>::new());
    broker.shutdown();
    drop(broker);
    let broker = start_at(&fs, clock, &settings);
    assert_eq!((committed(&broker, "a"), committed(&broker, "b")), before);
    assert_eq!(wait(broker.verify_views()).unwrap(), Vec::<String>::new());
    broker.shutdown();
}
