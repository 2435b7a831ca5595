//! Those who wait, with many threads: for a commit, for records, for a group's timers, for the controller. None is
//! forgotten.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use mainstem_broker::{Commit, ControllerError, FetchWait, Partition};
use mainstem_env::{Clock, CrashPolicy, MemFs};
use mainstem_metadata::controller::{NewTopic, TopicRef};
use mainstem_metadata::image::ConfigResource;
use mainstem_store::Origin;
use mainstem_types::TopicId;
use support::{Client, LIMIT, Ledger, Node, batch, block_on, clock, read_all, settings};

/// A broker whose flusher threads run, with one topic.
fn broker(durability: &'static str, flusher_threads: usize) -> (Node, Arc<Partition>, TopicId) {
    let settings = settings(&[("mainstem.durability", durability), ("mainstem.memory.force", "true")]);
    let node = Node::start_with(&MemFs::new(), &clock(), &settings, 3, flusher_threads).expect("a new folder");
    let mut client = Client::new(&node, Ledger::default());
    assert!(client.create(&[("t", 1, &[])]));
    let id = client.ledger.topic_named("t").expect("created");
    let partition = node.partition(id, 0).expect("served");
    (node, partition, id)
}

fn append(node: &Node, partition: &Partition, value: &str) -> (Commit, usize) {
    let now = node.clock.wall_ms();
    let batch = batch(now, None, &[value.to_owned()]);
    let appended = partition.append(&batch, Origin::Client, now, true).expect("an append");
    (partition.committed(appended.next_offset(), partition.leader_epoch()), batch.len())
}

#[test]
fn every_commit_is_told_while_many_append_and_the_durability_changes() {
    let (node, partition, _) = broker("disk", 2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let (node, partition) = (&node, &partition);
                scope.spawn(move || {
                    for number in 0..300 {
                        let (commit, _) = append(node, partition, &format!("{sender}/{number}"));
                        assert_eq!(block_on(commit.wait()), Ok(()));
                    }
                })
            })
            .collect();
        let switch = scope.spawn(|| {
            let client = Client::new(&node, Ledger::default());
            let mut times = 0;
            while !done.load(Ordering::SeqCst) {
                let durability = ["os", "disk", "memory"][times % 3];
                assert!(client.alter_resource(ConfigResource::topic("t"), "mainstem.durability", durability));
                times += 1;
            }
            times
        });
        for sender in senders {
            sender.join().expect("every wait ends");
        }
        done.store(true, Ordering::SeqCst);
        assert!(switch.join().expect("the settings change") > 2);
    });
    assert_eq!(partition.high_watermark().0, 1_200);
    assert_eq!(read_all(&partition).expect("readable").len(), 1_200);
}

#[test]
fn what_was_appended_during_a_switch_to_disk_is_synced_without_another_append() {
    // Large, so that the switch comes while the batch is looked at.
    let large = "alone".repeat(75_000);
    for round in 0..40 {
        let (node, partition, _) = broker(["os", "memory"][round % 2], 1);
        let (ready, client) = (Barrier::new(2), Client::new(&node, Ledger::default()));
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                ready.wait();
                let (commit, _) = append(&node, &partition, &large);
                block_on(commit.wait())
            });
            ready.wait();
            assert!(client.alter_resource(ConfigResource::topic("t"), "mainstem.durability", "disk"));
            assert_eq!(sender.join().expect("it ends"), Ok(()));
        });
    }
}

#[test]
fn a_fetch_is_woken_by_the_last_of_many_appends_at_once() {
    let (node, partition, _) = broker("os", 0);
    let (threads, appends) = (4, 300);
    let size = batch(node.clock.wall_ms(), None, &["x".to_owned()]).len();
    for round in 0..5 {
        let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
        wait.expect_bytes((threads * appends * size) as i64);
        let ready = Barrier::new(threads);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    ready.wait();
                    (0..appends).for_each(|_| drop(append(&node, &partition, "x")));
                });
            }
        });
        let woken = async { tokio::time::timeout(Duration::from_secs(5), wait.wait()).await };
        assert!(block_on(woken).is_ok(), "round {round}: all bytes are there, and the fetch sleeps");
    }
}

#[test]
fn a_fetch_is_not_woken_by_less_than_it_asked_for() {
    let (node, partition, _) = broker("os", 0);
    let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
    wait.expect_bytes(1_000);
    append(&node, &partition, "little");
    let woken = async { tokio::time::timeout(Duration::from_millis(20), wait.wait()).await };
    assert!(block_on(woken).is_err());
    append(&node, &partition, &"much".repeat(300));
    block_on(wait.wait());
}

#[test]
fn fetches_with_disk_are_woken_when_records_are_durable() {
    let (node, partition, _) = broker("disk", 0);
    let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
    wait.expect_bytes(1);
    append(&node, &partition, "not yet");
    let woken = async { tokio::time::timeout(Duration::from_millis(20), wait.wait()).await };
    assert!(block_on(woken).is_err(), "nobody may read it yet");
    node.flush();
    block_on(wait.wait());
    assert_eq!(read_all(&partition).expect("readable").len(), 1);
}

#[test]
fn with_flush_messages_replies_and_fetches_wait_for_the_sync() {
    for layout in ["partition", "topic", "shared"] {
        for durability in ["os", "memory"] {
            let settings = settings(&[("mainstem.durability", durability), ("mainstem.memory.force", "true")]);
            let node = Node::start_with(&MemFs::new(), &clock(), &settings, 3, 0).expect("a new folder");
            let mut client = Client::new(&node, Ledger::default());
            assert!(client.create(&[("t", 1, &[("mainstem.layout", layout), ("flush.messages", "2")])]));
            let id = client.ledger.topic_named("t").expect("created");
            let partition = node.partition(id, 0).expect("served");
            let (first, _) = append(&node, &partition, "below the count");
            assert!(matches!(first, Commit::Done), "{layout} {durability}");
            let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
            wait.expect_bytes(1);
            let (commit, _) = append(&node, &partition, "reaches the count");
            assert!(matches!(commit, Commit::Waiting(_)), "{layout} {durability}: acknowledged before the sync");
            assert_eq!(partition.high_watermark().0, 1);
            assert_eq!(read_all(&partition).expect("readable").len(), 1, "nobody may read it yet");
            let woken = async { tokio::time::timeout(Duration::from_millis(20), wait.wait()).await };
            assert!(block_on(woken).is_err());
            node.flush();
            assert_eq!(block_on(commit.wait()), Ok(()));
            block_on(wait.wait());
            assert_eq!(read_all(&partition).expect("readable").len(), 2);
        }
    }
}

#[test]
fn who_waits_for_a_deleted_topic_is_told() {
    let (node, partition, id) = broker("disk", 0);
    let (commit, _) = append(&node, &partition, "never synced");
    let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
    wait.expect_bytes(1_000_000);
    block_on(node.broker.delete_topics(vec![TopicRef::Id(id)])).expect("deleted");
    assert!(block_on(commit.wait()).is_err());
    block_on(wait.wait());
}

#[test]
fn a_stop_ends_every_wait_and_is_done_once() {
    let (node, partition, _) = broker("disk", 0);
    let mut client = Client::new(&node, Ledger::default());
    assert!(client.create_offsets_topic());
    let (commit, _) = append(&node, &partition, "never synced");
    let wait = FetchWait::register(vec![Arc::clone(partition.fetch_waiters())]);
    wait.expect_bytes(1_000_000);
    thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| assert!(block_on(commit.wait()).is_err())),
            scope.spawn(|| {
                block_on(wait.wait());
                assert!(node.broker.is_stopping(), "so that the fetch answers with what there is");
            }),
            scope.spawn(|| node.broker.shutdown()),
            scope.spawn(|| node.broker.shutdown()),
        ];
        for waiting in waiting {
            waiting.join().expect("it ends");
        }
    });
    let late = block_on(node.broker.create_topics(vec![NewTopic::named("late")], false));
    assert!(matches!(late, Err(ControllerError::Stopping)));
}

#[test]
fn changes_during_a_stop_are_made_or_refused_and_what_was_acknowledged_exists() {
    for round in 0..20 {
        let (fs, clock, settings) = (MemFs::new(), clock(), settings(&[]));
        let node = Node::start(&fs, &clock, &settings, round).expect("a new folder");
        let made = AtomicUsize::new(0);
        let acknowledged: Vec<String> = thread::scope(|scope| {
            let changers: Vec<_> = (0..3)
                .map(|changer| {
                    let (node, made) = (&node, &made);
                    scope.spawn(move || {
                        let names = (0..).map(|number| format!("t-{changer}-{number}"));
                        let created = |name: &String| {
                            let answer = block_on(node.broker.create_topics(vec![NewTopic::named(name)], false));
                            made.fetch_add(1, Ordering::SeqCst);
                            matches!(answer, Ok(results) if results[0].is_ok())
                        };
                        names.take_while(created).collect::<Vec<_>>()
                    })
                })
                .collect();
            while made.load(Ordering::SeqCst) < 5 {
                thread::yield_now();
            }
            node.broker.shutdown();
            changers.into_iter().flat_map(|changer| changer.join().expect("it ends")).collect()
        });
        drop(node);
        let node = Node::start(&fs.crash(CrashPolicy::Nothing), &clock, &settings, round).expect("closed orderly");
        for name in &acknowledged {
            assert!(node.broker.topics().by_name(name).is_some(), "{name} was acknowledged");
        }
    }
}

/// The timer thread sleeps by the clock of the machine and asks the broker's: sessions end without any request.
#[test]
fn sessions_end_by_themselves() {
    let settings = settings(&[("group.min.session.timeout.ms", "1")]);
    let node = Node::start(&MemFs::new(), &clock(), &settings, 5).expect("a new folder");
    let mut client = Client::new(&node, Ledger::default());
    assert!(client.create_offsets_topic());
    let groups: Vec<String> = (0..10).map(|number| format!("group-{number}")).collect();
    for group in &groups {
        assert!(client.join_with(group, 40), "{group}");
    }
    client.advance(10_000);
    let end = Instant::now() + LIMIT;
    for group in &groups {
        let state = || node.broker.consumer_groups().describe(group).expect("the group").state.name();
        while state() != "Empty" {
            assert!(Instant::now() < end, "{group} is {}", state());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn many_joins_at_once_are_all_answered() {
    let settings = settings(&[("mainstem.durability", "disk")]);
    let node = Node::start_with(&MemFs::new(), &clock(), &settings, 5, 2).expect("a new folder");
    assert!(Client::new(&node, Ledger::default()).create_offsets_topic());
    thread::scope(|scope| {
        for member in 0..4 {
            let node = &node;
            scope.spawn(move || {
                let mut client = Client::new(node, Ledger::default());
                for round in 0..30 {
                    assert!(client.join(&format!("group-{member}-{round}")), "round {round}");
                    assert!(client.commit(&format!("group-{member}"), "t", 0, round), "round {round}");
                }
            });
        }
    });
    assert_eq!(node.broker.consumer_groups().list(&[], &[]).expect("served").len(), 4 * 31);
}
