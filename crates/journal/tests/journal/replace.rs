//! Several segments become one while readers go on.

use std::path::Path;

use mainstem_env::{Fs, MemFs, OpenOptions};
use mainstem_journal::{Journal, JournalHost, Location, RecoverFrom, ReplaceError, SegmentBase};

use crate::support::{DIR, Entries, host, options};
use std::io::IoSlice;
use std::sync::Arc;

/// Segments 0, 10, 20 with 10 bytes each, and the active segment 30.
fn four(fs: &MemFs) -> (Arc<JournalHost>, Journal) {
    let host = host(fs, 1 << 20);
    let (journal, _) =
        Journal::open(&host, Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default()).unwrap();
    for base in [0, 10, 20, 30] {
        journal.roll(SegmentBase(base)).unwrap();
        journal.append(&[IoSlice::new(&[base as u8; 10])]).unwrap();
    }
    journal.flush().unwrap();
    (host, journal)
}

fn read(journal: &Journal, base: u64) -> Vec<u8> {
    let mut bytes = [0; 100];
    let count = journal.read_at(Location::new(SegmentBase(base), 0), &mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn the_new_segment_takes_the_place_and_slices_of_the_old_ones_stay_readable() {
    let fs = MemFs::new();
    let (host, journal) = four(&fs);
    let old = journal.slice(Location::new(SegmentBase(10), 0), 10).unwrap();
    let swap = Path::new(DIR).join("new");
    let file = fs.open(&swap, &OpenOptions::create_new()).unwrap();
    file.write_all_at(b"cleaned", 0).unwrap();
    journal.replace_segments(SegmentBase(10), SegmentBase(30), file, 7).unwrap();
    assert_eq!(journal.segment_bases(), [0, 10, 30].map(SegmentBase));
    assert_eq!(old.read().unwrap()[..], [10; 10]);
    assert_eq!(read(&journal, 10), b"cleaned");
    // The name leads to the old file still: the new one must not be closed.
    host.open_files.set_limit(1);
    journal.release_idle();
    (0..3).for_each(|_| host.open_files.release_idle());
    assert_eq!((read(&journal, 0), read(&journal, 30)), (vec![0; 10], vec![30; 10]));
    assert_eq!(read(&journal, 10), b"cleaned");
    let name = Path::new(DIR).join(format!("{:020}{}", 10, options().suffix));
    fs.rename(&swap, &name).unwrap();
    journal.settle_replaced(SegmentBase(10));
    journal.release_idle();
    (0..3).for_each(|_| host.open_files.release_idle());
    assert_eq!(read(&journal, 10), b"cleaned");
    assert_eq!(journal.segment_len(SegmentBase(10)).unwrap(), 7);
    journal.append(&[IoSlice::new(b"more")]).unwrap();
    assert_eq!(journal.flush().unwrap(), journal.end());
}

#[test]
fn the_active_segment_and_what_is_not_there_cannot_be_replaced() {
    let fs = MemFs::new();
    let (_, journal) = four(&fs);
    for (first, next) in [(20, 40), (30, 40), (5, 20), (10, 10), (20, 10), (10, 25)] {
        let file = fs.open(Path::new("/new"), &OpenOptions::create()).unwrap();
        let outcome = journal.replace_segments(SegmentBase(first), SegmentBase(next), file, 0);
        assert!(matches!(outcome, Err(ReplaceError::NotThere { .. })), "{first} to {next}");
    }
    assert_eq!(journal.segment_bases(), [0, 10, 20, 30].map(SegmentBase));
}
