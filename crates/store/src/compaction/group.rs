//! Which neighbouring segments become one, as Kafka puts them together.

use std::collections::VecDeque;

use mainstem_types::Offset;

use super::damaged::DamagedSegments;
use crate::partition_log::SealedSegment;

/// A segment and the sizes of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sized {
    pub(super) segment: SealedSegment,
    pub(super) index_bytes: u64,
    pub(super) time_index_bytes: u64,
}

/// What one segment may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupLimits {
    pub(super) log_bytes: u64,
    pub(super) index_bytes: u64,
    /// Offsets below are compacted; the last segment ends there at the latest.
    pub(super) end: Offset,
}

/// What a pass does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These become one segment.
    Rewrite(Vec<SealedSegment>),
    /// It stays as it is.
    PassOver(SealedSegment),
}

/// The groups of the segments between damaged ones, and these, in the order of the log.
pub(super) fn steps(segments: &[Sized], damaged: &DamagedSegments, limits: &GroupLimits) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    let is_damaged = |sized: &Sized| damaged.has(sized.segment.base);
    for run in segments.chunk_by(|one, next| is_damaged(one) == is_damaged(next)) {
        if is_damaged(&run[0]) {
            steps.extend(run.iter().map(|sized| Step::PassOver(sized.segment)));
            continue;
        }
        let end = run[run.len() - 1].segment.next.min(limits.end);
        steps.extend(group(run, &GroupLimits { end, ..*limits }).into_iter().map(Step::Rewrite));
    }
    steps
}

/// Cuts the segments into groups, each small enough for one segment even if nothing goes. A segment that is too large
/// by itself is a group of its own.
pub(super) fn group(segments: &[Sized], limits: &GroupLimits) -> Vec<Vec<SealedSegment>> {
    let mut groups: Vec<Vec<SealedSegment>> = Vec::new();
    let mut sums = (0, 0, 0);
    for (index, sized) in segments.iter().enumerate() {
        let after = (sums.0 + sized.segment.bytes, sums.1 + sized.index_bytes, sums.2 + sized.time_index_bytes);
        let next = segments.get(index + 1).map_or(limits.end, |next| next.segment.base);
        // An empty segment holds no offset that would have to be in reach.
        let in_reach = |first: Offset| sized.segment.bytes == 0 || next.0 - 1 - first.0 <= i64::from(i32::MAX);
        let fits = after.0 <= limits.log_bytes && after.1 <= limits.index_bytes && after.2 <= limits.index_bytes;
        match groups.last_mut().filter(|group| fits && in_reach(group[0].base)) {
            Some(group) => {
                group.push(sized.segment);
                sums = after;
            }
            None => {
                groups.push(vec![sized.segment]);
                sums = (sized.segment.bytes, sized.index_bytes, sized.time_index_bytes);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of a size, one after the other, with so many offsets each.
    fn segments(sizes: &[(u64, i64)]) -> Vec<Sized> {
        let mut base = 0;
        let sized = |(bytes, offsets): &(u64, i64)| {
            let segment = SealedSegment { base: Offset(base), next: Offset(base + offsets), bytes: *bytes };
            base += offsets;
            Sized { segment, index_bytes: bytes / 10, time_index_bytes: bytes / 5 }
        };
        sizes.iter().map(sized).collect()
    }

    fn counts(sizes: &[(u64, i64)], log_bytes: u64, index_bytes: u64) -> Vec<usize> {
        let all = segments(sizes);
        let end = all.last().map_or(Offset(0), |last| last.segment.next);
        let groups = group(&all, &GroupLimits { log_bytes, index_bytes, end });
        let flat: Vec<_> = groups.iter().flatten().copied().collect();
        assert_eq!(flat, all.iter().map(|sized| sized.segment).collect::<Vec<_>>());
        groups.iter().map(Vec::len).collect()
    }

    #[test]
    fn neighbours_are_put_together_up_to_each_limit() {
        let far = i64::from(i32::MAX);
        type Case<'c> = (&'c [(u64, i64)], u64, u64, &'c [usize]);
        let table: &[Case<'_>] = &[
            (&[], 100, 100, &[]),
            (&[(10, 5); 4], 100, 100, &[4]),
            (&[(50, 5); 4], 100, 100, &[2, 2]),
            (&[(60, 5), (60, 5), (30, 5)], 100, 100, &[1, 2]),
            (&[(200, 5), (10, 5), (10, 5)], 100, 100, &[1, 2]),
            // The index of offsets, then that of times (twice as large).
            (&[(50, 5); 4], 1000, 10, &[1, 1, 1, 1]),
            (&[(50, 5); 4], 1000, 20, &[2, 2]),
            // The last offset must be in reach of the base: 2^31 offsets are, one more is not.
            (&[(10, far), (10, 1)], 100, 100, &[2]),
            (&[(10, far), (10, 2)], 100, 100, &[1, 1]),
            // Nor do empty segments stay for ever because they are far apart.
            (&[(0, far), (0, far), (0, far)], 100, 100, &[3]),
            (&[(0, far), (10, far)], 100, 100, &[1, 1]),
        ];
        for (sizes, log_bytes, index_bytes, expected) in table {
            assert_eq!(counts(sizes, *log_bytes, *index_bytes), *expected, "{sizes:?}");
        }
    }
}
