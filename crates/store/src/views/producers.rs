//! The state of a partition's producers: sequences, epochs, open transactions. A view of the batch headers.
//!
//! Numbers: the last [`BATCHES_KEPT`] batches of each producer are remembered (of a snapshot, one). About 200 bytes a
//! producer; nothing while there is none.

use std::collections::{BTreeMap, HashMap};

use crate::formats::producer_snapshot::ProducerSnapshotEntry;
use crate::formats::transaction_index::AbortedTransaction;
use mainstem_record::BatchHeader;
use mainstem_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

/// Kafka's `NUM_BATCHES_TO_RETAIN`: as many as a producer may have in flight.
pub(crate) const BATCHES_KEPT: usize = 5;
const NO_SEQUENCE: i32 = -1;

/// One batch as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KnownBatch {
    pub(crate) last_sequence: i32,
    pub(crate) last_offset: i64,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp_ms: i64,
}

impl KnownBatch {
    pub(crate) fn base_offset(&self) -> Offset {
        Offset(self.last_offset - i64::from(self.offset_delta))
    }

    fn base_sequence(&self) -> i32 {
        let base = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        // Sequences wrap from i32::MAX to 0, never below.
        (if base < 0 { base + i64::from(i32::MAX) + 1 } else { base }) as i32
    }
}

/// One producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: ProducerEpoch,
    /// Oldest first.
    batches: [KnownBatch; BATCHES_KEPT],
    batch_count: u8,
    pub(crate) last_timestamp_ms: i64,
    pub(crate) coordinator_epoch: i32,
    pub(crate) transaction_first_offset: Option<Offset>,
}

impl Producer {
    fn new(epoch: ProducerEpoch) -> Self {
        Producer {
            epoch,
            batches: Default::default(),
            batch_count: 0,
            last_timestamp_ms: TimestampMs::NONE.0,
            coordinator_epoch: -1,
            transaction_first_offset: None,
        }
    }

    fn batches(&self) -> &[KnownBatch] {
        &self.batches[..usize::from(self.batch_count)]
    }

    pub(crate) fn last_batch(&self) -> Option<&KnownBatch> {
        self.batches().last()
    }

    pub(crate) fn last_sequence(&self) -> i32 {
        self.last_batch().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn remember(&mut self, batch: KnownBatch) {
        if usize::from(self.batch_count) == BATCHES_KEPT {
            self.batches.rotate_left(1);
            self.batches[BATCHES_KEPT - 1] = batch;
        } else {
            self.batches[usize::from(self.batch_count)] = batch;
            self.batch_count += 1;
        }
        self.last_timestamp_ms = batch.timestamp_ms;
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }
}

/// The verdict over a producer's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceCheck {
    Next,
    Duplicate(KnownBatch),
    OutOfOrder {
        expected: i32,
    },
    Fenced {
        current: ProducerEpoch,
    },
    /// A plain batch while the producer's transaction is open.
    TransactionOpen,
}

/// The end of a transaction, as a control batch tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransactionEnd {
    pub(crate) commit: bool,
    pub(crate) coordinator_epoch: i32,
}

/// All producers of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: HashMap<ProducerId, Producer>,
    /// First offset → producer, of transactions without a marker.
    open: BTreeMap<Offset, ProducerId>,
    /// First offset → offset of the marker, until the high watermark has passed the marker.
    ended: BTreeMap<Offset, Offset>,
    /// The state covers every batch below.
    pub(crate) end: Offset,
}

impl Producers {
    /// Nothing is known of any producer before `end`.
    pub(crate) fn starting_at(end: Offset) -> Self {
        Producers { end, ..Producers::default() }
    }

    /// Judges a batch of a client. `header` must have a producer id.
    pub(crate) fn check(&self, header: &BatchHeader) -> SequenceCheck {
        let Some(producer) = self.by_id.get(&header.producer_id) else { return SequenceCheck::Next };
        let (base, last) = (header.base_sequence, header.last_sequence());
        if header.producer_epoch == producer.epoch {
            let same = |batch: &&KnownBatch| batch.base_sequence() == base && batch.last_sequence == last;
            if let Some(batch) = producer.batches().iter().find(same) {
                return SequenceCheck::Duplicate(*batch);
            }
        }
        if header.producer_epoch < producer.epoch {
            return SequenceCheck::Fenced { current: producer.epoch };
        }
        let expected = if header.producer_epoch != producer.epoch || producer.last_sequence() == i32::MAX {
            0
        } else {
            producer.last_sequence() + 1
        };
        if base != expected {
            return SequenceCheck::OutOfOrder { expected };
        }
        if producer.transaction_first_offset.is_some() && !header.attributes.is_transactional() {
            return SequenceCheck::TransactionOpen;
        }
        SequenceCheck::Next
    }

    /// Takes a batch with messages into account that was appended with its final offsets.
    pub(crate) fn observe(&mut self, header: &BatchHeader) {
        self.end = self.end.max(header.next_offset());
        if !header.has_producer_id() || header.attributes.is_control() {
            return;
        }
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let producer = self.by_id.entry(id).or_insert_with(|| Producer::new(epoch));
        producer.set_epoch(epoch);
        producer.remember(KnownBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset().0,
            offset_delta: header.last_offset_delta,
            timestamp_ms: header.max_timestamp.0,
        });
        if header.attributes.is_transactional() && producer.transaction_first_offset.is_none() {
            producer.transaction_first_offset = Some(header.base_offset);
            self.open.insert(header.base_offset, id);
        }
    }

    /// Takes a transaction marker into account. Gives the aborted transaction, for the transaction index.
    pub(crate) fn observe_marker(&mut self, header: &BatchHeader, end: TransactionEnd) -> Option<AbortedTransaction> {
        let marker_offset = header.base_offset;
        self.end = self.end.max(header.next_offset());
        let producer = self.by_id.entry(header.producer_id).or_insert_with(|| Producer::new(header.producer_epoch));
        producer.set_epoch(header.producer_epoch);
        producer.last_timestamp_ms = header.max_timestamp.0;
        producer.coordinator_epoch = end.coordinator_epoch;
        let first_offset = producer.transaction_first_offset.take()?;
        self.open.remove(&first_offset);
        self.ended.insert(first_offset, marker_offset);
        let last_stable_offset = self.open.keys().next().copied().unwrap_or(marker_offset.plus(1));
        (!end.commit).then_some(AbortedTransaction {
            producer_id: header.producer_id,
            first_offset,
            last_offset: marker_offset,
            last_stable_offset,
        })
    }

    /// First offset of the oldest transaction that is open, or whose marker is not below `high_watermark`.
    pub(crate) fn first_unstable(&mut self, high_watermark: Offset) -> Option<Offset> {
        self.ended.retain(|_, marker| *marker >= high_watermark);
        self.first_open()
    }

    /// As [`Producers::first_unstable`], with the high watermark that was given last.
    pub(crate) fn first_open(&self) -> Option<Offset> {
        self.open.keys().next().into_iter().chain(self.ended.keys().next()).min().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProducerId, &Producer)> {
        self.by_id.iter()
    }

    /// Forgets producers without an open transaction that were silent for `expiration_ms`.
    pub(crate) fn expire(&mut self, now: TimestampMs, expiration_ms: i64) -> usize {
        let before = self.by_id.len();
        self.by_id.retain(|_, producer| {
            producer.transaction_first_offset.is_some()
                || now.0.saturating_sub(producer.last_timestamp_ms) < expiration_ms
        });
        if self.by_id.is_empty() {
            self.by_id.shrink_to_fit();
        }
        before - self.by_id.len()
    }

    /// The entries of a snapshot, ordered by producer id so that equal states give equal bytes.
    pub(crate) fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        let mut entries: Vec<_> = self.by_id.iter().map(|(id, producer)| snapshot_entry(*id, producer)).collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// The state as a snapshot taken at `end` tells it.
    pub(crate) fn from_snapshot(entries: &[ProducerSnapshotEntry], end: Offset) -> Self {
        let mut producers = Producers { end, ..Producers::default() };
        for entry in entries {
            let mut producer = Producer::new(entry.epoch);
            if entry.last_offset >= Offset::ZERO {
                producer.remember(KnownBatch {
                    last_sequence: entry.last_sequence,
                    last_offset: entry.last_offset.0,
                    offset_delta: entry.offset_delta,
                    timestamp_ms: entry.timestamp.0,
                });
            }
            producer.last_timestamp_ms = entry.timestamp.0;
            producer.coordinator_epoch = entry.coordinator_epoch;
            if entry.transaction_first_offset >= Offset::ZERO {
                producer.transaction_first_offset = Some(entry.transaction_first_offset);
                producers.open.insert(entry.transaction_first_offset, entry.producer_id);
            }
            producers.by_id.insert(entry.producer_id, producer);
        }
        producers
    }
}

fn snapshot_entry(producer_id: ProducerId, producer: &Producer) -> ProducerSnapshotEntry {
    let last = producer.last_batch();
    ProducerSnapshotEntry {
        producer_id,
        epoch: producer.epoch,
        last_sequence: producer.last_sequence(),
        last_offset: last.map_or(Offset::NONE, |batch| Offset(batch.last_offset)),
        offset_delta: last.map_or(0, |batch| batch.offset_delta),
        timestamp: TimestampMs(producer.last_timestamp_ms),
        coordinator_epoch: producer.coordinator_epoch,
        transaction_first_offset: producer.transaction_first_offset.unwrap_or(Offset::NONE),
    }
}
