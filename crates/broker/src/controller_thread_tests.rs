use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use mainstem_env::{CrashPolicy, Fault, FaultAction, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::{CreateTopicError, NewTopic};
use mainstem_store::StoreEnv;
use mainstem_types::TimestampMs;

use super::*;
use crate::broker::Broker;

fn start(fs: &MemFs) -> Arc<Broker> {
    start_with(fs).0
}

fn start_with(fs: &MemFs) -> (Arc<Broker>, Arc<ManualClock>) {
    let properties =
        [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092"), ("metadata.log.segment.ms", "1000")];
    let properties: BTreeMap<String, String> =
        properties.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let clock = Arc::new(ManualClock::at(TimestampMs(1_790_000_000_000)));
    let env = StoreEnv::new(Arc::new(fs.clone()), clock.clone(), Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    (Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap().0, clock)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

type Created = Result<Result<(), CreateTopicError>, ControllerError>;

async fn create(broker: &Broker, name: &str) -> Created {
    let created = broker.create_topics(vec![NewTopic::named(name)], false).await?;
    Ok(created.into_iter().next().unwrap().map(|_| ()))
}

/// Asks for topics while the thread does something else, so that all of them wait for it together. Gives what they are
/// answered, in their order.
fn create_together<const N: usize>(broker: &Broker, names: [&str; N]) -> [Created; N] {
    let (go, gate) = channel::<()>();
    let mut held = pin!(broker.controller.run(move |_, _| gate.recv().unwrap()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(held.as_mut().poll(&mut context).is_pending());
    let mut asked = names.map(|name| Box::pin(create(broker, name)));
    for waiting in &mut asked {
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    go.send(()).unwrap();
    wait(held).unwrap();
    asked.map(wait)
}

/// The n-th sync of the metadata log from now on fails.
fn plan_failing_sync(fs: &MemFs, nth: u64) {
    fs.plan_fault(Fault::of(OpKind::Sync, nth).on("__cluster_metadata-0"));
}

fn topics(broker: &Broker) -> Vec<String> {
    let mut names: Vec<_> = broker.topics().iter().map(|topic| topic.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn changes_that_wait_together_share_a_sync_and_each_sees_those_before_it() {
    let fs = MemFs::new();
    let broker = start(&fs);
    plan_failing_sync(&fs, 2);
    let [a, b, again] = create_together(&broker, ["a", "b", "a"]);
    assert!(matches!((a, b), (Ok(Ok(())), Ok(Ok(())))));
    assert!(matches!(again, Ok(Err(CreateTopicError::Exists(_)))), "{again:?}");
    assert_eq!((topics(&broker), fs.faults_met()), (vec!["a".to_owned(), "b".to_owned()], 0), "one sync");
    // Crashed twice: what was answered is there.
    let fs = fs.crash(CrashPolicy::Nothing);
    drop(start(&fs));
    assert_eq!(topics(&start(&fs.crash(CrashPolicy::Nothing))), ["a", "b"]);
}

#[test]
fn nothing_is_answered_or_followed_that_is_not_committed() {
    let fs = MemFs::new();
    let broker = start(&fs);
    plan_failing_sync(&fs, 1);
    // The third would be told that the topic exists, if the change that it rests on were committed.
    for (at, answer) in create_together(&broker, ["a", "b", "a"]).into_iter().enumerate() {
        match (at, answer) {
            (0, Err(ControllerError::Write(_))) | (1 | 2, Err(ControllerError::Failed)) => {}
            (_, answer) => panic!("{at}: {answer:?}"),
        }
    }
    assert_eq!(topics(&broker), Vec::<String>::new());
    assert!(broker.image().topic("a").is_none());
    assert!(matches!(wait(create(&broker, "c")), Err(ControllerError::Failed)));
    let again = start(&fs.crash(CrashPolicy::Nothing));
    assert!(matches!(wait(create(&again, "a")), Ok(Ok(()))));
}

#[test]
fn changes_whose_sync_finds_no_descriptor_wait_for_the_next_one() {
    let fs = MemFs::new();
    let (broker, clock) = start_with(&fs);
    // A segment begins with the next change, so its sync has to open the folder.
    clock.advance(Duration::from_secs(10));
    let met = fs.faults_met();
    fs.plan_fault(Fault::of(OpKind::SyncDir, 1).on("__cluster_metadata-0").with(FaultAction::NoDescriptor));
    let [a, b] = create_together(&broker, ["a", "b"]);
    assert!(matches!((&a, &b), (Ok(Ok(())), Ok(Ok(())))), "{a:?}, {b:?}");
    assert_eq!(fs.faults_met() - met, 1);
    assert_eq!(topics(&start(&fs.crash(CrashPolicy::Nothing))), ["a", "b"]);
}

#[test]
fn an_append_that_the_disk_refuses_takes_no_change_before_it_with_it() {
    let fs = MemFs::new();
    let broker = start(&fs);
    fs.plan_fault(Fault::of(OpKind::Write, 2).on("__cluster_metadata-0").with(FaultAction::NoSpace));
    let [a, b, c] = create_together(&broker, ["a", "b", "c"]);
    assert!(matches!(a, Ok(Ok(()))), "{a:?}");
    assert!(matches!(b, Err(ControllerError::Write(_))), "{b:?}");
    assert!(matches!(c, Ok(Ok(()))), "{c:?}");
    assert_eq!(topics(&start(&fs.crash(CrashPolicy::Nothing))), ["a", "c"]);
}
