//! Layouts `topic` and `shared`: appends of many topics to one commit log, and reads of one of them, beside the same
//! with files of each partition: `cargo bench -p mainstem-store --bench group_log`.
//!
//! Records of 1,000 bytes, each in a batch of its own: nothing is thinner. At last all views of a commit log are made
//! again. What is read goes through a socket of the loopback, so that copies (many small batches) and slices of files
//! (large ones) are compared as a client sees them.
//!
//! "find an offset" compares the sparse index of a partition with the consume queue: how large they are, and how long
//! it takes to find one record.
//!
//! Times are those for which the thread had a processor: what else the machine does changes them little.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstem_env::{Clock, RealClock, RealFs, RealRng};
use mainstem_record::BatchBuilder;
use mainstem_store::{
    AppendContext, GroupLog, GroupOptions, LivePartition, LogConfig, Origin, PartitionLog, ReadChunk, ReadRequest,
    StoreEnv, TopicLog,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

const RECORD_BYTES: usize = 1000;
/// Past it what was appended is dropped.
const KEPT_BYTES: usize = 512 << 20;
/// What readers read in.
const FILLED_BYTES: usize = 256 << 20;

/// Nanoseconds for which this thread had a processor.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn end(&self, start: u64) -> u64 {
        self.start() - start
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn options() -> GroupOptions {
    GroupOptions { file_bytes: 64 << 20, ..GroupOptions::default() }
}

#[derive(Clone, Copy)]
enum Layout {
    Partition,
    Shared,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Partition => "partition",
            Layout::Shared => "shared",
        }
    }
}

struct Bench {
    folder: tempfile::TempDir,
    env: Arc<StoreEnv>,
    group: Option<GroupLog>,
    logs: Vec<TopicLog>,
    now: TimestampMs,
}

impl Bench {
    fn new(layout: Layout, topics: usize) -> Bench {
        let folder = tempfile::tempdir().expect("a folder for the bench");
        let clock = Arc::new(RealClock::new());
        let now = clock.wall_ms();
        let env = StoreEnv::new(Arc::new(RealFs), clock, Arc::new(RealRng), 64 << 20, 1).expect("a thread");
        let config = LogConfig { segment_bytes: 64 << 20, file_delete_delay_ms: 0, ..LogConfig::default() };
        let config = Arc::new(config);
        let group = matches!(layout, Layout::Shared)
            .then(|| GroupLog::open(&env, &folder.path().join("group"), options(), &[], true).expect("a new group").0);
        let log = |number: usize| {
            let name = TopicPartition::new(format!("bench{number}"), PartitionIndex(0));
            let id = TopicId((number as u128 + 1).to_be_bytes());
            match &group {
                Some(group) => TopicLog::Group(group.create(name, id, Arc::clone(&config))),
                None => {
                    let path = folder.path().join(name.to_string());
                    let log = PartitionLog::create(&env, &path, name, id, Arc::clone(&config));
                    TopicLog::Partition(Arc::new(log.expect("a new log")))
                }
            }
        };
        let logs = (0..topics).map(log).collect();
        Bench { logs, group, now, folder, env }
    }

    /// The same amount in every topic, in turns.
    fn filled(layout: Layout, topics: usize) -> Bench {
        Bench::filled_with(layout, topics, 1, RECORD_BYTES)
    }

    /// The same with batches of so many records.
    fn filled_with(layout: Layout, topics: usize, records: usize, bytes: usize) -> Bench {
        let bench = Bench::new(layout, topics);
        let batch = batch(bench.now, records, bytes);
        for _ in 0..FILLED_BYTES / batch.len() / topics {
            bench.logs.iter().for_each(|log| bench.append(log, &batch));
        }
        bench.group.iter().for_each(|group| {
            group.checkpoint().expect("a sound disk");
            // Twice, so that what is in memory is let go: readers behind the tail are measured.
            group.release_idle();
            group.release_idle();
        });
        bench
    }

    fn append(&self, log: &TopicLog, batch: &Bytes) {
        let context = AppendContext {
            origin: Origin::Client,
            leader_epoch: LeaderEpoch(0),
            now: self.now,
            zstd_allowed: true,
            unpacked_bytes_max: i32::MAX as usize,
        };
        black_box(log.append(batch, &context).expect("the disk has room"));
    }

    /// Drops what was written, so that a run needs little space.
    fn forget(&self) {
        for log in &self.logs {
            let end = log.log_end();
            log.raise_log_start(end, end).expect("within the log");
            log.retention_pass(self.now, end).expect("the files are ours");
            log.remove_due_files();
        }
        self.group.iter().for_each(|group| {
            group.remove_unneeded().expect("the files are ours");
            group.remove_due_files();
        });
    }
}

fn batch(now: TimestampMs, records: usize, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new();
    let value = vec![7; bytes];
    for _ in 0..records {
        builder.append(now, None, Some(&value), &[]);
    }
    Bytes::from(builder.build().expect("a small batch"))
}

fn appends(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("append 1 KiB");
    for (layout, topics) in [
        (Layout::Partition, 1),
        (Layout::Shared, 1),
        (Layout::Shared, 100),
        (Layout::Partition, 1000),
        (Layout::Shared, 1000),
    ] {
        let bench = Bench::new(layout, topics);
        let batch = batch(bench.now, 1, RECORD_BYTES);
        let (mut appended, mut next) = (0, 0);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        group.bench_function(BenchmarkId::new(layout.name(), format!("{topics} topics")), |bencher| {
            bencher.iter(|| {
                bench.append(&bench.logs[next], &batch);
                next = (next + 1) % topics;
                appended += batch.len();
                if appended > KEPT_BYTES {
                    appended = 0;
                    bench.forget();
                }
            });
        });
    }
    group.finish();
}

/// A client that takes everything.
fn sink() -> TcpStream {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("a listener");
    let (mut taken, _) = listener.accept().expect("a connection");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while taken.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    stream
}

/// Reads up to 1 MiB and sends it; gives the bytes.
fn read(log: &TopicLog, from: Offset, socket: Option<&mut TcpStream>) -> usize {
    let request = ReadRequest { from, max_bytes: 1 << 20, upper: log.log_end(), min_one_batch: true };
    let reading = log.read(&request).expect("a sound log");
    let Some(socket) = socket else { return black_box(reading).bytes };
    for chunk in &reading.chunks {
        match chunk {
            ReadChunk::Bytes(bytes) => socket.write_all(bytes).expect("a sink"),
            ReadChunk::Slice(slice) => {
                let (mut position, end) = (slice.position, slice.position + slice.len);
                while position < end {
                    let left = (end - position) as usize;
                    position += slice.file.send_to(socket.as_fd(), position, left).expect("a sink") as u64;
                }
            }
        }
    }
    reading.bytes
}

/// Bytes that this process has read, from the page cache or elsewhere.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

fn reads(criterion: &mut Criterion<CpuTime>) {
    let mut socket = sink();
    let mut group = criterion.benchmark_group("read behind the tail");
    for (layout, topics) in [(Layout::Partition, 1), (Layout::Shared, 1), (Layout::Shared, 100), (Layout::Shared, 1000)]
    {
        let bench = Bench::filled(layout, topics);
        let (before, looked) = (bytes_read(), read(&bench.logs[topics / 2], Offset::ZERO, None));
        println!("{topics} topics: {looked} bytes looked up by reading {}", bytes_read() - before);
        let mut topic = 0;
        group.throughput(Throughput::Bytes(looked as u64));
        for sent in [false, true] {
            let name = if sent { "sent" } else { "looked up" };
            let id = BenchmarkId::new(format!("{}, {name}", layout.name()), format!("{topics} topics"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    topic = (topic + 1) % topics;
                    read(&bench.logs[topic], Offset::ZERO, sent.then_some(&mut socket))
                });
            });
        }
    }
    group.finish();
}

/// Bytes on the disk of the files that are wanted.
fn disk_bytes(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| match path.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&path, wanted),
        // Files that are created at full length have blocks only where something is written.
        Ok(metadata) if wanted(&path) => metadata.len().min(metadata.blocks() * 512),
        _ => 0,
    };
    entries.map(|entry| of(entry.path())).sum()
}

/// Bytes of the index for a GB of log. The active segment of a partition has its own in memory.
fn index_bytes_per_gb(bench: &Bench, layout: Layout) -> u64 {
    let is = |path: &Path, end: &str| path.extension().is_some_and(|extension| extension == end);
    let (index, data) = match layout {
        Layout::Partition => {
            let sealed = |path: &Path| path.with_extension("index").metadata().is_ok_and(|found| found.len() > 0);
            let index = |path: &Path| is(path, "index") || is(path, "timeindex");
            let log = |path: &Path| is(path, "log") && sealed(path);
            (disk_bytes(bench.folder.path(), &index), disk_bytes(bench.folder.path(), &log))
        }
        Layout::Shared => {
            let group = bench.folder.path().join("group");
            (disk_bytes(&group.join("consumequeue"), &|_| true), disk_bytes(&group.join("commitlog"), &|_| true))
        }
    };
    (index as f64 / data.max(1) as f64 * 1e9) as u64
}

/// The batch of a record anywhere, of which everything is in the page cache.
fn seeks(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("find an offset");
    for (records, bytes) in [(1, 100), (1, 1000), (10, 1000), (1, 10_000)] {
        for layout in [Layout::Partition, Layout::Shared] {
            let bench = Bench::filled_with(layout, 1, records, bytes);
            let shape = format!("{records} x {bytes} bytes a batch");
            let per_gb = index_bytes_per_gb(&bench, layout);
            println!("{}, {shape}: {:.2} MB of index for a GB", layout.name(), per_gb as f64 / 1e6);
            let (log, mut random) = (&bench.logs[0], 1u64);
            let end = log.log_end();
            group.bench_function(BenchmarkId::new(layout.name(), shape), |bencher| {
                bencher.iter(|| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let from = Offset((random >> 33) as i64 % end.0);
                    let request = ReadRequest { from, max_bytes: 1, upper: end, min_one_batch: true };
                    black_box(log.read(&request).expect("a sound log").bytes)
                });
            });
        }
    }
    group.finish();
}

/// The next start after queues, index and checkpoint were deleted: the commit log is read, checked, and everything made
/// again.
fn rebuilds(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("views made again");
    group.sample_size(10);
    for topics in [1, 1000] {
        let mut bench = Bench::filled(Layout::Shared, topics);
        let live: Vec<LivePartition> = bench.logs.iter().map(live).collect();
        let Some(log) = bench.group.take() else { continue };
        group.throughput(Throughput::Bytes(log.size_bytes()));
        log.close().expect("a sound disk");
        bench.logs.clear();
        let folder = bench.folder.path().join("group");
        let mut aside = 0;
        // Moved out of the way: a file system that has just deleted thousands of files is slow in making new ones.
        let mut forget = || {
            aside += 1;
            for name in ["checkpoint", "checkpoint.old", "consumequeue"] {
                let _ = std::fs::rename(folder.join(name), bench.folder.path().join(format!("{name}.{aside}")));
            }
        };
        let open = |()| GroupLog::open(&bench.env, &folder, options(), &live, false).expect("a sound group");
        group.bench_function(format!("{topics} topics"), |bencher| {
            bencher.iter_batched(&mut forget, open, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn live(log: &TopicLog) -> LivePartition {
    let topic_id = log.topic_id().expect("a new log has one");
    LivePartition { name: log.partition().clone(), topic_id, config: log.config() }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = appends, reads, seeks, rebuilds
}
criterion_main!(benches);
