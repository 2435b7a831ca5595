//! Which batches belong to aborted transactions, and which markers have nothing left to end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use mainstem_record::{BatchHeader, BatchView, ControlKind, RecordError};
use mainstem_types::{Offset, ProducerId};

use crate::formats::transaction_index::AbortedTransaction;

/// The records of a transaction marker take a few bytes.
const MARKER_BYTES_MAX: usize = 64 << 10;

/// An aborted transaction whose marker was not reached yet.
#[derive(Debug, Clone)]
struct Aborting {
    transaction: AbortedTransaction,
    /// A batch of it was there.
    seen: bool,
}

/// What is known of transactions at one place of a log, which is gone through from front to back.
#[derive(Debug, Default, Clone)]
pub(super) struct Transactions {
    /// By first offset: not begun yet.
    coming: BinaryHeap<Reverse<(Offset, Offset, ProducerId)>>,
    known: HashMap<(Offset, Offset, ProducerId), AbortedTransaction>,
    aborting: HashMap<ProducerId, Aborting>,
    /// Producers of whose transaction a batch was there, which is going to be committed.
    committing: HashSet<ProducerId>,
    /// Aborted transactions whose marker and at least one batch were there: they stay in the index.
    pub(super) still_aborted: Vec<AbortedTransaction>,
    /// A segment before this place was not looked at: no marker is known to have nothing left to end.
    passed_over: bool,
}

impl Transactions {
    /// Aborted transactions that overlap the part that comes next. One that was told before does no harm.
    pub(super) fn announce(&mut self, aborted: Vec<AbortedTransaction>) {
        for transaction in aborted {
            let key = (transaction.first_offset, transaction.last_offset, transaction.producer_id);
            if self.known.insert(key, transaction).is_none() {
                self.coming.push(Reverse(key));
            }
        }
    }

    /// A segment is not looked at. Its transactions were announced.
    pub(super) fn pass_over(&mut self, next: Offset) {
        self.begin_up_to(next.plus(-1));
        self.passed_over = true;
        // Batches of these may lie in it.
        self.aborting.values_mut().for_each(|aborting| aborting.seen = true);
    }

    /// Whether a batch can go as a whole: it is aborted, or a marker without remaining records.
    pub(super) fn can_go(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordError> {
        self.begin_up_to(batch.header().last_offset());
        self.end_before(batch.header());
        if batch.header().attributes.is_control() { self.marker_can_go(batch) } else { Ok(self.is_aborted(batch)) }
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while self.coming.peek().is_some_and(|Reverse((first, ..))| *first <= offset) {
            let Some(Reverse(key)) = self.coming.pop() else { return };
            if let Some(transaction) = self.known.remove(&key) {
                let aborting = self.aborting.entry(key.2).or_insert(Aborting { transaction, seen: false });
                if aborting.transaction.last_offset < transaction.first_offset {
                    *aborting = Aborting { transaction, seen: false };
                }
            }
        }
    }

    /// The marker of the producer's aborted transaction lies before this batch, in what could not be read.
    fn end_before(&mut self, header: &BatchHeader) {
        let ended = |aborting: &Aborting| aborting.transaction.last_offset < header.base_offset;
        if self.aborting.get(&header.producer_id).is_some_and(ended) {
            self.aborting.remove(&header.producer_id);
        }
    }

    fn is_aborted(&mut self, batch: &BatchView<'_>) -> bool {
        let header = batch.header();
        if !header.attributes.is_transactional() {
            return false;
        }
        match self.aborting.get_mut(&header.producer_id) {
            Some(aborting) => {
                aborting.seen = true;
                true
            }
            None => {
                self.committing.insert(header.producer_id);
                false
            }
        }
    }

    fn marker_can_go(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordError> {
        let mut scratch = Vec::new();
        let first = batch.records(&mut scratch, MARKER_BYTES_MAX)?.next().transpose()?;
        let producer = batch.header().producer_id;
        let Some(record) = first else {
            // It lost its record in an earlier pass.
            return Ok(true);
        };
        Ok(match ControlKind::of_key(record.key.unwrap_or_default()) {
            Ok(Some(ControlKind::Abort)) => match self.aborting.remove(&producer) {
                Some(Aborting { transaction, seen: true }) => {
                    self.still_aborted.push(transaction);
                    false
                }
                _ => !self.passed_over,
            },
            Ok(Some(ControlKind::Commit)) => !self.committing.remove(&producer) && !self.passed_over,
            _ => false,
        })
    }
}
