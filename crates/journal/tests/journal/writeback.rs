//! Dirty pages are written steadily, and nobody waits for that.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use mainstem_env::{MemFs, RealClock};
use mainstem_journal::{Journal, JournalHost, JournalOptions, RecoverFrom, SegmentBase, WritebackStats};

use crate::gate::{Gate, GatedFs};
use crate::support::{DIR, Entries};

const STEP: u64 = 10_000;

fn open(running: bool, writeback_bytes: u64) -> (Journal, Arc<JournalHost>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let fs = GatedFs { fs: MemFs::new(), gate: Arc::clone(&gate) };
    let host = Arc::new(JournalHost::new(Arc::new(fs), Arc::new(RealClock::new()), 0));
    if running {
        host.writeback.start().unwrap();
    }
    let options = JournalOptions { writeback_bytes, ..JournalOptions::default() };
    let journal = Journal::open(&host, Path::new(DIR), options, RecoverFrom::Start, &mut Entries::default()).unwrap().0;
    journal.roll(SegmentBase(0)).unwrap();
    (journal, host, gate)
}

fn append(journal: &Journal, count: usize) {
    for _ in 0..count {
        journal.append(&[IoSlice::new(&[7; 1000])]).unwrap();
    }
}

#[test]
fn each_step_is_written_once_in_whole_pages_and_the_rest_when_the_segment_is_full() {
    let (journal, host, gate) = open(true, STEP);
    append(&journal, 9);
    assert_eq!(host.writeback.stats(), WritebackStats::default(), "not enough yet");
    append(&journal, 1);
    assert_eq!(gate.wait_for_write_back(1), [(0, 8192)], "the page that is not full will be written to again");
    append(&journal, 9);
    assert_eq!(
        gate.wait_for_write_back(2),
        [(0, 8192), (8192, 8192)],
        "a step after what was written, not after the end"
    );
    append(&journal, 3);
    journal.roll(SegmentBase(1)).unwrap();
    assert_eq!(gate.wait_for_write_back(3)[2], (16_384, 22_000 - 16_384));
    append(&journal, 10);
    assert_eq!(gate.wait_for_write_back(4)[3], (0, 8192), "a new segment begins at its front");
    assert_eq!(host.writeback.stats(), WritebackStats { calls: 4, bytes: 22_000 + 8192, skipped_bytes: 0 });
}

#[test]
fn thin_segments_are_left_to_the_system_and_so_are_all_without_the_thread() {
    for (running, step) in [(true, 100_000), (true, 0), (false, STEP)] {
        let (journal, host, gate) = open(running, step);
        for base in 1..4 {
            append(&journal, 30);
            journal.roll(SegmentBase(base)).unwrap();
        }
        journal.close().unwrap();
        drop(journal);
        drop(host);
        assert!(gate.wait_for_write_back(0).is_empty());
    }
}

#[test]
fn a_disk_that_does_not_take_it_holds_up_neither_appends_nor_syncs() {
    let (journal, host, gate) = open(true, STEP);
    gate.let_write_back(false);
    append(&journal, 10);
    gate.wait_for_write_back(1);
    // In the file of the segment that waits one note takes them all; each other segment has its own, up to the limit.
    append(&journal, 1000);
    for base in 1..=100 {
        journal.roll(SegmentBase(base)).unwrap();
        append(&journal, 10);
    }
    journal.flush().unwrap();
    assert_eq!(journal.durable(), journal.end());
    let before = host.writeback.stats();
    assert_eq!(before.calls, 1);
    assert!(before.skipped_bytes > 0, "what waits is bounded");
    gate.let_write_back(true);
    let calls = gate.wait_for_write_back(65);
    assert!(calls[1].1 > 900_000, "notes of neighbours are one: {:?}", calls[1]);
    drop(journal);
    drop(host);
}
