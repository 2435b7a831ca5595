use std::path::Path;

use super::*;
use crate::is_stopped;

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A file whose name and first bytes are durable.
fn with_file(bytes: &[u8]) -> (MemFs, Arc<dyn File>) {
    let fs = MemFs::new();
    let file = fs.open(path("/f"), &OpenOptions::create_new()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(path("/")).unwrap();
    (fs, file)
}

fn after(fs: &MemFs, policy: CrashPolicy) -> Option<Vec<u8>> {
    fs.crash(policy).read_if_present(path("/f")).unwrap()
}

#[test]
fn bytes_that_were_not_synced_are_lost_or_kept_as_the_policy_says() {
    let (fs, file) = with_file(b"durable");
    file.write_all_at(b" and not", 7).unwrap();
    assert_eq!(after(&fs, CrashPolicy::Nothing).unwrap(), b"durable");
    assert_eq!(after(&fs, CrashPolicy::Everything).unwrap(), b"durable and not");
    file.sync_data().unwrap();
    assert_eq!(after(&fs, CrashPolicy::Nothing).unwrap(), b"durable and not");
}

#[test]
fn a_synced_file_without_a_synced_name_is_gone() {
    let fs = MemFs::new();
    let file = fs.open(path("/f"), &OpenOptions::create_new()).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(after(&fs, CrashPolicy::Nothing), None);
    assert_eq!(after(&fs, CrashPolicy::Everything).unwrap(), b"x");
}

#[test]
fn a_removal_or_rename_that_was_not_synced_comes_undone() {
    let (fs, _file) = with_file(b"x");
    fs.rename(path("/f"), path("/g")).unwrap();
    assert_eq!(after(&fs, CrashPolicy::Nothing).unwrap(), b"x");
    assert_eq!(after(&fs, CrashPolicy::Everything), None);
    fs.sync_dir(path("/")).unwrap();
    fs.remove_file(path("/g")).unwrap();
    assert_eq!(fs.crash(CrashPolicy::Nothing).read_all(path("/g")).unwrap(), b"x");
    assert!(!fs.exists(path("/g")).unwrap());
}

#[test]
fn a_directory_below_an_unsynced_one_is_gone_whatever_was_synced_in_it() {
    let fs = MemFs::new();
    fs.create_dir_all(path("/a/b")).unwrap();
    fs.atomic_write(path("/a/b/f"), b"x").unwrap();
    assert!(!fs.crash(CrashPolicy::Nothing).exists(path("/a")).unwrap());
    fs.sync_dir(path("/a")).unwrap();
    fs.sync_dir(path("/")).unwrap();
    assert_eq!(fs.crash(CrashPolicy::Nothing).read_all(path("/a/b/f")).unwrap(), b"x");

    fs.create_dir_all_synced(path("/c/d")).unwrap();
    assert!(fs.crash(CrashPolicy::Nothing).exists(path("/c/d")).unwrap());
}

#[test]
fn torn_covers_nothing_everything_and_what_lies_between() {
    let (fs, file) = with_file(b"....");
    file.write_all_at(b"ABCD", 0).unwrap();
    let seen: std::collections::BTreeSet<_> =
        (0..500).map(|seed| after(&fs, CrashPolicy::Torn(seed)).unwrap()).collect();
    for expected in ["....", "ABCD", "A...", "ABC.", "...D", ".BCD"] {
        assert!(seen.contains(expected.as_bytes()), "{expected} is missing from {seen:?}");
    }
    assert_eq!(after(&fs, CrashPolicy::Torn(3)), after(&fs, CrashPolicy::Torn(3)));
}

#[test]
fn the_halves_of_a_rename_between_directories_share_their_fate() {
    let (fs, _file) = with_file(b"x");
    fs.create_dir_all_synced(path("/d")).unwrap();
    fs.rename(path("/f"), path("/d/f")).unwrap();
    let places = |seed| {
        let image = fs.crash(CrashPolicy::Torn(seed));
        (image.exists(path("/f")).unwrap(), image.exists(path("/d/f")).unwrap())
    };
    let seen: std::collections::BTreeSet<_> = (0..100).map(places).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(false, true), (true, false)]);
}

#[test]
fn a_failed_sync_loses_what_it_should_have_written_for_good() {
    let (fs, file) = with_file(b"a");
    file.write_all_at(b"b", 1).unwrap();
    fs.plan_fault(Fault::of(OpKind::Sync, 1));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    file.write_all_at(b"c", 2).unwrap();
    file.sync_data().unwrap();
    assert_eq!(fs.read_all(path("/f")).unwrap(), b"abc");
    assert_eq!(after(&fs, CrashPolicy::Everything).unwrap(), b"a\0c");
}

#[test]
fn faults_meet_the_call_they_name_and_no_other() {
    let (fs, file) = with_file(b"");
    fs.plan_fault(Fault::of(OpKind::Write, 2).with(FaultAction::NoSpace));
    file.write_all_at(b"1", 0).unwrap();
    assert_eq!(file.write_all_at(b"2", 1).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_all_at(b"3", 1).unwrap();
    assert_eq!(fs.faults_met(), 1);

    fs.plan_fault(Fault::any(1).on("other").and_later());
    file.write_all_at(b"4", 2).unwrap();
    assert!(fs.open(path("/other"), &OpenOptions::create()).is_err());
    assert!(fs.exists(path("/other")).is_err());
    fs.clear_faults();
    assert!(!fs.exists(path("/other")).unwrap());
    assert_eq!(fs.read_all(path("/f")).unwrap(), b"134");
}

#[test]
fn short_and_interrupted_calls_are_finished_by_the_helpers() {
    let (fs, file) = with_file(b"");
    fs.plan_fault(Fault::any(1).with(FaultAction::Short(1)).and_later());
    let parts = [io::IoSlice::new(b"ab"), io::IoSlice::new(b""), io::IoSlice::new(b"cde")];
    file.write_all_vectored_at(&parts, 0).unwrap();
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"abcde");
    assert_eq!(file.read_full_at(&mut [0; 9], 2).unwrap(), 3);
    assert_eq!(file.read_exact_at(&mut [0; 9], 2).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    fs.clear_faults();
    fs.plan_fault(Fault::any(1).with(FaultAction::Interrupted));
    file.write_all_at(b"fg", 5).unwrap();
    fs.plan_fault(Fault::any(1).with(FaultAction::Interrupted));
    assert_eq!(file.read_full_at(&mut [0; 9], 0).unwrap(), 7);
    assert!(fs.faults_met() > 5);
}

#[test]
fn after_the_stop_nothing_happens_any_more() {
    let (fs, file) = with_file(b"a");
    let before = fs.mutations();
    fs.stop_after(1);
    file.write_all_at(b"b", 1).unwrap();
    let error = file.write_all_at(b"c", 2).unwrap_err();
    assert!(is_stopped(&error), "{error}");
    assert!(is_stopped(&file.sync_data().unwrap_err()));
    assert!(is_stopped(&fs.read_dir(path("/")).unwrap_err()));
    assert!(fs.stopped());
    assert_eq!(fs.mutations(), before + 1);
    assert_eq!(after(&fs, CrashPolicy::Everything).unwrap(), b"ab");
    assert_eq!(after(&fs, CrashPolicy::Nothing).unwrap(), b"a");
}

#[test]
fn atomic_write_leaves_the_old_or_the_new_content_wherever_it_stops() {
    for stop in 0.. {
        let (fs, _file) = with_file(b"old");
        fs.stop_after(stop);
        let done = fs.atomic_write(path("/f"), b"new content").is_ok();
        for seed in 0..40 {
            let found = after(&fs, CrashPolicy::Torn(seed)).unwrap();
            assert!(found == b"new content" || (!done && found == b"old"), "stop {stop}, seed {seed}: {found:?}");
        }
        if done {
            assert_eq!(stop, 5, "create, write, sync, rename, sync of the directory");
            return;
        }
    }
}

#[test]
fn handles_outlive_their_names_and_locks_end_with_handles() {
    let (fs, file) = with_file(b"x");
    assert!(file.try_lock().unwrap());
    let other = fs.open(path("/f"), &OpenOptions::read_write()).unwrap();
    assert!(!other.try_lock().unwrap());
    drop(file);
    assert!(other.try_lock().unwrap());
    fs.remove_file(path("/f")).unwrap();
    other.write_all_at(b"y", 1).unwrap();
    assert_eq!(other.len().unwrap(), 2);
    assert!(!fs.exists(path("/f")).unwrap());
}
