//! The parts of a log that may not be durable, and the log's entries in the checkpoint files.
//!
//! ```text
//! recovery point on the disk ≤ recovery point of the next checkpoint ≤ durable end
//! ```
//! The recovery point may not pass a sealed segment whose index files are not durable: a recovery that begins behind
//! it looks at them no more.

use std::time::Duration;

use crate::formats::transaction_index::AbortedTransaction;
use mainstem_types::Offset;

/// The entries of the checkpoint files of the data folder for a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointEntry {
    pub(crate) recovery_point: Offset,
    pub(crate) log_start: Offset,
    /// The log start is not where the first segment begins: it must be remembered.
    pub(crate) log_start_matters: bool,
    /// Compacted up to here.
    pub(crate) cleaned_to: Option<Offset>,
}

/// A log that has grown by this much since its last checkpoint is synced by the next one: recovery then scans at most
/// about this much, and the bytes that were written in between.
const CHECKPOINT_SYNC_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct Unsynced {
    /// Sealed segments whose index files are not known to be durable, oldest first.
    indexes: Vec<Offset>,
    /// Segments to whose transaction index something was added that is not known to be durable, oldest first.
    transactions: Vec<Offset>,
    /// Of the active segment: there was no descriptor, or no room, to write them into its transaction index. Oldest
    /// first. They are written before the segment is sealed, and before a checkpoint.
    aborted: Vec<AbortedTransaction>,
    /// The files that the creation of the log made, and their names, are not known to be durable.
    new_files: bool,
    /// Bytes appended since the recovery point was last moved.
    bytes: u64,
    /// Monotonic time of the oldest append that no flush covers.
    since: Option<Duration>,
    /// The entries of the checkpoint files for this log.
    checkpointed: Option<CheckpointEntry>,
    /// What the checkpoint file on the disk says: everything below is durable, its views too, and no recovery looks at
    /// it.
    recovery_point: Offset,
}

impl Default for Unsynced {
    fn default() -> Self {
        Unsynced {
            indexes: Vec::new(),
            transactions: Vec::new(),
            aborted: Vec::new(),
            new_files: false,
            bytes: 0,
            since: None,
            checkpointed: None,
            recovery_point: Offset::ZERO,
        }
    }
}

impl Unsynced {
    /// Of a log that was opened: `rebuilt` are the sealed segments whose indexes were made again, `checkpointed` is
    /// what the checkpoint files say.
    pub(super) fn opened(rebuilt: Vec<Offset>, checkpointed: Option<CheckpointEntry>, recovery_point: Offset) -> Self {
        Unsynced { indexes: rebuilt, checkpointed, recovery_point, ..Unsynced::default() }
    }

    /// A batch was appended.
    pub(super) fn appended(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Whether something was appended since the last checkpoint.
    pub(super) fn has_grown(&self) -> bool {
        self.bytes > 0
    }

    /// Whether the next checkpoint syncs the log because of its size.
    pub(super) fn has_grown_much(&self) -> bool {
        self.bytes >= CHECKPOINT_SYNC_BYTES
    }

    /// A checkpoint syncs what there is.
    pub(super) fn begin_growth(&mut self) {
        self.bytes = 0;
    }

    /// No flush covers appends from now on. The first such moment counts.
    pub(super) fn is_dirty_since(&mut self, now: impl FnOnce() -> Duration) {
        self.since.get_or_insert_with(now);
    }

    /// A flush covers everything.
    pub(super) fn flush_asked(&mut self) {
        self.since = None;
    }

    /// How long the oldest append waits that no flush covers.
    pub(super) fn dirty_for(&self, now: Duration) -> Option<Duration> {
        self.since.map(|since| now.saturating_sub(since))
    }

    /// A segment was sealed.
    pub(super) fn sealed(&mut self, base: Offset) {
        if !self.indexes.contains(&base) {
            self.indexes.push(base);
        }
    }

    pub(super) fn sealed_segments(&self) -> Vec<Offset> {
        self.indexes.clone()
    }

    /// The first segment whose index files may not be durable.
    pub(super) fn first_sealed(&self) -> Option<Offset> {
        self.indexes.first().copied()
    }

    /// The indexes of these segments are durable, or gone.
    pub(super) fn settled(&mut self, is_settled: impl Fn(Offset) -> bool) {
        self.indexes.retain(|base| !is_settled(*base));
    }

    /// Something was added to the transaction index of the active segment.
    pub(super) fn transaction_added(&mut self, active: Offset) {
        if self.transactions.last() != Some(&active) {
            self.transactions.push(active);
        }
    }

    /// A transaction was aborted, and its marker is in the active segment.
    pub(super) fn aborted(&mut self, transaction: AbortedTransaction) {
        self.aborted.push(transaction);
    }

    /// Aborted transactions that are not in the transaction index of the active segment yet.
    pub(super) fn unwritten_aborted(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// They are in the file now, or the log begins anew.
    pub(super) fn aborted_written(&mut self) {
        self.aborted.clear();
    }

    /// Takes out the segments whose transaction indexes are about to be synced.
    pub(super) fn take_transactions(&mut self) -> Vec<Offset> {
        std::mem::take(&mut self.transactions)
    }

    /// The taken segments were not synced. Segments that were added meanwhile stay behind them.
    pub(super) fn give_back_transactions(&mut self, bases: Vec<Offset>) {
        self.transactions.splice(0..0, bases);
    }

    pub(super) fn new_files(&self) -> bool {
        self.new_files
    }

    pub(super) fn set_new_files(&mut self, unsynced: bool) {
        self.new_files = unsynced;
    }

    /// The whole file system was synced.
    pub(super) fn all_synced(&mut self) {
        self.indexes.clear();
        self.transactions.clear();
        self.new_files = false;
    }

    /// The entries that the checkpoint files have, or are about to have.
    pub(super) fn checkpointed(&self) -> Option<CheckpointEntry> {
        self.checkpointed
    }

    /// The next checkpoint files will say this.
    pub(super) fn prepared(&mut self, entry: CheckpointEntry) {
        self.checkpointed = Some(entry);
    }

    /// See the field.
    pub(super) fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The checkpoint file says this.
    pub(super) fn written(&mut self, recovery_point: Offset) {
        self.recovery_point = recovery_point;
    }

    /// The checkpoint file says nothing above `offset` any more.
    pub(super) fn lower_recovery_point(&mut self, offset: Offset) {
        self.recovery_point = self.recovery_point.min(offset);
    }

    /// The log was cut at `end`, in the segment `active`, or begins anew there.
    pub(super) fn cut(&mut self, end: Offset, active: Offset) {
        self.lower_recovery_point(end);
        self.indexes.retain(|base| *base < active);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_append_without_a_flush_counts_until_a_flush_covers_it() {
        let seconds = Duration::from_secs;
        let mut unsynced = Unsynced::default();
        assert_eq!(unsynced.dirty_for(seconds(9)), None);
        unsynced.is_dirty_since(|| seconds(3));
        unsynced.is_dirty_since(|| seconds(5));
        assert_eq!(unsynced.dirty_for(seconds(9)), Some(seconds(6)));
        unsynced.flush_asked();
        assert_eq!(unsynced.dirty_for(seconds(9)), None);
    }

    #[test]
    fn a_checkpoint_syncs_what_has_grown_by_its_limit() {
        let mut unsynced = Unsynced::default();
        unsynced.appended(CHECKPOINT_SYNC_BYTES - 1);
        assert!(unsynced.has_grown() && !unsynced.has_grown_much());
        unsynced.appended(1);
        assert!(unsynced.has_grown_much());
        unsynced.begin_growth();
        assert!(!unsynced.has_grown());
    }

    #[test]
    fn transaction_indexes_that_were_not_synced_stay_before_those_of_later_segments() {
        let mut unsynced = Unsynced::default();
        unsynced.transaction_added(Offset(0));
        unsynced.transaction_added(Offset(5));
        let taken = unsynced.take_transactions();
        unsynced.transaction_added(Offset(9));
        unsynced.give_back_transactions(taken);
        unsynced.transaction_added(Offset(9));
        assert_eq!(unsynced.take_transactions(), [Offset(0), Offset(5), Offset(9)]);
    }

    #[test]
    fn a_cut_forgets_later_segments_and_lowers_the_recovery_point() {
        let mut unsynced = Unsynced::opened(vec![Offset(0), Offset(10), Offset(20)], None, Offset(25));
        unsynced.cut(Offset(15), Offset(10));
        assert_eq!((unsynced.sealed_segments(), unsynced.recovery_point()), (vec![Offset(0)], Offset(15)));
        unsynced.cut(Offset(18), Offset(10));
        assert_eq!(unsynced.recovery_point(), Offset(15), "a cut raises nothing");
    }
}
