//! The disk stops, or fails, at every call; a power cut may follow, and another one during the recovery.

use std::sync::Arc;

use mainstem_env::{CrashPolicy, Fault, FaultAction, MemFs};
use mainstem_store::{Durability, LogConfig};
use mainstem_types::{Offset, TopicId};

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    a_crash_at_every_call_twice_loses_nothing_durable
    a_crash_at_every_call_with_records_in_memory_loses_nothing_durable
    a_crash_at_every_call_leaves_what_flush_messages_promised
    each_call_fails_once
    the_disk_is_full_once_at_each_call
    each_call_fails_once_with_records_in_memory
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    durable: [i64; 2],
    appended: [i64; 2],
    removed: bool,
}

fn append(node: &Node, index: usize, known: &mut Known) -> Result<(), ()> {
    let offset = node.logs[index].log_end().0;
    known.appended[index] = known.appended[index].max(offset + 1);
    let batch = produced(9, 0, offset as i32, &[&value(offset)]);
    node.logs[index].append(&batch, &client()).map(|_| ()).map_err(|_| ())
}

fn run(fs: &MemFs, layout: Layout, known: &mut Known) -> Result<(), ()> {
    run_with(fs, layout, known, Durability::Os)
}

fn run_in_memory(fs: &MemFs, layout: Layout, known: &mut Known) -> Result<(), ()> {
    run_with(fs, layout, known, Durability::Memory)
}

fn run_with(fs: &MemFs, layout: Layout, known: &mut Known, durability: Durability) -> Result<(), ()> {
    let node = Node::try_start(fs, layout, TopicId([7; 16]), config()).map_err(|_| ())?;
    let first = LogConfig { durability, ..config() };
    node.logs[0].set_config(Arc::new(first.clone()));
    for round in 0..2 {
        for n in 0..10 {
            append(&node, n % 2, known)?;
            if durability == Durability::Os {
                node.env.run_pending_preparations();
            }
        }
        known.durable[0] = known.durable[0].max(node.logs[0].flush_blocking().map_err(|_| ())?.0);
        append(&node, 0, known)?;
        node.checkpoint().map_err(|_| ())?;
        if round == 1 {
            known.removed = true;
            node.logs[0].set_config(Arc::new(LogConfig { retention_bytes: 1200, ..first.clone() }));
            node.retention(NOW).map_err(|_| ())?;
        }
    }
    let ends = [node.logs[0].log_end().0, node.logs[1].log_end().0];
    node.stop().map_err(|_| ())?;
    known.durable = ends;
    Ok(())
}

fn check(fs: &MemFs, layout: Layout, known: &Known) -> Vec<Vec<(i64, String)>> {
    let node = Node::start(fs, layout);
    let mut all = Vec::new();
    for (index, log) in node.logs.iter().enumerate() {
        let (start, end) = (log.log_start().0, log.log_end().0);
        assert!(end >= known.durable[index] && end <= known.appended[index], "{index}: {end}, {known:?}");
        assert!(start == 0 || (known.removed && index == 0), "{index} starts at {start}");
        expect_filled(log, start..end);
        assert_eq!(log.durable_end(), Offset(end));
        all.push(all_records(log));
    }
    all
}

fn a_crash_at_every_call_twice_loses_nothing_durable(layout: Layout) {
    stop_everywhere(layout, run, 1, 80);
}

fn a_crash_at_every_call_with_records_in_memory_loses_nothing_durable(layout: Layout) {
    let step = if std::env::var_os("MAINSTEM_FULL").is_some() { 1 } else { 3 };
    stop_everywhere(layout, run_in_memory, step, 50);
}

/// As many records as are acknowledged without a sync, at most.
const UNSYNCED_MAX: [i64; 2] = [0, 3];

/// Flusher threads come after each third append, so that several batches wait for one sync.
fn run_flushing(fs: &MemFs, layout: Layout, known: &mut Known) -> Result<(), ()> {
    let node = Node::try_start(fs, layout, TopicId([7; 16]), config()).map_err(|_| ())?;
    for (log, unsynced_max) in node.logs.iter().zip(UNSYNCED_MAX) {
        let durability = [Durability::Memory, Durability::Os][usize::from(unsynced_max == 0)];
        log.set_config(Arc::new(LogConfig { flush_messages: unsynced_max + 1, durability, ..config() }));
    }
    for n in 0..24 {
        append(&node, n % 2, known)?;
        note_acknowledged(&node, known);
        if n % 3 == 0 {
            node.env.run_pending_flushes();
            note_acknowledged(&node, known);
        }
        if n == 15 {
            node.checkpoint().map_err(|_| ())?;
        }
    }
    Ok(())
}

fn note_acknowledged(node: &Node, known: &mut Known) {
    for (index, unsynced_max) in UNSYNCED_MAX.into_iter().enumerate() {
        let promised = node.logs[index].ends().acknowledged.0 - unsynced_max;
        known.durable[index] = known.durable[index].max(promised);
    }
}

fn a_crash_at_every_call_leaves_what_flush_messages_promised(layout: Layout) {
    stop_everywhere(layout, run_flushing, 1, 80);
}

type Run = fn(&MemFs, Layout, &mut Known) -> Result<(), ()>;

fn stop_everywhere(layout: Layout, run: Run, step: u64, places_min: u64) {
    let mut after = 0;
    loop {
        let (fs, mut known) = (MemFs::new(), Known::default());
        fs.stop_after(after);
        let finished = run(&fs, layout, &mut known).is_ok() && run(&fs, layout, &mut known).is_ok();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let crashed = fs.crash(policy);
            let again = crashed.crash(CrashPolicy::Everything);
            again.stop_after(after % 23);
            drop(Node::try_start(&again, layout, TopicId([7; 16]), config()));
            check(&again.crash(CrashPolicy::Torn(after)), layout, &known);
            let first = check(&crashed, layout, &known);
            assert_eq!(first, check(&crashed.crash(CrashPolicy::Nothing), layout, &known), "stopped after {after}");
        }
        if finished {
            break;
        }
        after += step;
    }
    assert!(after > places_min, "{after} places to stop");
}

fn fail_each(layout: Layout, run: Run, action: FaultAction) {
    let mut nth = 1;
    loop {
        let (fs, mut known) = (MemFs::new(), Known::default());
        drop(Node::start(&fs, layout));
        fs.plan_fault(Fault::any(nth).with(action));
        let _ = run(&fs, layout, &mut known);
        let met = fs.faults_met() > 0;
        fs.clear_faults();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            check(&fs.crash(policy), layout, &known);
        }
        if !met {
            break;
        }
        nth += 1;
    }
    assert!(nth > 100, "{nth} calls");
}

fn each_call_fails_once(layout: Layout) {
    fail_each(layout, run, FaultAction::Io);
}

fn the_disk_is_full_once_at_each_call(layout: Layout) {
    fail_each(layout, run, FaultAction::NoSpace);
}

fn each_call_fails_once_with_records_in_memory(layout: Layout) {
    fail_each(layout, run_in_memory, FaultAction::Io);
    fail_each(layout, run_in_memory, FaultAction::NoSpace);
}
