//! For each stretch of offsets, a time that none of its batches is newer than: where a look-up by time has to look.
//!
//! Numbers: a stretch begins with 256 offsets; at most 1,024 stretches are kept, then pairs of them become one and new
//! ones twice as long. All partitions of a group together keep no more than [`GROUP_MARKS_MAX`] when a checkpoint is
//! written: those that have most of them are thinned out. A look-up goes through one stretch, and through the one in
//! which the log start lies. Of a long partition among 10,000 of them that is a sixteenth each.

use crate::formats::group_checkpoint::TimeMark;
use mainstem_types::Offset;

const OFFSETS_MIN: u64 = 256;
const MARKS_MAX: usize = 1024;
/// Of a group, in its checkpoint: 4 MiB.
pub(super) const GROUP_MARKS_MAX: usize = 256 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeMarks {
    full_offsets: u64,
    marks: Vec<TimeMark>,
}

impl Default for TimeMarks {
    fn default() -> Self {
        TimeMarks { full_offsets: OFFSETS_MIN, marks: Vec::new() }
    }
}

impl TimeMarks {
    pub(crate) fn restore(full_offsets: u64, marks: Vec<TimeMark>) -> Self {
        TimeMarks { full_offsets: full_offsets.max(OFFSETS_MIN), marks }
    }

    pub(crate) fn full_offsets(&self) -> u64 {
        self.full_offsets
    }

    pub(crate) fn entries(&self) -> &[TimeMark] {
        &self.marks
    }

    /// Takes the next batch into account.
    pub(crate) fn observe(&mut self, first_offset: Offset, newest_ms: i64) {
        if let Some(last) = self.marks.last_mut()
            && first_offset.0.saturating_sub(last.first_offset.0) < self.full_offsets as i64
        {
            last.newest_ms = last.newest_ms.max(newest_ms);
            return;
        }
        if self.marks.len() == MARKS_MAX {
            self.halve();
        }
        self.marks.push(TimeMark { first_offset, newest_ms });
    }

    fn halve(&mut self) {
        self.full_offsets = self.full_offsets.saturating_mul(2).min(1 << 62);
        let pair = |pair: &[TimeMark]| TimeMark {
            first_offset: pair[0].first_offset,
            newest_ms: pair.iter().map(|mark| mark.newest_ms).max().unwrap_or(i64::MIN),
        };
        self.marks = self.marks.chunks(2).map(pair).collect();
    }

    /// Keeps at most so many, of longer stretches.
    pub(crate) fn thin(&mut self, marks_max: usize) {
        while self.marks.len() > marks_max.max(1) {
            self.halve();
        }
    }

    /// All stretches, those with the newest time first, as (first offset, first offset of the next one, newest time).
    pub(crate) fn newest_first(&self) -> Vec<(Offset, Option<Offset>, i64)> {
        let next = |index: usize| self.marks.get(index + 1).map(|next| next.first_offset);
        let all = self.marks.iter().enumerate().map(|(index, mark)| (mark.first_offset, next(index), mark.newest_ms));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, _, newest_ms)| std::cmp::Reverse(*newest_ms));
        all
    }

    /// Stretches that may have a batch at or after `target_ms`, as (first offset, first offset of the next one).
    pub(crate) fn stretches(&self, target_ms: i64) -> Vec<(Offset, Option<Offset>)> {
        let with_end = self.marks.iter().enumerate().map(|(index, mark)| (mark, self.marks.get(index + 1)));
        let late = with_end.filter(|(mark, _)| mark.newest_ms >= target_ms);
        late.map(|(mark, next)| (mark.first_offset, next.map(|next| next.first_offset))).collect()
    }

    pub(crate) fn raise_start(&mut self, offset: Offset) {
        let gone = self.marks.partition_point(|mark| mark.first_offset <= offset).saturating_sub(1);
        self.marks.drain(..gone);
    }
}

/// How many marks a partition may keep, so that all together, which have so many, keep no more than `budget`. At least
/// one.
pub(super) fn marks_max(counts: &[usize], budget: usize) -> usize {
    let kept = |count: usize, most: usize| {
        let mut kept = count;
        while kept > most {
            kept = kept.div_ceil(2);
        }
        kept
    };
    let mut most = MARKS_MAX;
    while most > 1 && counts.iter().map(|count| kept(*count, most)).sum::<usize>() > budget {
        most -= (most / 4).max(1);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn those_with_most_marks_give_way() {
        assert_eq!(marks_max(&[1024; 256], GROUP_MARKS_MAX), MARKS_MAX, "as many as there is room for");
        let (long, short) = (vec![1024; 10_000], vec![3; 100_000]);
        let most = marks_max(&long, GROUP_MARKS_MAX);
        assert!((16..32).contains(&most), "{most}");
        let most = marks_max(&[&long[..100], &short[..]].concat(), 400_000);
        assert!((512..=MARKS_MAX).contains(&most), "{most}: short ones have nothing to give");
        assert_eq!(marks_max(&vec![1; GROUP_MARKS_MAX + 1], GROUP_MARKS_MAX), 1, "one at least");
    }

    proptest! {
        #[test]
        fn a_batch_lies_in_a_stretch_that_its_time_leads_to(
            times in prop::collection::vec(0i64..1000, 1..3000), step in 1i64..400, start in 0usize..2000,
            thinned_at in 0usize..3000, most in 1usize..40,
        ) {
            let mut marks = TimeMarks::default();
            for (index, time) in times.iter().enumerate() {
                marks.observe(Offset(index as i64 * step), *time);
                if index == thinned_at {
                    marks.thin(most);
                    prop_assert!(marks.entries().len() <= most);
                }
            }
            let start = start % times.len();
            marks.raise_start(Offset(start as i64 * step));
            prop_assert!(marks.entries().len() <= MARKS_MAX);
            for target in [0, 500, 990] {
                let found = times[start..].iter().position(|time| *time >= target);
                let stretches = marks.stretches(target);
                if let Some(found) = found {
                    let offset = Offset((start + found) as i64 * step);
                    let holds = stretches.iter().any(|(from, to)| *from <= offset && to.is_none_or(|to| offset < to));
                    prop_assert!(holds);
                }
            }
        }
    }
}
