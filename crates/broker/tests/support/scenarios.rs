//! What is stopped, and what is failed, at every step.

use std::path::Path;

use mainstem_env::Fs;
use mainstem_metadata::image::ConfigResource;

use super::{Acked, Client, Settings, settings};

/// Names that the model uses.
pub const TOPICS: [&str; 3] = ["t0", "t1", "t2"];

pub struct Scenario {
    pub name: &'static str,
    pub settings: Settings,
    /// What was there before: on a disk that works.
    pub before: fn(&mut Client<'_>),
    pub run: fn(&mut Client<'_>),
}

fn nothing(_: &mut Client<'_>) {}

/// Every kind of change of what is on the disk, each with durability `os` and `disk`.
pub fn all() -> Vec<Scenario> {
    type Step = fn(&mut Client<'_>);
    let kinds: [(&str, Step, Step); 16] = [
        ("creation", nothing, creation),
        ("deletion", three_topics, deletion),
        ("creation again", three_topics, creation_again),
        ("more partitions", three_topics, more_partitions),
        ("settings", three_topics, change_of_settings),
        ("produce", three_topics, produce),
        ("roll", rolling_topic, roll),
        ("retention", rolled_topic, retention),
        ("delete records", three_topics, delete_records),
        ("checkpoints", three_topics, checkpoints),
        ("snapshots", three_topics, snapshots),
        ("groups", three_topics, groups),
        ("producers", three_topics, producers),
        ("orderly stop", rolled_topic, orderly_stop),
        ("common commit logs", nothing, common_logs_begin),
        ("life in common commit logs", common_logs, common_logs_go_on),
    ];
    let durabilities: [(&'static str, &'static str); 2] =
        [("mainstem.durability", "os"), ("mainstem.durability", "disk")];
    let with = |durability: (&'static str, &'static str)| {
        kinds.map(|(name, before, run)| Scenario { name, settings: settings(&[durability]), before, run })
    };
    durabilities.into_iter().flat_map(with).collect()
}

pub fn named(name: &str) -> Vec<Scenario> {
    all().into_iter().filter(|scenario| scenario.name == name).collect()
}

fn creation(client: &mut Client<'_>) {
    client.create(&[("a", 2, &[])]);
    client.produce("a", 0, 1);
    client.create(&[("b", 1, &[("retention.ms", "5000"), ("mainstem.durability", "disk")]), ("c", 3, &[])]);
    client.produce("b", 0, 2);
}

fn three_topics(client: &mut Client<'_>) {
    client.create(&[("a", 2, &[]), ("b", 1, &[]), ("c", 1, &[("retention.ms", "60000")])]);
    for (topic, index, records) in [("a", 0, 3), ("a", 1, 2), ("b", 0, 4), ("c", 0, 1)] {
        client.produce(topic, index, records);
    }
}

fn deletion(client: &mut Client<'_>) {
    client.delete(&["a"]);
    client.produce("b", 0, 1);
    client.node.broker.remove_due_files();
    client.delete(&["b", "c"]);
    client.node.broker.remove_due_files();
}

fn creation_again(client: &mut Client<'_>) {
    client.delete_records("b", 0, 2);
    client.delete(&["b"]);
    client.create(&[("b", 2, &[])]);
    client.produce("b", 0, 1);
    client.produce("b", 1, 2);
    client.delete(&["b"]);
    client.node.broker.remove_due_files();
    client.create(&[("b", 1, &[])]);
    client.produce("b", 0, 1);
}

fn more_partitions(client: &mut Client<'_>) {
    client.create_partitions("b", 3);
    client.produce("b", 2, 2);
    client.create_partitions("c", 2);
    client.produce("c", 1, 1);
}

fn change_of_settings(client: &mut Client<'_>) {
    client.alter("b", "mainstem.durability", "disk");
    client.produce("b", 0, 2);
    client.alter("c", "retention.ms", "70000");
    client.alter_resource(ConfigResource::cluster_default(), "log.retention.ms", "80000");
    client.alter("b", "mainstem.durability", "os");
    client.produce("b", 0, 1);
    client.alter("c", "retention.ms", "90000");
}

fn produce(client: &mut Client<'_>) {
    client.alter("a", "flush.messages", "2");
    for _ in 0..3 {
        client.produce("a", 0, 1);
        client.produce("a", 1, 2);
        client.produce("b", 0, 3);
    }
}

fn rolling_topic(client: &mut Client<'_>) {
    client.create(&[("r", 1, &[("segment.ms", "1000"), ("retention.ms", "10000")])]);
    client.produce("r", 0, 2);
}

fn roll(client: &mut Client<'_>) {
    for _ in 0..4 {
        client.advance(800);
        client.produce("r", 0, 2);
    }
    client.alter("r", "flush.ms", "1");
    client.produce("r", 0, 1);
}

fn rolled_topic(client: &mut Client<'_>) {
    rolling_topic(client);
    for _ in 0..5 {
        client.advance(1_500);
        client.produce("r", 0, 2);
    }
    client.create(&[("plain", 1, &[])]);
    client.produce("plain", 0, 3);
}

fn retention(client: &mut Client<'_>) {
    client.advance(5_000);
    client.retention();
    client.produce("r", 0, 1);
    client.advance(12_000);
    client.retention();
    client.produce("r", 0, 1);
    let _ = client.node.broker.write_checkpoints();
}

fn delete_records(client: &mut Client<'_>) {
    client.delete_records("b", 0, 2);
    client.produce("b", 0, 1);
    client.delete_records("a", 0, 3);
    client.delete_records("b", 0, 4);
}

fn checkpoints(client: &mut Client<'_>) {
    for _ in 0..2 {
        let _ = client.node.broker.write_checkpoints();
        client.produce("a", 0, 2);
        client.produce("b", 0, 1);
    }
    let _ = client.node.broker.write_checkpoints();
}

fn snapshots(client: &mut Client<'_>) {
    for (name, old) in [("s1", "a"), ("s2", "b"), ("s3", "c")] {
        client.create(&[(name, 1, &[("retention.ms", "1000000")])]);
        let _ = client.node.wait(client.node.broker.snapshot_metadata());
        client.delete(&[old]);
        client.produce(name, 0, 1);
    }
    let _ = client.node.wait(client.node.broker.snapshot_metadata());
}

fn groups(client: &mut Client<'_>) {
    client.create_offsets_topic();
    client.commit("g1", "a", 0, 1);
    client.join("g2");
    client.commit("g1", "a", 0, 2);
    client.commit("g1", "b", 0, 3);
    client.join("g2");
    client.commit("g1", "a", 0, 3);
    client.delete(&["c"]);
}

fn producers(client: &mut Client<'_>) {
    let Some(mut one) = client.producer() else { return };
    let first = client.produce_as(&mut one, "a", 0, 2);
    let second = client.produce_as(&mut one, "a", 0, 1);
    // As a client does that got no answer; both are there, or neither was.
    let retried = [(0, first), (2, second)];
    for (sequence, values) in retried {
        let known = client.ledger.topic_named("a").map(|id| client.ledger.partition(id, 0).records.clone());
        let arrived = known.into_iter().flatten().any(|record| record.value == values[0] && record.acked != Acked::No);
        if arrived {
            client.send("a", 0, Some((one.id, 0, sequence)), &values);
        }
    }
    for _ in 0..1_001 {
        if client.producer().is_none() {
            return;
        }
    }
}

fn orderly_stop(client: &mut Client<'_>) {
    client.produce("r", 0, 1);
    client.produce("plain", 0, 2);
    client.node.broker.shutdown();
    if !client.node.fs.exists(Path::new("/data/.kafka_cleanshutdown")).unwrap_or(false) {
        return;
    }
    // Everything was closed: it survives a power cut.
    for partition in client.ledger.partitions.values_mut() {
        partition.records.iter_mut().filter(|r| r.acked == Acked::Os).for_each(|r| r.acked = Acked::Disk);
    }
}

const SHARED: (&str, &str) = ("mainstem.layout", "shared");
const TOPIC: [(&str, &str); 2] = [("mainstem.layout", "topic"), ("mainstem.groups", "2")];

fn common_logs_begin(client: &mut Client<'_>) {
    client.create(&[("a", 2, &[SHARED]), ("b", 2, &TOPIC), ("c", 1, &[])]);
    for (topic, index, records) in [("a", 0, 2), ("b", 1, 1), ("c", 0, 1), ("a", 1, 1), ("a", 0, 3)] {
        client.produce(topic, index, records);
    }
}

fn common_logs(client: &mut Client<'_>) {
    common_logs_begin(client);
    client.create(&[("d", 1, &[SHARED])]);
    client.produce("d", 0, 4);
}

fn common_logs_go_on(client: &mut Client<'_>) {
    client.node.broker.write_checkpoints().ok();
    client.produce("a", 0, 1);
    client.delete_records("d", 0, 3);
    client.delete(&["a", "b"]);
    client.produce("d", 0, 1);
    client.create(&[("a", 1, &[SHARED]), ("b", 1, &TOPIC)]);
    client.produce("a", 0, 2);
    client.produce("b", 0, 1);
    client.create_partitions("a", 3);
    client.produce("a", 2, 1);
    client.alter("d", "retention.bytes", "1");
    client.retention();
    client.produce("d", 0, 1);
    client.node.broker.write_checkpoints().ok();
}
