//! What an append and a read cost, to and from the page cache of a real file system: `cargo bench -p mainstem-store`.
//!
//! Reads give file slices, so their cost is that of the look: position, index, headers. It must not depend on the
//! payload.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstem_env::{Clock, RealClock, RealFs, RealRng};
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendContext, LogConfig, Origin, PartitionLog, ReadRequest, StoreEnv};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

struct Bench {
    _folder: tempfile::TempDir,
    log: PartitionLog,
    now: TimestampMs,
}

impl Bench {
    fn new(config: LogConfig) -> Bench {
        let folder = tempfile::tempdir().expect("a folder for the bench");
        let clock = Arc::new(RealClock::new());
        let now = clock.wall_ms();
        let env = StoreEnv::new(Arc::new(RealFs), clock, Arc::new(RealRng), 64 << 20, 1).expect("a thread");
        let partition = TopicPartition::new("bench", PartitionIndex(0));
        let path: &Path = &folder.path().join("bench-0");
        let log = PartitionLog::create(&env, path, partition, TopicId([7; 16]), Arc::new(config)).expect("a new log");
        Bench { _folder: folder, log, now }
    }

    fn append(&self, batch: &Bytes) {
        let context = AppendContext {
            origin: Origin::Client,
            leader_epoch: LeaderEpoch(0),
            now: self.now,
            zstd_allowed: true,
            unpacked_bytes_max: i32::MAX as usize,
        };
        black_box(self.log.append(batch, &context).expect("the disk has room"));
    }

    /// Drops what was written, so that a run needs little space.
    fn forget(&self) {
        let end = self.log.log_end();
        self.log.raise_log_start(end, end).expect("within the log");
        self.log.retention_pass(self.now, end).expect("the files are ours");
        self.log.remove_due_files();
    }
}

fn batch(records: usize, bytes: usize, now: TimestampMs) -> Bytes {
    let mut builder = BatchBuilder::new();
    let value = vec![7; bytes];
    for _ in 0..records {
        builder.append(now, None, Some(&value), &[]);
    }
    Bytes::from(builder.build().expect("a small batch"))
}

fn appends(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    for (records, bytes) in [(1, 100), (10, 1000), (100, 1000)] {
        let bench = Bench::new(LogConfig { segment_bytes: 64 << 20, file_delete_delay_ms: 0, ..LogConfig::default() });
        let batch = batch(records, bytes, bench.now);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        let mut appended = 0;
        group.bench_function(format!("{records} records of {bytes} bytes"), |bencher| {
            bencher.iter(|| {
                bench.append(&batch);
                appended += batch.len();
                if appended > 256 << 20 {
                    appended = 0;
                    bench.forget();
                }
            });
        });
    }
    group.finish();
}

const BATCHES: i64 = 8192;

/// 128 MiB in batches of 16 KiB, two segments: the first is sealed, its index is on the disk.
fn filled() -> Bench {
    let bench = Bench::new(LogConfig { segment_bytes: 96 << 20, ..LogConfig::default() });
    let batch = batch(1, 16 << 10, bench.now);
    (0..BATCHES).for_each(|_| bench.append(&batch));
    bench
}

fn reads(criterion: &mut Criterion) {
    let bench = filled();
    let end = bench.log.log_end();
    let request = |from: i64| ReadRequest { from: Offset(from), max_bytes: 1 << 20, upper: end, min_one_batch: true };
    let read = |from: i64| bench.log.read(&request(from)).expect("a sound log").bytes;
    let mut group = criterion.benchmark_group("read 1 MiB");
    group.bench_function("the newest batch", |bencher| bencher.iter(|| black_box(read(BATCHES - 1))));
    for (name, segment) in [("sealed segment", 0..4096), ("active segment", 6200..8000)] {
        let mut from = segment.start;
        group.bench_function(BenchmarkId::new("one after the other", name), |bencher| {
            bencher.iter(|| {
                from = if from + 64 < segment.end { from + 63 } else { segment.start };
                black_box(read(from))
            });
        });
        let mut random = 1u64;
        let mut anywhere = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            segment.start + (random >> 33) as i64 % (segment.end - segment.start)
        };
        group.bench_function(BenchmarkId::new("anywhere", name), |bencher| {
            bencher.iter_batched(&mut anywhere, |from| black_box(read(from)), BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group!(benches, appends, reads);
criterion_main!(benches);
