//! What opening does to what it finds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mainstem_env::{Clock, CrashPolicy, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, OpenOptions};
use mainstem_journal::{
    EntryScanner, Journal, JournalHost, JournalOptions, Location, OpenError, RecoverFrom, Scan, ScanEnd, SegmentBase,
};

use crate::support::{DIR, Entries, Rig, Step, contents, host, options};

fn path(base: u64) -> PathBuf {
    Path::new(DIR).join(format!("{base:020}.log"))
}

/// Segments 0, 3 and 6 of three entries of 100 bytes each, all durable; nothing is open.
fn three_segments() -> MemFs {
    let mut rig = Rig::new().unwrap();
    for number in 0..9 {
        rig.run(&Step::Append { payload_len: 80 }).unwrap();
        assert_eq!(rig.next(), number + 1);
    }
    rig.run(&Step::Flush).unwrap();
    assert_eq!(rig.journal.segment_bases(), [0, 3, 6].map(SegmentBase));
    rig.fs.crash(CrashPolicy::Nothing)
}

fn open_from(fs: &MemFs, from: RecoverFrom) -> (Journal, mainstem_journal::RecoveryReport, Entries) {
    let mut entries = Entries::default();
    let (journal, report) = Journal::open(&host(fs, 0), Path::new(DIR), options(), from, &mut entries).unwrap();
    (journal, report, entries)
}

fn overwrite(fs: &MemFs, base: u64, position: u64, bytes: &[u8]) {
    let file = fs.open(&path(base), &OpenOptions::read_write()).unwrap();
    file.write_all_at(bytes, position).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn only_the_tail_from_the_checkpoint_is_read() {
    let fs = three_segments();
    fs.plan_fault(Fault::any(1).on("00000.log").and_later());
    fs.plan_fault(Fault::any(1).on("00003.log").and_later());
    let checkpoint = Location::new(SegmentBase(6), 100);
    let (journal, report, entries) = open_from(&fs, RecoverFrom::Checkpoint(checkpoint));
    assert_eq!((report.segments_scanned, report.entries, report.bytes_scanned), (1, 2, 200));
    assert_eq!(entries.seen[0].0, checkpoint);
    assert_eq!(fs.faults_met(), 0, "an old segment was touched");
    assert_eq!((journal.end(), journal.durable()), (Some(checkpoint.plus(200)), Some(checkpoint.plus(200))));
}

#[test]
fn a_clean_journal_opens_without_opening_a_file() {
    let fs = three_segments();
    let end = Location::new(SegmentBase(6), 300);
    for from in [RecoverFrom::Clean, RecoverFrom::Checkpoint(end)] {
        fs.plan_fault(Fault::of(OpKind::Open, 1).and_later());
        let before = (fs.calls(), fs.mutations());
        let (journal, report, _) = open_from(&fs, from);
        assert_eq!(journal.end(), Some(end));
        assert_eq!((fs.calls() - before.0, fs.mutations() - before.1), (2, 0), "one list, one length");
        assert_eq!(report.bytes_scanned, 0);
        fs.clear_faults();
        assert_eq!(contents(&journal).unwrap().1.len(), 9);
    }
}

#[test]
fn an_idle_journal_is_small() {
    let bytes = size_of::<Journal>();
    assert!(bytes <= 400, "{bytes} bytes, without the names and numbers of its segments");
}

#[test]
fn a_torn_end_is_cut_durably() {
    let fs = three_segments();
    overwrite(&fs, 6, 300, b"\0\0\0\x50half an entry");
    let (journal, report, _) = open_from(&fs, RecoverFrom::Checkpoint(Location::new(SegmentBase(6), 0)));
    let cut = report.cut.unwrap();
    assert_eq!((cut.at, cut.bytes, cut.reason), (Location::new(SegmentBase(6), 300), 17, ScanEnd::Torn));
    assert_eq!(journal.end(), Some(cut.at));
    assert_eq!(fs.crash(CrashPolicy::Nothing).read_all(&path(6)).unwrap().len(), 300);
    let line = report.to_string();
    assert!(line.contains("cut 17 bytes at 00000000000000000006+300 (torn entry)"), "{line}");
}

#[test]
fn segments_after_a_corrupt_one_are_parked_and_not_deleted() {
    let fs = three_segments();
    overwrite(&fs, 0, 150, b"bit rot");
    let damaged = fs.read_all(&path(0)).unwrap();
    // An earlier recovery parked a segment of this name.
    let taken = Path::new(DIR).join("00000000000000000003.log.parked");
    fs.atomic_write(&taken, b"older").unwrap();
    let last = fs.read_all(&path(6)).unwrap();
    let (journal, report, _) = open_from(&fs, RecoverFrom::Start);
    assert_eq!(journal.end(), Some(Location::new(SegmentBase(0), 100)));
    assert_eq!(report.cut.unwrap().reason, ScanEnd::Corrupt { reason: "checksum" });
    assert!(report.found_damage());
    let names = [
        "00000000000000000003.log.parked.1",
        "00000000000000000006.log.parked",
        "00000000000000000000.log.from-100.parked",
    ];
    assert_eq!(report.parked, names.map(|name| Path::new(DIR).join(name)));
    let image = fs.crash(CrashPolicy::Nothing);
    assert_eq!(image.read_all(&taken).unwrap(), b"older");
    assert_eq!(image.read_all(&report.parked[1]).unwrap(), last);
    assert_eq!(image.read_all(&report.parked[2]).unwrap(), damaged[100..], "what was cut");
    let (again, report, _) = open_from(&image, RecoverFrom::Start);
    assert_eq!((again.end(), report.found_damage()), (journal.end(), false));
}

#[test]
fn a_copy_under_another_name_is_parked_alone() {
    let fs = three_segments();
    fs.atomic_write(&path(4), &fs.read_all(&path(3)).unwrap()).unwrap();
    let (journal, report, _) = open_from(&fs, RecoverFrom::Start);
    assert_eq!((journal.end(), report.cut), (Some(Location::new(SegmentBase(6), 300)), None));
    assert_eq!(report.parked, [Path::new(DIR).join("00000000000000000004.log.parked")]);
}

#[test]
fn zeros_that_are_cut_are_not_kept_and_a_full_disk_holds_up_damage_alone() {
    let fs = three_segments();
    overwrite(&fs, 6, 300, &[0; 5000]);
    let (_, report, _) = open_from(&fs, RecoverFrom::Start);
    assert_eq!((report.cut.unwrap().bytes, report.parked.len()), (5000, 0));
    let full = || Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace);
    overwrite(&fs, 6, 300, b"\0\0\0\x50half an entry");
    fs.plan_fault(full());
    let (_, report, _) = open_from(&fs, RecoverFrom::Start);
    assert_eq!((report.cut.unwrap().reason, report.parked.len()), (ScanEnd::Torn, 0));
    overwrite(&fs, 6, 150, b"bit rot");
    let damaged = fs.read_all(&path(6)).unwrap();
    fs.plan_fault(full().and_later());
    let refused = Journal::open(&host(&fs, 0), Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default());
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("00000000000000000006.log") && refused.contains("to be cut off"), "{refused}");
    assert_eq!(fs.read_all(&path(6)).unwrap(), damaged);
    let names = fs.read_dir(Path::new(DIR)).unwrap();
    assert!(names.iter().all(|entry| !entry.name.to_string_lossy().ends_with("parked")), "{names:?}");
}

/// A journal whose last segment is damaged at 100, with 60,000 bytes behind the damage; and these bytes.
fn long_damaged_tail() -> (MemFs, Vec<u8>) {
    let fs = three_segments();
    overwrite(&fs, 6, 150, b"bit rot");
    let bytes: Vec<u8> = (0..60_000u32).map(|number| (number % 251) as u8 + 1).collect();
    overwrite(&fs, 6, 300, &bytes);
    let tail = fs.read_all(&path(6)).unwrap()[100..].to_vec();
    (fs, tail)
}

/// What the segment and the files beside it have of its tail. Where two have a byte, both have the same.
fn kept_of_tail(fs: &MemFs, len: usize) -> Vec<u8> {
    let mut found = vec![0; len];
    let mut add = |bytes: &[u8]| {
        for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            assert!(found[at] == 0 || found[at] == *byte, "two files differ at {at}");
            found[at] = *byte;
        }
    };
    add(fs.read_all(&path(6)).unwrap().get(100..).unwrap_or_default());
    for entry in fs.read_dir(Path::new(DIR)).unwrap() {
        if entry.name.to_string_lossy().contains(".from-100.parked") {
            add(&fs.read_all(&Path::new(DIR).join(entry.name)).unwrap());
        }
    }
    found
}

#[test]
fn where_the_copy_of_a_tail_has_no_room_it_moves_piece_by_piece_and_no_crash_loses_a_byte() {
    // The copy, and the first two sizes of pieces, find no room.
    let full = |fs: &MemFs| {
        for nth in 1..=3 {
            fs.plan_fault(Fault::of(OpKind::Write, nth).on(".from-100").with(FaultAction::NoSpace));
        }
    };
    let end = Some(Location::new(SegmentBase(6), 100));
    for mutations in 0.. {
        let (fs, tail) = long_damaged_tail();
        full(&fs);
        fs.stop_after(mutations);
        let opened =
            Journal::open(&host(&fs, 0), Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default());
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(mutations)] {
            // Crashed twice: the second recovery stops in the middle, too.
            let image = fs.crash(policy);
            assert!(kept_of_tail(&image, tail.len()) == tail, "after {mutations} mutations, {policy:?}");
            full(&image);
            image.stop_after(mutations / 2);
            let _ =
                Journal::open(&host(&image, 0), Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default());
            let image = image.crash(policy);
            let (journal, ..) = open_from(&image, RecoverFrom::Start);
            assert_eq!(journal.end(), end, "after {mutations} mutations, {policy:?}");
            assert!(kept_of_tail(&image, tail.len()) == tail, "after {mutations} mutations twice, {policy:?}");
        }
        if let Ok((journal, report)) = opened {
            assert_eq!(journal.end(), end);
            assert_eq!(report.parked, [Path::new(DIR).join("00000000000000000006.log.from-100.parked")]);
            assert!(mutations > 10, "it moves in pieces: {mutations} mutations");
            return;
        }
    }
}

#[test]
fn parked_segments_never_come_back_wherever_the_recovery_stops() {
    // This scanner sees no gaps, so nothing but the order of parking and cutting protects the journal.
    let trusting = || Entries { trusting: true, ..Entries::default() };
    for mutations in 0.. {
        let fs = three_segments();
        overwrite(&fs, 0, 150, b"bit rot");
        fs.stop_after(mutations);
        let stopped =
            Journal::open(&host(&fs, 0), Path::new(DIR), options(), RecoverFrom::Start, &mut trusting()).is_err();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything].into_iter().chain((0..50).map(CrashPolicy::Torn))
        {
            let image = host(&fs.crash(policy), 0);
            let (again, _) =
                Journal::open(&image, Path::new(DIR), options(), RecoverFrom::Start, &mut trusting()).unwrap();
            assert_eq!(again.end(), Some(Location::new(SegmentBase(0), 100)), "stop after {mutations}, {policy:?}");
        }
        if !stopped {
            return;
        }
    }
}

#[test]
fn a_segment_that_does_not_follow_is_parked_also_when_the_one_before_ends_cleanly() {
    let fs = three_segments();
    let file = fs.open(&path(3), &OpenOptions::read_write()).unwrap();
    file.set_len(200).unwrap();
    let (journal, report, _) = open_from(&fs, RecoverFrom::Start);
    assert_eq!(journal.end(), Some(Location::new(SegmentBase(3), 200)));
    assert_eq!((report.parked.len(), report.cut), (1, None));
}

#[test]
fn unreadable_is_an_error_and_changes_nothing() {
    for (kind, what) in [(OpKind::Read, "cannot read"), (OpKind::ReadDir, "directory"), (OpKind::Metadata, "read")] {
        let fs = three_segments();
        let before = fs.mutations();
        fs.plan_fault(Fault::of(kind, 1));
        let result =
            Journal::open(&host(&fs, 0), Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default());
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::Read { .. } | OpenError::Directory { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(fs.mutations(), before);
    }
}

#[test]
fn a_journal_shorter_than_its_checkpoint_says_so() {
    let fs = three_segments();
    let too_far = [Location::new(SegmentBase(6), 301), Location::new(SegmentBase(9), 0)];
    for checkpoint in too_far {
        let (journal, report, _) = open_from(&fs, RecoverFrom::Checkpoint(checkpoint));
        assert!(report.shorter_than_checkpoint && report.to_string().contains("SHORTER"), "{report}");
        assert_eq!((journal.end(), report.entries), (Some(Location::new(SegmentBase(6), 300)), 3));
    }
    // Its segment was deleted: nothing is missing.
    let (_, report, _) = open_from(&fs, RecoverFrom::Checkpoint(Location::new(SegmentBase(2), 77)));
    assert_eq!((report.shorter_than_checkpoint, report.segments_scanned), (false, 2));
}

#[test]
fn leftovers_of_deletions_are_unlinked_and_strangers_left_alone() {
    let fs = three_segments();
    let keep = ["00000000000000000000.index", "leader-epoch-checkpoint", "00000000000000000009.log.swap"];
    for name in keep.iter().chain(&["00000000000000000009.log.deleted"]) {
        fs.atomic_write(&Path::new(DIR).join(name), b"x").unwrap();
    }
    let (journal, report, _) = open_from(&fs, RecoverFrom::Clean);
    assert_eq!((report.deleted_files_removed, journal.segment_bases().len()), (1, 3));
    for name in keep {
        assert!(fs.exists(&Path::new(DIR).join(name)).unwrap(), "{name}");
    }
}

/// Believes every length it reads.
struct Gullible;

impl EntryScanner for Gullible {
    fn begin_segment(&mut self, _start: Location) -> bool {
        true
    }

    fn scan(&mut self, _location: Location, bytes: &[u8]) -> Scan {
        let Some((len, _)) = bytes.split_at_checked(8) else { return Scan::Incomplete { needed: 8 } };
        let len = u64::from_be_bytes(len.try_into().unwrap()) as usize;
        if bytes.len() < len { Scan::Incomplete { needed: len } } else { Scan::Entry { len } }
    }
}

fn open_gullible(bytes: &[u8], max_entry_bytes: usize) -> mainstem_journal::RecoveryReport {
    let fs = MemFs::new();
    fs.create_dir_all_synced(Path::new(DIR)).unwrap();
    fs.atomic_write(&path(0), bytes).unwrap();
    let options = JournalOptions { max_entry_bytes, ..JournalOptions::default() };
    Journal::open(&host(&fs, 0), Path::new(DIR), options, RecoverFrom::Start, &mut Gullible).unwrap().1
}

#[test]
fn a_broken_length_asks_for_no_memory() {
    let absurd = open_gullible(&u64::MAX.to_be_bytes(), 1 << 20);
    assert_eq!(absurd.cut.unwrap().reason, ScanEnd::Corrupt { reason: "longer than an entry may be" });
    let past_the_end = open_gullible(&1_000_000u64.to_be_bytes(), 1 << 20);
    assert_eq!(past_the_end.cut.unwrap().reason, ScanEnd::Torn);
    let nothing = open_gullible(&[0; 64], 1 << 20);
    assert_eq!((nothing.entries, nothing.cut.unwrap().bytes), (0, 64));
}

#[test]
fn entries_longer_than_the_read_buffer_are_found() {
    let mut bytes = Vec::new();
    for len in [3_000_000u64, 9, 1 << 20, 8, 2_500_000] {
        bytes.extend(len.to_be_bytes());
        bytes.resize(bytes.len() + len as usize - 8, 1);
    }
    let report = open_gullible(&bytes, 4 << 20);
    assert_eq!((report.entries, report.bytes_scanned, report.cut), (5, bytes.len() as u64, None));
}

/// A clock that moves on each look.
#[derive(Debug, Default)]
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn wall_ms(&self) -> mainstem_types::TimestampMs {
        self.0.wall_ms()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(Duration::from_millis(7));
        self.0.monotonic()
    }
}

#[test]
fn the_report_says_how_long_it_took_in_one_line() {
    let host = Arc::new(JournalHost::new(Arc::new(three_segments()), Arc::new(Ticking::default()), 0));
    let (_, report) =
        Journal::open(&host, Path::new(DIR), options(), RecoverFrom::Start, &mut Entries::default()).unwrap();
    assert_eq!(report.to_string(), "scanned 900 bytes, 9 entries in 3 segments; cut nothing; 7 ms");
}
