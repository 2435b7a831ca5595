//! Durability `memory`: what a killed process takes with it, and what it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mainstem_env::{CrashPolicy, Fault, FaultAction, MemFs, OpKind};
use mainstem_store::{AppendError, Durability, LogConfig, TopicLog};
use mainstem_types::{Offset, ProducerId};

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    a_kill_takes_the_newest_records_in_memory_and_nothing_else
    records_in_memory_are_read_like_all_others
    records_become_durable_after_memory_was_left
    an_orderly_stop_and_a_new_one_keep_what_was_in_memory
    a_full_disk_refuses_records_and_keeps_those_that_were_acknowledged
    a_topic_that_is_created_again_gets_nothing_of_the_memory_of_the_old_one
    every_record_is_there_while_the_durability_changes_under_producers
}

fn with(durability: Durability) -> Arc<LogConfig> {
    Arc::new(LogConfig { durability, ..config() })
}

fn text(generation: u32, offset: i64) -> String {
    format!("value {offset:04} of {generation} {}", "x".repeat(40))
}

/// What was acknowledged, by offset, and what of it must be there.
#[derive(Debug, Clone, Default)]
struct Known {
    values: [Vec<String>; 2],
    /// After a kill, and after a power cut.
    written: [usize; 2],
    durable: [usize; 2],
}

impl Known {
    fn put(&mut self, node: &Node, index: usize, generation: u32) {
        let log = &node.logs[index];
        let offset = log.log_end().0;
        let value = text(generation, offset);
        let appended = log.append(&produced(9, 0, offset as i32, &[&value]), &client()).unwrap();
        assert_eq!((appended.base_offset.0, appended.duplicate), (offset, false));
        self.values[index].push(value);
        if log.config().durability != Durability::Memory {
            self.wrote(node, index);
        }
    }

    /// Something was written of a partition: with it all that lies before in the same file.
    fn wrote(&mut self, node: &Node, index: usize) {
        self.written[index] = self.values[index].len();
        if node.layout == Layout::Shared {
            self.written = [self.values[0].len(), self.values[1].len()];
        }
    }

    fn look(&mut self, node: &Node) {
        for (durable, log) in self.durable.iter_mut().zip(&node.logs) {
            *durable = (*durable).max(log.durable_end().0 as usize);
        }
    }

    /// Compares what a restart finds; what is gone is forgotten.
    fn found(&mut self, node: &Node, least: [usize; 2], what: &str) {
        for (index, log) in node.logs.iter().enumerate() {
            let end = log.log_end().0 as usize;
            assert!(end >= least[index], "{what}: partition {index} ends at {end}: {least:?}");
            let expected: Vec<_> = (0..).zip(self.values[index][..end].iter().cloned()).collect();
            assert_eq!(all_records(log), expected, "{what}");
            let last = log.producers().iter().find(|known| known.producer_id == ProducerId(9)).map(|p| p.last_sequence);
            assert_eq!(last, (end > 0).then_some(end as i32 - 1), "{what}");
            self.values[index].truncate(end);
        }
        self.written = [self.values[0].len(), self.values[1].len()];
        self.durable = self.written;
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Put(usize),
    Flush,
    Checkpoint,
    Turn(Durability),
    WriteOut,
}

fn script() -> Vec<Op> {
    use Op::*;
    let mut ops = vec![Turn(Durability::Memory), Put(0), Put(0), Put(1), Put(0), Checkpoint, Put(0), Put(0)];
    ops.extend([Flush, Put(0), Put(0), Put(0), Put(0), Put(0), Put(0), Put(0), Checkpoint, Put(0), WriteOut]);
    ops.extend([Put(0), Put(0), Turn(Durability::Os), Put(0), Turn(Durability::Memory), Put(0), Put(0), Put(1)]);
    ops.extend([Put(0), Put(0), Turn(Durability::Disk), Put(0), Flush, Turn(Durability::Memory), Put(0), Put(0)]);
    ops.extend([Checkpoint, Put(0), Put(0), Put(0), Put(1), Put(0)]);
    ops
}

fn run(node: &Node, known: &mut Known, op: Op) {
    match op {
        Op::Put(index) => known.put(node, index, 1),
        Op::Flush => {
            node.logs[0].flush_blocking().unwrap();
            known.wrote(node, 0);
        }
        Op::Checkpoint => {
            node.checkpoint().unwrap();
            if !node.layout.has_own_files() {
                known.written = [known.values[0].len(), known.values[1].len()];
            }
        }
        Op::Turn(durability) => {
            let leaves = node.logs[0].config().durability == Durability::Memory;
            node.logs[0].set_config(with(durability));
            if leaves {
                known.wrote(node, 0);
            }
        }
        Op::WriteOut => {
            node.env.run_pending_write_outs();
            known.wrote(node, 0);
        }
    }
    known.look(node);
}

/// A restart on this image, records of another generation at the offsets that are given again, and one more kill.
fn go_on(image: &MemFs, layout: Layout, mut known: Known, least: [usize; 2], what: &str) {
    let node = Node::start(image, layout);
    known.found(&node, least, what);
    for n in 0..9 {
        known.put(&node, n % 2, 2);
    }
    node.checkpoint().unwrap();
    (0..3).for_each(|n| known.put(&node, n % 2, 2));
    let all = [known.values[0].len(), known.values[1].len()];
    let again = Node::start(&node.fs.crash(CrashPolicy::Everything), layout);
    known.found(&again, all, &format!("{what}, and once more"));
    let first = again.logs[0].find_by_time(NOW, again.logs[0].log_end()).unwrap();
    assert_eq!(first.map(|found| found.offset), Some(Offset(0)));
}

fn a_kill_takes_the_newest_records_in_memory_and_nothing_else(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
    let mut known = Known::default();
    let mut lost = 0;
    for (number, op) in script().into_iter().enumerate() {
        run(&node, &mut known, op);
        let what = format!("killed after {number}, {op:?}");
        let killed = node.fs.crash(CrashPolicy::Everything);
        let there = Node::start(&killed.crash(CrashPolicy::Everything), layout).logs[0].log_end().0 as usize;
        lost += known.values[0].len() - there;
        go_on(&killed, layout, known.clone(), known.written, &what);
        for policy in [CrashPolicy::Nothing, CrashPolicy::Torn(number as u64)] {
            go_on(&node.fs.crash(policy), layout, known.clone(), known.durable, &format!("{what}, {policy:?}"));
        }
    }
    assert!(lost > 10, "{lost}: the test shows nothing if nothing is lost");
}

fn records_in_memory_are_read_like_all_others(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout).with_folders();
    node.logs[0].set_config(with(Durability::Memory));
    let written = node.fs.mutations();
    fill(&node.logs[0], 3);
    let expected: Vec<_> = (0..3).map(|offset| (offset, value(offset))).collect();
    assert_eq!(read(&node.logs[0], 0, 3, 1 << 20), expected);
    assert_eq!(read(&node.logs[0], 1, 2, 1 << 20), expected[1..2]);
    assert_eq!(node.fs.mutations(), written, "the tail is read from memory");
    for n in 3..60 {
        fill(&node.logs[0], 1);
        if n % 7 == 0 {
            fill(&node.logs[1], 1);
        }
        expect_filled(&node.logs[0], 0..n + 1);
        let found = node.logs[0].find_max_timestamp(Offset(n + 1)).unwrap();
        assert!(found.is_some_and(|found| found.offset <= Offset(n)));
    }
}

fn told(log: &TopicLog) -> Arc<AtomicI64> {
    let told = Arc::new(AtomicI64::new(-1));
    let shared = Arc::clone(&told);
    log.set_durable_listener(Box::new(move |end| shared.store(end.unwrap().0, Ordering::SeqCst)));
    told
}

fn records_become_durable_after_memory_was_left(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
    let told = told(&node.logs[0]);
    node.logs[0].set_config(with(Durability::Memory));
    fill(&node.logs[0], 3);
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), -1);
    node.logs[0].set_config(with(Durability::Disk));
    assert!(!node.logs[0].request_flush(Offset(3)));
    node.env.run_pending_flushes();
    assert_eq!((told.load(Ordering::SeqCst), node.logs[0].durable_end()), (3, Offset(3)));
    fill(&node.logs[0], 1);
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), 4);
    // `flush.messages` syncs from memory, too.
    node.logs[0].set_config(Arc::new(LogConfig { flush_messages: 2, ..(*with(Durability::Memory)).clone() }));
    fill(&node.logs[0], 2);
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), 6);
    let cut = Node::start(&node.fs.crash(CrashPolicy::Nothing), layout);
    expect_filled(&cut.logs[0], 0..6);
}

fn an_orderly_stop_and_a_new_one_keep_what_was_in_memory(layout: Layout) {
    let fs = MemFs::new();
    for round in 0..3 {
        let node = Node::start(&fs, layout);
        expect_filled(&node.logs[0], 0..round * 5);
        node.logs[0].set_config(with(Durability::Memory));
        fill(&node.logs[0], 5);
        node.stop().unwrap();
    }
    expect_filled(&Node::start(&fs.crash(CrashPolicy::Nothing), layout).logs[0], 0..15);
}

fn a_full_disk_refuses_records_and_keeps_those_that_were_acknowledged(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
    let told = told(&node.logs[0]);
    node.logs[0].set_config(with(Durability::Memory));
    fill(&node.logs[0], 3);
    node.fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace).and_later());
    node.env.run_pending_write_outs();
    for durability in [Durability::Memory, Durability::Os, Durability::Disk] {
        node.logs[0].set_config(with(durability));
        let refused = node.logs[0].append(&batch_at(NOW.0, &["x"]), &client());
        assert!(matches!(refused, Err(AppendError::DiskFull { .. })), "{durability:?}: {refused:?}");
    }
    assert!(!node.logs[0].request_flush(Offset(3)));
    node.env.run_pending_flushes();
    assert_eq!((told.load(Ordering::SeqCst), node.logs[0].durable_end()), (-1, Offset(0)));
    assert!(node.logs[0].failure().is_none());
    assert_eq!(node.logs[0].log_end(), Offset(3));
    if !layout.has_own_files() {
        assert!(node.checkpoint().is_err(), "it would tell of what is not written");
    }
    node.fs.clear_faults();
    node.env.run_pending_write_outs();
    assert_eq!(told.load(Ordering::SeqCst), 3, "who waited for the flush is told");
    fill(&node.logs[0], 1);
    node.checkpoint().unwrap();
    expect_filled(&node.logs[0], 0..4);
    expect_filled(&Node::start(&node.stop().unwrap(), layout).logs[0], 0..4);
}

fn a_topic_that_is_created_again_gets_nothing_of_the_memory_of_the_old_one(layout: Layout) {
    let mut node = Node::start(&MemFs::new(), layout);
    node.logs[0].set_config(with(Durability::Memory));
    fill(&node.logs[0], 3);
    let old = node.logs[0].clone();
    node.delete();
    node.create_again(mainstem_types::TopicId([8; 16]));
    node.env.run_pending_write_outs();
    assert!(old.append(&batch_at(NOW.0, &["x"]), &client()).is_err());
    assert_eq!(node.logs[0].log_end(), Offset(0));
    fill(&node.logs[0], 2);
    expect_filled(&node.logs[0], 0..2);
}

/// Four producers, a reader of everything, and one who changes the durability; the thread that writes out has its
/// turns.
fn every_record_is_there_while_the_durability_changes_under_producers(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
    let each = 200;
    let done = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for producer in 0..4 {
            let (node, done) = (&node, &done);
            scope.spawn(move || {
                for sequence in 0..each {
                    let value = format!("{producer} {sequence} {}", "y".repeat(30));
                    let log = &node.logs[producer % 2];
                    log.append(&produced(producer as i64, 0, sequence, &[&value]), &client()).unwrap();
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let kinds = [Durability::Memory, Durability::Os, Durability::Memory, Durability::Disk];
        let mut turn = 0;
        while done.load(Ordering::SeqCst) < 4 {
            for log in &node.logs {
                log.set_config(with(kinds[turn % 4]));
                if kinds[turn % 4] != Durability::Memory {
                    // Whatever was acknowledged so far survives a kill from here on.
                    let end = log.log_end();
                    log.request_flush(end);
                    node.env.run_pending_flushes();
                    assert!(log.durable_end() >= end);
                }
            }
            if turn % 3 == 0 {
                node.env.run_pending_write_outs();
            }
            let found = all_records(&node.logs[turn % 2]);
            assert!(found.iter().zip(0..).all(|((offset, _), expected)| *offset == expected));
            turn += 1;
        }
    });
    for log in &node.logs {
        assert_eq!(log.log_end(), Offset(2 * i64::from(each)));
        assert_eq!(log.producers().iter().map(|known| known.last_sequence).collect::<Vec<_>>(), [each - 1; 2]);
    }
    let expected = [all_records(&node.logs[0]), all_records(&node.logs[1])];
    // A reader had everything written.
    node.logs.iter().for_each(|log| log.set_config(with(Durability::Os)));
    let killed = Node::start(&node.fs.crash(CrashPolicy::Everything), layout);
    assert_eq!([all_records(&killed.logs[0]), all_records(&killed.logs[1])], expected);
}
