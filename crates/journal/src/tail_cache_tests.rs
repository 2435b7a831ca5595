use proptest::prelude::*;

use super::*;
use crate::SegmentBase;

fn at(position: u64) -> Location {
    Location::new(SegmentBase(0), position)
}

fn append(cache: &TailCache, budget: &MemoryBudget, limit: usize, position: u64, bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.len() / 3);
    cache.append(budget, limit, at(position), &[IoSlice::new(head), IoSlice::new(tail)]);
}

#[test]
fn the_newest_bytes_are_kept_and_the_oldest_go() {
    let (cache, budget) = (TailCache::default(), MemoryBudget::new(1 << 20));
    for number in 0..100u64 {
        append(&cache, &budget, 8 << 10, number * 1_000, &[number as u8; 1_000]);
    }
    assert_eq!(budget.used(), 8 << 10);
    assert_eq!(cache.read(at(99_000), 4_000).unwrap(), vec![99; 1_000]);
    assert_eq!(cache.read(at(99_500), 10).unwrap(), vec![99; 10]);
    assert_eq!(cache.read(at(93_000), 1_001).unwrap()[1_000], 94);
    assert_eq!(cache.read(at(91_000), 10), None);
    assert_eq!(cache.read(at(100_000), 10), None);
    assert_eq!(cache.read(Location::new(SegmentBase(1), 99_000), 10), None);
    cache.clear(&budget);
    assert_eq!((budget.used(), cache.read(at(99_000), 10)), (0, None));
}

#[test]
fn a_large_entry_ends_the_run_and_frees_the_memory() {
    let (cache, budget) = (TailCache::default(), MemoryBudget::new(1 << 20));
    append(&cache, &budget, 1 << 20, 0, &[1; 100]);
    append(&cache, &budget, 1 << 20, 100, &[2; TAIL_ENTRY_BYTES_MAX + 1]);
    assert_eq!((budget.used(), cache.read(at(0), 10)), (0, None));
    append(&cache, &budget, 1 << 20, 100 + TAIL_ENTRY_BYTES_MAX as u64 + 1, &[3; 100]);
    assert!(cache.read(at(4_197), 10).is_some());
    assert_eq!(cache.read(at(4_196), 10), None);
}

#[test]
fn an_exhausted_budget_is_never_exceeded_and_comes_back() {
    let budget = MemoryBudget::new(10_000);
    let caches: Vec<_> = (0..5).map(|_| TailCache::default()).collect();
    for round in 0..50u64 {
        for cache in &caches {
            append(cache, &budget, 64 << 10, round * 500, &[round as u8; 500]);
            assert!(budget.used() <= 10_000);
        }
    }
    let held = |cache: &TailCache| cache.read(at(24_500), 500).is_some();
    assert_eq!(caches.iter().map(held).collect::<Vec<_>>(), [true, true, false, false, false]);
    caches.iter().for_each(|cache| cache.clear(&budget));
    assert_eq!(budget.used(), 0);
}

#[test]
fn no_limit_no_cache() {
    let (cache, budget) = (TailCache::default(), MemoryBudget::new(1 << 20));
    append(&cache, &budget, 0, 0, &[1; 10]);
    assert_eq!((budget.used(), cache.read(at(0), 10)), (0, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_written(
        entries in proptest::collection::vec((0..5_000usize, any::<u8>()), 1..60),
        limit in 0..20_000usize,
        budget in 0..20_000usize,
        max in 0..3_000usize,
    ) {
        let (cache, budget) = (TailCache::default(), MemoryBudget::new(budget));
        let mut written = Vec::new();
        for (len, seed) in entries {
            let entry: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7).wrapping_add(seed)).collect();
            append(&cache, &budget, limit, written.len() as u64, &entry);
            written.extend(entry);
            let held = cache.ring.lock().as_ref().map_or((0, 0), |ring| (ring.bytes.capacity(), ring.granted));
            prop_assert!(held.0 <= held.1 && held.1 == budget.used() && held.1 <= limit, "{:?}", held);
            for position in (0..=written.len()).rev().step_by(97) {
                if let Some(bytes) = cache.read(at(position as u64), max) {
                    prop_assert_eq!(&bytes[..], &written[position..(position + max).min(written.len())]);
                }
                let mut buffer = vec![0; max];
                let all = cache.read(at(position as u64), max).filter(|bytes| bytes.len() == max);
                prop_assert_eq!(cache.read_into(at(position as u64), &mut buffer), all.is_some());
                prop_assert!(all.is_none_or(|bytes| bytes == buffer));
            }
        }
    }
}
