//! A start that is told to stop, at every step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstem_env::{Clock, CrashPolicy, Fs, ManualClock, MemFs, SeededRng, Signal};
use mainstem_metadata::controller::NewTopic;
use mainstem_record::BatchBuilder;
use mainstem_store::Origin;
use mainstem_types::{Offset, PartitionIndex, TimestampMs};

use super::*;

const NOW: TimestampMs = TimestampMs(1_790_000_000_000);
const PARTITIONS: i32 = 6;
const RECORDS: i64 = 5;

/// Tells the start to stop when it asks for the time so often: each recovery of a log does, before and after.
#[derive(Debug)]
struct StoppingClock {
    clock: ManualClock,
    calls_left: AtomicUsize,
    stop: Arc<Signal>,
}

impl Clock for StoppingClock {
    fn wall_ms(&self) -> TimestampMs {
        self.clock.wall_ms()
    }

    fn monotonic(&self) -> Duration {
        if self.calls_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.stop();
        }
        self.clock.monotonic()
    }
}

fn start(fs: &MemFs, layout: &str, stop_after: usize) -> Result<Arc<Broker>, StartError> {
    let settings = [
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
        ("offsets.topic.num.partitions", "1"),
        ("num.recovery.threads.per.data.dir", "1"),
        ("mainstem.shared.groups", "3"),
        ("mainstem.layout", layout),
    ];
    let properties: BTreeMap<String, String> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let stop = Arc::new(Signal::default());
    if stop_after == 0 {
        stop.stop();
    }
    let clock = StoppingClock {
        clock: ManualClock::at(NOW),
        calls_left: AtomicUsize::new(stop_after),
        stop: Arc::clone(&stop),
    };
    let env = StoreEnv::new(Arc::new(fs.clone()), Arc::new(clock), Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    env.set_stop(stop);
    Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).map(|(broker, _)| broker)
}

/// A folder with records in every partition, in the hands of a broker that runs.
fn filled(layout: &str) -> (MemFs, Arc<Broker>) {
    let fs = MemFs::new();
    let broker = start(&fs, layout, usize::MAX).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let topic = NewTopic { partitions: PARTITIONS, ..NewTopic::named("a") };
    assert!(runtime.block_on(broker.create_topics(vec![topic], false)).unwrap()[0].is_ok());
    for number in 0..RECORDS {
        for partition in &broker.topics().by_name("a").unwrap().partitions {
            let mut builder = BatchBuilder::new();
            builder.append(NOW, None, Some(format!("{number}").as_bytes()), &[]);
            let batch = Bytes::from(builder.build().unwrap());
            partition.append(&batch, Origin::Client, NOW, true).unwrap();
        }
    }
    (fs, broker)
}

fn check(broker: &Broker) {
    for index in 0..PARTITIONS {
        let topics = broker.topics();
        let partition = topics.by_name("a").unwrap().partition(PartitionIndex(index)).unwrap();
        assert_eq!((partition.log().log_start(), partition.log().log_end()), (Offset(0), Offset(RECORDS)), "{index}");
    }
}

fn is_there(fs: &MemFs, name: &str) -> bool {
    fs.exists(&Path::new("/data").join(name)).unwrap()
}

/// Stops starts earlier and later, until one is through; gives how many did not get so far.
fn stopped_starts(mut fs: MemFs, layout: &str, after_each: impl Fn(&MemFs)) -> usize {
    for stop_after in 0.. {
        match start(&fs, layout, stop_after) {
            Ok(broker) => {
                check(&broker);
                broker.shutdown();
                return stop_after;
            }
            Err(StartError::Stopped) => {}
            Err(error) => panic!("{layout}, stop after {stop_after}: {error}"),
        }
        after_each(&fs);
        // What the stopped start left survives a power cut, twice.
        let cut = fs.crash(CrashPolicy::Nothing);
        check(&start(&cut, layout, usize::MAX).unwrap());
        check(&start(&cut.crash(CrashPolicy::Nothing), layout, usize::MAX).unwrap());
        fs = fs.crash(CrashPolicy::Everything);
    }
    unreachable!()
}

#[test]
fn a_start_after_a_kill_that_is_told_to_stop_loses_nothing_and_goes_on_later() {
    for layout in ["partition", "shared"] {
        let (fs, _running) = filled(layout);
        let killed = fs.crash(CrashPolicy::Everything);
        let stopped = stopped_starts(killed, layout, |fs| {
            assert!(!is_there(fs, ".kafka_cleanshutdown"), "{layout}: not all logs were recovered");
        });
        assert!(stopped > 2, "{layout}: {stopped} starts were stopped");
    }
}

#[test]
fn a_start_after_an_orderly_stop_that_is_told_to_stop_leaves_an_orderly_stop() {
    for layout in ["partition", "shared"] {
        let (fs, broker) = filled(layout);
        broker.shutdown();
        drop(broker);
        let stopped = stopped_starts(fs.crash(CrashPolicy::Everything), layout, |fs| {
            assert!(is_there(fs, ".kafka_cleanshutdown") && !is_there(fs, "abort"), "{layout}");
        });
        assert!(stopped > 2, "{layout}: {stopped} starts were stopped");
    }
}
