use std::path::Path;
use std::sync::Arc;

use mainstem_env::{Fs, MemFs, OpenOptions};
use mainstem_record::{BatchBuilder, Batches};
use mainstem_types::TimestampMs;
use proptest::prelude::*;

use super::*;

/// A batch of a log: where it is, and which offsets it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    start: u64,
    end: u64,
    base: i64,
    next: i64,
}

struct Log {
    bytes: Vec<u8>,
    batches: Vec<Known>,
    entries: Vec<OffsetIndexEntry>,
    next: i64,
}

fn batch_at(base: i64, records: usize, value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new().base_offset(Offset(base));
    (0..records).for_each(|_| {
        builder.append(TimestampMs(7), None, Some(value), &[]);
    });
    builder.build().unwrap()
}

/// Batches of so many records with values of so many bytes, each with so many offsets missing before it. Every third
/// one has a value that is a batch itself, with offsets of this log. Each batch `indexed` behind the last one has an
/// index entry.
fn log(shape: &[(usize, usize, i64)], indexed: usize) -> Log {
    let mut log = Log { bytes: Vec::new(), batches: Vec::new(), entries: Vec::new(), next: 1000 };
    for (number, (records, value_bytes, gap)) in shape.iter().enumerate() {
        let base = log.next + gap;
        let value = if number % 3 == 1 { batch_at(base + 1, 1, b"inner") } else { vec![2; *value_bytes] };
        let start = log.bytes.len() as u64;
        log.bytes.extend(batch_at(base, *records, &value));
        log.next = base + *records as i64;
        log.batches.push(Known { start, end: log.bytes.len() as u64, base, next: log.next });
        if number % indexed == indexed - 1 {
            let relative_offset = (log.next - 1 - 1000) as u32;
            log.entries.push(OffsetIndexEntry { relative_offset, position: start as u32 });
        }
    }
    log
}

fn survey_of(log: &Log, may_have_gaps: bool) -> Vec<DamagedArea> {
    let file = MemFs::new().open(Path::new("/s"), &OpenOptions::create()).unwrap();
    file.write_all_at(&log.bytes, 0).unwrap();
    let file: Arc<dyn File> = file;
    let (len, next) = (log.bytes.len() as u64, Offset(log.next));
    let segment =
        SurveyedSegment { file: file.as_ref(), base: Offset(1000), len, next, may_have_gaps, entries: &log.entries };
    survey(&segment).unwrap()
}

/// Which batches are whole, and not in an area.
fn served(log: &Log, areas: &[DamagedArea]) -> Vec<Known> {
    let mut found = Vec::new();
    let mut start = 0;
    let ends = areas.iter().map(|area| (area.start, area.end)).chain([(log.bytes.len() as u64, 0)]);
    for (end, next_start) in ends {
        let mut at = start;
        for view in Batches::new(&log.bytes[start as usize..end as usize]) {
            let view = view.expect("between damaged areas all is whole");
            let batch_end = at + view.size_in_bytes() as u64;
            found.push(Known {
                start: at,
                end: batch_end,
                base: view.header().base_offset.0,
                next: view.header().next_offset().0,
            });
            at = batch_end;
        }
        assert_eq!(at, end);
        start = next_start;
    }
    found
}

fn check(log: &Log, damaged: &[usize], may_have_gaps: bool) {
    let areas = survey_of(log, may_have_gaps);
    let intact: Vec<_> = (0..log.batches.len()).filter(|at| !damaged.contains(at)).map(|at| log.batches[at]).collect();
    assert_eq!(served(log, &areas), intact, "damaged: {damaged:?}, {areas:?}");
    for area in &areas {
        assert!(area.first <= area.next, "{area:?}");
        assert!(intact.iter().all(|known| known.next <= area.first.0 || known.base >= area.next.0), "{area:?}");
    }
}

#[test]
fn a_log_without_damage_has_none() {
    let log = log(&[(3, 10, 0), (1, 5000, 0), (200, 3, 0), (1, 70_000, 0)], 2);
    assert_eq!(survey_of(&log, false), []);
    assert_eq!(survey_of(&log, true), []);
}

#[test]
fn garbage_behind_and_between_batches_costs_no_record() {
    for garbage in [&b"garbage"[..], &[2; 200], &[0; 5000]] {
        let mut appended = log(&[(3, 10, 0); 8], 3);
        appended.bytes.extend_from_slice(garbage);
        check(&appended, &[], false);
        assert_eq!(survey_of(&appended, false).len(), 1);
        let mut inserted = log(&[(3, 10, 0); 8], 3);
        let at = inserted.batches[4].start;
        inserted.bytes.splice(at as usize..at as usize, garbage.iter().copied());
        inserted.batches[4..].iter_mut().for_each(|known| {
            known.start += garbage.len() as u64;
            known.end += garbage.len() as u64;
        });
        // Where its entries point, the log has something else from there on.
        inserted.entries.retain(|entry| u64::from(entry.position) < at);
        check(&inserted, &[], false);
    }
}

#[test]
fn a_batch_in_the_value_of_a_damaged_one_is_not_taken_for_one_of_the_log() {
    let mut log = log(&[(1, 10, 0), (3, 0, 0), (1, 10, 0), (1, 10, 0)], 4);
    let at = log.batches[1].start as usize + MAGIC_AT as usize;
    log.bytes[at] = 9;
    check(&log, &[1], false);
    check(&log, &[1], true);
}

#[test]
fn a_long_damaged_stretch_ends_with_the_next_whole_batch() {
    let mut log = log(&[(2, 300, 0); 40], 5);
    let (from, to) = (log.batches[7].start as usize + 30, log.batches[22].start as usize + 100);
    log.bytes[from..to].fill(0);
    // Its header is whole, and so is served, as any batch with a wrong checksum.
    check(&log, &(7..=22).collect::<Vec<_>>(), false);
    let no_index = Log { entries: Vec::new(), ..log };
    check(&no_index, &(7..=22).collect::<Vec<_>>(), false);
}

fn shape(gap_max: i64) -> impl Strategy<Value = Vec<(usize, usize, i64)>> {
    prop::collection::vec((1..8usize, 0..600usize, 0..=gap_max), 2..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// A bit of what a batch's checksum leaves out: base offset, length, format.
    #[test]
    fn one_changed_bit_of_a_header_costs_one_batch(
        shape in shape(0), victim in any::<prop::sample::Index>(), byte in prop_oneof![0..12usize, Just(MAGIC_AT as usize)],
        bit in 0..8u8, indexed in 1..6usize,
    ) {
        let mut log = log(&shape, indexed);
        let victim = victim.index(log.batches.len());
        let at = log.batches[victim].start as usize + byte;
        log.bytes[at] ^= 1 << bit;
        check(&log, &[victim], false);
    }

    /// In a log with gaps a batch may be moved within a gap, and nobody can tell; everything else is as before.
    #[test]
    fn in_a_log_with_gaps_a_wrong_length_or_format_costs_one_batch(
        shape in shape(9), victim in any::<prop::sample::Index>(), byte in prop_oneof![8..12usize, Just(MAGIC_AT as usize)],
        bit in 0..8u8, indexed in 1..6usize,
    ) {
        let mut log = log(&shape, indexed);
        let victim = victim.index(log.batches.len());
        let at = log.batches[victim].start as usize + byte;
        log.bytes[at] ^= 1 << bit;
        check(&log, &[victim], true);
    }

    /// Whatever is written over the log: the survey ends, and between the areas there are whole batches in order.
    #[test]
    fn whatever_is_damaged_what_is_left_is_in_order(
        shape in shape(3), patches in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..90)), 1..5),
        indexed in 1..6usize, may_have_gaps in any::<bool>(),
    ) {
        let mut log = log(&shape, indexed);
        for (at, patch) in &patches {
            let at = at.index(log.bytes.len());
            let count = patch.len().min(log.bytes.len() - at);
            log.bytes[at..at + count].copy_from_slice(&patch[..count]);
        }
        let found = served(&log, &survey_of(&log, may_have_gaps));
        prop_assert!(found.windows(2).all(|pair| pair[0].next <= pair[1].base));
        let touched = |known: &Known| patches.iter().any(|(at, patch)| {
            let at = at.index(log.bytes.len()) as u64;
            at < known.end && at + patch.len() as u64 > known.start
        });
        // What no patch touched is as it was.
        for known in found.iter().filter(|known| log.batches.contains(known) && !touched(known)) {
            let bytes = &log.bytes[known.start as usize..known.end as usize];
            prop_assert!(BatchView::parse(bytes).unwrap().crc_is_valid());
        }
    }
}
