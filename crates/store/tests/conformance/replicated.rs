//! Following a leader: what it sends is taken as it is, what another leader wrote is cut, and a power cut in between
//! brings nothing back.

use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fault, FaultAction, Fs, MemFs};
use mainstem_record::{BatchBuilder, ControlRecord};
use mainstem_store::{
    AppendContext, AppendError, GroupLog, Origin, PartitionLog, ReadRequest, ReplicateError, TopicLog,
    UnknownPartitions,
};
use mainstem_types::{LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId, TopicId};
use std::sync::Arc;

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    a_follower_is_what_its_leader_is
    a_follower_that_begins_late_begins_where_its_leader_does
    a_follower_s_first_batch_may_begin_below_the_log_start
    what_does_not_continue_the_log_is_refused
    what_a_later_leader_wrote_is_left_out
    two_leaders_logs_part_where_their_epochs_do
    an_epoch_without_records_goes_with_a_cut_at_the_end
    a_crash_at_every_call_of_a_cut_and_twice_brings_nothing_back
    each_call_of_a_cut_fails_once
}

const PIECE_BYTES: u32 = 400;
const ANY: LeaderEpoch = LeaderEpoch(i32::MAX);

fn leader_of(epoch: i32) -> AppendContext {
    AppendContext { leader_epoch: LeaderEpoch(epoch), ..client() }
}

/// `count` records a partition, in turns, some of them of producers and some in transactions.
fn write(node: &Node, epoch: i32, count: i64) {
    for n in 0..count {
        for (index, log) in node.logs.iter().enumerate().filter(|(index, _)| *index == 0 || n % 3 == 0) {
            let offset = log.log_end().0;
            let batch = match n % 5 {
                0 => transactional(index as i64 + 50, epoch, &value(offset)),
                1 => marker(index as i64 + 50, epoch, n % 2 == 0),
                2 => batch_at(NOW.0 + n, &[&value(offset), &value(offset + 1)]),
                _ => batch_at(NOW.0 + n, &[&value(offset)]),
            };
            let origin = if n % 5 == 1 { Origin::Coordinator } else { Origin::Client };
            // A marker that nobody waits for is no error here.
            let _ = log.append(&batch, &AppendContext { origin, ..leader_of(epoch) });
        }
    }
}

fn transactional(id: i64, epoch: i32, value: &str) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch as i16), 0).transactional();
    builder.append(NOW, None, Some(value.as_bytes()), &[]);
    Bytes::from(builder.build().unwrap())
}

fn marker(id: i64, epoch: i32, commit: bool) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch as i16), -1).transactional();
    builder.append_control(NOW, &ControlRecord::EndTransaction { committed: commit, coordinator_epoch: 0 });
    Bytes::from(builder.build().unwrap())
}

/// A unit of replication: a partition's log, or a group.
enum Unit {
    Log(TopicLog),
    Group(Arc<GroupLog>),
}

/// A follower needs the folder for what its leader has.
fn with_folder(log: &TopicLog) -> Result<&Arc<PartitionLog>, AppendError> {
    match log.without_folder() {
        Some(lazy) => lazy.get_or_create(),
        None => Ok(log.as_partition_log().expect("a log of this layout")),
    }
}

fn units(node: &Node) -> Vec<Unit> {
    match node.layout {
        Layout::Partition | Layout::Lazy => node.logs.iter().cloned().map(Unit::Log).collect(),
        _ => node.folder.groups().into_iter().map(Unit::Group).collect(),
    }
}

impl Unit {
    fn end(&self) -> u64 {
        match self {
            Unit::Log(log) => log.log_end().0 as u64,
            Unit::Group(group) => group.end_position().0,
        }
    }

    fn read(&self, from: u64) -> Bytes {
        match self {
            Unit::Log(log) => {
                let request = ReadRequest {
                    from: Offset(from as i64),
                    max_bytes: PIECE_BYTES,
                    upper: log.log_end(),
                    min_one_batch: true,
                };
                bytes_of(&log.read(&request).unwrap()).into()
            }
            Unit::Group(group) => group.read_entries(Position(from), PIECE_BYTES as usize).unwrap(),
        }
    }

    fn append(&self, at: u64, bytes: &Bytes, asked: LeaderEpoch) -> Result<u64, ReplicateError> {
        match self {
            Unit::Log(log) => with_folder(log)?
                .append_replicated(bytes, asked, NOW)
                .map(|end| end.0 as u64)
                .map_err(ReplicateError::Append),
            Unit::Group(group) => {
                let appended = group.append_replicated(Position(at), bytes, asked, UnknownPartitions::Refuse);
                appended.map(|appended| appended.end.0)
            }
        }
    }
}

/// Fetches from the leader until there is nothing more.
fn try_follow(follower: &Node, leader: &Node) -> Result<(), ReplicateError> {
    for (follower, leader) in units(follower).iter().zip(units(leader)) {
        loop {
            let at = follower.end();
            let piece = leader.read(at);
            if piece.is_empty() {
                break;
            }
            assert!(follower.append(at, &piece, ANY)? > at);
        }
    }
    Ok(())
}

fn follow(follower: &Node, leader: &Node) {
    try_follow(follower, leader).unwrap();
}

fn expect_same(follower: &Node, leader: &Node) {
    for (ours, theirs) in follower.logs.iter().zip(&leader.logs) {
        assert_eq!(all_records(ours), all_records(theirs));
        assert_eq!(ours.producers(), theirs.producers());
        let (a, b) = (ours.positions(), theirs.positions());
        assert_eq!((a.log_start, a.log_end), (b.log_start, b.log_end));
        assert_eq!(ours.first_unstable_offset(a.log_end), theirs.first_unstable_offset(b.log_end));
        for epoch in 0..6 {
            let epoch = LeaderEpoch(epoch);
            assert_eq!(ours.end_offset_for_epoch(epoch), theirs.end_offset_for_epoch(epoch), "epoch {epoch}");
        }
        let aborted = |log: &TopicLog| log.aborted_transactions(log.log_start(), log.log_end()).unwrap();
        assert_eq!(aborted(ours), aborted(theirs));
        for time in (0..60).step_by(7) {
            let find =
                |log: &TopicLog| log.find_by_time(mainstem_types::TimestampMs(NOW.0 + time), log.log_end()).unwrap();
            assert_eq!(find(ours), find(theirs));
        }
    }
}

fn pair(layout: Layout) -> (Node, Node) {
    (Node::start(&MemFs::new(), layout), Node::start(&MemFs::new(), layout))
}

fn a_follower_is_what_its_leader_is(layout: Layout) {
    let (leader, mut follower) = pair(layout);
    for epoch in 0..4 {
        write(&leader, epoch, 25);
        follow(&follower, &leader);
        expect_same(&follower, &leader);
        let fs = match epoch % 2 {
            0 => follower.stop().unwrap(),
            _ => {
                follower.logs.iter().for_each(|log| _ = log.flush_blocking().unwrap());
                follower.fs.crash(CrashPolicy::Nothing)
            }
        };
        follower = Node::start(&fs, layout);
        expect_same(&follower, &leader);
    }
    expect_same_commit_logs(&follower, &leader);
    // Its role changes: it goes on where the leader ended.
    write(&follower, 5, 10);
    follow(&leader, &follower);
    expect_same(&leader, &follower);
    expect_same_commit_logs(&leader, &follower);
}

/// Byte for byte, file for file.
fn expect_same_commit_logs(follower: &Node, leader: &Node) {
    let files = |node: &Node, group: &GroupLog| {
        let dir = group.folder().join("commitlog");
        let names = node.fs.read_dir(&dir).unwrap().into_iter().map(|entry| entry.name);
        names.map(|name| (name.clone(), node.fs.read_all(&dir.join(name)).unwrap())).collect::<Vec<_>>()
    };
    for (ours, theirs) in follower.folder.groups().iter().zip(leader.folder.groups()) {
        let (ours, theirs) = (files(follower, ours), files(leader, &theirs));
        assert!(ours.len() > 1 && ours == theirs);
    }
}

fn a_follower_that_begins_late_begins_where_its_leader_does(layout: Layout) {
    let (leader, follower) = pair(layout);
    write(&leader, 0, 40);
    let start = leader.logs[0].log_start();
    for log in &leader.logs {
        log.set_config(Arc::new(mainstem_store::LogConfig { retention_bytes: 900, ..config() }));
    }
    leader.retention(NOW).unwrap();
    assert!(leader.logs[0].log_start() > start);
    for (ours, theirs) in units(&follower).iter().zip(units(&leader)) {
        let mut at = match &theirs {
            Unit::Log(log) => log.log_start().0 as u64,
            // It begins with a file.
            Unit::Group(group) => {
                let dir = group.folder().join("commitlog");
                leader.fs.read_dir(&dir).unwrap()[0].name.to_str().unwrap().parse().unwrap()
            }
        };
        match ours {
            Unit::Log(log) => with_folder(log).unwrap().restart_at(Offset(at as i64)).unwrap(),
            Unit::Group(group) if at > 0 => group.restart_at(Position(at)).unwrap(),
            Unit::Group(_) => {}
        }
        while at < theirs.end() {
            at = ours.append(at, &theirs.read(at), ANY).unwrap();
        }
    }
    for (ours, theirs) in follower.logs.iter().zip(&leader.logs) {
        assert_eq!(ours.log_end(), theirs.log_end());
        let from = theirs.log_start().0;
        assert_eq!(read(ours, from, i64::MAX, 1 << 20), read(theirs, from, i64::MAX, 1 << 20));
    }
    let fs = follower.fs.clone();
    let ends: Vec<_> = follower.logs.iter().map(|log| (log.log_start(), log.log_end())).collect();
    drop(follower);
    let follower = Node::start(&fs, layout);
    assert_eq!(ends, follower.logs.iter().map(|log| (log.log_start(), log.log_end())).collect::<Vec<_>>());
}

/// The leader deleted records up to the middle of a batch, and the files before it.
fn a_follower_s_first_batch_may_begin_below_the_log_start(layout: Layout) {
    const START: Offset = Offset(53);
    let (leader, follower) = pair(layout);
    for n in 0..20 {
        let values: Vec<_> = (n * 5..n * 5 + 5).map(value).collect();
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        leader.logs[0].append(&batch_at(NOW.0 + n, &values), &leader_of(2)).unwrap();
    }
    leader.logs[0].raise_log_start(START, Offset(100)).unwrap();
    leader.retention(NOW).unwrap();
    for (ours, theirs) in units(&follower).iter().zip(units(&leader)).filter(|(_, theirs)| theirs.end() > 0) {
        let mut at = match (ours, &theirs) {
            (Unit::Log(log), _) => {
                with_folder(log).unwrap().restart_at(START).unwrap();
                START.0 as u64
            }
            (Unit::Group(ours), Unit::Group(theirs)) => {
                let dir = theirs.folder().join("commitlog");
                let first = leader.fs.read_dir(&dir).unwrap()[0].name.to_str().unwrap().parse().unwrap();
                if first > 0 {
                    ours.restart_at(Position(first)).unwrap();
                }
                first
            }
            _ => unreachable!("two nodes of one layout"),
        };
        while at < theirs.end() {
            at = ours.append(at, &theirs.read(at), ANY).unwrap();
        }
    }
    // In a group the log start comes with the leader's next answer.
    if !layout.has_own_files() {
        follower.logs[0].raise_log_start(START, Offset(100)).unwrap();
    }
    let check = |follower: &Node, what: &str| {
        let (ours, theirs) = (&follower.logs[0], &leader.logs[0]);
        assert_eq!((ours.log_start(), ours.log_end()), (START, Offset(100)), "{what}");
        assert_eq!(read(ours, START.0, i64::MAX, 1 << 20), read(theirs, START.0, i64::MAX, 1 << 20), "{what}");
        let epoch = LeaderEpoch(2);
        assert_eq!(ours.end_offset_for_epoch(epoch), theirs.end_offset_for_epoch(epoch), "{what}");
    };
    check(&follower, "as it was copied");
    follower.logs[0].flush_blocking().unwrap();
    follower.checkpoint().unwrap();
    let once = follower.fs.crash(CrashPolicy::Nothing);
    drop(follower);
    check(&Node::start(&once, layout), "after a power cut");
    let twice = Node::start(&once.crash(CrashPolicy::Nothing), layout);
    check(&twice, "after a second one");
    fill(&twice.logs[0], 3);
    assert_eq!(twice.logs[0].log_end(), Offset(103));
}

fn what_does_not_continue_the_log_is_refused(layout: Layout) {
    let (leader, follower) = pair(layout);
    write(&leader, 3, 20);
    let (ours, theirs) = (&units(&follower)[0], &units(&leader)[0]);
    let first = theirs.read(0);
    let second_at = ours.append(0, &first, ANY).unwrap();
    let before = all_records(&follower.logs[0]);
    let refused = |at: u64, bytes: &Bytes| {
        assert!(ours.append(at, bytes, ANY).is_err());
        assert_eq!((ours.end(), &all_records(&follower.logs[0])), (second_at, &before));
    };
    refused(0, &first);
    let second = theirs.read(second_at);
    let third = theirs.read(second_at + ours_len(theirs, &second));
    if let Unit::Group(_) = ours {
        refused(second_at + 1, &second);
        refused(second_at, &third);
    }
    for damaged in [60, second.len() - 1] {
        let mut bytes = second.to_vec();
        bytes[damaged] ^= 1;
        refused(second_at, &bytes.into());
    }
    // Of an epoch before the last one.
    let other = Node::start(&MemFs::new(), layout);
    write(&other, 2, 20);
    refused(second_at, &units(&other)[0].read(second_at));
    // A part of a batch at the end is left for the next fetch.
    let cut = second.slice(..second.len() - 1);
    let end = ours.append(second_at, &cut, ANY).unwrap();
    assert!(end > second_at && end < second_at + ours_len(theirs, &second));
    follow(&follower, &leader);
    expect_same(&follower, &leader);
}

/// What a piece takes of a log.
fn ours_len(unit: &Unit, piece: &Bytes) -> u64 {
    match unit {
        Unit::Log(_) => records(piece).len() as u64,
        Unit::Group(_) => piece.len() as u64,
    }
}

/// KAFKA-18723: the leader lost its role while it sent.
fn what_a_later_leader_wrote_is_left_out(layout: Layout) {
    let (leader, follower) = pair(layout);
    fill(&leader.logs[0], 2);
    leader.logs[0].append(&batch_at(NOW.0, &[&value(2)]), &leader_of(1)).unwrap();
    let (ours, theirs) = (&units(&follower)[0], &units(&leader)[0]);
    let piece = theirs.read(0);
    let end = ours.append(0, &piece, LeaderEpoch(0)).unwrap();
    expect_filled(&follower.logs[0], 0..2);
    assert_eq!(ours.append(end, &theirs.read(end), LeaderEpoch(0)).unwrap(), end);
    ours.append(end, &theirs.read(end), LeaderEpoch(1)).unwrap();
    expect_filled(&follower.logs[0], 0..3);
}

/// Two nodes lead in turns, and the second one did not have everything: what it never had is cut from the first.
fn two_leaders_logs_part_where_their_epochs_do(layout: Layout) {
    let (first, second) = pair(layout);
    fill(&first.logs[0], 20);
    follow(&second, &first);
    first.logs[0].begin_epoch(LeaderEpoch(1)).unwrap();
    for n in 20..31 {
        first.logs[0].append(&batch_at(NOW.0, &["lost", &format!("{n}")]), &leader_of(1)).unwrap();
    }
    second.logs[0].begin_epoch(LeaderEpoch(2)).unwrap();
    for n in 20..26 {
        second.logs[0].append(&batch_at(NOW.0, &[&value(n)]), &leader_of(2)).unwrap();
    }
    let last = first.logs[0].latest_epoch().unwrap().epoch;
    let (epoch, end) = second.logs[0].end_offset_for_epoch(last);
    assert_eq!((epoch, end), (LeaderEpoch(0), Offset(20)), "the end of the largest epoch that both may have");
    let (_, own) = first.logs[0].end_offset_for_epoch(epoch);
    first.folder.truncate_to(&first.logs[0], own.min(end)).unwrap();
    follow(&first, &second);
    expect_same(&first, &second);
    expect_filled(&first.logs[0], 0..26);
}

/// KAFKA-10706.
fn an_epoch_without_records_goes_with_a_cut_at_the_end(layout: Layout) {
    let (leader, follower) = pair(layout);
    fill(&leader.logs[0], 5);
    follow(&follower, &leader);
    follower.logs[0].begin_epoch(LeaderEpoch(4)).unwrap();
    for log in &follower.logs {
        follower.folder.truncate_to(log, log.log_end()).unwrap();
    }
    assert_eq!(follower.logs[0].latest_epoch().unwrap().epoch, LeaderEpoch(0));
    leader.logs[0].append(&batch_at(NOW.0, &[&value(5)]), &leader_of(2)).unwrap();
    follow(&follower, &leader);
    expect_same(&follower, &leader);
}

const CUT: i64 = 12;

/// A life of a follower: it led, its end is cut, it takes what the next leader wrote. Says how far it came.
fn live(fs: &MemFs, layout: Layout, next: &Node) -> (bool, bool) {
    let (mut cut, mut followed) = (false, false);
    let mut run = || -> Result<(), ()> {
        let node = Node::try_start(fs, layout, TopicId([7; 16]), config()).map_err(|_| ())?;
        let log = &node.logs[0];
        let is_old = log.log_end().0 > CUT && all_records(log).get(CUT as usize).is_some_and(|(_, v)| *v != value(CUT));
        if log.log_end().0 < CUT || is_old {
            for n in log.log_end().0..20 {
                let text = if n < CUT { value(n) } else { format!("old {n:04} {}", "y".repeat(40)) };
                let epoch = if n < CUT { 0 } else { 5 };
                log.append(&batch_at(NOW.0, &[&text]), &leader_of(epoch)).map_err(|_| ())?;
                fill_some(&node.logs[1], n)?;
                if n == 17 {
                    log.flush_blocking().map_err(|_| ())?;
                    node.checkpoint().map_err(|_| ())?;
                }
            }
            node.folder.truncate_to(log, Offset(CUT)).map_err(|_| ())?;
        }
        cut = true;
        try_follow(&node, next).map_err(|_| ())?;
        node.logs.iter().try_for_each(|log| log.flush_blocking().map(|_| ())).map_err(|_| ())?;
        followed = true;
        node.stop().map_err(|_| ())?;
        Ok(())
    };
    let _ = run();
    (cut, followed)
}

fn fill_some(log: &TopicLog, n: i64) -> Result<(), ()> {
    match log.log_end().0 < n.min(4) {
        true => log.append(&batch_at(NOW.0, &[&value(log.log_end().0)]), &client()).map(|_| ()).map_err(|_| ()),
        false => Ok(()),
    }
}

/// What the next leader has: what both had, and its own records, of an epoch that is lower than that of what is cut.
fn next_leader(layout: Layout) -> Node {
    let node = Node::start(&MemFs::new(), layout);
    for n in 0..CUT {
        node.logs[0].append(&batch_at(NOW.0, &[&value(n)]), &leader_of(0)).unwrap();
        fill_some(&node.logs[1], n).unwrap();
    }
    for n in CUT..40 {
        node.logs[0].append(&batch_at(NOW.0, &[&value(n)]), &leader_of(if n < 25 { 4 } else { 6 })).unwrap();
    }
    node
}

fn check(fs: &MemFs, layout: Layout, next: &Node, (cut, followed): (bool, bool)) {
    let node = Node::start(fs, layout);
    let found = all_records(&node.logs[0]);
    let theirs = all_records(&next.logs[0]);
    let new = found.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let old = found[new..].iter().all(|(_, value)| value.starts_with("old"));
    assert!(new == found.len() || (!cut && old && new <= CUT as usize), "cut {cut}: {found:?}");
    assert!(!followed || found.len() == theirs.len(), "{} records", found.len());
    if new == found.len() {
        for epoch in 0..8 {
            let (ours, theirs) = (
                node.logs[0].end_offset_for_epoch(LeaderEpoch(epoch)),
                next.logs[0].end_offset_for_epoch(LeaderEpoch(epoch)),
            );
            assert!(
                ours == theirs || ours.1 == node.logs[0].log_end() || ours.1 == Offset::NONE,
                "{epoch}: {ours:?} {theirs:?}"
            );
        }
    }
}

fn a_crash_at_every_call_of_a_cut_and_twice_brings_nothing_back(layout: Layout) {
    let next = next_leader(layout);
    let step = if std::env::var_os("MAINSTEM_FULL").is_some() { 1 } else { 2 };
    let mut after = 0;
    loop {
        let fs = MemFs::new();
        fs.stop_after(after);
        let reached = live(&fs, layout, &next);
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            check(&fs.crash(policy), layout, &next, reached);
            // It goes on, and is stopped again.
            let again = fs.crash(policy);
            again.stop_after(after % 61);
            let (cut, followed) = live(&again, layout, &next);
            let reached = (cut || reached.0, followed || reached.1);
            check(&again.crash(policy), layout, &next, reached);
            check(&again.crash(CrashPolicy::Torn(after + 1)), layout, &next, reached);
        }
        if reached.1 {
            break;
        }
        after += step;
    }
    assert!(after > 60, "{after} places to stop");
}

fn each_call_of_a_cut_fails_once(layout: Layout) {
    let next = next_leader(layout);
    for action in [FaultAction::Io, FaultAction::NoSpace] {
        let mut nth = 1;
        loop {
            let fs = MemFs::new();
            fs.plan_fault(Fault::any(nth).with(action));
            let reached = live(&fs, layout, &next);
            let met = fs.faults_met() > 0;
            fs.clear_faults();
            for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
                check(&fs.crash(policy), layout, &next, reached);
            }
            if !met {
                break;
            }
            nth += 2;
        }
        assert!(nth > 60, "{nth} calls");
    }
}
