//! Consumers that read what there is, as fast as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstem_client::{FetchError, Fetcher, FetcherConfig, Offset, OffsetSpec, TopicPartition};
use tokio::task::JoinSet;

use super::topic::BenchTopics;
use crate::cluster::ClusterOptions;
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// How long a consumer waits for records before it looks whether it is to end.
const POLL_WAIT: Duration = Duration::from_millis(200);

/// When consumers end, if not at the end of what there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    pub count: Option<u64>,
    pub duration: Option<Duration>,
}

pub struct Consumed {
    pub records: u64,
    pub bytes: u64,
    /// To the last record.
    pub elapsed: Duration,
}

/// One consumer: what it reads now, and what it reads after that.
pub struct Reader {
    fetcher: Fetcher,
    later: Vec<Vec<TopicPartition>>,
}

/// Consumers that have a part of the partitions each.
pub async fn readers(
    cluster: &ClusterOptions,
    topics: &BenchTopics,
    consumers: u32,
    from: OffsetSpec,
) -> anyhow::Result<Vec<Reader>> {
    let consumers = (consumers as usize).clamp(1, topics.targets.len().max(1));
    let mut readers = Vec::new();
    for number in 0..consumers {
        let ours: Vec<_> = topics.targets.iter().skip(number).step_by(consumers).cloned().collect();
        let mut fetcher = cluster.connect().await?.fetcher(cluster.fetcher_config());
        let assigned = fetcher.assign_at(&ours, from).await;
        assigned.map_err(|error| cluster.explain_fetch(topics.name(), error))?;
        readers.push(Reader { fetcher, later: Vec::new() });
    }
    Ok(readers)
}

/// Consumers that read so many topics at once, from their beginning, and then the next ones.
pub async fn readers_in_turns(
    cluster: &ClusterOptions,
    topics: &BenchTopics,
    consumers: u32,
    topics_at_once: u32,
) -> anyhow::Result<Vec<Reader>> {
    let mut by_topic: Vec<TopicPartition> = topics.targets.clone();
    by_topic.sort();
    let by_topic: Vec<_> = by_topic.chunk_by(|one, other| one.topic == other.topic).collect();
    let turns: Vec<_> = by_topic.chunks(topics_at_once as usize).map(<[_]>::concat).collect();
    let consumers = (consumers as usize).clamp(1, turns.len().max(1));
    let mut readers = Vec::new();
    for number in 0..consumers {
        // A broker that waited for more at the end of a topic would keep the next one waiting.
        let config = FetcherConfig { min_bytes: 0, ..cluster.fetcher_config() };
        let fetcher = cluster.connect().await?.fetcher(config);
        // Taken from the end.
        let later = turns.iter().skip(number).step_by(consumers).rev().cloned().collect();
        readers.push(Reader { fetcher, later });
    }
    Ok(readers)
}

/// Lets them read until the end of everything, or until the count or the time is reached.
pub async fn run(
    cluster: &ClusterOptions,
    topics: &BenchTopics,
    readers: Vec<Reader>,
    reading: Reading,
) -> anyhow::Result<Consumed> {
    let work = Arc::new(Work {
        reading,
        begun: Instant::now(),
        records: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let mut tasks: JoinSet<Result<Instant, FetchError>> = JoinSet::new();
    for reader in readers {
        tasks.spawn(reader.run(Arc::clone(&work)));
    }
    let mut interrupt = Interrupt::watch()?;
    let mut progress = Progress::new("records", reading.count);
    let mut last = work.begun;
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => break,
                Some(ended) => {
                    last = last.max(ended?.map_err(|error| cluster.explain_fetch(topics.name(), error))?);
                }
            },
            () = progress.due() => progress.show(work.records.load(Ordering::Relaxed)),
            () = interrupt.came() => work.stop.store(true, Ordering::Relaxed),
        }
    }
    let (records, bytes) = (work.records.load(Ordering::Relaxed), work.bytes.load(Ordering::Relaxed));
    Ok(Consumed { records, bytes, elapsed: last - work.begun })
}

/// What the consumers have in common.
struct Work {
    reading: Reading,
    begun: Instant,
    records: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

impl Work {
    fn is_enough(&self) -> bool {
        self.reading.count.is_some_and(|count| self.records.load(Ordering::Relaxed) >= count)
            || self.reading.duration.is_some_and(|duration| self.begun.elapsed() >= duration)
            || self.stop.load(Ordering::Relaxed)
    }
}

impl Reader {
    /// Reads everything that is its; gives when the last record came.
    async fn run(mut self, work: Arc<Work>) -> Result<Instant, FetchError> {
        let mut last = work.begun;
        if self.later.is_empty() {
            self.read(&work, &mut last).await?;
        }
        while let Some(partitions) = self.later.pop() {
            for partition in &partitions {
                self.fetcher.assign(partition.clone(), Offset::ZERO);
            }
            self.read(&work, &mut last).await?;
            if work.is_enough() {
                break;
            }
            partitions.iter().for_each(|partition| self.fetcher.unassign(partition));
        }
        Ok(last)
    }

    async fn read(&mut self, work: &Work, last: &mut Instant) -> Result<(), FetchError> {
        while !work.is_enough() {
            let records = self.fetcher.poll(POLL_WAIT).await?;
            let bytes: usize = records.iter().map(|record| record.value.as_ref().map_or(0, Bytes::len)).sum();
            if !records.is_empty() {
                *last = Instant::now();
            }
            work.records.fetch_add(records.len() as u64, Ordering::Relaxed);
            work.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            if self.fetcher.is_at_end() {
                break;
            }
        }
        Ok(())
    }
}
