//! Group commit.

use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use mainstem_env::{CrashPolicy, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, RealClock, RealFs};
use mainstem_journal::{
    DurabilityObserver, FlushError, Flusher, Journal, JournalFailure, JournalHost, Location, RecoverFrom, SegmentBase,
};

use crate::gate::{Gate, GatedFs};
use crate::support::{DIR, Entries, Entry, contents, open, options};

/// What an owner does with the news: keeps the largest location, and wakes who waits.
#[derive(Default)]
struct Waiters {
    news: Mutex<News>,
    changed: Condvar,
}

#[derive(Default)]
struct News {
    durable: Location,
    failure: Option<String>,
    calls: usize,
}

impl DurabilityObserver for Waiters {
    fn on_durable(&self, up_to: Location) {
        let mut news = self.news.lock().unwrap();
        news.durable = news.durable.max(up_to);
        news.calls += 1;
        self.changed.notify_all();
    }

    fn on_failed(&self, failure: &Arc<JournalFailure>) {
        let mut news = self.news.lock().unwrap();
        news.failure = Some(failure.to_string());
        news.calls += 1;
        self.changed.notify_all();
    }
}

impl Waiters {
    fn wait_for(&self, up_to: Location) {
        let news = self.news.lock().unwrap();
        let limit = Duration::from_secs(60);
        let (news, timeout) = self.changed.wait_timeout_while(news, limit, |news| news.durable < up_to).unwrap();
        assert!(!timeout.timed_out(), "nobody said that {up_to} is durable, only {}", news.durable);
    }

    fn calls(&self) -> usize {
        self.news.lock().unwrap().calls
    }
}

fn journal_on(fs: Arc<dyn Fs>, dir: &Path) -> (Arc<Journal>, Arc<Waiters>) {
    journal_of(&Arc::new(JournalHost::new(fs, Arc::new(ManualClock::default()), 0)), dir)
}

fn journal_of(host: &Arc<JournalHost>, dir: &Path) -> (Arc<Journal>, Arc<Waiters>) {
    let (journal, _) = Journal::open(host, dir, options(), RecoverFrom::Start, &mut Entries::default()).unwrap();
    let waiters = Arc::new(Waiters::default());
    let observer: Weak<Waiters> = Arc::downgrade(&waiters);
    journal.set_observer(observer);
    journal.roll(SegmentBase(0)).unwrap();
    (Arc::new(journal), waiters)
}

fn append(journal: &Journal, number: u64) -> Location {
    let bytes = Entry { number, epoch: 1, payload_len: 30 }.encode();
    journal.append(&[IoSlice::new(&bytes)]).unwrap().plus(bytes.len() as u64)
}

#[test]
fn one_sync_covers_all_who_wait() {
    let fs = MemFs::new();
    let (journal, waiters) = journal_on(Arc::new(fs.clone()), Path::new(DIR));
    let flusher = Flusher::new(0).unwrap();
    let mut last = Location::default();
    for number in 0..100 {
        last = append(&journal, number);
        assert!(!flusher.request(&journal, last));
    }
    let before = fs.mutations();
    assert_eq!(flusher.run_pending(), 1);
    assert_eq!(fs.mutations() - before, 2, "one sync of the file, one of the directory with its new name");
    assert_eq!((journal.durable(), waiters.news.lock().unwrap().durable), (Some(last), last));
    assert!(flusher.request(&journal, last), "it is durable already");
    assert_eq!((flusher.run_pending(), waiters.calls()), (0, 1));
    assert_eq!(contents(&open(&fs.crash(CrashPolicy::Nothing)).unwrap().0).unwrap().1.len(), 100);
}

#[test]
fn a_flush_includes_the_segments_that_were_rolled_since() {
    let fs = MemFs::new();
    let (journal, _waiters) = journal_on(Arc::new(fs.clone()), Path::new(DIR));
    for number in 0..9 {
        append(&journal, number);
        if number % 3 == 2 {
            journal.roll(SegmentBase(number + 1)).unwrap();
        }
    }
    journal.flush().unwrap();
    let (recovered, report) = open(&fs.crash(CrashPolicy::Nothing)).unwrap();
    assert_eq!(contents(&recovered).unwrap().1.len(), 9);
    assert_eq!(recovered.segment_bases(), [0, 3, 6, 9].map(SegmentBase));
    assert!(!report.found_damage(), "{report}");
}

#[test]
fn appends_reads_and_rolls_go_on_while_a_sync_hangs() {
    let gate = Arc::new(Gate::default());
    let fs = GatedFs { fs: MemFs::new(), gate: Arc::clone(&gate) };
    let (journal, waiters) = journal_on(Arc::new(fs), Path::new(DIR));
    let flusher = Flusher::new(1).unwrap();
    let first = append(&journal, 0);
    gate.close();
    assert!(!flusher.request(&journal, first));
    gate.wait_for_sync();
    // If anything here waited for the sync, the test would hang.
    let mut last = append(&journal, 1);
    assert_eq!(journal.read_at(Location::new(SegmentBase(0), 0), &mut [0; 100]).unwrap(), 100);
    journal.roll(SegmentBase(2)).unwrap();
    journal.delete_before(SegmentBase(0)).unwrap();
    for number in 2..50 {
        last = append(&journal, number);
        assert!(!flusher.request(&journal, last));
    }
    assert_eq!((journal.end(), journal.durable()), (Some(last), Some(Location::default())));
    assert_eq!(waiters.calls(), 0);
    gate.open();
    waiters.wait_for(last);
    assert!(gate.syncs() <= 3, "{} syncs: the hanging one, and one more that covers the rest", gate.syncs());
}

/// A journal with an entry that is not durable and whose file another journal had to be closed for.
fn with_closed_file(fs: &MemFs) -> (Arc<Journal>, Arc<Waiters>, Location) {
    let host = Arc::new(JournalHost::new(Arc::new(fs.clone()), Arc::new(ManualClock::default()), 0));
    host.open_files.set_limit(1);
    let (journal, waiters) = journal_of(&host, Path::new(DIR));
    let last = append(&journal, 0);
    append(&journal_of(&host, Path::new("/other")).0, 0);
    (journal, waiters, last)
}

#[test]
fn a_sync_without_a_descriptor_acknowledges_nothing_and_is_tried_again() {
    for kind in [OpKind::Open, OpKind::SyncDir] {
        let fs = MemFs::new();
        let (journal, waiters, last) = with_closed_file(&fs);
        let flusher = Flusher::new(0).unwrap();
        fs.plan_fault(Fault::of(kind, 1).with(FaultAction::NoDescriptor).and_later());
        assert!(!flusher.request(&journal, last));
        for _ in 0..3 {
            assert_eq!((flusher.run_pending(), waiters.calls()), (0, 0), "{kind:?}");
            assert!(matches!(journal.flush(), Err(FlushError::Open { .. })), "{kind:?}");
            assert_eq!(journal.durable(), Some(Location::default()), "{kind:?}");
        }
        assert!(fs.faults_met() >= 6 && journal.failure().is_none(), "{kind:?}");
        fs.clear_faults();
        let later = append(&journal, 1);
        assert_eq!(flusher.run_pending(), 1, "whoever asked was not forgotten");
        assert_eq!(waiters.news.lock().unwrap().durable, later, "{kind:?}");
        assert_eq!(contents(&open(&fs.crash(CrashPolicy::Nothing)).unwrap().0).unwrap().1.len(), 2, "{kind:?}");
    }
}

#[test]
fn the_flusher_itself_tries_again_when_there_is_a_descriptor_and_ends_when_there_is_none() {
    let fs = MemFs::new();
    let (journal, waiters, last) = with_closed_file(&fs);
    let flusher = Flusher::new(1).unwrap();
    for nth in 1..=3 {
        fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor));
    }
    assert!(!flusher.request(&journal, last));
    waiters.wait_for(last);
    assert_eq!((fs.faults_met(), waiters.calls()), (3, 1));
    // Dropped, it does not wait for a descriptor that never comes.
    let last = append(&journal, 1);
    journal.roll(SegmentBase(2)).unwrap();
    fs.plan_fault(Fault::of(OpKind::SyncDir, 1).with(FaultAction::NoDescriptor).and_later());
    assert!(!flusher.request(&journal, last));
    drop(flusher);
    assert_eq!(waiters.calls(), 1);
}

#[test]
fn everybody_learns_of_the_error_and_nobody_of_success() {
    let fs = MemFs::new();
    let (journal, waiters) = journal_on(Arc::new(fs.clone()), Path::new(DIR));
    let flusher = Flusher::new(0).unwrap();
    let end = append(&journal, 0);
    fs.plan_fault(Fault::of(OpKind::Sync, 1));
    assert!(!flusher.request(&journal, end));
    flusher.run_pending();
    let failure = waiters.news.lock().unwrap().failure.take().unwrap();
    assert!(failure.contains(DIR) && failure.contains("sync failed"), "{failure}");
    assert_eq!(waiters.news.lock().unwrap().durable, Location::default());

    let refused = journal.append(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(refused.to_string(), failure);
    assert!(!flusher.request(&journal, end), "a journal that ended is never durable");
    flusher.run_pending();
    assert_eq!(waiters.news.lock().unwrap().failure.take(), Some(failure));
    assert!(journal.close().is_err());
    assert_eq!(journal.read_at(Location::default(), &mut [0; 10]).unwrap(), 10, "reads go on");
}

#[test]
fn many_producers_on_real_files_share_syncs_and_all_get_their_answer() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(JournalHost::new(Arc::new(RealFs), Arc::new(RealClock::new()), 1 << 20));
    let flusher = Arc::new(Flusher::new(2).unwrap());
    let opened: Vec<_> = (0..3)
        .map(|number| {
            let dir = folder.path().join(number.to_string());
            let (journal, _) =
                Journal::open(&host, &dir, options(), RecoverFrom::Start, &mut Entries::default()).unwrap();
            journal.roll(SegmentBase(0)).unwrap();
            let waiters = Arc::new(Waiters::default());
            journal.set_observer(Arc::downgrade(&waiters) as Weak<dyn DurabilityObserver>);
            (Arc::new(journal), waiters)
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            for (journal, waiters) in &opened {
                let flusher = Arc::clone(&flusher);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let end = journal.append(&[IoSlice::new(&[7; 100])]).unwrap().plus(100);
                        if !flusher.request(journal, end) {
                            waiters.wait_for(end);
                        }
                        assert!(journal.durable().unwrap() >= end);
                    }
                });
            }
        }
    });
    for (journal, _) in &opened {
        assert_eq!(journal.end(), Some(Location::new(SegmentBase(0), 4 * 50 * 100)));
        assert_eq!(journal.durable(), journal.end());
    }
}

#[test]
fn dropping_the_flusher_runs_what_is_queued() {
    let (journal, waiters) = journal_on(Arc::new(MemFs::new()), Path::new(DIR));
    let flusher = Flusher::new(1).unwrap();
    let end = append(&journal, 0);
    let asked = !flusher.request(&journal, end);
    drop(flusher);
    assert_eq!((asked, journal.durable(), waiters.calls()), (true, Some(end), 1));
}
