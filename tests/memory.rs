//! `mainstem.durability=memory` with the real binary: where it is refused, what a killed broker loses, and what it does
//! not.

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use support::commands::{Broker, run_with, stdout};
use support::{PATIENCE, Server, failure, last_line, mainstem};

const FORCE: [&str; 4] = ["--set", "mainstem.memory.force=true", "--set", "mainstem.shared.groups=1"];

fn lines(name: &str, range: std::ops::Range<usize>) -> String {
    range.map(|number| format!("{name} {number}\n")).collect()
}

fn produce(server: &Server, topic: &str, range: std::ops::Range<usize>) {
    let output = run_with(&server.address(), lines(topic, range), &["produce", topic]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// How many records there are: the first ones that were sent, in order, each once.
fn count(server: &Server, topic: &str) -> usize {
    let text = stdout(&run_with(&server.address(), "", &["consume", topic]));
    let count = text.lines().count();
    assert_eq!(text, lines(topic, 0..count));
    count
}

fn turn(server: &Server, topic: &str, durability: &str) {
    let value = format!("mainstem.durability={durability}");
    stdout(&run_with(&server.address(), "", &["topic", "config", "set", topic, &value]));
}

fn restart(server: Server, folder: &Path) -> Server {
    server.kill();
    Server::start(folder, &FORCE)
}

#[test]
fn it_is_refused_with_one_replica_unless_it_is_forced() {
    let folder = tempfile::tempdir().unwrap();
    let line = failure(mainstem(&["serve", "--set", "mainstem.durability=memory", "--data-dir"]).arg(folder.path()));
    let parts = ["mainstem.durability", "one replica", "killed broker loses", "mainstem.memory.force=true"];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");

    let broker = Broker::start();
    let create = ["topic", "create", "t", "--config", "mainstem.durability=memory"];
    let line = broker.failure(&create);
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    broker.run(&["topic", "create", "t"]);
    let line = broker.failure(&["topic", "config", "set", "t", "mainstem.durability=memory"]);
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    assert_eq!(broker.json(&["topic", "describe", "t"])[0]["durability"]["value"], "os");
}

#[test]
fn the_start_and_the_description_say_what_may_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &FORCE);
    let create = ["topic", "create", "t", "--config", "mainstem.durability=memory"];
    stdout(&run_with(&server.address(), "", &create));
    let described = stdout(&run_with(&server.address(), "", &["topic", "describe", "t"]));
    assert!(described.contains("memory: a killed broker loses up to 10 ms (256 KiB)"), "{described}");
    let server = restart(server, folder.path());
    assert!(server.says("durability memory of t: ") && server.says("256 KiB"), "{:?}", server.lines);
    server.kill();
    let server = Server::start(folder.path(), &[]);
    assert!(server.says("mainstem.durability=memory of t is not applied, os is"), "{:?}", server.lines);
    let described = stdout(&run_with(&server.address(), "", &["topic", "describe", "t"]));
    assert!(described.contains("durability") && !described.contains("memory:"), "{described}");
    server.kill();
    let server = Server::start(folder.path(), &[&FORCE[..], &["--set", "mainstem.durability=memory"]].concat());
    assert!(server.says("durability memory (default of topics)"), "{:?}", server.lines);
}

/// A producer without end, and the broker killed under it.
fn kill_under_load(server: Server, topic: &str, from: usize) {
    let mut producer = mainstem(&["produce", topic]);
    producer.env("MAINSTEM_BOOTSTRAP", server.address()).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = producer.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let topic_name = topic.to_owned();
    let writer = std::thread::spawn(move || {
        let mut next = from;
        // Until nobody takes it any more.
        while input.write_all(lines(&topic_name, next..next + 100).as_bytes()).is_ok() {
            next += 100;
        }
    });
    let begun = Instant::now();
    while count(&server, topic) < from + 2000 {
        assert!(begun.elapsed() < PATIENCE, "nothing is produced");
    }
    server.kill();
    child.kill().unwrap();
    child.wait().unwrap();
    writer.join().unwrap();
}

#[test]
fn a_killed_broker_loses_the_newest_records_in_memory_and_nothing_else() {
    for layout in ["partition", "shared"] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::start(folder.path(), &FORCE);
        let layout = format!("mainstem.layout={layout}");
        for topic in ["fast", "safe"] {
            stdout(&run_with(&server.address(), "", &["topic", "create", topic, "--config", &layout]));
        }
        produce(&server, "fast", 0..100);
        produce(&server, "safe", 0..50);
        turn(&server, "fast", "memory");
        produce(&server, "safe", 50..60);
        kill_under_load(server, "fast", 100);
        server = Server::start(folder.path(), &FORCE);
        let there = count(&server, "fast");
        assert!(there >= 100, "{layout}: {there}: what was acknowledged before is gone");
        assert_eq!(count(&server, "safe"), 60, "{layout}");

        // Offsets go on from what is there; memory that is left takes nothing with it.
        produce(&server, "fast", there..there + 10);
        turn(&server, "fast", "os");
        server = restart(server, folder.path());
        assert_eq!(count(&server, "fast"), there + 10, "{layout}");
        produce(&server, "fast", there + 10..there + 20);
        server = restart(server, folder.path());
        assert_eq!(count(&server, "fast"), there + 20, "{layout}");

        // In an orderly stop everything is written.
        turn(&server, "fast", "memory");
        produce(&server, "fast", there + 20..there + 50);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        let server = Server::start(folder.path(), &FORCE);
        assert!(server.says("orderly stop"), "{:?}", server.lines);
        assert_eq!(count(&server, "fast"), there + 50, "{layout}");
    }
}

/// The broker's own topics keep what they promise.
#[test]
fn committed_offsets_survive_although_memory_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let memory = [&FORCE[..], &["--set", "mainstem.durability=memory"]].concat();
    let server = Server::start(folder.path(), &memory);
    stdout(&run_with(&server.address(), "", &["topic", "create", "t"]));
    produce(&server, "t", 0..10);
    stdout(&run_with(&server.address(), "", &["consume", "t", "--group", "g"]));
    server.kill();
    let server = Server::start(folder.path(), &memory);
    let described = run_with(&server.address(), "", &["group", "describe", "g", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&described)).unwrap();
    assert_eq!(told[0]["offsets"][0]["committed"], 10, "{told}");
    let config = ["topic", "config", "set", "__consumer_offsets", "mainstem.durability=memory"];
    let line = last_line(&run_with(&server.address(), "", &config));
    assert!(line.contains("belongs to the broker itself"), "{line}");
}
