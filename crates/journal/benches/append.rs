//! What an append costs, to the page cache of a real file system and to memory: `cargo bench -p mainstem-journal`.

use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstem_env::{RealClock, RealFs};
use mainstem_journal::{EntryScanner, Journal, JournalHost, JournalOptions, Location, RecoverFrom, Scan, SegmentBase};

/// Opens nothing but new journals, so it sees no entry.
struct Nothing;

impl EntryScanner for Nothing {
    fn begin_segment(&mut self, _start: Location) -> bool {
        true
    }

    fn scan(&mut self, _location: Location, _bytes: &[u8]) -> Scan {
        Scan::Corrupt { reason: "a new journal is empty" }
    }
}

/// Keeps the disk use of a run small: older segments are deleted as new ones begin.
struct Bench {
    journal: Arc<Journal>,
    appended: u64,
    in_memory: bool,
}

impl Bench {
    fn new(folder: &std::path::Path, tail_cache_bytes: usize, in_memory: bool) -> Self {
        let host = Arc::new(JournalHost::new(Arc::new(RealFs), Arc::new(RealClock::new()), 64 << 20));
        host.write_out.start().expect("a thread");
        let options = JournalOptions { segment_bytes: 64 << 20, tail_cache_bytes, ..JournalOptions::default() };
        let (journal, _) =
            Journal::open(&host, folder, options, RecoverFrom::Start, &mut Nothing).expect("the folder is empty");
        Bench { journal: Arc::new(journal), appended: 0, in_memory }
    }

    fn append(&mut self, entry: &[u8]) {
        if self.journal.needs_roll(entry.len() as u64) {
            let base = SegmentBase(self.appended);
            self.journal.roll(base).expect("the disk has room");
            self.journal.delete_before(base).expect("the files are ours");
            self.journal.remove_deleted().expect("the files are ours");
        }
        let (header, payload) = entry.split_at(61);
        let parts = [IoSlice::new(header), IoSlice::new(payload)];
        let at = if self.in_memory { self.journal.append_in_memory(&parts) } else { self.journal.append(&parts) };
        black_box(at.expect("the disk has room"));
        self.appended += 1;
    }
}

fn appends(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    for bytes in [128, 1 << 10, 16 << 10, 128 << 10] {
        group.throughput(Throughput::Bytes(bytes as u64));
        let kinds = [("tail cache", 64 << 10, false), ("no tail cache", 0, false), ("in memory", 64 << 10, true)];
        for (name, tail_cache_bytes, in_memory) in kinds {
            let folder = tempfile::tempdir().expect("a folder for the bench");
            let mut bench = Bench::new(folder.path(), tail_cache_bytes, in_memory);
            let entry = vec![7; bytes];
            group.bench_function(BenchmarkId::new(name, bytes), |bencher| bencher.iter(|| bench.append(&entry)));
        }
    }
    group.finish();
}

fn tail_reads(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the bench");
    let mut bench = Bench::new(folder.path(), 64 << 10, false);
    (0..100).for_each(|_| bench.append(&[7; 1024]));
    let at = Location::new(SegmentBase(0), 99 * 1024);
    criterion.bench_function("tail read of 1 KiB from memory", |bencher| {
        bencher.iter(|| bench.journal.tail(black_box(at), 1024).expect("it was just written"));
    });
    criterion.bench_function("tail read of 1 KiB from the file", |bencher| {
        let mut buffer = [0; 1024];
        bencher.iter(|| bench.journal.read_at(black_box(at), &mut buffer).expect("it was just written"));
    });
}

criterion_group!(benches, appends, tail_reads);
criterion_main!(benches);
