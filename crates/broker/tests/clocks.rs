//! The wall clock jumps, as an administrator, a broken battery or NTP make it do: by an hour, by ten years, both ways.
//! It stamps and shows; leases, timers and the order of records do not follow it.

mod support;

use std::time::Duration;

use mainstem_env::{Clock, MemFs};
use mainstem_store::{AppendError, Origin};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, TimestampMs};
use support::check::{check, check_live, note};
use support::{Client, Ledger, Node, batch, clock, settings};

const HOUR_MS: i64 = 60 * 60 * 1000;
const TEN_YEARS_MS: i64 = 10 * 365 * 24 * HOUR_MS;
const JUMPS: [i64; 4] = [HOUR_MS, -HOUR_MS, TEN_YEARS_MS, -TEN_YEARS_MS];
/// Nothing is ever too old.
const KEPT: (&str, &str) = ("retention.ms", "-1");

fn work(client: &mut Client<'_>, producer: &mut support::client::Producer) {
    client.produce_as(producer, "plain", 0, 2);
    for (topic, records) in [("plain", 1), ("rolled", 2), ("shared", 3)] {
        assert!(client.produce(topic, 0, records), "{topic} takes records");
    }
}

#[test]
fn jumps_of_the_wall_clock_change_no_lease_no_timer_and_no_order() {
    for jump in JUMPS {
        let (fs, clock) = (MemFs::new(), clock());
        let settings = settings(&[("offsets.retention.minutes", "2147483647")]);
        let node = Node::start(&fs, &clock, &settings, 7).unwrap();
        let mut client = Client::new(&node, Ledger::default());
        assert!(client.create_offsets_topic());
        let shared = [KEPT, ("mainstem.layout", "shared")];
        let rolled = [KEPT, ("segment.ms", "1000")];
        assert!(client.create(&[
            ("plain", 1, &[KEPT]),
            ("rolled", 1, &rolled),
            ("shared", 1, &shared),
            ("gone", 1, &[])
        ]));
        let mut producer = client.producer().unwrap();
        work(&mut client, &mut producer);
        assert!(client.join("group") && client.commit("outside", "plain", 0, 1));
        note(&node, &mut client.ledger);

        clock.set_wall(TimestampMs(clock.wall_ms().0 + jump));
        work(&mut client, &mut producer);
        client.retention();
        // Timers go on as if nothing had happened: the member has its session, a deleted topic's files have their
        // delay.
        client.advance(2_000);
        work(&mut client, &mut producer);
        assert!(client.delete(&["gone"]) && client.commit("outside", "plain", 0, 2));
        check_live(&node, &client.ledger).unwrap_or_else(|error| panic!("a jump of {jump} ms: {error}"));

        // And back, and a start in between.
        clock.set_wall(TimestampMs(clock.wall_ms().0 - jump));
        work(&mut client, &mut producer);
        let mut ledger = client.ledger;
        drop(node);
        clock.set_wall(TimestampMs(clock.wall_ms().0 + jump));
        let node = Node::start(&fs, &clock, &settings, 8).unwrap();
        check(&node, &mut ledger).unwrap_or_else(|error| panic!("a start after a jump of {jump} ms: {error}"));
        let topics = node.broker.topics();
        let offsets = topics.by_name(CONSUMER_OFFSETS_TOPIC).unwrap();
        assert!(offsets.partitions.iter().all(|partition| partition.log().failure().is_none()));
    }
}

/// As in Kafka: `message.timestamp.after.max.ms` is an hour, and how old a record may be is not limited.
#[test]
fn records_from_the_future_are_refused_from_an_hour_on() {
    let (fs, clock) = (MemFs::new(), clock());
    let node = Node::start(&fs, &clock, &settings(&[]), 7).unwrap();
    let mut client = Client::new(&node, Ledger::default());
    assert!(client.create(&[("plain", 1, &[KEPT]), ("shared", 1, &[KEPT, ("mainstem.layout", "shared")])]));
    for topic in ["plain", "shared"] {
        let partition = node.partition(client.ledger.topic_named(topic).unwrap(), 0).unwrap();
        let now = clock.wall_ms();
        let send = |ahead_ms: i64| {
            let sent = batch(TimestampMs(now.0 + ahead_ms), None, &["value".to_owned()]);
            partition.append(&sent, Origin::Client, now, true)
        };
        for taken in [0, HOUR_MS, -HOUR_MS, -TEN_YEARS_MS] {
            assert!(send(taken).is_ok(), "{topic}: {taken} ms ahead");
        }
        for refused in [HOUR_MS + 1, TEN_YEARS_MS] {
            let error = send(refused).unwrap_err();
            assert!(matches!(error, AppendError::Invalid(_)) && error.to_string().contains("timestamp"), "{error}");
        }
        // One that was taken and is older than the clock says now: it stays in order.
        clock.set_wall(TimestampMs(now.0 - TEN_YEARS_MS));
        assert!(
            partition
                .append(&batch(clock.wall_ms(), None, &["later".to_owned()]), Origin::Client, clock.wall_ms(), true)
                .is_ok()
        );
        assert_eq!(partition.log().log_end().0, 5);
        clock.set_wall(now);
    }
    clock.advance(Duration::from_secs(1));
}
