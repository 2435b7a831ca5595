//! `mainstem consume --group`: processes share the partitions of a topic, and share again when one comes or goes.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::commands::{Broker, read_line, stderr, stdout};
use support::{Server, exit_code, mainstem, signal};

const LIMIT: Duration = Duration::from_secs(60);

/// A broker whose groups do not wait for more members at first.
fn broker() -> Broker {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--set", "group.initial.rebalance.delay.ms=0"]);
    Broker { server, folder }
}

/// A consumer in a process of its own, and the lines that it prints.
struct Member {
    child: Child,
    lines: Receiver<String>,
}

impl Member {
    fn start(broker: &Broker, more: &[&str]) -> Member {
        let mut command = mainstem(&[&["consume", "orders", "--group", "workers", "--follow"], more].concat());
        command.env("MAINSTEM_BOOTSTRAP", broker.server.address());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Member { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a record is printed")
    }

    fn stop(mut self) -> Vec<String> {
        signal(&self.child, "INT");
        assert_eq!(exit_code(&mut self.child), Some(0));
        self.lines.iter().collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Ended already, mostly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn describe(broker: &Broker) -> Value {
    broker.json(&["group", "describe", "workers"])[0].clone()
}

/// How many partitions each member has, once the group is stable with so many members.
fn shares(broker: &Broker, members: usize) -> Vec<usize> {
    let end = Instant::now() + LIMIT;
    loop {
        let listed = broker.json(&["group", "list"]);
        if listed.as_array().is_some_and(|groups| !groups.is_empty()) {
            let group = describe(broker);
            let found = group["members"].as_array().unwrap();
            if group["state"] == "Stable" && found.len() == members {
                let mut shares: Vec<usize> =
                    found.iter().map(|member| member["partitions"].as_array().unwrap().len()).collect();
                shares.sort_unstable();
                return shares;
            }
        }
        assert!(Instant::now() < end, "the group never had {members} members: {}", describe(broker));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn committed(broker: &Broker) -> i64 {
    let group = describe(broker);
    group["offsets"].as_array().unwrap().iter().filter_map(|one| one["committed"].as_i64()).sum()
}

/// One record in each partition.
fn produce(broker: &Broker, partitions: usize, round: usize) -> BTreeSet<String> {
    let values: Vec<String> = (0..partitions).map(|partition| format!("{round}/{partition}")).collect();
    for (partition, value) in values.iter().enumerate() {
        broker.produce(format!("{value}\n"), &["orders", "--partition", &partition.to_string()]);
    }
    values.into_iter().collect()
}

#[test]
fn processes_share_the_partitions_and_share_again_when_one_comes_or_goes() {
    let broker = broker();
    broker.run(&["topic", "create", "orders", "--partitions", "6"]);
    let first = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 1), [6]);
    let sent = produce(&broker, 6, 0);
    let read: BTreeSet<String> = (0..6).map(|_| first.line()).collect();
    assert_eq!(read, sent);

    let second = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 2), [3, 3]);
    assert_eq!(committed(&broker), 6, "what was printed was committed before the partitions went");
    let sent = produce(&broker, 6, 1);
    let mut read: BTreeSet<String> = (0..3).map(|_| first.line()).collect();
    read.extend((0..3).map(|_| second.line()));
    assert_eq!(read, sent, "each record once");

    let third = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 3), [2, 2, 2]);
    let gone = Instant::now();
    assert_eq!(second.stop(), Vec::<String>::new());
    assert_eq!(shares(&broker, 2), [3, 3]);
    assert!(gone.elapsed() < Duration::from_secs(30), "it left; nobody waited for the end of its session");
    let sent = produce(&broker, 6, 2);
    let mut read: BTreeSet<String> = (0..3).map(|_| first.line()).collect();
    read.extend((0..3).map(|_| third.line()));
    assert_eq!(read, sent);

    assert_eq!((first.stop(), third.stop()), (vec![], vec![]));
    assert_eq!((describe(&broker)["state"].as_str(), committed(&broker)), (Some("Empty"), 18));
}

/// The reader of the output takes a few lines at a time until the group has changed: less than one answer of a broker.
#[test]
fn a_slow_reader_delays_no_rebalance_and_sees_no_record_twice() {
    let broker = broker();
    broker.run(&["topic", "create", "orders", "--partitions", "2"]);
    let records = 2000;
    let mut sent = Vec::new();
    for partition in ["0", "1"] {
        let lines: Vec<String> = (0..records).map(|number| format!("{partition}/{number}/{:0>400}", "")).collect();
        broker.produce(lines.join("\n") + "\n", &["orders", "--partition", partition]);
        sent.extend(lines);
    }
    let (mut first, mut output) = broker.spawn(&["consume", "orders", "--group", "workers", "--follow"]);
    let mut read = vec![read_line(&mut output)];
    let second = Member::start(&broker, &[]);
    let end = Instant::now() + LIMIT;
    let has_two = |group: Value| group["members"].as_array().unwrap().len() == 2 && group["state"] == "Stable";
    while !has_two(describe(&broker)) {
        assert!(Instant::now() < end && read.len() < records, "{} lines without a rebalance", read.len());
        read.extend((0..2).map(|_| read_line(&mut output)));
    }
    let rest = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
    while committed(&broker) < sent.len() as i64 {
        assert!(Instant::now() < end, "{}", describe(&broker));
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&first, "INT");
    assert_eq!(exit_code(&mut first), Some(0));
    let mut read: Vec<String> = read.into_iter().map(|line| line.trim_end().to_owned()).collect();
    read.extend(rest.join().unwrap());
    read.extend(second.stop());
    read.sort();
    sent.sort();
    assert!(read == sent, "{} records were read, {} were sent", read.len(), sent.len());
}

/// A partition that nothing was printed of goes on where the group began, not at the end of another moment.
#[test]
fn records_after_a_start_at_the_end_are_read_by_whoever_reads_the_partition_next() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    produce(&broker, 1, 0);
    let first = Member::start(&broker, &["--from", "end"]);
    assert_eq!(shares(&broker, 1), [1]);
    let end = Instant::now() + LIMIT;
    while committed(&broker) < 1 {
        assert!(Instant::now() < end, "the start was not committed");
    }
    assert_eq!(first.stop(), Vec::<String>::new());
    produce(&broker, 1, 1);
    let second = Member::start(&broker, &["--from", "end"]);
    assert_eq!(second.line(), "1/0");
    second.stop();
}

#[test]
fn a_group_whose_committed_offset_was_deleted_goes_on_where_from_says() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    produce(&broker, 1, 0);
    let consume = |from: &str| {
        let output = broker.run_with("", &["consume", "orders", "--group", "workers", "--from", from]);
        (stdout(&output), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(consume("beginning").0, "0/0\n");
    (1..4).for_each(|round| drop(produce(&broker, 1, round)));
    broker.run(&["topic", "delete-records", "orders", "--before", "2"]);
    let (printed, notes) = consume("beginning");
    assert_eq!(printed, "2/0\n3/0\n");
    assert!(notes.contains("orders-0 does not have the group's offset 1: its oldest records were deleted"), "{notes}");
    assert!(notes.contains("the group goes on at offset 2"), "{notes}");
    assert_eq!(committed(&broker), 4);

    (4..7).for_each(|round| drop(produce(&broker, 1, round)));
    broker.run(&["topic", "delete-records", "orders", "--before", "5"]);
    assert_eq!(consume("end").0, "");
    assert_eq!(committed(&broker), 7);
}

#[test]
fn more_members_than_partitions_wait_and_take_over() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    let first = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 1), [1]);
    let second = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 2), [0, 1]);
    produce(&broker, 1, 0);
    // Whichever of them has the partition.
    let end = Instant::now() + LIMIT;
    let reader_is_first = loop {
        if first.lines.try_recv().is_ok() {
            break true;
        }
        if second.lines.try_recv().is_ok() {
            break false;
        }
        assert!(Instant::now() < end, "nobody reads");
        std::thread::sleep(Duration::from_millis(5));
    };
    let (reader, other) = if reader_is_first { (first, second) } else { (second, first) };
    reader.stop();
    assert_eq!(shares(&broker, 1), [1]);
    produce(&broker, 1, 1);
    assert_eq!(other.line(), "1/0", "it goes on where the first one stopped");
    other.stop();
}

#[test]
fn a_static_member_has_its_partitions_again_after_a_restart() {
    let broker = broker();
    broker.run(&["topic", "create", "orders", "--partitions", "2"]);
    let first = Member::start(&broker, &["--instance-id", "one"]);
    assert_eq!(shares(&broker, 1), [2]);
    let second = Member::start(&broker, &["--instance-id", "two"]);
    assert_eq!(shares(&broker, 2), [1, 1]);
    first.stop();
    assert_eq!(shares(&broker, 2), [1, 1], "it is missed by nobody yet");
    let sent = produce(&broker, 2, 0);
    let again = Member::start(&broker, &["--instance-id", "one"]);
    assert_eq!(BTreeSet::from([again.line(), second.line()]), sent);
    assert_eq!(shares(&broker, 2), [1, 1]);
    again.stop();
    second.stop();
}

/// Two members with one instance id would fence each other for ever.
#[test]
fn a_static_member_ends_when_another_takes_its_place() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    let mut first = Member::start(&broker, &["--instance-id", "one"]);
    assert_eq!(shares(&broker, 1), [1]);
    let second = Member::start(&broker, &["--instance-id", "one"]);
    assert_eq!(exit_code(&mut first.child), Some(1));
    produce(&broker, 1, 0);
    assert_eq!(second.line(), "0/0");
    second.stop();
}

#[test]
fn a_static_member_that_cannot_commit_since_another_took_its_place_says_so() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    produce(&broker, 1, 0);
    let consume = ["consume", "orders", "--group", "workers", "--follow", "--instance-id", "one"];
    let (mut first, mut output) = broker.spawn(&consume);
    assert_eq!(read_line(&mut output), "0/0\n");
    signal(&first, "STOP");
    let second = Member::start(&broker, &["--instance-id", "one"]);
    assert_eq!(second.line(), "0/0", "nobody has committed it");
    signal(&first, "INT");
    signal(&first, "CONT");
    assert_eq!(exit_code(&mut first), Some(1));
    let told = stderr(&mut first);
    assert!(
        told.ends_with("another member of the group uses this --instance-id; give each member its own\n"),
        "{told}"
    );
    second.stop();
}

#[test]
fn a_second_interrupt_ends_a_member_whose_coordinator_does_not_answer() {
    let broker = broker();
    broker.run(&["topic", "create", "orders"]);
    let mut member = Member::start(&broker, &[]);
    assert_eq!(shares(&broker, 1), [1]);
    produce(&broker, 1, 0);
    assert_eq!(member.line(), "0/0");
    broker.server.signal("STOP");
    let stopped = Instant::now();
    let status = loop {
        if let Some(status) = member.child.try_wait().unwrap() {
            break status;
        }
        // Less than --timeout, and than the time that the attempt to leave takes after it.
        assert!(stopped.elapsed() < Duration::from_secs(20), "it waits for the coordinator");
        signal(&member.child, "INT");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_member_reads_to_the_end_commits_and_leaves() {
    let broker = broker();
    broker.run(&["topic", "create", "orders", "--partitions", "3"]);
    produce(&broker, 3, 0);
    let text = broker.run(&["consume", "orders", "--group", "workers"]);
    assert_eq!(text.lines().count(), 3);
    assert_eq!((describe(&broker)["state"].as_str(), committed(&broker)), (Some("Empty"), 3));
    assert_eq!(broker.run(&["consume", "orders", "--group", "workers"]), "");
    let text = broker.run_with("", &["consume", "orders", "--group", "workers", "--partition", "1"]);
    assert_eq!(text.status.code(), Some(2), "the group says which partitions");
}
