//! The values of keys before records that are not committed yet.
//!
//! An appended record changes the state at once, and may still be lost: the broker crashes, or another broker leads.
//! Readers therefore see the state of the committed records, and decisions use the state of all records. For readers
//! the value before each uncommitted change is kept until the change is committed. A state of several maps has one
//! `Uncommitted` for each map.

use std::collections::{BTreeMap, VecDeque};

use mainstem_types::Offset;

/// The values before the uncommitted changes of one map. Costs nothing while everything is committed.
#[derive(Debug, Clone)]
pub(crate) struct Uncommitted<K, V> {
    /// Oldest first: the record that changed the key, and the value before it.
    before: BTreeMap<K, VecDeque<(Offset, Option<V>)>>,
    /// All of them in the order of the log.
    changes: VecDeque<(Offset, K)>,
}

impl<K, V> Default for Uncommitted<K, V> {
    fn default() -> Self {
        Uncommitted { before: BTreeMap::new(), changes: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V> Uncommitted<K, V> {
    /// The record at `at` changes `key`, which held `before`. To be called in the order of the log.
    pub(crate) fn keep(&mut self, at: Offset, key: K, before: Option<V>) {
        self.before.entry(key.clone()).or_default().push_back((at, before));
        self.changes.push_back((at, key));
    }

    /// Everything below `end` is committed.
    pub(crate) fn commit(&mut self, end: Offset) {
        while self.changes.front().is_some_and(|(at, _)| *at < end) {
            let Some((_, key)) = self.changes.pop_front() else { return };
            let Some(values) = self.before.get_mut(&key) else { continue };
            values.pop_front();
            if values.is_empty() {
                self.before.remove(&key);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// What the committed records say of `key`; `None`: what all records say.
    pub(crate) fn committed(&self, key: &K) -> Option<Option<&V>> {
        let (_, value) = self.before.get(key)?.front()?;
        Some(value.as_ref())
    }

    /// The changed keys from `from` on with what the committed records say of them, in order.
    pub(crate) fn from(&self, from: &K) -> impl Iterator<Item = (&K, Option<&V>)> {
        self.before.range(from..).filter_map(|(key, values)| Some((key, values.front()?.1.as_ref())))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, Option<&V>)> {
        self.before.iter().filter_map(|(key, values)| Some((key, values.front()?.1.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A map with its history, and the same as a list of all changes.
    #[derive(Default)]
    struct Bed {
        newest: BTreeMap<u8, u32>,
        uncommitted: Uncommitted<u8, u32>,
        log: Vec<(u8, Option<u32>)>,
        committed: usize,
    }

    impl Bed {
        fn change(&mut self, key: u8, value: Option<u32>) {
            let at = Offset(self.log.len() as i64);
            let before = match value {
                Some(value) => self.newest.insert(key, value),
                None => self.newest.remove(&key),
            };
            self.uncommitted.keep(at, key, before);
            self.log.push((key, value));
        }

        fn commit(&mut self, count: usize) {
            self.committed = self.committed.saturating_add(count).min(self.log.len());
            self.uncommitted.commit(Offset(self.committed as i64));
        }

        fn shown(&self, key: u8) -> Option<u32> {
            self.uncommitted.committed(&key).unwrap_or_else(|| self.newest.get(&key)).copied()
        }

        fn replayed(&self, key: u8) -> Option<u32> {
            self.log[..self.committed].iter().rev().find(|(changed, _)| *changed == key).and_then(|(_, value)| *value)
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_the_committed_changes_say(
            steps in prop::collection::vec((0..5u8, prop::option::of(0..9u32), 0..4usize), 1..60),
        ) {
            let mut bed = Bed::default();
            for (key, value, commit) in steps {
                bed.change(key, value);
                bed.commit(commit);
                for key in 0..5 {
                    prop_assert_eq!(bed.shown(key), bed.replayed(key), "key {} at {}", key, bed.committed);
                }
            }
            bed.commit(usize::MAX);
            prop_assert!(bed.uncommitted.is_empty() && bed.uncommitted.before.is_empty());
        }
    }
}
