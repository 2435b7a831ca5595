//! From keys to the newest offset of each, in bounded memory.
//!
//! The map identifies a key by its 128-bit hash (XXH3, with its own seed for each map). Two keys that collide would
//! count as one; with a billion keys the chance is about 10⁻²¹. It is an open table with linear probing, and never
//! removes an entry.

use mainstem_types::Offset;
use twox_hash::XxHash3_128;

/// The hash in two halves, and the offset plus one: 0 is an empty slot.
type Slot = [u64; 3];

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

#[derive(Debug)]
pub(super) struct OffsetMap {
    slots: Vec<Slot>,
    used: usize,
    /// Keys that may be put in.
    keys_max: usize,
    seed: u64,
    latest: Offset,
}

impl OffsetMap {
    /// Takes at most `bytes`, and less if there are only `keys` keys. At least one key finds room, and one slot stays
    /// empty.
    pub(super) fn new(bytes: usize, load_factor: f64, keys: u64, seed: u64) -> Self {
        let load = if load_factor > 0.0 { load_factor.min(1.0) } else { 0.01 };
        let affordable = bytes / SLOT_BYTES;
        let wanted = (keys.min(usize::MAX as u64 / 2) as f64 / load).ceil() as usize;
        let slots = affordable.min(wanted.saturating_add(1)).max(2);
        let keys_max = ((slots as f64 * load) as usize).clamp(1, slots - 1);
        OffsetMap { slots: vec![[0; 3]; slots], used: 0, keys_max, seed, latest: Offset(-1) }
    }

    /// Notes that the newest record of `key` so far is at `offset`, which is above every offset before. `false`: the
    /// map is full, and the key is not in it.
    #[must_use]
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        if self.used >= self.keys_max {
            return false;
        }
        let (place, hash) = self.place(key);
        if self.slots[place][2] == 0 {
            self.used += 1;
        }
        self.slots[place] = [hash[0], hash[1], offset.0 as u64 + 1];
        self.latest = offset;
        true
    }

    /// The newest offset of a key, if it has one.
    pub(super) fn get(&self, key: &[u8]) -> Option<Offset> {
        let (place, _) = self.place(key);
        self.slots[place][2].checked_sub(1).map(|offset| Offset(offset as i64))
    }

    /// Everything up to this offset has been looked at.
    pub(super) fn latest(&self) -> Offset {
        self.latest
    }

    pub(super) fn looked_at(&mut self, offset: Offset) {
        self.latest = self.latest.max(offset);
    }

    pub(super) fn keys(&self) -> usize {
        self.used
    }

    /// The slot of a key: its own, or the empty one where it would go.
    fn place(&self, key: &[u8]) -> (usize, [u64; 2]) {
        let hash = XxHash3_128::oneshot_with_seed(self.seed, key);
        let halves = [(hash >> 64) as u64, hash as u64];
        let mut place = ((u128::from(halves[0]) * self.slots.len() as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[place];
            // There is always an empty one.
            if slot[2] == 0 || slot[..2] == halves {
                return (place, halves);
            }
            place = if place + 1 == self.slots.len() { 0 } else { place + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_memory_is_what_was_allowed_and_no_more_than_needed() {
        assert_eq!(SLOT_BYTES, 24);
        assert_eq!(OffsetMap::new(2400, 0.9, u64::MAX, 1).slots.len(), 100);
        assert_eq!(OffsetMap::new(1 << 30, 0.5, 10, 1).slots.len(), 21);
        assert_eq!(OffsetMap::new(2400, 0.9, u64::MAX, 1).keys_max, 90);
        // Nothing sensible was allowed: it makes progress all the same.
        for (bytes, load) in [(0, 0.9), (24, 1.0), (240, 0.0), (240, f64::NAN), (240, -1.0)] {
            let mut map = OffsetMap::new(bytes, load, 100, 1);
            assert!(map.put(b"a", Offset(7)), "{bytes} {load}");
            assert_eq!((map.get(b"a"), map.get(b"b"), map.latest()), (Some(Offset(7)), None, Offset(7)));
        }
    }

    #[test]
    fn a_full_map_refuses_the_next_record() {
        let mut map = OffsetMap::new(240, 0.5, 100, 3);
        for n in 0..5u8 {
            assert!(map.put(&[n], Offset(n.into())));
        }
        assert!(!map.put(b"new", Offset(5)));
        assert_eq!((map.keys(), map.latest(), map.get(b"new")), (5, Offset(4), None));
    }

    proptest! {
        #[test]
        fn it_is_a_map(puts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..300), seed in any::<u64>()) {
            let mut map = OffsetMap::new(1 << 20, 0.9, puts.len() as u64, seed);
            let mut model = HashMap::new();
            for (offset, key) in puts.iter().enumerate() {
                prop_assert!(map.put(key, Offset(offset as i64)));
                model.insert(key.clone(), Offset(offset as i64));
            }
            prop_assert_eq!(map.keys(), model.len());
            for (key, offset) in &model {
                prop_assert_eq!(map.get(key), Some(*offset));
            }
            prop_assert_eq!(map.get(b"absent key"), None);
        }
    }
}
