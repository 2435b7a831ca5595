//! One rule a test.

use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstem_env::{Fault, FaultAction, Fs, MemFs, OpKind, RealClock, RealFs};
use mainstem_journal::{
    AppendError, DeleteError, Journal, JournalHost, JournalOptions, Location, ReadError, RecoverFrom, RollError,
    SegmentBase, TruncateError,
};

use crate::support::{DIR, Entries, Rig, Step, contents, host, options};

fn empty(fs: &MemFs) -> Journal {
    let dir = Path::new(DIR);
    Journal::open(&host(fs, 1 << 20), dir, options(), RecoverFrom::Start, &mut Entries::default()).unwrap().0
}

fn filled(entries: usize) -> Rig {
    let mut rig = Rig::new().unwrap();
    for _ in 0..entries {
        rig.run(&Step::Append { payload_len: 80 }).unwrap();
    }
    rig
}

#[test]
fn a_new_journal_has_no_segment_until_it_rolls() {
    let fs = MemFs::new();
    let journal = empty(&fs);
    assert!(fs.exists(Path::new(DIR)).unwrap());
    assert!(matches!(journal.append(&[IoSlice::new(b"x")]), Err(AppendError::NoSegment { .. })));
    assert_eq!((journal.end(), journal.durable(), journal.flush().unwrap()), (None, None, None));
    assert!(journal.needs_roll(1));
    journal.roll(SegmentBase(17)).unwrap();
    journal.roll(SegmentBase(17)).unwrap();
    assert_eq!(journal.append(&[IoSlice::new(b"x")]).unwrap(), Location::new(SegmentBase(17), 0));
    assert_eq!(fs.read_all(&Path::new(DIR).join("00000000000000000017.log")).unwrap(), b"x");
}

#[test]
fn a_segment_must_follow_and_its_file_must_be_free() {
    let fs = MemFs::new();
    let journal = empty(&fs);
    journal.roll(SegmentBase(10)).unwrap();
    journal.append(&[IoSlice::new(b"x")]).unwrap();
    for base in [9, 10] {
        assert!(matches!(journal.roll(SegmentBase(base)), Err(RollError::NotAfter { .. })));
    }
    fs.atomic_write(&Path::new(DIR).join("00000000000000000012.log"), b"stranger").unwrap();
    let error = journal.roll(SegmentBase(12)).unwrap_err();
    assert!(error.to_string().contains("00000000000000000012.log exists"), "{error}");
    // The old segment goes on.
    journal.append(&[IoSlice::new(b"y")]).unwrap();
    assert_eq!(journal.end(), Some(Location::new(SegmentBase(10), 2)));
}

#[test]
fn an_entry_larger_than_a_segment_gets_one_of_its_own() {
    let journal = empty(&MemFs::new());
    journal.roll(SegmentBase(0)).unwrap();
    assert!(!journal.needs_roll(1_000_000), "the segment is empty");
    journal.append(&[IoSlice::new(&[0; 200])]).unwrap();
    assert!(!journal.needs_roll(100) && journal.needs_roll(101));
    journal.set_options(JournalOptions { segment_bytes: 1_000, suffix: ".other", ..options() });
    assert!(!journal.needs_roll(101));
    assert_eq!(journal.options().suffix, ".log");
}

#[test]
fn segments_are_found_by_the_numbers_they_hold() {
    let rig = filled(9);
    let journal = &rig.journal;
    assert_eq!(journal.segment_holding(0), Some(SegmentBase(0)));
    assert_eq!(journal.segment_holding(5), Some(SegmentBase(3)));
    assert_eq!(journal.segment_holding(1_000), Some(SegmentBase(6)));
    assert_eq!(journal.segment_after(SegmentBase(3)), Some(SegmentBase(6)));
    assert_eq!(journal.segment_after(SegmentBase(4)), Some(SegmentBase(6)));
    assert_eq!(journal.segment_after(SegmentBase(6)), None);
    assert_eq!((journal.segment_len(SegmentBase(3)).unwrap(), journal.total_bytes().unwrap()), (300, 900));
    assert!(matches!(journal.segment_len(SegmentBase(4)), Err(ReadError::NoSegment { .. })));
    journal.delete_before(SegmentBase(3)).unwrap();
    assert_eq!(journal.segment_holding(2), None);
}

#[test]
fn reads_end_with_the_segment() {
    let rig = filled(3);
    let at = |position| Location::new(SegmentBase(0), position);
    assert_eq!(rig.journal.read_at(at(250), &mut [0; 100]).unwrap(), 50);
    assert_eq!(rig.journal.slice(at(300), 100).unwrap().len, 0);
    assert!(matches!(rig.journal.slice(at(301), 1), Err(ReadError::PastEnd { len: 300, .. })));
    let slice = rig.journal.slice(at(100), 1_000).unwrap();
    assert_eq!((slice.position, slice.len, slice.read().unwrap().len()), (100, 200, 200));
}

#[test]
fn readers_outlive_the_deletion_of_what_they_read() {
    let rig = filled(9);
    let held = rig.journal.slice(Location::new(SegmentBase(0), 0), 300).unwrap();
    let before = held.read().unwrap();
    let report = rig.journal.delete_before(SegmentBase(6)).unwrap();
    assert_eq!((report.bases, report.bytes), (vec![SegmentBase(0), SegmentBase(3)], 600));
    assert!(matches!(rig.journal.slice(Location::new(SegmentBase(3), 0), 1), Err(ReadError::NoSegment { .. })));
    let deleted = Path::new(DIR).join("00000000000000000000.log.deleted");
    assert!(rig.fs.exists(&deleted).unwrap());
    assert_eq!(rig.journal.remove_deleted().unwrap(), 2);
    assert!(!rig.fs.exists(&deleted).unwrap());
    assert_eq!(held.read().unwrap(), before);
}

#[test]
fn the_active_segment_is_never_deleted() {
    let rig = filled(9);
    rig.journal.delete_before(SegmentBase(u64::MAX)).unwrap();
    assert_eq!(rig.journal.segment_bases(), [SegmentBase(6)]);
}

#[test]
fn a_rename_that_fails_leaves_the_segments_where_they_are() {
    let rig = filled(9);
    rig.fs.plan_fault(Fault::of(OpKind::Rename, 2));
    assert!(matches!(rig.journal.delete_before(SegmentBase(6)), Err(DeleteError::Rename { .. })));
    assert_eq!(rig.journal.segment_bases(), [SegmentBase(3), SegmentBase(6)]);
    assert_eq!(rig.journal.delete_before(SegmentBase(6)).unwrap().bases, [SegmentBase(3)]);
    rig.fs.plan_fault(Fault::of(OpKind::Remove, 1));
    assert!(matches!(rig.journal.remove_deleted(), Err(DeleteError::Remove { .. })));
    assert_eq!(rig.journal.remove_deleted().unwrap(), 2);
}

#[test]
fn a_disk_without_room_for_a_longer_name_is_no_obstacle_to_a_deletion() {
    let rig = filled(9);
    let held = rig.journal.slice(Location::new(SegmentBase(0), 0), 300).unwrap();
    let before = held.read().unwrap();
    rig.fs.plan_fault(Fault::of(OpKind::Rename, 1).with(FaultAction::NoSpace).and_later());
    assert_eq!(rig.journal.delete_before(SegmentBase(6)).unwrap().bases, [SegmentBase(0), SegmentBase(3)]);
    assert!(rig.fs.faults_met() == 2 && !rig.fs.exists(&Path::new(DIR).join("00000000000000000000.log")).unwrap());
    assert_eq!(rig.journal.remove_deleted().unwrap(), 0);
    assert_eq!(held.read().unwrap(), before);
}

#[test]
fn appenders_and_deletions_never_disturb_readers() {
    let fs = MemFs::new();
    let journal = empty(&fs);
    journal.roll(SegmentBase(0)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reads = 0u64;
                while !done.load(Ordering::Acquire) || reads == 0 {
                    let Some(first) = journal.first_segment() else { continue };
                    let mut bytes = [0; 64];
                    match journal.read_at(Location::new(first, 0), &mut bytes) {
                        // Every entry is 16 times the number of its segment.
                        Ok(count) => assert!(bytes[..count].chunks(16).all(|entry| entry == [first.0 as u8; 16])),
                        Err(ReadError::NoSegment { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    reads += 1;
                }
            });
        }
        for base in 0..200u64 {
            journal.roll(SegmentBase(base)).unwrap();
            for _ in 0..4 {
                journal.append(&[IoSlice::new(&[base as u8; 16])]).unwrap();
            }
            journal.delete_before(SegmentBase(base.saturating_sub(2))).unwrap();
            journal.remove_deleted().unwrap();
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_full_disk_costs_one_entry_and_no_more() {
    let mut rig = filled(1);
    rig.fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::Short(33)));
    rig.fs.plan_fault(Fault::of(OpKind::Write, 2).with(FaultAction::NoSpace));
    let error = rig.run(&Step::Append { payload_len: 80 }).unwrap_err();
    assert!(error.contains("no space left for 100 bytes") && error.contains(DIR), "{error}");
    assert_eq!(rig.fs.read_all(&Path::new(DIR).join("00000000000000000000.log")).unwrap().len(), 100);
    assert!(rig.journal.failure().is_none());
    rig.run(&Step::Append { payload_len: 80 }).unwrap();
    rig.check().unwrap();
}

#[test]
fn a_failed_write_ends_the_journal_but_not_its_readers() {
    let mut rig = filled(1);
    rig.fs.plan_fault(Fault::of(OpKind::Write, 1));
    let first = rig.run(&Step::Append { payload_len: 80 }).unwrap_err();
    assert!(first.contains("write failed at segment 00000000000000000000"), "{first}");
    assert_eq!(rig.run(&Step::Append { payload_len: 80 }).unwrap_err(), first);
    assert_eq!(rig.journal.roll(SegmentBase(5)).unwrap_err().to_string(), first);
    assert_eq!(rig.journal.truncate_to(Location::default()).unwrap_err().to_string(), first);
    assert_eq!(rig.journal.delete_before(SegmentBase(5)).unwrap_err().to_string(), first);
    assert_eq!(rig.journal.close().unwrap_err().to_string(), first);
    assert_eq!(contents(&rig.journal).unwrap().1.len(), 1);
}

#[test]
fn a_closed_journal_takes_nothing_more() {
    let rig = filled(2);
    assert_eq!(rig.journal.close().unwrap(), Some(Location::new(SegmentBase(0), 200)));
    assert!(matches!(rig.journal.append(&[IoSlice::new(b"x")]), Err(AppendError::Closed { .. })));
    assert!(matches!(rig.journal.roll(SegmentBase(5)), Err(RollError::Closed { .. })));
    assert!(matches!(rig.journal.truncate_to(Location::default()), Err(TruncateError::Closed { .. })));
    assert_eq!(contents(&rig.journal).unwrap().1.len(), 2);
}

#[test]
fn an_idle_journal_lets_its_files_go_and_takes_them_again() {
    let mut rig = filled(4);
    assert!(rig.journal.tail(Location::new(SegmentBase(3), 0), 10).is_some());
    rig.run(&Step::Flush).unwrap();
    rig.journal.release_idle();
    assert_eq!(rig.journal.tail(Location::new(SegmentBase(3), 0), 10), None);
    rig.fs.plan_fault(Fault::of(OpKind::Open, 1));
    let error = rig.run(&Step::Append { payload_len: 80 }).unwrap_err();
    assert!(error.contains("cannot open"), "{error}");
    rig.run(&Step::Append { payload_len: 80 }).unwrap();
    rig.check().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_prepared_segment_holds_no_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(JournalHost::new(Arc::new(RealFs), Arc::new(RealClock::new()), 0));
    let opened =
        Journal::open(&host, folder.path(), JournalOptions::default(), RecoverFrom::Start, &mut Entries::default());
    let journal = Arc::new(opened.unwrap().0);
    journal.roll(SegmentBase(0)).unwrap();
    journal.append(&[IoSlice::new(b"one")]).unwrap();
    journal.prepare_next_soon();
    host.next_segments.run_pending();
    let prepared = folder.path().join("next.log.deleted");
    assert!(prepared.exists());
    let open = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(folder.path())).count()
    };
    assert_eq!(open(), 1, "the active segment");
    journal.roll(SegmentBase(3)).unwrap();
    assert!(!prepared.exists(), "it was used");
    let at = journal.append(&[IoSlice::new(b"two")]).unwrap();
    assert_eq!((at, open()), (Location::new(SegmentBase(3), 0), 2));
    assert_eq!(std::fs::read(folder.path().join("00000000000000000003.log")).unwrap()[..3], *b"two");
}

fn blocks(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn space_is_reserved_for_busy_segments_alone_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(JournalHost::new(Arc::new(RealFs), Arc::new(RealClock::new()), 0));
    let options = JournalOptions { segment_bytes: 64 << 20, ..JournalOptions::default() };
    let open = |from| Journal::open(&host, folder.path(), options, from, &mut Entries::default()).unwrap().0;
    let journal = open(RecoverFrom::Start);
    journal.roll(SegmentBase(0)).unwrap();
    let path = |base: u64| folder.path().join(format!("{base:020}.log"));
    let chunk = vec![5; 256 << 10];
    for _ in 0..4 {
        journal.append(&[IoSlice::new(&chunk)]).unwrap();
    }
    assert!(blocks(&path(0)) <= (1 << 20) + 8_192, "a thin segment has reserved space");
    for _ in 0..8 {
        journal.append(&[IoSlice::new(&chunk)]).unwrap();
    }
    let reserved = blocks(&path(0));
    assert_eq!(std::fs::metadata(path(0)).unwrap().len(), 3 << 20, "the length is the end of the data");
    journal.roll(SegmentBase(1)).unwrap();
    for _ in 0..6 {
        journal.append(&[IoSlice::new(&chunk)]).unwrap();
    }
    journal.flush().unwrap();
    journal.close().unwrap();
    for (base, len) in [(0, 3 << 20), (1, 6 << 18)] {
        assert_eq!(std::fs::metadata(path(base)).unwrap().len(), len);
        assert!(blocks(&path(base)) <= len + 8_192, "segment {base} still has reserved space");
    }
    // Not every file system reserves; where it does, more than the data was taken.
    assert!(reserved >= 3 << 20);
    let again = open(RecoverFrom::Clean);
    assert_eq!(again.end(), Some(Location::new(SegmentBase(1), 6 << 18)));
}
