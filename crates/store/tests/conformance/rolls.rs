//! An append that begins a new file waits for no disk, if the files of the next segment could be prepared before.

use mainstem_env::{Fault, FaultAction, Fs, MemFs, OpKind};
use mainstem_store::AppendError;
use mainstem_types::Offset;

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    a_roll_creates_no_file_and_syncs_nothing
    a_roll_without_prepared_files_creates_them
    appends_and_rolls_without_a_descriptor_are_refused_and_later_ones_go_on
    prepared_files_are_gone_after_a_stop_and_after_a_kill
}

/// How many files lie where the log's records do.
fn files(node: &Node) -> usize {
    node.fs.read_dir(&records_folder(node)).unwrap().len()
}

fn records_folder(node: &Node) -> std::path::PathBuf {
    let folder = node.logs[0].folder();
    if node.layout.has_own_files() { folder } else { folder.join("commitlog") }
}

fn a_roll_creates_no_file_and_syncs_nothing(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout).with_folders();
    for kind in [OpKind::Sync, OpKind::SyncDir] {
        let mut rolls = 0;
        for _ in 0..60 {
            // The thread that prepares, and the one that serves connections, in turns.
            node.env.run_pending_preparations();
            let (before, segments) = (files(&node), node.logs[0].segment_count());
            node.fs.plan_fault(Fault::of(kind, 1).and_later());
            fill(&node.logs[0], 1);
            node.fs.clear_faults();
            assert_eq!(files(&node), before, "a file was created by an append");
            rolls += node.logs[0].segment_count() - segments;
        }
        assert!(rolls > 4, "{rolls} rolls");
    }
    assert!(node.logs[0].failure().is_none());
    expect_filled(&node.logs[0], 0..120);
}

fn a_roll_without_prepared_files_creates_them(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout).with_folders();
    for round in 0..60 {
        if round % 9 == 0 {
            node.env.run_pending_preparations();
        }
        // Somebody removes what was prepared.
        for entry in node.fs.read_dir(&records_folder(&node)).unwrap() {
            let name = entry.name.to_str().unwrap();
            if name.starts_with("next") && round % 2 == 0 {
                node.fs.remove_file(&records_folder(&node).join(name)).unwrap();
            }
        }
        fill(&node.logs[0], 1);
    }
    expect_filled(&node.logs[0], 0..60);
    let node = Node::start(&node.stop().unwrap(), layout);
    expect_filled(&node.logs[0], 0..60);
}

/// From each opening of a file on, three fail: those of whichever step the append is at.
fn appends_and_rolls_without_a_descriptor_are_refused_and_later_ones_go_on(layout: Layout) {
    for prepared in [true, false] {
        let openings = each_opening_without_a_descriptor(layout, prepared);
        assert!(openings > 4, "{openings} openings");
    }
}

/// How many openings there are.
fn each_opening_without_a_descriptor(layout: Layout, prepared: bool) -> u64 {
    let (mut nth, mut refused, mut met) = (1, 0, true);
    while met {
        let node = Node::start(&MemFs::new(), layout);
        let log = &node.logs[0];
        fill(log, 6);
        if prepared {
            node.env.run_pending_preparations();
        }
        for later in 0..3 {
            let fault = Fault::of(OpKind::Open, nth + later).with(FaultAction::NoDescriptor);
            node.fs.plan_fault(fault.on("/data/"));
        }
        while log.log_end() < Offset(40) {
            match log.append(&batch_at(NOW.0, &[&value(log.log_end().0)]), &client()) {
                Ok(_) => {}
                Err(AppendError::Storage(_)) => refused += 1,
                Err(error) => panic!("opening {nth}: {error}"),
            }
            assert!(log.failure().is_none(), "opening {nth}: {:?}", log.failure());
        }
        met = node.fs.faults_met() > 0;
        node.fs.clear_faults();
        expect_filled(log, 0..40);
        let node = Node::start(&node.stop().unwrap(), layout);
        expect_filled(&node.logs[0], 0..40);
        nth += 1;
    }
    assert!(refused > 0, "every append went on");
    nth
}

fn prepared_files_are_gone_after_a_stop_and_after_a_kill(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
    let prepared = |node: &Node| {
        let names = node.fs.read_dir(&records_folder(node)).unwrap().into_iter();
        names.filter(|entry| entry.name.to_str().is_some_and(|name| name.starts_with("next"))).count()
    };
    let (mut filled, mut seen) = (0, 0);
    while seen == 0 {
        fill(&node.logs[0], 1);
        filled += 1;
        node.env.run_pending_preparations();
        seen = prepared(&node);
        assert!(filled < 30, "nothing is prepared");
    }
    let killed = node.fs.crash(mainstem_env::CrashPolicy::Everything);
    let node = Node::start(&node.stop().unwrap(), layout);
    assert_eq!(prepared(&node), 0, "after a stop");
    let node = Node::start(&killed, layout);
    assert_eq!((prepared(&node), node.logs[0].log_end()), (0, Offset(filled)), "after a kill");
}
