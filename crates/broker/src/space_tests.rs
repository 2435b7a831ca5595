use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::NewTopic;
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendError, Appended};
use mainstem_types::{Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs};

use super::*;
use crate::broker::Broker;
use crate::delete_records::RecordsToDelete;
use crate::partition::{Isolation, Partition};

const NOW: TimestampMs = TimestampMs(1_790_000_000_000);
const RESERVE: u64 = 1 << 20;

fn start(fs: &MemFs) -> Arc<Broker> {
    start_with(fs, &[])
}

fn start_with(fs: &MemFs, more: &[(&str, &str)]) -> Arc<Broker> {
    let reserve = RESERVE.to_string();
    let settings = [
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
        ("offsets.topic.num.partitions", "1"),
        ("mainstem.disk.reserve", &reserve),
    ];
    let all = settings.iter().chain(more);
    let properties: BTreeMap<String, String> = all.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let clock = Arc::new(ManualClock::at(NOW));
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap().0
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn create(broker: &Broker, name: &str) -> Arc<Partition> {
    let created = wait(broker.create_topics(vec![NewTopic::named(name.to_owned())], false)).unwrap();
    assert!(created[0].is_ok(), "{created:?}");
    Arc::clone(broker.topics().by_name(name).unwrap().partition(PartitionIndex(0)).unwrap())
}

fn append(partition: &Partition, origin: Origin) -> Result<Offset, AppendError> {
    append_built(partition, origin, BatchBuilder::new()).map(|appended| appended.base_offset)
}

fn append_built(partition: &Partition, origin: Origin, mut builder: BatchBuilder) -> Result<Appended, AppendError> {
    builder.append(NOW, None, Some(b"value"), &[]);
    let batch = Bytes::from(builder.build().unwrap());
    partition.append(&batch, origin, NOW, true)
}

/// One record of an idempotent producer.
fn send(partition: &Partition, sequence: i32) -> Result<Appended, AppendError> {
    append_built(partition, Origin::Client, BatchBuilder::new().producer(ProducerId(9), ProducerEpoch(0), sequence))
}

#[test]
fn what_is_stored_already_is_acknowledged_again() {
    for layout in ["partition", "shared"] {
        let fs = MemFs::new();
        let broker = start_with(&fs, &[("mainstem.layout", layout)]);
        let partition = create(&broker, "a");
        (0..2).for_each(|sequence| assert!(!send(&partition, sequence).unwrap().duplicate));
        fs.set_free_space(RESERVE - 1);
        broker.look_at_disk();
        let again = send(&partition, 1).unwrap();
        assert_eq!((again.duplicate, again.base_offset), (true, Offset(1)), "{layout}");
        assert!(matches!(send(&partition, 2), Err(AppendError::DiskReserve { .. })), "{layout}");
        fs.set_free_space(2 * RESERVE);
        broker.look_at_disk();
        assert_eq!(send(&partition, 2).unwrap().base_offset, Offset(2));
        broker.shutdown();
    }
}

#[test]
fn below_the_reserve_producers_are_refused_and_everything_else_goes_on() {
    let fs = MemFs::new();
    let broker = start(&fs);
    let partition = create(&broker, "a");
    assert_eq!(append(&partition, Origin::Client).unwrap(), Offset(0));
    fs.set_free_space(RESERVE - 1);
    broker.look_at_disk();
    let refused = append(&partition, Origin::Client).unwrap_err();
    assert!(matches!(refused, AppendError::DiskReserve { .. }), "{refused}");
    assert!(refused.to_string().contains("mainstem.disk.reserve"), "{refused}");
    assert_eq!(append(&partition, Origin::Coordinator).unwrap(), Offset(1), "groups go on");
    assert!(partition.read(Offset(0), 1000, true, Isolation::ReadUncommitted).unwrap().reading.bytes > 0);
    let other = create(&broker, "b");
    assert!(matches!(append(&other, Origin::Client), Err(AppendError::DiskReserve { .. })), "new topics too");
    let wanted = RecordsToDelete { topic: "a".to_owned(), partition: PartitionIndex(0), before: None };
    let deleted = wait(broker.delete_records(vec![wanted])).unwrap();
    assert_eq!(deleted[0].as_ref().unwrap(), &Offset(2));
    fs.set_free_space(2 * RESERVE);
    broker.look_at_disk();
    assert_eq!(append(&partition, Origin::Client).unwrap(), Offset(2));
    assert_eq!(append(&other, Origin::Client).unwrap(), Offset(0));
    broker.shutdown();
}

#[test]
fn a_start_on_a_disk_that_is_nearly_full_takes_no_records_but_serves() {
    let fs = MemFs::new();
    let broker = start(&fs);
    append(&create(&broker, "a"), Origin::Client).unwrap();
    broker.shutdown();
    drop(broker);
    let fs = fs.crash(mainstem_env::CrashPolicy::Everything);
    fs.set_free_space(0);
    let again = start(&fs);
    let partition = Arc::clone(again.topics().by_name("a").unwrap().partition(PartitionIndex(0)).unwrap());
    assert!(matches!(append(&partition, Origin::Client), Err(AppendError::DiskReserve { .. })));
    assert!(partition.read(Offset(0), 1000, true, Isolation::ReadUncommitted).unwrap().reading.bytes > 0);
    again.shutdown();
}

fn space_with(fs: &MemFs, reserve: u64) -> Space {
    let clock = Arc::new(ManualClock::at(NOW));
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 0).unwrap();
    let space = Space::new(env, "/data".into());
    space.shared.reserve.store(reserve, Ordering::Relaxed);
    space
}

#[test]
fn the_reserve_and_a_tenth_of_it_decide() {
    let space = space_with(&MemFs::new(), 1000);
    let mut judge = |free| {
        space.shared.judge(free, 0);
        space.is_short()
    };
    assert_eq!([5000, 1000, 999, 1000, 1099].map(&mut judge), [false, false, true, true, true]);
    assert_eq!([1100, 1000, 0, u64::MAX].map(&mut judge), [false, false, true, false]);
}

#[test]
fn the_reserve_is_a_twentieth_of_the_disk_and_at_most_a_gibibyte() {
    assert_eq!([100 << 20, 10 << 30, 1 << 40].map(suggested_reserve), [5 << 20, 512 << 20, 1 << 30]);
}

#[test]
fn without_a_reserve_nothing_is_short() {
    let fs = MemFs::new();
    fs.set_free_space(0);
    let space = space_with(&fs, 0);
    space.shared.look().unwrap();
    assert!(!space.is_short() && space.take(1 << 30).is_some());
    assert!(space.is_wanted(), "by what deletions have left");
    fs.set_free_space(RESERVE);
    space.shared.look().unwrap();
    assert_eq!((space.is_wanted(), space.recoveries()), (false, 1));
}

#[test]
fn what_was_counted_makes_an_append_look_anew_and_not_take_the_reserve() {
    let fs = MemFs::new();
    let space = space_with(&fs, RESERVE);
    fs.set_free_space(RESERVE + 100 * BLOCK_BYTES);
    space.shared.look().unwrap();
    // A small append may take a block of the log, and one of an index.
    (0..50).for_each(|_| drop(space.take(1).unwrap()));
    // The look finds as much as before, although 50 appends were made: they took less than they might have.
    drop(space.take(1).unwrap());
    fs.set_free_space(RESERVE + 10 * BLOCK_BYTES);
    (0..49).for_each(|_| drop(space.take(1).unwrap()));
    let under_way = [(); 5].map(|()| space.take(1).unwrap());
    assert!(space.take(1).is_none() && space.is_short(), "what is under way counts");
    drop(under_way);
    space.shared.look().unwrap();
    assert!(space.is_short(), "a tenth more than the reserve has to be free");
    fs.set_free_space(RESERVE + RESERVE / 10);
    space.shared.look().unwrap();
    assert!(!space.is_short() && space.take(1).is_some());
    let large = usize::try_from(RESERVE).unwrap();
    assert!(space.take(large).is_none(), "an append that the reserve would have to give space for");
    space.shared.look().unwrap();
    assert!(space.is_short(), "what was refused has to fit");
}

#[test]
fn a_producer_faster_than_the_looks_does_not_take_the_reserve() {
    for layout in ["partition", "shared"] {
        let fs = MemFs::new();
        let broker = start_with(&fs, &[("mainstem.layout", layout)]);
        let partition = create(&broker, "a");
        fs.set_free_space(RESERVE + 100 * BLOCK_BYTES);
        broker.look_at_disk();
        fs.set_free_space(RESERVE - 1);
        let taken = (0..1000).take_while(|_| append(&partition, Origin::Client).is_ok()).count();
        assert_eq!(taken, 50, "{layout}: a block of the log and one of an index each");
        assert!(append(&partition, Origin::Coordinator).is_ok(), "groups go on");
        broker.shutdown();
    }
}
