//! An append that begins a new file waits for no disk, if the files of the next segment could be prepared before.

use mainstem_env::{Fault, Fs, MemFs, OpKind};
use mainstem_types::Offset;

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    a_roll_creates_no_file_and_syncs_nothing
    a_roll_without_prepared_files_creates_them
    prepared_files_are_gone_after_a_stop_and_after_a_kill
}

/// How many files lie where the log's records do.
fn files(node: &Node) -> usize {
    node.fs.read_dir(&records_folder(node)).unwrap().len()
}

fn records_folder(node: &Node) -> std::path::PathBuf {
    let folder = node.logs[0].folder();
    if node.layout == Layout::Partition { folder } else { folder.join("commitlog") }
}

fn a_roll_creates_no_file_and_syncs_nothing(layout: Layout) {
    let node = Node::start(&MemFs::new(), layout);
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
    let node = Node::start(&MemFs::new(), layout);
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
