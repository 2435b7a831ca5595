use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use mainstem_env::{Fault, FaultAction, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_kafka_wire::metadata_records::{MetadataRecord, PartitionChangeRecord};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::image::ImageDelta;
use mainstem_record::BatchBuilder;
use mainstem_replica::EpochCheckError;
use mainstem_store::{AppendError, Origin, StoreEnv};
use mainstem_types::TimestampMs;

use super::*;
use crate::commit_wait::Commit;
use crate::fetch_wait::FetchWait;
use crate::{Broker, Isolation};

const NOW: TimestampMs = TimestampMs(1_790_000_000_000);

/// A broker, and a second node that only its metadata knows.
struct Bed {
    env: Arc<StoreEnv>,
    broker: Arc<Broker>,
    offset: std::cell::Cell<i64>,
}

impl Bed {
    fn new(layout: &str) -> Bed {
        Bed::on(&MemFs::new(), layout)
    }

    fn on(fs: &MemFs, layout: &str) -> Bed {
        Bed::with(fs, layout, "os")
    }

    fn with(fs: &MemFs, layout: &str, durability: &str) -> Bed {
        let settings = [
            ("node.id", "1"),
            ("listeners", "PLAINTEXT://127.0.0.1:19092"),
            ("mainstem.layout", layout),
            ("mainstem.durability", durability),
        ];
        let properties: BTreeMap<String, String> = settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let config = BrokerConfig::parse(&properties).unwrap();
        let clock = Arc::new(ManualClock::at(NOW));
        let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 0).unwrap();
        let (broker, _) = Broker::start(Arc::clone(&env), Path::new("/data"), config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(broker.auto_create_topics(vec!["orders".to_owned()])), []);
        Bed { env, broker, offset: std::cell::Cell::new(1 << 40) }
    }

    /// With a second replica that is in sync.
    fn with_two_in_sync(layout: &str) -> (Bed, Arc<Partition>) {
        let bed = Bed::new(layout);
        bed.replicas(&[1, 2], &[1, 2]);
        let partition = bed.partition();
        (bed, partition)
    }

    fn partition(&self) -> Arc<Partition> {
        Arc::clone(&self.broker.topics().by_name("orders").unwrap().partitions[0])
    }

    /// The metadata changes, and the node follows it.
    fn change(&self, change: impl FnOnce(&mut PartitionChangeRecord)) {
        let state = &self.broker.state;
        let mut image = (**state.image.load()).clone();
        let mut record = PartitionChangeRecord {
            topic_id: image.topic_id("orders").unwrap(),
            partition_id: 0,
            ..PartitionChangeRecord::default()
        };
        change(&mut record);
        let mut delta = ImageDelta::default();
        self.offset.set(self.offset.get() + 1);
        let record = MetadataRecord::PartitionChange(record);
        image.replay(&record, Offset(self.offset.get()), LeaderEpoch(9), &mut delta).unwrap();
        state.follow(&image, &delta);
    }

    fn replicas(&self, replicas: &[i32], in_sync: &[i32]) {
        self.change(|record| {
            record.replicas = Some(replicas.to_vec());
            record.isr = Some(in_sync.to_vec());
        });
    }

    fn leader(&self, node: i32) {
        self.change(|record| record.leader = node);
    }
}

fn batch(value: &str) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.append(NOW, None, Some(value.as_bytes()), &[]);
    Bytes::from(builder.build().unwrap())
}

fn append(partition: &Partition, value: &str) -> Result<Offset, AppendError> {
    partition.append(&batch(value), Origin::Client, NOW, true).map(|appended| appended.next_offset())
}

fn outcome(commit: Commit) -> Option<Result<(), CommitFailed>> {
    match commit {
        Commit::Done => Some(Ok(())),
        Commit::Waiting(mut receiver) => receiver.try_recv().ok(),
    }
}

const LAYOUTS: [&str; 3] = ["partition", "topic", "shared"];

#[test]
fn what_other_replicas_do_not_have_is_neither_committed_nor_seen() {
    for layout in LAYOUTS {
        let bed = Bed::new(layout);
        let partition = bed.partition();
        append(&partition, "alone").unwrap();
        assert_eq!(partition.high_watermark(), Offset(1));
        bed.replicas(&[1, 2], &[1, 2]);
        let end = append(&partition, "both").unwrap();
        let waits = partition.committed(end, partition.leader_epoch());
        assert_eq!((partition.high_watermark(), outcome(waits)), (Offset(1), None));
        let seen = partition.read(Offset(1), 1 << 20, true, Isolation::ReadUncommitted).unwrap();
        assert_eq!(seen.reading.bytes, 0);
        let waits = partition.committed(end, partition.leader_epoch());
        bed.replicas(&[1, 2], &[1]);
        assert_eq!((partition.high_watermark(), outcome(waits)), (end, Some(Ok(()))), "alone in sync again");
    }
}

#[test]
fn who_stops_leading_refuses_and_tells_whoever_waits_and_may_lead_again() {
    for layout in LAYOUTS {
        let (bed, partition) = Bed::with_two_in_sync(layout);
        let end = append(&partition, "one").unwrap();
        let epoch = partition.leader_epoch();
        let (waits, changes) =
            (partition.committed(end, partition.leader_epoch()), partition.fetch_waiters().changes());
        bed.leader(2);
        assert_eq!(partition.role(), Role::Follower { leader: Some(NodeId(2)) });
        assert_eq!(outcome(waits), Some(Err(CommitFailed::NotLeader)));
        assert!(partition.fetch_waiters().changes() > changes, "who waits for records looks again");
        assert!(matches!(append(&partition, "two"), Err(AppendError::NotLeader { .. })));
        assert_eq!(outcome(partition.committed(end, partition.leader_epoch())), Some(Err(CommitFailed::NotLeader)));
        assert_eq!(partition.check_leader_epoch(LeaderEpoch::NONE), Err(EpochCheckError::NotLeader));
        let (given, current) = (epoch, LeaderEpoch(epoch.0 + 1));
        assert_eq!(partition.check_leader_epoch(given), Err(EpochCheckError::Fenced { given, current }));
        bed.leader(-1);
        assert_eq!(partition.role(), Role::Follower { leader: None });
        bed.change(|record| {
            record.leader = 1;
            record.isr = Some(vec![1]);
        });
        assert_eq!((partition.role(), partition.high_watermark()), (Role::Leader, end));
        let end = append(&partition, "three").unwrap();
        assert_eq!(outcome(partition.committed(end, partition.leader_epoch())), Some(Ok(())));
        assert_eq!(partition.log().epoch_for_offset(Offset(1)), Some(LeaderEpoch(epoch.0 + 3)));
    }
}

#[test]
fn no_record_is_stamped_with_an_epoch_that_has_ended() {
    for layout in LAYOUTS {
        let (bed, partition) = Bed::with_two_in_sync(layout);
        let epoch = partition.leader_epoch();
        bed.leader(2);
        // As a thread does that looked at the epoch before.
        let context = mainstem_store::AppendContext {
            origin: Origin::Client,
            leader_epoch: epoch,
            now: NOW,
            zstd_allowed: true,
            unpacked_bytes_max: usize::MAX,
        };
        let late = partition.log().append(&batch("late"), &context);
        assert!(matches!(late, Err(AppendError::NotLeader { .. })), "{late:?}");
        assert_eq!(partition.log().log_end(), Offset(0));
    }
}

#[test]
fn a_replica_that_was_given_to_others_goes_with_its_log() {
    for layout in LAYOUTS {
        let (bed, partition) = Bed::with_two_in_sync(layout);
        let end = append(&partition, "one").unwrap();
        let waits = partition.committed(end, partition.leader_epoch());
        bed.change(|record| {
            record.replicas = Some(vec![2]);
            record.isr = Some(vec![2]);
            record.leader = 2;
        });
        assert!(bed.broker.topics().by_name("orders").unwrap().partitions.is_empty());
        assert!(partition.is_deleted() && outcome(waits).is_some_and(|waited| waited.is_err()));
        assert!(append(&partition, "two").is_err());
        bed.change(|record| {
            record.replicas = Some(vec![1]);
            record.isr = Some(vec![1]);
            record.leader = 1;
        });
        let again = bed.partition();
        assert_eq!((again.role(), again.log().log_end()), (Role::Leader, Offset(0)), "it begins anew");
    }
}

#[test]
fn older_metadata_changes_nothing() {
    let bed = Bed::new("partition");
    let partition = bed.partition();
    let image = bed.broker.state.image.load().topic("orders").unwrap().partitions[&0].clone();
    bed.replicas(&[1, 2], &[1, 2]);
    bed.leader(2);
    assert!(partition.follow(&image, NodeId(1)).is_none());
    assert_eq!(partition.role(), Role::Follower { leader: Some(NodeId(2)) });
}

#[test]
fn after_a_start_one_replica_commits_by_its_election_and_two_wait_for_each_other() {
    for layout in LAYOUTS {
        let fs = MemFs::new();
        let bed = Bed::on(&fs, layout);
        append(&bed.partition(), "one").unwrap();
        append(&bed.partition(), "two").unwrap();
        let crashed = fs.crash(mainstem_env::CrashPolicy::Everything);
        let bed = Bed::on(&crashed, layout);
        assert_eq!(bed.partition().high_watermark(), Offset(2));
    }
    let fs = MemFs::new();
    append(&Bed::on(&fs, "partition").partition(), "one").unwrap();
    let bed = Bed::on(&fs.crash(mainstem_env::CrashPolicy::Everything), "partition");
    append(&bed.partition(), "two").unwrap();
    let log = bed.partition().log().clone();
    let start = PartitionStart {
        topic: "orders".into(),
        topic_id: TopicId::ZERO,
        index: PartitionIndex(0),
        node: NodeId(1),
        high_watermark: Some(Offset(1)),
        space: bed.broker.state.space.clone(),
    };
    let partition = Partition::new(log, start, None);
    assert_eq!((partition.role(), partition.leads()), (Role::Follower { leader: None }, false));
    assert_eq!(partition.high_watermark(), Offset(1), "as the checkpoint says");
}

#[test]
fn an_append_without_a_descriptor_is_refused_and_later_ones_are_waited_for() {
    for layout in LAYOUTS {
        let fs = MemFs::new();
        append(&Bed::on(&fs, layout).partition(), "one").unwrap();
        let fs = fs.crash(mainstem_env::CrashPolicy::Everything);
        let bed = Bed::on(&fs, layout);
        let partition = bed.partition();
        bed.replicas(&[1, 2], &[1, 2]);
        let end = append(&partition, "two").unwrap();
        let before = partition.committed(end, partition.leader_epoch());
        // Once to forget that they were used.
        (0..2).for_each(|_| bed.broker.state.env.release_idle_files());
        fs.plan_fault(Fault::of(OpKind::Open, 1).with(FaultAction::NoDescriptor));
        let refused = append(&partition, "three");
        assert!(matches!(refused, Err(AppendError::Storage(_))), "{layout}: {refused:?}");
        assert!(partition.log().failure().is_none(), "{layout}");
        let end = append(&partition, "three").unwrap();
        let after = partition.committed(end, partition.leader_epoch());
        bed.replicas(&[1, 2], &[1]);
        assert_eq!((outcome(before), outcome(after)), (Some(Ok(())), Some(Ok(()))), "{layout}");
    }
}

#[test]
fn a_violation_of_the_order_ends_the_log_and_is_said() {
    for layout in LAYOUTS {
        let bed = Bed::new(layout);
        let partition = bed.partition();
        let end = append(&partition, "one").unwrap();
        partition.high_watermark.store(end.0 + 5, Ordering::SeqCst);
        let positions = partition.positions();
        assert!(positions.high_watermark <= positions.log_end, "{positions:?}");
        let failure = partition.log().failure().unwrap().to_string();
        assert!(failure.contains("high watermark 6 ≤ log end 1"), "{failure}");
        assert!(append(&partition, "two").is_err());
    }
}

/// Whether a fetch that waits was woken.
fn is_woken(wait: &FetchWait) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(wait.wait()).poll(&mut context).is_ready()
}

#[test]
fn an_append_that_makes_earlier_records_visible_wakes_the_fetches_that_wait_for_them() {
    for layout in LAYOUTS {
        let bed = Bed::with(&MemFs::new(), layout, "disk");
        let partition = bed.partition();
        let end = append(&partition, "earlier").unwrap();
        let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
        wait.expect_bytes(1);
        assert_eq!((partition.high_watermark(), is_woken(&wait)), (Offset(0), false));
        // The sync ends, and the next append comes before the partition is told.
        partition.log().set_durable_listener(Box::new(|_| {}));
        bed.env.run_pending_flushes();
        append(&partition, "later").unwrap();
        assert_eq!((partition.high_watermark(), is_woken(&wait)), (end, true), "{layout}");
    }
}

#[test]
fn a_cut_of_committed_records_wakes_the_fetches_that_wait() {
    let bed = Bed::new("partition");
    let partition = bed.partition();
    append(&partition, "one").unwrap();
    bed.replicas(&[1, 2], &[1, 2]);
    bed.leader(2);
    let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
    wait.expect_bytes(1);
    let changes = partition.fetch_waiters().changes();
    partition.apply(Event::LocalTruncated(Offset(0)));
    assert_eq!(partition.high_watermark(), Offset(0));
    assert!(partition.fetch_waiters().changes() > changes && is_woken(&wait));
}

#[test]
fn who_loses_replicas_and_the_leadership_in_one_image_acknowledges_nothing() {
    for layout in LAYOUTS {
        let (bed, partition) = Bed::with_two_in_sync(layout);
        let end = append(&partition, "one").unwrap();
        let waits = partition.committed(end, partition.leader_epoch());
        bed.change(|record| {
            record.replicas = Some(vec![1, 4]);
            record.isr = Some(vec![4]);
            record.leader = 4;
        });
        assert_eq!(outcome(waits), Some(Err(CommitFailed::NotLeader)));
        assert_eq!(partition.high_watermark(), Offset(0));
    }
}

#[test]
fn a_wait_for_records_of_an_earlier_leadership_is_told_that_it_is_over() {
    for layout in LAYOUTS {
        let (bed, partition) = Bed::with_two_in_sync(layout);
        let end = append(&partition, "lost").unwrap();
        let before = partition.leader_epoch();
        bed.replicas(&[1, 2], &[1]);
        assert_eq!(outcome(partition.committed(end, before)), Some(Ok(())));
        bed.leader(2);
        bed.leader(1);
        // Whatever lies below `end` now: it need not be what was appended.
        assert!(partition.high_watermark() >= end);
        let not_leader = Some(Err(CommitFailed::NotLeader));
        assert_eq!(outcome(partition.committed(end, before)), not_leader);
        bed.replicas(&[1, 2], &[1, 2]);
        let end = append(&partition, "waits").unwrap();
        assert_eq!(outcome(partition.committed(end, before)), not_leader);
        assert_eq!(outcome(partition.committed(end, partition.leader_epoch())), None);
    }
}
