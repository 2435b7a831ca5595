//! The leader epochs of a group, as its checkpoint tells them, against those of its entries.

use mainstem_store::EpochStart;
use mainstem_store::formats::group_checkpoint::GroupCheckpoint;
use mainstem_types::{LeaderEpoch, Position};

/// Looks at entries in the order of the log.
pub(super) struct GroupEpochs {
    /// What the checkpoint says of entries before is not compared.
    from: Position,
    until: Position,
    said: Vec<EpochStart>,
    highest: LeaderEpoch,
    found: Vec<EpochStart>,
}

impl GroupEpochs {
    /// `first`: where the log begins. An epoch that began before begins there, as far as the checkpoint says.
    pub(super) fn new(known: &GroupCheckpoint, first: Position) -> GroupEpochs {
        let from = known.epochs_from.max(first);
        let before = known.epochs.partition_point(|start| start.position <= from);
        let highest = known.epochs[..before].last().map_or(LeaderEpoch::NONE, |start| start.epoch);
        let said = known.epochs[before..].to_vec();
        GroupEpochs { from, until: known.covered_to(), said, highest, found: Vec::new() }
    }

    pub(super) fn batch(&mut self, epoch: LeaderEpoch, position: Position) {
        if epoch > self.highest && (self.from..self.until).contains(&position) {
            self.highest = epoch;
            self.found.push(EpochStart { epoch, position });
        }
    }

    /// How the checkpoint differs from the entries.
    pub(super) fn difference(&self) -> Option<String> {
        let show = |starts: &[EpochStart]| {
            let one = |start: &EpochStart| format!("{} at {}", start.epoch, start.position);
            let all: Vec<_> = starts.iter().map(one).collect();
            if all.is_empty() { "none".to_owned() } else { all.join(", ") }
        };
        let (found, said) = (show(&self.found), show(&self.said));
        let detail =
            format!("leader epochs of the entries behind position {}: {found}; of the checkpoint: {said}", self.from);
        (self.found != self.said).then_some(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start((epoch, position): (i32, u64)) -> EpochStart {
        EpochStart { epoch: LeaderEpoch(epoch), position: Position(position) }
    }

    fn compare(said: &[(i32, u64)], epochs_from: u64, first: u64, entries: &[(i32, u64)]) -> Option<String> {
        let epochs = said.iter().copied().map(start).collect();
        let known =
            GroupCheckpoint { position: 500, epochs, epochs_from: Position(epochs_from), ..GroupCheckpoint::default() };
        let mut found = GroupEpochs::new(&known, Position(first));
        entries.iter().for_each(|(epoch, position)| found.batch(LeaderEpoch(*epoch), Position(*position)));
        found.difference()
    }

    #[test]
    fn a_checkpoint_must_tell_the_epochs_of_the_entries() {
        let entries = [(2, 0), (1, 100), (2, 200), (5, 300), (7, 500)];
        assert_eq!(compare(&[(2, 0), (5, 300)], 0, 0, &entries), None, "what lies behind it does not count");
        let detail = compare(&[(2, 0), (5, 200)], 0, 0, &entries).unwrap();
        assert!(detail.contains("5 at 300") && detail.contains("5 at 200"), "{detail}");
        assert!(compare(&[(2, 0)], 0, 0, &entries).is_some_and(|detail| detail.ends_with("none")));
        assert_eq!(compare(&[(2, 100), (5, 300)], 0, 100, &entries[1..]), None, "files before are gone");
        assert_eq!(compare(&[(5, 300)], 250, 0, &entries), None, "an older version knew nothing of the entries before");
    }
}
