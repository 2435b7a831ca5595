//! Which batches belong to aborted transactions, and which markers have nothing left to end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use mainstem_record::{BatchView, ControlKind, RecordError};
use mainstem_types::{Offset, ProducerId};

use crate::formats::transaction_index::AbortedTransaction;

/// The records of a transaction marker take a few bytes.
const MARKER_BYTES_MAX: usize = 64 << 10;

/// An aborted transaction whose marker was not reached yet.
#[derive(Debug)]
struct Aborting {
    transaction: AbortedTransaction,
    /// A batch of it was there.
    seen: bool,
}

/// What is known of transactions at one place of a log, which is gone through from front to back.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// By first offset: not begun yet.
    coming: BinaryHeap<Reverse<(Offset, Offset, ProducerId)>>,
    known: HashMap<(Offset, Offset, ProducerId), AbortedTransaction>,
    aborting: HashMap<ProducerId, Aborting>,
    /// Producers of whose transaction a batch was there, which is going to be committed.
    committing: HashSet<ProducerId>,
    /// Aborted transactions whose marker and at least one batch were there: they stay in the index.
    pub(super) still_aborted: Vec<AbortedTransaction>,
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

    /// Whether a batch can go as a whole: it is aborted, or a marker without remaining records.
    pub(super) fn can_go(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordError> {
        self.begin_up_to(batch.header().last_offset());
        if batch.header().attributes.is_control() { self.marker_can_go(batch) } else { Ok(self.is_aborted(batch)) }
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while self.coming.peek().is_some_and(|Reverse((first, ..))| *first <= offset) {
            let Some(Reverse(key)) = self.coming.pop() else { return };
            if let Some(transaction) = self.known.remove(&key) {
                self.aborting.entry(key.2).or_insert(Aborting { transaction, seen: false });
            }
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
                _ => true,
            },
            Ok(Some(ControlKind::Commit)) => !self.committing.remove(&producer),
            _ => false,
        })
    }
}
