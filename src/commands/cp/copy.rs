//! The copying itself.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::bail;
use mainstem_client::{
    Delivery, FetchedRecord, Fetcher, NewRecord, ProduceError, Producer, Receipt, TimestampMs, TopicPartition,
};

use super::fingerprint::fingerprint;
use super::state::{CopyState, PartitionState};
use crate::cluster::ClusterOptions;
use crate::commands::ends::{self, Ends, is_before_end, leave_ended};
use crate::commands::patience::Patience;
use crate::output::progress::Progress;

/// How long one look for records takes.
const LOOK: Duration = Duration::from_millis(200);
/// Records whose fate is awaited; more make the reading wait. Their bytes are bounded by the producer.
const IN_FLIGHT_MAX: usize = 100_000;
const SAVE_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Copy {
    pub(super) fetcher: Fetcher,
    pub(super) producer: Producer,
    /// The topic that is written.
    pub(super) target: Arc<str>,
    /// Where to end; `None` to follow.
    pub(super) ends: Option<Ends>,
    /// By partition.
    pub(super) tracks: Vec<Track>,
    /// In the order of sending.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) state: CopyState,
    pub(super) state_file: PathBuf,
    pub(super) copied: u64,
    pub(super) found: u64,
    pub(super) keeps_times: bool,
    pub(super) progress: Progress,
    pub(super) from: ClusterOptions,
    pub(super) to: ClusterOptions,
    pub(super) source: String,
}

/// One partition of the destination.
pub(super) struct Track {
    /// The offset of the record that is read next, there.
    pub(super) cursor: i64,
    /// Below it are records of a copy before, which are compared and not written.
    pub(super) end: i64,
    /// Their fingerprints, by offset; those that the destination has deleted since are missing.
    pub(super) tail: HashMap<i64, u64>,
    /// The source is read up to here, and nothing is left before it.
    pub(super) read_to: Option<i64>,
}

/// A record that was sent and is not confirmed yet.
pub(super) struct InFlight {
    index: usize,
    source_offset: i64,
    target_offset: i64,
    delivery: Delivery,
}

impl Copy {
    pub(super) fn partitions(&self) -> &[PartitionState] {
        &self.state.partitions
    }

    pub(super) async fn run(&mut self) -> anyhow::Result<()> {
        // From the first record on the destination holds what only this file explains.
        self.save()?;
        let mut patience = Patience::new(self.from.timeout());
        let mut save_next = Instant::now() + SAVE_EVERY;
        loop {
            if let Some(ends) = &self.ends {
                for (partition, position) in leave_ended(&mut self.fetcher, ends) {
                    if let Some(track) = self.tracks.get_mut(partition.partition.0 as usize) {
                        track.read_to = Some(position.0);
                    }
                }
                if ends::is_empty(&self.fetcher) {
                    break;
                }
            }
            let records = match self.fetcher.poll(LOOK).await {
                Ok(records) => records,
                Err(error) if patience.allows(&error) => Vec::new(),
                Err(error) => return Err(self.from.explain_fetch(&self.source, error).context("source")),
            };
            if !records.is_empty() {
                patience.renew();
            }
            for record in records {
                if self.ends.as_ref().is_none_or(|ends| is_before_end(&record, ends)) {
                    self.take(record).await?;
                }
                self.progress.tick(self.copied + self.found);
            }
            self.settle_known().await?;
            if Instant::now() >= save_next {
                self.save()?;
                save_next = Instant::now() + SAVE_EVERY;
            }
        }
        self.settle_all().await?;
        self.check_tails()
    }

    /// Sends a record, or finds that it is there.
    async fn take(&mut self, record: FetchedRecord) -> anyhow::Result<()> {
        let index = record.partition.0 as usize;
        let Some(track) = self.tracks.get_mut(index) else { return Ok(()) };
        let (source_offset, target_offset) = (record.offset.0, track.cursor);
        if target_offset < track.end {
            let there = track.tail.remove(&target_offset);
            if there.is_some_and(|there| there != fingerprint(&record, self.keeps_times)) {
                bail!(
                    "{}-{} at offset {target_offset} is not what offset {source_offset} of {} is: another program writes \
                     to the destination; start again with another destination topic and another state file",
                    self.target,
                    record.partition,
                    self.source
                );
            }
            track.cursor += 1;
            self.found += 1;
            self.note_copied(index, source_offset, target_offset);
            return Ok(());
        }
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.settle_one().await?;
        }
        let copy = NewRecord {
            topic: self.target.clone(),
            partition: Some(record.partition),
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp: Some(record.timestamp).filter(|time| *time >= TimestampMs(0)),
        };
        let delivery = self.producer.send(copy).await;
        let delivery = delivery.map_err(|error| self.explain(error))?;
        if let Some(track) = self.tracks.get_mut(index) {
            track.cursor += 1;
        }
        self.in_flight.push_back(InFlight { index, source_offset, target_offset, delivery });
        Ok(())
    }

    fn note_copied(&mut self, index: usize, source_offset: i64, target_offset: i64) {
        if let Some(at) = self.state.partitions.get_mut(index) {
            at.source_next = source_offset + 1;
            at.destination_next = target_offset + 1;
        }
    }

    /// Takes the fates that are known by now.
    async fn settle_known(&mut self) -> anyhow::Result<()> {
        while let Some(front) = self.in_flight.front_mut() {
            let known = poll_fn(|context| match Pin::new(&mut front.delivery).poll(context) {
                Poll::Ready(fate) => Poll::Ready(Some(fate)),
                Poll::Pending => Poll::Ready(None),
            });
            // Thousands may be known at once, and none of them is waited for.
            let known = tokio::task::unconstrained(known);
            let Some(fate) = known.await else { return Ok(()) };
            self.settle(fate)?;
        }
        Ok(())
    }

    async fn settle_one(&mut self) -> anyhow::Result<()> {
        let Some(front) = self.in_flight.front_mut() else { return Ok(()) };
        let fate = (&mut front.delivery).await;
        self.settle(fate)
    }

    /// Awaits all that was sent. The first failure is the error; what was written beside it is noted all the same.
    pub(super) async fn settle_all(&mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        while !self.in_flight.is_empty() {
            let settled = self.settle_one().await;
            result = result.and(settled);
            self.progress.tick(self.copied + self.found);
        }
        if result.is_ok() {
            for (at, track) in self.state.partitions.iter_mut().zip(&self.tracks) {
                // Behind the last record there may be marks of transactions, which are no records.
                at.source_next = at.source_next.max(track.read_to.unwrap_or(0));
            }
        }
        result
    }

    /// The fate of the oldest record.
    fn settle(&mut self, fate: Result<Receipt, ProduceError>) -> anyhow::Result<()> {
        let Some(InFlight { index, source_offset, target_offset, .. }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let receipt = fate.map_err(|error| self.explain(error))?;
        let told = receipt.offset.map_or(target_offset, |offset| offset.0);
        if told != target_offset {
            bail!(
                "{} took a record at offset {told} that was due at {target_offset}: another program writes to the \
                 destination; start again with another destination topic and another state file",
                receipt.partition
            );
        }
        // One that failed before it keeps the state where it is.
        if self.state.partitions.get(index).is_some_and(|at| at.destination_next == target_offset) {
            self.copied += 1;
            self.note_copied(index, source_offset, target_offset);
        }
        Ok(())
    }

    /// All that a copy before has written must have been met on the way.
    fn check_tails(&self) -> anyhow::Result<()> {
        for (index, track) in (0..).zip(&self.tracks) {
            if track.cursor < track.end {
                let partition = TopicPartition::new(self.target.clone(), mainstem_client::PartitionIndex(index));
                bail!(
                    "{partition} holds {} records that the source {} does not have: another program writes to the \
                     destination",
                    track.end - track.cursor,
                    self.source
                );
            }
        }
        Ok(())
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        self.state.save(&self.state_file)
    }

    fn explain(&self, error: ProduceError) -> anyhow::Error {
        self.to.explain_produce(&self.target, error).context("destination")
    }
}
