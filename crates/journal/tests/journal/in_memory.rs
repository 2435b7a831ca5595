//! Entries that are acknowledged from memory.

use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mainstem_env::{Fault, FaultAction, Fs, MemFs, OpKind};
use mainstem_journal::{
    AppendError, DurabilityObserver, IN_MEMORY_ENTRY_BYTES_MAX, Journal, JournalFailure, JournalHost, Location,
    RecoverFrom, SegmentBase, UNWRITTEN_BYTES_MAX,
};

use crate::support::{DIR, Entries, Entry, host, open, options};

struct Node {
    fs: MemFs,
    host: Arc<JournalHost>,
    journal: Arc<Journal>,
    next: u64,
}

impl Node {
    fn new() -> Self {
        let fs = MemFs::new();
        let host = host(&fs, 1 << 20);
        let options = mainstem_journal::JournalOptions { segment_bytes: 1 << 30, ..options() };
        let (journal, _) =
            Journal::open(&host, Path::new(DIR), options, RecoverFrom::Start, &mut Entries::default()).unwrap();
        journal.roll(SegmentBase(0)).unwrap();
        Node { fs, host, journal: Arc::new(journal), next: 0 }
    }

    fn put(&mut self, payload_len: u32, in_memory: bool) -> Result<Location, AppendError> {
        let bytes = Entry { number: self.next, epoch: 1, payload_len }.encode();
        let parts = [IoSlice::new(&bytes)];
        let at = if in_memory { self.journal.append_in_memory(&parts) } else { self.journal.append(&parts) }?;
        self.next += 1;
        Ok(at)
    }

    fn file_len(&self) -> u64 {
        self.fs.metadata(&Path::new(DIR).join(format!("{}.log", SegmentBase(0)))).unwrap().unwrap().len
    }

    fn end(&self) -> u64 {
        self.journal.end().unwrap().position
    }

    /// How many entries a restart after a kill finds.
    fn survivors(&self) -> u64 {
        let killed = self.fs.crash(mainstem_env::CrashPolicy::Everything);
        let (journal, _) = open(&killed).unwrap();
        let mut entries = Entries::default();
        journal.scan(Location::new(SegmentBase(0), 0), &mut entries).unwrap();
        entries.seen.len() as u64
    }
}

#[test]
fn an_entry_is_seen_at_once_and_written_when_the_thread_looks() {
    let mut node = Node::new();
    let at = node.put(10, true).unwrap();
    assert_eq!((node.end(), node.file_len(), node.survivors()), (30, 0, 0));
    assert_eq!(node.journal.tail(at, 100).unwrap().len(), 30, "from memory alone");
    assert_eq!((node.file_len(), node.journal.unwritten_bytes()), (0, 30));
    node.host.write_out.run_pending();
    assert_eq!((node.file_len(), node.survivors(), node.journal.unwritten_bytes()), (30, 1, 0));
    assert!(node.host.write_out.buffered_bytes() > 0);
    node.host.write_out.run_pending();
    assert_eq!(node.host.write_out.buffered_bytes(), 0, "an idle journal has no buffer");
    node.put(10, true).unwrap();
    node.host.write_out.run_pending();
    assert_eq!(node.survivors(), 2);
}

#[test]
fn who_reads_the_file_has_it_written() {
    for way in 0..5 {
        let mut node = Node::new();
        node.put(10, false).unwrap();
        let at = node.put(100, true).unwrap();
        let begin = Location::new(SegmentBase(0), 0);
        assert_eq!(node.journal.slice(begin, 30).unwrap().read().unwrap().len(), 30);
        assert_eq!(node.journal.slice_written(begin, 30).unwrap().len, 30, "as far as it is written");
        assert_eq!(node.journal.slice_written_nowait(begin, 30).unwrap().unwrap().len, 30);
        assert_eq!(node.file_len(), 30, "nobody asked for what is in memory alone");
        let read = match way {
            0 => node.journal.slice(at, u64::MAX).unwrap().read().unwrap().len(),
            1 => node.journal.slice_nowait(at, 120).unwrap().unwrap().read().unwrap().len(),
            2 => node.journal.read_at(at, &mut [0; 500]).unwrap(),
            3 => node.journal.slice_written(at, 1).unwrap().read().unwrap().len(),
            _ => node.journal.scan(at, &mut Entries::expecting(1)).unwrap().bytes as usize,
        };
        assert_eq!((read, node.file_len()), (120, 150), "{way}");
    }
}

#[test]
fn what_is_appended_otherwise_comes_after_what_waits() {
    let ways: [fn(&mut Node); 4] = [
        |node| _ = node.put(0, false).unwrap(),
        |node| _ = node.journal.flush().unwrap(),
        |node| node.journal.roll(SegmentBase(node.next)).unwrap(),
        |node| _ = node.journal.close().unwrap(),
    ];
    for way in ways {
        let mut node = Node::new();
        (0..5).for_each(|_| _ = node.put(50, true).unwrap());
        assert_eq!(node.survivors(), 0);
        way(&mut node);
        assert_eq!(node.survivors(), node.next);
        assert_eq!(node.journal.unwritten_bytes(), 0);
    }
}

#[test]
fn a_full_buffer_and_a_large_entry_are_written_at_once() {
    let mut node = Node::new();
    while node.file_len() == 0 {
        node.put(5000, true).unwrap();
        assert!(node.journal.unwritten_bytes() <= UNWRITTEN_BYTES_MAX);
        assert!(node.host.write_out.buffered_bytes() <= UNWRITTEN_BYTES_MAX);
    }
    assert_eq!(node.file_len(), 5020 * (UNWRITTEN_BYTES_MAX as u64 / 5020));
    node.put(IN_MEMORY_ENTRY_BYTES_MAX as u32, true).unwrap();
    assert_eq!((node.file_len(), node.journal.unwritten_bytes()), (node.end(), 0));
    assert_eq!(node.survivors(), node.next);
}

/// 32 MiB are for all: what finds no room is written at once, and room comes back.
#[test]
fn the_memory_of_all_journals_is_bounded() {
    let first = Node::new();
    let many: Vec<_> = (0..140)
        .map(|number| {
            let dir = format!("{DIR}-{number}");
            let options = mainstem_journal::JournalOptions { segment_bytes: 1 << 30, ..options() };
            let from = RecoverFrom::Start;
            let opened = Journal::open(&first.host, Path::new(&dir), options, from, &mut Entries::default());
            let journal = Arc::new(opened.unwrap().0);
            journal.roll(SegmentBase(0)).unwrap();
            (0..8).for_each(|_| _ = journal.append_in_memory(&[IoSlice::new(&[7; 20 << 10])]).unwrap());
            journal
        })
        .collect();
    let waiting = many.iter().filter(|journal| journal.unwritten_bytes() > 0).count();
    assert_eq!((waiting, first.host.write_out.buffered_bytes()), (128, 32 << 20));
    drop(many);
    assert_eq!(first.host.write_out.buffered_bytes(), 0);
}

#[test]
fn a_full_disk_takes_nothing_that_was_acknowledged_and_is_not_final() {
    let mut node = Node::new();
    node.put(10, false).unwrap();
    node.journal.flush().unwrap();
    let at = node.put(6000, true).unwrap();
    node.fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace).and_later());
    assert!(node.journal.read_at(at, &mut [0; 10]).is_err(), "it cannot be read from the file");
    for in_memory in [true, false] {
        let refused = node.put(10, in_memory);
        assert!(matches!(refused, Err(AppendError::DiskFull { .. })), "{refused:?}");
    }
    assert!(node.journal.roll(SegmentBase(5)).is_err());
    let durable = node.journal.flush().unwrap();
    assert_eq!(durable, Some(Location::new(SegmentBase(0), 30)), "what is written is durable, and no more is said");
    assert!(node.journal.truncate_to(at).is_err());
    node.host.write_out.run_pending();
    assert_eq!((node.survivors(), node.end()), (1, 6050));
    node.fs.clear_faults();
    node.host.write_out.run_pending();
    assert_eq!(node.survivors(), 2);
    assert_eq!(node.journal.durable(), node.journal.end(), "the flush that was asked for is made up for");
    node.put(10, true).unwrap();
    assert!(node.journal.close().is_ok());
    assert_eq!(node.survivors(), 3);
}

#[test]
fn a_stop_on_a_full_disk_says_so() {
    let mut node = Node::new();
    node.put(10, true).unwrap();
    node.fs.plan_fault(Fault::of(OpKind::Write, 1).with(FaultAction::NoSpace).and_later());
    assert!(node.journal.close().unwrap_err().to_string().contains("no space left"));
}

/// The folder of a deleted topic gets another name, and the next topic its own.
#[test]
fn a_journal_that_is_abandoned_writes_nothing_under_its_name() {
    let mut node = Node::new();
    node.put(10, false).unwrap();
    node.journal.flush().unwrap();
    let at = node.put(10, true).unwrap();
    node.journal.abandon();
    node.journal.release_idle();
    node.fs.rename(Path::new(DIR), Path::new("/data/gone")).unwrap();
    let other = open(&node.fs).unwrap().0;
    other.roll(SegmentBase(0)).unwrap();
    node.host.write_out.run_pending();
    assert_eq!((node.file_len(), node.end()), (0, 30));
    assert!(node.journal.read_at(at, &mut [0; 30]).is_ok_and(|count| count == 0));
    assert!(matches!(node.put(10, true), Err(AppendError::Closed { .. })));
    assert_eq!(node.host.write_out.buffered_bytes(), 0);
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl DurabilityObserver for Told {
    fn on_durable(&self, up_to: Location) {
        self.0.lock().unwrap().push(format!("durable {up_to}"));
    }

    fn on_failed(&self, failure: &Arc<JournalFailure>) {
        self.0.lock().unwrap().push(failure.operation.to_owned());
    }
}

#[test]
fn an_error_of_the_disk_ends_the_journal_and_is_told() {
    let mut node = Node::new();
    let told: Arc<Told> = Arc::default();
    let observer: Arc<dyn DurabilityObserver> = told.clone();
    node.journal.set_observer(Arc::downgrade(&observer));
    let at = node.put(10, true).unwrap();
    node.fs.plan_fault(Fault::of(OpKind::Write, 1));
    node.host.write_out.run_pending();
    assert_eq!(*told.0.lock().unwrap(), ["write"]);
    assert!(node.journal.failure().is_some());
    assert!(matches!(node.put(10, true), Err(AppendError::Failed(_))));
    assert!(node.journal.read_at(at, &mut [0; 30]).is_err(), "no bytes are made up");
    assert_eq!(node.journal.tail(at, 30).unwrap().len(), 30);
}

#[test]
fn the_thread_writes_out_and_ends() {
    let mut node = Node::new();
    node.host.write_out.start().unwrap();
    for round in 1..=3 {
        node.put(10, true).unwrap();
        let begun = std::time::Instant::now();
        while node.file_len() < 30 * round || node.host.write_out.buffered_bytes() > 0 {
            assert!(begun.elapsed().as_secs() < 60, "nobody writes");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    node.put(10, true).unwrap();
    drop(node);
}

/// Readers follow writers at the end, from the tail cache and from the file, while the thread writes.
#[test]
fn readers_find_every_byte_while_it_goes_from_memory_to_the_file() {
    let mut node = Node::new();
    let journal = Arc::clone(&node.journal);
    let host = Arc::clone(&node.host);
    let total = 3000u64;
    let writer = std::thread::spawn(move || {
        for _ in 0..total {
            node.put(100, true).unwrap();
        }
        node
    });
    let (mut next, mut looks) = (0, 0u64);
    while next < total {
        let at = Location::new(SegmentBase(0), next * 120);
        let end = journal.end().unwrap().position;
        if end > at.position {
            let mut bytes = vec![0; (end - at.position) as usize];
            assert_eq!(journal.read_at(at, &mut bytes).unwrap(), bytes.len());
            for entry in bytes.chunks(120) {
                assert_eq!(entry, Entry { number: next, epoch: 1, payload_len: 100 }.encode());
                next += 1;
            }
        }
        looks += 1;
        if looks.is_multiple_of(7) {
            host.write_out.run_pending();
        }
    }
    drop(writer.join().unwrap());
}
