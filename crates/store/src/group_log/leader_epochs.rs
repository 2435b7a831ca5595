//! At which byte position of the commit log each leader epoch of the group began.
//!
//! A view of the entries: one whose epoch is higher than those of all entries before it begins that epoch. The same
//! bytes give the same list on a leader and on its followers, so two logs part where their lists do.

use mainstem_types::{LeaderEpoch, Position};

use crate::formats::group_checkpoint::EpochStart;

/// Epochs ascend strictly, and so do their positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeaderEpochs {
    starts: Vec<EpochStart>,
    /// Entries before were not looked at: a checkpoint that knew nothing of epochs was believed.
    known_from: Position,
}

impl LeaderEpochs {
    /// Of a log of which nothing before `known_from` is known.
    pub(super) fn from(known_from: Position) -> LeaderEpochs {
        LeaderEpochs { starts: Vec::new(), known_from }
    }

    pub(super) fn restore(starts: Vec<EpochStart>, known_from: Position) -> LeaderEpochs {
        LeaderEpochs { starts, known_from }
    }

    pub(super) fn known_from(&self) -> Position {
        self.known_from
    }

    /// Takes an entry into account that was written behind all others.
    pub(super) fn observe(&mut self, epoch: LeaderEpoch, position: Position) {
        if self.starts.last().is_none_or(|last| epoch > last.epoch) {
            self.begin(epoch, position);
        }
    }

    /// Notes that `epoch` begins at the end of the log: a leader that has written nothing yet. An epoch that began
    /// there has no entry, and is forgotten.
    pub(super) fn begin(&mut self, epoch: LeaderEpoch, end: Position) {
        if epoch < LeaderEpoch(0) || self.starts.last().is_some_and(|last| epoch <= last.epoch) {
            return;
        }
        self.truncate_end(end);
        self.starts.push(EpochStart { epoch, position: end });
    }

    /// The log ended at `from`, and goes on at `to`, in the next file. An epoch without an entry begins there.
    pub(super) fn move_end(&mut self, from: Position, to: Position) {
        if let Some(last) = self.starts.last_mut().filter(|last| last.position == from) {
            last.position = to;
        }
    }

    /// What the entries before `end` tell.
    pub(super) fn before(&self, end: Position) -> &[EpochStart] {
        &self.starts[..self.starts.partition_point(|start| start.position < end)]
    }

    /// The log now ends at `end`.
    pub(super) fn truncate_end(&mut self, end: Position) {
        self.starts.truncate(self.starts.partition_point(|start| start.position < end));
        self.known_from = self.known_from.min(end);
    }

    /// The log now begins at `start`: of the epochs that began before, the last one begins there.
    pub(super) fn truncate_start(&mut self, start: Position) {
        let below = self.starts.partition_point(|known| known.position <= start);
        if below > 0 {
            self.starts.drain(..below - 1);
            self.starts[0].position = self.starts[0].position.max(start);
        }
    }

    /// Adds what was found out about the entries before [`LeaderEpochs::known_from`].
    pub(super) fn learn(&mut self, mut earlier: LeaderEpochs) {
        self.starts.iter().for_each(|start| earlier.observe(start.epoch, start.position));
        *self = earlier;
    }

    /// The largest epoch at or below the requested one, and where it ends; the requested one, and where the first known
    /// one begins, if that is later. `None`: it is newer than any that is known.
    pub(super) fn end_of(&self, requested: LeaderEpoch, log_end: Position) -> Option<EpochStart> {
        let later = self.starts.partition_point(|start| start.epoch <= requested);
        match (later.checked_sub(1), self.starts.get(later)) {
            (Some(last), None) if self.starts[last].epoch == requested => {
                Some(EpochStart { epoch: requested, position: log_end })
            }
            (_, None) => None,
            (None, Some(first)) => Some(EpochStart { epoch: requested, position: first.position }),
            (Some(floor), Some(next)) => Some(EpochStart { epoch: self.starts[floor].epoch, position: next.position }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn epochs(starts: &[(i32, u64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        starts.iter().for_each(|(epoch, position)| epochs.observe(LeaderEpoch(*epoch), Position(*position)));
        epochs
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let epochs = epochs(&[(2, 100), (1, 200), (5, 300)]);
        let ask = |epoch| epochs.end_of(LeaderEpoch(epoch), Position(900)).map(|end| (end.epoch.0, end.position.0));
        assert_eq!(ask(5), Some((5, 900)), "the latest ends with the log");
        assert_eq!([ask(4), ask(3), ask(2)], [Some((2, 300)); 3], "the largest at or below");
        assert_eq!(ask(1), Some((1, 100)), "older than the oldest: where the first known one begins");
        assert_eq!(ask(6), None, "newer than any");
        assert_eq!(LeaderEpochs::default().end_of(LeaderEpoch(0), Position(5)), None);
    }

    #[test]
    fn an_epoch_without_an_entry_is_forgotten_by_the_next_and_by_a_cut() {
        let mut epochs = epochs(&[(0, 0)]);
        epochs.begin(LeaderEpoch(1), Position(50));
        assert_eq!(epochs.before(Position(50)).len(), 1);
        epochs.begin(LeaderEpoch(2), Position(50));
        epochs.observe(LeaderEpoch(2), Position(50));
        assert_eq!(epochs.before(Position(51))[1], EpochStart { epoch: LeaderEpoch(2), position: Position(50) });
        epochs.truncate_end(Position(50));
        assert_eq!(epochs.before(Position(99)).len(), 1);
    }

    proptest! {
        /// However a log is cut at both ends, and wherever the knowledge of it begins, the list is that of its entries.
        #[test]
        fn the_list_is_that_of_the_entries(
            entries in prop::collection::vec(0i32..6, 1..40), parts in prop::collection::vec(any::<prop::sample::Index>(), 3),
        ) {
            let at = |index: usize| Position(index as u64 * 10);
            let all = |range: std::ops::Range<usize>| {
                let mut epochs = LeaderEpochs::default();
                range.for_each(|index| epochs.observe(LeaderEpoch(entries[index]), at(index)));
                epochs
            };
            let [known, end, start] = [0, 1, 2].map(|n| parts[n].index(entries.len()));
            let mut late = LeaderEpochs::from(at(known));
            (known..entries.len()).for_each(|index| late.observe(LeaderEpoch(entries[index]), at(index)));
            late.learn(all(0..known));
            prop_assert_eq!(&late, &all(0..entries.len()));
            late.truncate_end(at(end));
            prop_assert_eq!(&late.starts, &all(0..end).starts);
            late.truncate_start(at(start));
            let kept = late.before(Position::MAX);
            prop_assert!(kept.windows(2).all(|two| two[0].epoch < two[1].epoch && two[0].position < two[1].position));
            for index in start..end {
                let found = kept.iter().rev().find(|known| known.position <= at(index)).map(|known| known.epoch.0);
                prop_assert_eq!(found, entries[..=index].iter().max().copied());
            }
        }
    }
}
