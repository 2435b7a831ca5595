//! Writing keys that wait: sorted by slot, each page of slots is read twice and written once, however many keys lie in
//! it.

use std::io;
use std::ops::RangeInclusive;

use mainstem_env::{File, Fs};

use super::{Files, IndexFile, KeyIndex, NewKey};
use crate::formats::key_index::{ENTRY_SIZE, IndexEntry, SLOT_SIZE};

/// Slots in it are read and written together.
const PAGE_BYTES: u64 = 4096;

impl KeyIndex {
    /// As [`KeyIndex::write`], for threads that must not wait for the disk to create a file: what the last file has no
    /// room for is left to the next [`KeyIndex::write`], and all of it while another thread writes.
    pub(crate) fn write_unless_others_do(&self, fs: &dyn Fs) -> io::Result<()> {
        let Some(mut state) = self.state.try_lock() else {
            self.waiting.lock().put_off(&[]);
            return Ok(());
        };
        let keys = self.waiting.lock().take();
        let (now, later) = keys.split_at(self.room(&state).min(keys.len()));
        if let Err((written, error)) = self.write_all(fs, &mut state, now) {
            self.waiting.lock().put_back(&keys[written..]);
            return Err(error);
        }
        let mut waiting = self.waiting.lock();
        match later.is_empty() {
            true => waiting.written(),
            false => waiting.put_off(later),
        }
        Ok(())
    }

    /// How many entries the last file has room for.
    pub(super) fn room(&self, state: &Files) -> usize {
        state.files.last().map_or(0, |file| self.size.entries - file.header.count) as usize
    }

    /// Writes keys for which there is room: entries first, then the slots that lead to them, then the header.
    pub(super) fn write_keys(&self, fs: &dyn Fs, file: &mut IndexFile, keys: &[NewKey]) -> io::Result<()> {
        let handle = file.handle(fs, self.path(file.name))?;
        let mut header = file.header;
        let first = header.count;
        // The places of the keys, by slot. The keys of one slot keep their order.
        let mut by_slot: Vec<u32> = (0..keys.len() as u32).collect();
        by_slot.sort_by_key(|place| self.slot(&keys[*place as usize]));
        let mut previous = vec![0; keys.len()];
        self.each_page(keys, &by_slot, |slots, places| {
            let mut page = self.read_slots(handle.as_ref(), slots.clone())?;
            // What a write that failed left behind.
            for number in page.iter_mut().filter(|number| **number >= first) {
                *number = self.before(handle.as_ref(), *number, first)?;
            }
            for place in places {
                let newest = &mut page[(self.slot(&keys[*place as usize]) - slots.start()) as usize];
                header.used_slots += u32::from(*newest == 0);
                previous[*place as usize] = std::mem::replace(newest, first + *place);
            }
            Ok(())
        })?;
        let mut entries = Vec::with_capacity(keys.len() * ENTRY_SIZE);
        for (key, previous) in keys.iter().zip(previous) {
            let seconds = key.time_ms.saturating_sub(header.begin_ms) / 1000;
            let seconds = seconds.clamp(0, i64::from(i32::MAX)) as u32;
            let entry = IndexEntry { hash: key.hash, position: key.position, seconds, previous };
            entries.extend_from_slice(&entry.encode());
            header.count += 1;
            header.end_ms = header.end_ms.max(key.time_ms);
            header.end_position = header.end_position.max(key.position);
        }
        file.unsynced = true;
        handle.write_all_at(&entries, self.size.entry_at(first))?;
        self.each_page(keys, &by_slot, |slots, places| {
            let mut page = self.read_slots(handle.as_ref(), slots.clone())?;
            for place in places {
                page[(self.slot(&keys[*place as usize]) - slots.start()) as usize] = first + *place;
            }
            let bytes: Vec<u8> = page.iter().flat_map(|number| number.to_be_bytes()).collect();
            handle.write_all_at(&bytes, self.size.slot_at(*slots.start()))
        })?;
        handle.write_all_at(&header.encode(), 0)?;
        file.header = header;
        Ok(())
    }

    fn slot(&self, key: &NewKey) -> u32 {
        key.hash % self.size.slots
    }

    /// Shows the keys page by page of their slots, with the slots from the first to the last of each: `by_slot` has
    /// their places.
    fn each_page(
        &self,
        keys: &[NewKey],
        by_slot: &[u32],
        mut visit: impl FnMut(RangeInclusive<u32>, &[u32]) -> io::Result<()>,
    ) -> io::Result<()> {
        let slot = |place: &u32| self.slot(&keys[*place as usize]);
        let page = |place: &u32| self.size.slot_at(slot(place)) / PAGE_BYTES;
        for places in by_slot.chunk_by(|one, other| page(one) == page(other)) {
            if let (Some(first), Some(last)) = (places.first(), places.last()) {
                visit(slot(first)..=slot(last), places)?;
            }
        }
        Ok(())
    }

    /// The newest entries of these slots, as the file has them.
    fn read_slots(&self, file: &dyn File, slots: RangeInclusive<u32>) -> io::Result<Vec<u32>> {
        let mut bytes = vec![0; (slots.end() - slots.start() + 1) as usize * SLOT_SIZE];
        file.read_exact_at(&mut bytes, self.size.slot_at(*slots.start()))?;
        Ok(bytes.as_chunks::<SLOT_SIZE>().0.iter().map(|number| u32::from_be_bytes(*number)).collect())
    }

    /// The newest entry below `count` in the chain of an entry.
    pub(super) fn before(&self, file: &dyn File, mut number: u32, count: u32) -> io::Result<u32> {
        while number >= count {
            if number >= self.size.entries {
                return Ok(0);
            }
            let mut bytes = [0; ENTRY_SIZE];
            file.read_exact_at(&mut bytes, self.size.entry_at(number))?;
            number = IndexEntry::decode(&bytes).map_or(0, |entry| entry.previous).min(number - 1);
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::*;
    use mainstem_env::{Fault, FaultAction, MemFs, OpKind};
    use proptest::prelude::*;
    use std::ops::ControlFlow;
    use std::path::Path;

    const SIZE: Size = Size { slots: 3000, entries: 400 };

    fn found(index: &KeyIndex, fs: &MemFs, hash: u32) -> Vec<u64> {
        let mut found = Vec::new();
        let visit = |position| {
            found.push(position);
            ControlFlow::Continue(())
        };
        assert!(index.find(fs, hash, visit).unwrap());
        found
    }

    #[test]
    fn an_append_creates_no_file_and_does_not_wait_for_who_does() {
        let fs = MemFs::new();
        let index = KeyIndex::create(&fs, Path::new("/index"), SIZE).unwrap();
        let waiting = || index.waiting.lock().len();
        let files = || index.list(&fs).unwrap().len();
        let add = |positions: std::ops::Range<u64>| {
            positions.map(|position| index.add(&[7], position, 1_700_000_000_000)).filter(|due| *due).count()
        };
        assert_eq!(add(0..48), 1, "an append is to write");
        index.write_unless_others_do(&fs).unwrap();
        assert_eq!((waiting(), files()), (48, 0));
        assert_eq!(add(48..95), 0, "not every append is to try");
        index.write(&fs).unwrap();
        assert_eq!((waiting(), files()), (0, 1));
        add(95..500);
        {
            let _other = index.state.lock();
            index.write_unless_others_do(&fs).unwrap();
            assert_eq!(waiting(), 405, "another thread writes");
        }
        index.write_unless_others_do(&fs).unwrap();
        assert_eq!((waiting(), files()), (101, 1), "the file has room for 399");
        assert_eq!(found(&index, &fs, 7), (0..500).rev().collect::<Vec<_>>());
        assert_eq!(files(), 2);
        // Nobody writes: that is bounded, too.
        add(500..6000);
        {
            let _other = index.state.lock();
            index.write_unless_others_do(&fs).unwrap();
        }
        add(6000..6001);
        assert!(waiting() <= 5500 && index.missing_from() == Some(6000), "{}", waiting());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn every_key_is_found_newest_first_whichever_writes_failed(
            batches in prop::collection::vec((prop::collection::vec(0u32..9000, 0..60), prop::option::of(1u64..12)), 1..20),
        ) {
            let fs = MemFs::new();
            let index = KeyIndex::create(&fs, Path::new("/index"), SIZE).unwrap();
            let mut added: Vec<(u32, u64)> = Vec::new();
            for (hashes, fails) in batches {
                for hash in hashes {
                    let position = added.len() as u64;
                    index.add(&[hash], position, 1_700_000_000_000);
                    added.push((hash, position));
                }
                if let Some(nth) = fails {
                    fs.plan_fault(Fault::of(OpKind::Write, nth).with(FaultAction::NoSpace));
                }
                let _ = index.write(&fs);
                fs.clear_faults();
            }
            // The keys that were left out, as the owner of the log adds them.
            let mut adding = index.catch_up(&fs).unwrap();
            while let Some(from) = adding.missing_from() {
                for (hash, position) in &added[from as usize..] {
                    adding.add(&fs, &[*hash], *position, 1_700_000_000_000).unwrap();
                }
                adding.finish_before(&fs, added.len() as u64).unwrap();
            }
            drop(adding);
            for hash in added.iter().map(|(hash, _)| *hash).collect::<std::collections::BTreeSet<_>>() {
                let mut expected: Vec<u64> = added.iter().filter(|key| key.0 == hash).map(|key| key.1).collect();
                expected.reverse();
                let mut found = Vec::new();
                let visit = |position| {
                    found.push(position);
                    ControlFlow::Continue(())
                };
                prop_assert!(index.find(&fs, hash, visit).unwrap());
                prop_assert_eq!(found, expected);
            }
        }
    }
}
