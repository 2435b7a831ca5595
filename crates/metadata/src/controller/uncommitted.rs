//! Changes that are in the metadata log and not yet committed.

use std::collections::VecDeque;

use mainstem_types::Offset;

/// Holds each change from its append until its commit, in the order of the log.
///
/// The owner appends, and tells how far the log is committed: with one voter that is what is durable, with several it
/// is what a majority has. What a change releases (its reply, its entry into the node's own view) leaves only through
/// [`Uncommitted::commit`].
#[derive(Debug)]
pub struct Uncommitted<T> {
    /// The offset after the last record of each change, ascending.
    changes: VecDeque<(Offset, T)>,
    committed: Offset,
}

impl<T> Uncommitted<T> {
    /// `committed`: everything below is committed.
    pub fn new(committed: Offset) -> Self {
        Uncommitted { changes: VecDeque::new(), committed }
    }

    /// Everything below is committed.
    pub fn committed(&self) -> Offset {
        self.committed
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Notes a change whose records end before `end`. A change without records ends where the log ends: its reply may
    /// rest on changes before it, and waits for them.
    pub fn append(&mut self, end: Offset, change: T) {
        let last = self.changes.back().map_or(self.committed, |(last, _)| *last);
        assert!(end >= last, "a change ends at {end}, below the end {last} of the one before");
        self.changes.push_back((end, change));
    }

    /// Everything below `position` is committed. Gives the changes that now are, in their order. A position that is
    /// known already, or older, gives those that ended there without records.
    pub fn commit(&mut self, position: Offset) -> Vec<T> {
        self.committed = self.committed.max(position);
        let count = self.changes.partition_point(|(end, _)| *end <= self.committed);
        self.changes.drain(..count).map(|(_, change)| change).collect()
    }

    /// Takes out all changes that will never be known to be committed.
    pub fn abandon(&mut self) -> Vec<T> {
        self.changes.drain(..).map(|(_, change)| change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_leave_in_order_and_only_when_the_whole_of_them_is_committed() {
        let mut log = Uncommitted::new(Offset(10));
        for (end, change) in [(12, 'a'), (15, 'b'), (15, 'c'), (16, 'd')] {
            log.append(Offset(end), change);
        }
        // The position, the changes that it releases, the committed end then.
        let steps: [(i64, &[char], i64); 6] =
            [(10, &[], 10), (11, &[], 11), (12, &['a'], 12), (9, &[], 12), (15, &['b', 'c'], 15), (20, &['d'], 20)];
        for (position, released, committed) in steps {
            assert_eq!(log.commit(Offset(position)), released, "at {position}");
            assert_eq!(log.committed(), Offset(committed), "at {position}");
        }
        assert!(log.is_empty());
    }

    #[test]
    fn a_change_without_records_waits_for_those_before_it_and_for_nothing_else() {
        let mut log = Uncommitted::new(Offset(5));
        log.append(Offset(5), "nothing before it");
        assert_eq!(log.commit(Offset(5)), ["nothing before it"]);
        log.append(Offset(7), "records");
        log.append(Offset(7), "rests on them");
        assert_eq!((log.commit(Offset(6)), log.len()), (vec![], 2));
        assert_eq!(log.commit(Offset(7)), ["records", "rests on them"]);
    }

    #[test]
    fn what_is_abandoned_is_released_by_no_later_commit() {
        let mut log = Uncommitted::new(Offset(0));
        log.append(Offset(1), 'a');
        log.append(Offset(2), 'b');
        assert_eq!(log.commit(Offset(1)), ['a']);
        assert_eq!(log.abandon(), ['b']);
        assert_eq!(log.commit(Offset(9)), []);
    }

    #[test]
    #[should_panic(expected = "a change ends at 3, below the end 4")]
    fn a_change_does_not_end_before_the_one_before_it() {
        let mut log = Uncommitted::new(Offset(0));
        log.append(Offset(4), ());
        log.append(Offset(3), ());
    }
}
