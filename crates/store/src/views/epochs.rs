//! At which offset each leader epoch began. A view of the batches' epoch fields, kept in `leader-epoch-checkpoint`.
//!
//! Epochs ascend strictly and their starts never descend.

use crate::formats::epoch_checkpoint::EpochEntry;
use mainstem_types::{LeaderEpoch, Offset};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    entries: Vec<EpochEntry>,
    /// The file does not have what the records below the log end say. An epoch without a record is not missed there.
    pub(crate) dirty: bool,
}

impl Epochs {
    pub(crate) fn new(entries: Vec<EpochEntry>) -> Self {
        Epochs { entries, dirty: false }
    }

    pub(crate) fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    pub(crate) fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` begins at `start`, the log end, unless it or a later one has begun already: a new leader that
    /// has written nothing yet. An epoch that began at or after `start` has no record and is forgotten.
    ///
    /// Needs no write: a start of the broker begins an epoch in each log, and most of them get no record.
    pub(crate) fn begin(&mut self, epoch: LeaderEpoch, start: Offset) {
        if epoch < LeaderEpoch(0) || self.latest().is_some_and(|latest| epoch <= latest.epoch) {
            return;
        }
        while self.entries.last().is_some_and(|latest| latest.start_offset >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start_offset: start });
    }

    /// Notes the epoch of the batch at `start`.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        self.begin(epoch, start);
        self.dirty |= self.latest() == Some(EpochEntry { epoch, start_offset: start });
    }

    /// The entries that the records below `end` tell.
    pub(crate) fn of_records(&self, end: Offset) -> &[EpochEntry] {
        &self.entries[..self.entries.partition_point(|entry| entry.start_offset < end)]
    }

    /// The log now ends at `end`.
    pub(crate) fn truncate_end(&mut self, end: Offset) {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end);
        self.dirty |= before != self.entries.len();
    }

    /// The log now begins at `start`: of the epochs that began before, the last one begins there.
    pub(crate) fn truncate_start(&mut self, start: Offset) {
        let below = self.entries.partition_point(|entry| entry.start_offset <= start);
        if below == 0 || (below == 1 && self.entries[0].start_offset == start) {
            return;
        }
        self.entries.drain(..below - 1);
        self.entries[0].start_offset = start;
        self.dirty = true;
    }

    /// The epoch of the record at `offset`.
    pub(crate) fn epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).map(|i| self.entries[i].epoch)
    }

    /// The answer to OffsetForLeaderEpoch, with the log end given. (-1, -1): unknown.
    pub(crate) fn end_offset_for(&self, requested: LeaderEpoch, log_end: Offset) -> (LeaderEpoch, Offset) {
        let unknown = (LeaderEpoch::NONE, Offset::NONE);
        let Some(latest) = self.latest().filter(|_| requested >= LeaderEpoch(0)) else { return unknown };
        if requested == latest.epoch {
            return (requested, log_end);
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= requested);
        match (higher.checked_sub(1), self.entries.get(higher)) {
            // Newer than any that is known here.
            (_, None) => unknown,
            // Older than the oldest one known: it ends where that one begins.
            (None, Some(first)) => (requested, first.start_offset),
            (Some(floor), Some(next)) => (self.entries[floor].epoch, next.start_offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn epochs(entries: &[(i32, i64)]) -> Epochs {
        let entry =
            |(epoch, start): &(i32, i64)| EpochEntry { epoch: LeaderEpoch(*epoch), start_offset: Offset(*start) };
        Epochs::new(entries.iter().map(entry).collect())
    }

    #[test]
    fn row_39_answers_of_offset_for_leader_epoch() {
        let epochs = epochs(&[(2, 10), (4, 30)]);
        let ask = |epoch| {
            let (epoch, offset) = epochs.end_offset_for(LeaderEpoch(epoch), Offset(50));
            (epoch.0, offset.0)
        };
        assert_eq!(ask(4), (4, 50), "the current epoch ends at the log end");
        assert_eq!(ask(3), (2, 30), "largest epoch at or below, start of the next");
        assert_eq!(ask(2), (2, 30));
        assert_eq!(ask(1), (1, 10), "older than the oldest: start of the first");
        assert_eq!(ask(5), (-1, -1), "newer than any");
        assert_eq!(ask(-1), (-1, -1));
        assert_eq!(Epochs::default().end_offset_for(LeaderEpoch(0), Offset(5)), (LeaderEpoch(-1), Offset(-1)));
    }

    #[test]
    fn an_epoch_without_records_is_forgotten_by_the_next() {
        let mut epochs = epochs(&[(0, 0), (1, 5)]);
        epochs.assign(LeaderEpoch(2), Offset(5));
        epochs.assign(LeaderEpoch(1), Offset(9));
        assert_eq!(epochs.entries().len(), 2);
        assert_eq!(epochs.epoch_for(Offset(5)), Some(LeaderEpoch(2)));
        assert_eq!(epochs.epoch_for(Offset(4)), Some(LeaderEpoch(0)));
    }

    #[test]
    fn only_an_epoch_with_a_record_has_to_be_written() {
        let mut epochs = epochs(&[(0, 0)]);
        epochs.begin(LeaderEpoch(1), Offset(5));
        assert!(!epochs.dirty);
        assert_eq!(epochs.of_records(Offset(5)).len(), 1);
        epochs.assign(LeaderEpoch(1), Offset(5));
        assert!(epochs.dirty);
        assert_eq!(epochs.of_records(Offset(6)).len(), 2);
        epochs.dirty = false;
        epochs.assign(LeaderEpoch(1), Offset(6));
        assert!(!epochs.dirty, "its second record tells nothing new");
        epochs.assign(LeaderEpoch(2), Offset(7));
        assert!(epochs.dirty);
    }

    #[test]
    fn cutting_keeps_the_epoch_of_what_remains() {
        let mut epochs = epochs(&[(0, 0), (1, 5), (3, 9)]);
        epochs.truncate_start(Offset(7));
        assert_eq!(epochs.entries()[0], EpochEntry { epoch: LeaderEpoch(1), start_offset: Offset(7) });
        epochs.truncate_end(Offset(9));
        assert_eq!(epochs.latest().map(|e| e.epoch), Some(LeaderEpoch(1)));
    }

    proptest! {
        #[test]
        fn entries_stay_ordered(
            steps in prop::collection::vec((0u8..3, -1i32..20, 0i64..100), 0..40), probe in 0i64..120,
        ) {
            let mut epochs = Epochs::default();
            for (step, epoch, offset) in steps {
                match step {
                    0 => epochs.assign(LeaderEpoch(epoch), Offset(offset)),
                    1 => epochs.truncate_end(Offset(offset)),
                    _ => epochs.truncate_start(Offset(offset)),
                }
                prop_assert!(epochs.entries().windows(2).all(|w| w[0].epoch < w[1].epoch && w[0].start_offset < w[1].start_offset));
            }
            let by_scan = epochs.entries().iter().rev().find(|e| e.start_offset.0 <= probe).map(|e| e.epoch);
            prop_assert_eq!(epochs.epoch_for(Offset(probe)), by_scan);
        }
    }
}
