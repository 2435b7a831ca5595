//! Producers: as many and as fast as is wanted, and what becomes of their records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use mainstem_client::{Delivery, NewRecord, Producer, ProducerConfig, TopicPartition};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::latencies;
use super::pace::{self, Pace, Schedule};
use super::topic::BenchTopics;
use crate::cluster::ClusterOptions;
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// Values are pieces of this much text, so that codecs find neither nothing nor everything in them.
const TEXT_BYTES: usize = 256 * 1024;
/// Records of one partition that are sent in a row.
const RUN_RECORDS_MAX: usize = 4096;
/// Bytes of a value that tell when it was sent.
pub const STAMP_SIZE: usize = 8;

/// What producers do.
#[derive(Debug, Clone)]
pub struct Load {
    pub producers: u32,
    pub size: u32,
    pub pace: Pace,
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
    /// From when a record was sent, or due at a rate.
    pub latencies: Histogram<u64>,
    /// How long after they were due records were handed over, at a rate.
    pub late: Histogram<u64>,
}

struct LoadRun {
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
    late: Histogram<u64>,
    last: Instant,
}

/// Threads that wait for their time end, too, when nobody waits for the result any more.
struct StopAtEnd(Arc<LoadRun>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Sends records until the load is done, and waits for their fate.
pub async fn produce(cluster: &ClusterOptions, topics: &BenchTopics, load: &Load) -> anyhow::Result<Produced> {
    let mut clients = Vec::new();
    for _ in 0..load.producers {
        clients.push(cluster.connect().await?);
    }
    let text = text(load.size as usize);
    let targets: Arc<[TopicPartition]> = topics.targets.as_slice().into();
    let begun = Instant::now();
    let (latencies, late) = (latencies::histogram(), latencies::histogram());
    let shared = Arc::new(LoadRun {
        taken: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        told: Mutex::new(Told { errors: 0, first_error: None, latencies, late, last: begun }),
    });
    let _stop = StopAtEnd(Arc::clone(&shared));
    // Nobody who measures waits for two minutes.
    let config = ProducerConfig { delivery_timeout: cluster.timeout(), ..load.config.clone() };
    let sender = |(number, client): (usize, mainstem_client::Client)| Sender {
        number,
        turns: number,
        targets: Arc::clone(&targets),
        text: text.clone(),
        load: load.clone(),
        producer: client.producer(config.clone()),
        shared: Arc::clone(&shared),
        begun,
    };
    let mut tasks = spawn(clients.into_iter().enumerate().map(sender).collect(), load.pace, begun);
    watch(&mut tasks, &shared, load.count).await?;
    let told = shared.told.lock().await;
    let records = shared.done.load(Ordering::Relaxed) - told.errors;
    Ok(Produced {
        records,
        errors: told.errors,
        first_error: told.first_error.clone(),
        elapsed: told.last - begun,
        latencies: told.latencies.clone(),
        late: told.late.clone(),
    })
}

/// A task for each producer; at a rate, threads of their own, which sleep more precisely.
fn spawn(senders: Vec<Sender>, pace: Pace, begun: Instant) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    match pace {
        Pace::Full => senders.into_iter().for_each(|sender| drop(tasks.spawn(sender.full()))),
        Pace::OneAtATime => senders.into_iter().for_each(|sender| drop(tasks.spawn(sender.one_at_a_time()))),
        Pace::Rate(rate) => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(senders.len()).max(1);
            let mut shares: Vec<Vec<Sender>> = (0..threads).map(|_| Vec::new()).collect();
            for (number, sender) in senders.into_iter().enumerate() {
                shares[number % threads].push(sender);
            }
            for (number, share) in shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty()) {
                let schedule = Schedule::new(begun, rate, number, threads);
                let handle = Handle::current();
                tasks.spawn_blocking(move || handle.block_on(paced(share, schedule)));
            }
        }
    }
    tasks
}

/// Sends what is due, through one producer after the other. What is due at the same moment goes to the same partition.
async fn paced(mut senders: Vec<Sender>, mut schedule: Schedule) {
    pace::be_precise();
    let (mut fates, mut late) = (JoinSet::new(), latencies::histogram());
    let first = &senders[0];
    let (shared, begun, duration) = (Arc::clone(&first.shared), first.begun, first.load.duration);
    let run_records = first.run_records();
    for turn in 0.. {
        let over = duration.is_some_and(|duration| schedule.due().max(begun.elapsed()) >= duration);
        if over || !schedule.wait(&shared.stop) {
            break;
        }
        let now = Instant::now();
        let index = turn % senders.len();
        let sender = &mut senders[index];
        let Some(count) = sender.take(schedule.ready(now).min(run_records)) else { break };
        let target = sender.next_target();
        let mut run = Run::with_capacity(count);
        for _ in 0..count {
            let due = schedule.take();
            latencies::record(&mut late, now.saturating_duration_since(due));
            if !sender.send(&target, due, &mut run).await {
                break;
            }
        }
        fates.spawn(Sender::follow(Arc::clone(&shared), run));
        while fates.try_join_next().is_some() {}
    }
    for sender in &senders {
        sender.producer.flush().await;
    }
    while fates.join_next().await.is_some() {}
    // Two histograms of the same bounds can always be added.
    let _ = shared.told.lock().await.late.add(late);
}

/// Waits for the tasks, shows how far they are, and lets them end early on a signal.
async fn watch(tasks: &mut JoinSet<()>, shared: &LoadRun, total: Option<u64>) -> anyhow::Result<()> {
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
    turns: usize,
    targets: Arc<[TopicPartition]>,
    text: Bytes,
    load: Load,
    producer: Producer,
    shared: Arc<LoadRun>,
    begun: Instant,
}

type Run = Vec<(Instant, Delivery)>;

impl Sender {
    async fn full(mut self) {
        let run_records = self.run_records();
        let mut fates = JoinSet::new();
        while let Some(count) = self.take(run_records) {
            let target = self.next_target();
            let mut run = Run::with_capacity(count);
            for _ in 0..count {
                if !self.send(&target, Instant::now(), &mut run).await {
                    break;
                }
            }
            fates.spawn(Self::follow(Arc::clone(&self.shared), run));
            while fates.try_join_next().is_some() {}
        }
        self.producer.flush().await;
        while fates.join_next().await.is_some() {}
    }

    async fn one_at_a_time(mut self) {
        while self.take(1).is_some() {
            let target = self.next_target();
            let mut run = Run::with_capacity(1);
            if !self.send(&target, Instant::now(), &mut run).await {
                break;
            }
            Self::follow(Arc::clone(&self.shared), run).await;
        }
    }

    /// Records of one partition that are sent in a row: about a batch.
    fn run_records(&self) -> usize {
        (self.load.config.batch_size / self.load.size.max(1) as usize).clamp(1, RUN_RECORDS_MAX)
    }

    fn next_target(&mut self) -> TopicPartition {
        let target = self.targets[self.turns % self.targets.len()].clone();
        self.turns += 1;
        target
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
    async fn send(&self, target: &TopicPartition, sent: Instant, run: &mut Run) -> bool {
        let record = NewRecord {
            topic: target.topic.clone(),
            partition: Some(target.partition),
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
    async fn follow(shared: Arc<LoadRun>, run: Run) {
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
            latencies::record(&mut told.latencies, latency);
        }
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
