//! For each stretch of offsets, a time that none of its batches is newer than: where a look-up by time has to look.
//!
//! Numbers: a stretch begins with 256 offsets; at most 1,024 stretches are kept, then pairs of them become one and new ones twice as long.

use crate::formats::group_checkpoint::TimeMark;
use mainstem_types::Offset;

const OFFSETS_MIN: u64 = 256;
const MARKS_MAX: usize = 1024;

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_batch_lies_in_a_stretch_that_its_time_leads_to(
            times in prop::collection::vec(0i64..1000, 1..3000), step in 1i64..400, start in 0usize..2000,
        ) {
            let mut marks = TimeMarks::default();
            for (index, time) in times.iter().enumerate() {
                marks.observe(Offset(index as i64 * step), *time);
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
