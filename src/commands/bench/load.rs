//! Producers and consumers that work as fast as they can, or at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use mainstem_client::{
    Delivery, FetchError, Fetcher, NewRecord, OffsetSpec, PartitionIndex, Producer, ProducerConfig, TopicPartition,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::measure;
use super::topic::BenchTopic;
use crate::cluster::ClusterOptions;
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// Values are pieces of this much text, so that codecs find neither nothing nor everything in them.
const TEXT_BYTES: usize = 256 * 1024;
/// Records of one partition that are sent in a row.
const RUN_RECORDS_MAX: usize = 4096;
/// A timer may be so late; who is later was held up, and is measured from when it was due.
const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Bytes of a value that tell when it was sent.
pub const STAMP_SIZE: usize = 8;

/// What producers do.
#[derive(Debug, Clone)]
pub struct Load {
    pub producers: u32,
    pub size: u32,
    /// Records a second of all of them; `None`: as many as they can.
    pub rate: Option<f64>,
    pub count: Option<u64>,
    pub duration: Option<Duration>,
    /// Each value begins with the nanoseconds since this moment.
    pub stamp: Option<Instant>,
    pub config: ProducerConfig,
}

/// What became of the records.
pub struct Produced {
    pub records: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    /// To the last acknowledgement.
    pub elapsed: Duration,
    pub latencies: Histogram<u64>,
}

struct Shared {
    /// Records that somebody has taken upon itself to send.
    taken: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    told: Mutex<Told>,
}

struct Told {
    errors: u64,
    first_error: Option<String>,
    latencies: Histogram<u64>,
    last: Instant,
}

/// Sends records until the load is done, and waits for their fate.
pub async fn produce(cluster: &ClusterOptions, topic: &BenchTopic, load: &Load) -> anyhow::Result<Produced> {
    let mut clients = Vec::new();
    for _ in 0..load.producers {
        clients.push(cluster.connect().await?);
    }
    let text = text(load.size as usize);
    let begun = Instant::now();
    let shared = Arc::new(Shared {
        taken: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        told: Mutex::new(Told { errors: 0, first_error: None, latencies: measure::histogram(), last: begun }),
    });
    let mut tasks = JoinSet::new();
    // Nobody who measures waits for two minutes.
    let config = ProducerConfig { delivery_timeout: cluster.timeout(), ..load.config.clone() };
    for (number, client) in clients.into_iter().enumerate() {
        let sender = Sender {
            number,
            topic: topic.name.clone(),
            partitions: topic.partitions.clone(),
            text: text.clone(),
            load: load.clone(),
            producer: client.producer(config.clone()),
            shared: Arc::clone(&shared),
            begun,
        };
        tasks.spawn(sender.run());
    }
    watch(&mut tasks, &shared, load.count).await?;
    let told = shared.told.lock().await;
    let records = shared.done.load(Ordering::Relaxed) - told.errors;
    Ok(Produced {
        records,
        errors: told.errors,
        first_error: told.first_error.clone(),
        elapsed: told.last - begun,
        latencies: told.latencies.clone(),
    })
}

/// Waits for the tasks, shows how far they are, and lets them end early on a signal.
async fn watch(tasks: &mut JoinSet<()>, shared: &Shared, total: Option<u64>) -> anyhow::Result<()> {
    let mut interrupt = Interrupt::watch()?;
    let mut progress = Progress::new("records", total);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return Ok(()),
                Some(ended) => ended?,
            },
            () = progress.due() => progress.show(shared.done.load(Ordering::Relaxed)),
            () = interrupt.came() => shared.stop.store(true, Ordering::Relaxed),
        }
    }
}

/// One producer.
struct Sender {
    number: usize,
    topic: Arc<str>,
    partitions: Vec<PartitionIndex>,
    text: Bytes,
    load: Load,
    producer: Producer,
    shared: Arc<Shared>,
    begun: Instant,
}

type Run = Vec<(Instant, Delivery)>;

impl Sender {
    async fn run(self) {
        let run_records = (self.load.config.batch_size / self.load.size.max(1) as usize).clamp(1, RUN_RECORDS_MAX);
        let mut pace = self.load.rate.map(|rate| Pace::new(self.begun, rate, self.load.producers, self.number));
        let mut fates = JoinSet::new();
        let mut runs = self.number;
        while let Some(count) = self.take(if pace.is_some() { 1 } else { run_records }) {
            let partition = self.partitions[runs % self.partitions.len()];
            runs += 1;
            let mut run = Run::with_capacity(count);
            for _ in 0..count {
                let sent = match &mut pace {
                    Some(pace) => pace.next().await,
                    None => Instant::now(),
                };
                if !self.send(partition, sent, &mut run).await {
                    break;
                }
            }
            fates.spawn(Self::follow(Arc::clone(&self.shared), run));
            while fates.try_join_next().is_some() {}
        }
        self.producer.flush().await;
        while fates.join_next().await.is_some() {}
    }

    /// How many of `wanted` records this producer is to send now. `None`: the load is done.
    fn take(&self, wanted: usize) -> Option<usize> {
        let over = self.load.duration.is_some_and(|duration| self.begun.elapsed() >= duration);
        if over || self.shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        let taken = self.shared.taken.fetch_add(wanted as u64, Ordering::Relaxed);
        let Some(count) = self.load.count else { return Some(wanted) };
        Some(count.saturating_sub(taken).min(wanted as u64) as usize).filter(|count| *count > 0)
    }

    /// `false`: the producer takes nothing any more.
    async fn send(&self, partition: PartitionIndex, sent: Instant, run: &mut Run) -> bool {
        let record = NewRecord {
            topic: self.topic.clone(),
            partition: Some(partition),
            value: Some(self.value(run.len(), sent)),
            ..NewRecord::default()
        };
        match self.producer.send(record).await {
            Ok(delivery) => {
                run.push((sent, delivery));
                true
            }
            Err(error) => {
                let mut told = self.shared.told.lock().await;
                told.errors += 1;
                told.first_error.get_or_insert_with(|| error.to_string());
                self.shared.done.fetch_add(1, Ordering::Relaxed);
                self.shared.stop.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    fn value(&self, index: usize, sent: Instant) -> Bytes {
        let size = self.load.size as usize;
        let from = (index * 131 + self.number * 17) % TEXT_BYTES;
        let piece = self.text.slice(from..from + size);
        let Some(base) = self.load.stamp else { return piece };
        let mut value = piece.to_vec();
        let nanos = sent.saturating_duration_since(base).as_nanos() as u64;
        let stamp = nanos.to_be_bytes();
        let room = size.min(STAMP_SIZE);
        value[..room].copy_from_slice(&stamp[..room]);
        value.into()
    }

    /// Waits for what becomes of the records of one partition, which are answered in their order.
    async fn follow(shared: Arc<Shared>, run: Run) {
        let mut latencies = Vec::with_capacity(run.len());
        let (mut errors, mut first_error) = (0, None);
        for (sent, delivery) in run {
            match delivery.await {
                Ok(_) => latencies.push(sent.elapsed()),
                Err(error) => {
                    errors += 1;
                    first_error.get_or_insert_with(|| error.to_string());
                }
            }
        }
        shared.done.fetch_add(latencies.len() as u64 + errors, Ordering::Relaxed);
        let mut told = shared.told.lock().await;
        told.errors += errors;
        told.first_error = told.first_error.take().or(first_error);
        told.last = told.last.max(Instant::now());
        for latency in latencies {
            measure::record(&mut told.latencies, latency);
        }
    }
}

/// When the records of one producer are due.
struct Pace {
    begun: Instant,
    apart: Duration,
    first: Duration,
    sent: u32,
}

impl Pace {
    fn new(begun: Instant, rate: f64, producers: u32, number: usize) -> Pace {
        let apart = Duration::from_secs_f64(f64::from(producers) / rate.max(1e-3));
        Pace { begun, apart, first: apart.mul_f64(number as f64 / f64::from(producers)), sent: 0 }
    }

    /// Waits for the next one, and gives when it counts as sent.
    async fn next(&mut self) -> Instant {
        let due = self.begun + self.first + self.apart * self.sent;
        self.sent = self.sent.saturating_add(1);
        tokio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        if now.saturating_duration_since(due) > TIMER_SLACK { due } else { now }
    }
}

/// Letters that look random, longer than any value that is cut out of them.
fn text(size: usize) -> Bytes {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let letters = (0..TEXT_BYTES + size).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'A' + (state >> 58) as u8 % 58
    });
    letters.collect::<Vec<u8>>().into()
}

/// What consumers do: read everything that there is.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub consumers: u32,
    pub count: Option<u64>,
    pub duration: Option<Duration>,
}

pub struct Consumed {
    pub records: u64,
    pub bytes: u64,
    /// To the last record.
    pub elapsed: Duration,
}

/// Reads a topic from its beginning to its end, or until the count or the time is reached.
pub async fn consume(cluster: &ClusterOptions, topic: &BenchTopic, reading: Reading) -> anyhow::Result<Consumed> {
    let consumers = (reading.consumers as usize).clamp(1, topic.partitions.len().max(1));
    let mut readers = Vec::new();
    for number in 0..consumers {
        let ours = topic.partitions.iter().skip(number).step_by(consumers);
        let ours: Vec<_> = ours.map(|index| TopicPartition::new(topic.name.clone(), *index)).collect();
        let mut fetcher = cluster.connect().await?.fetcher(cluster.fetcher_config());
        let assigned = fetcher.assign_at(&ours, OffsetSpec::Earliest).await;
        assigned.map_err(|error| cluster.explain_fetch(&topic.name, error))?;
        readers.push(fetcher);
    }
    let begun = Instant::now();
    let done = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false)));
    let mut tasks: JoinSet<Result<Instant, FetchError>> = JoinSet::new();
    for fetcher in readers {
        tasks.spawn(read(fetcher, reading, begun, Arc::clone(&done)));
    }
    let mut interrupt = Interrupt::watch()?;
    let mut progress = Progress::new("records", reading.count);
    let mut last = begun;
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => break,
                Some(ended) => last = last.max(ended?.map_err(|error| cluster.explain_fetch(&topic.name, error))?),
            },
            () = progress.due() => progress.show(done.0.load(Ordering::Relaxed)),
            () = interrupt.came() => done.2.store(true, Ordering::Relaxed),
        }
    }
    let (records, bytes) = (done.0.load(Ordering::Relaxed), done.1.load(Ordering::Relaxed));
    Ok(Consumed { records, bytes, elapsed: last - begun })
}

/// Reads its partitions; gives when the last record came.
async fn read(
    mut fetcher: Fetcher,
    reading: Reading,
    begun: Instant,
    done: Arc<(AtomicU64, AtomicU64, AtomicBool)>,
) -> Result<Instant, FetchError> {
    let mut last = begun;
    loop {
        let records = fetcher.poll(Duration::from_millis(200)).await?;
        let bytes: usize = records.iter().map(|record| record.value.as_ref().map_or(0, Bytes::len)).sum();
        if !records.is_empty() {
            last = Instant::now();
        }
        let total = done.0.fetch_add(records.len() as u64, Ordering::Relaxed) + records.len() as u64;
        done.1.fetch_add(bytes as u64, Ordering::Relaxed);
        let enough = reading.count.is_some_and(|count| total >= count)
            || reading.duration.is_some_and(|duration| begun.elapsed() >= duration)
            || done.2.load(Ordering::Relaxed);
        if enough || fetcher.is_at_end() {
            return Ok(last);
        }
    }
}
