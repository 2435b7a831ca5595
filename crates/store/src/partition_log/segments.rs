//! Which segments a log has, and where the active one ends. Their bytes are the journal's.

use super::active_index::ActiveIndex;
use mainstem_record::BatchHeader;
use mainstem_types::Offset;

/// Positions of batches that were appended last, for readers that follow the end.
const RECENT: usize = 8;

/// One segment as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentView {
    pub(crate) base: Offset,
    /// The largest timestamp of a segment that is not active, once somebody asked. `Some(None)`: no record has one.
    pub(crate) largest_time_ms: Option<Option<i64>>,
    /// It has a `.txnindex`.
    pub(crate) has_aborted: bool,
}

impl SegmentView {
    pub(crate) fn new(base: Offset) -> Self {
        SegmentView { base, largest_time_ms: None, has_aborted: false }
    }
}

#[derive(Debug)]
pub(crate) struct Segments {
    /// Ascending by base, never empty; the last is the active one.
    list: Vec<SegmentView>,
    active: ActiveIndex,
    /// Bytes of the active segment.
    end_position: u64,
    /// How often something was cut off the end.
    cuts: u64,
    /// The segment whose views bear `.swap` names still.
    swapping: Option<Offset>,
    /// Base offset and position of batches in the active segment.
    recent: [(Offset, u64); RECENT],
    recent_next: u8,
}

impl Segments {
    /// `list` is ascending, and ends with the segment of `active`.
    pub(super) fn new(list: Vec<SegmentView>, active: ActiveIndex, end_position: u64) -> Self {
        let recent = [(Offset::NONE, 0); RECENT];
        Segments { list, active, end_position, cuts: 0, swapping: None, recent, recent_next: 0 }
    }

    pub(super) fn all(&self) -> &[SegmentView] {
        &self.list
    }

    pub(super) fn bases(&self) -> impl Iterator<Item = Offset> {
        self.list.iter().map(|segment| segment.base)
    }

    /// Where the first one begins.
    pub(super) fn first_base(&self) -> Offset {
        self.list.first().map_or(self.active.base, |segment| segment.base)
    }

    /// The index of the one that holds `offset`; 0 for offsets before all.
    pub(super) fn index_of(&self, offset: Offset) -> usize {
        self.list.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    /// The one that holds `offset`, and all behind it.
    pub(super) fn starting_with(&self, offset: Offset) -> &[SegmentView] {
        &self.list[self.index_of(offset)..]
    }

    pub(super) fn has(&self, base: Offset) -> bool {
        self.list.iter().any(|segment| segment.base == base)
    }

    pub(super) fn find_mut(&mut self, base: Offset) -> Option<&mut SegmentView> {
        self.list.iter_mut().find(|segment| segment.base == base)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut SegmentView> {
        self.list.last_mut()
    }

    pub(super) fn active(&self) -> &ActiveIndex {
        &self.active
    }

    pub(super) fn active_mut(&mut self) -> &mut ActiveIndex {
        &mut self.active
    }

    /// Bytes of the active segment.
    pub(super) fn end_position(&self) -> u64 {
        self.end_position
    }

    /// A batch was written into the active segment.
    pub(super) fn appended(&mut self, header: &BatchHeader, position: u64, index_interval_bytes: u32) {
        self.active.observe(header, position, index_interval_bytes);
        self.recent[usize::from(self.recent_next)] = (header.base_offset, position);
        self.recent_next = (self.recent_next + 1) % RECENT as u8;
        self.end_position = position + header.size_in_bytes() as u64;
    }

    /// The position of the batch in the active segment that begins with exactly this offset, if it is a recent one.
    pub(super) fn recent_position(&self, base_offset: Offset) -> Option<u64> {
        self.recent.iter().find(|(offset, _)| *offset == base_offset).map(|(_, position)| *position)
    }

    /// The active segment is sealed, and an empty one begins at `base`: in its place if it began there, too.
    pub(super) fn begin(&mut self, base: Offset, jitter_ms: i64) {
        let largest_time_ms = self.active.largest_time.map(|largest| largest.timestamp_ms);
        if let Some(segment) = self.list.last_mut() {
            segment.largest_time_ms = Some(largest_time_ms);
        }
        if self.active.base != base {
            self.list.push(SegmentView::new(base));
        }
        self.active = ActiveIndex::new(base);
        self.active.jitter_ms = jitter_ms;
        self.end_position = 0;
        self.forget_positions();
    }

    /// The only segment, which is empty, gets another base.
    pub(super) fn rename_empty(&mut self, base: Offset) {
        let jitter_ms = self.active.jitter_ms;
        self.active = ActiveIndex::new(base);
        self.active.jitter_ms = jitter_ms;
        self.drop_sealed();
    }

    /// These segments are deleted.
    pub(super) fn remove(&mut self, bases: &[Offset]) {
        self.list.retain(|segment| !bases.contains(&segment.base));
    }

    /// Everything behind the segment at this index is cut off, and of that one what is behind `position`: it becomes
    /// the active one, with this index. Gives the segments that are gone.
    pub(super) fn cut(&mut self, last: usize, active: ActiveIndex, position: u64) -> Vec<SegmentView> {
        let gone = self.list.drain(last + 1..).collect();
        self.active = active;
        self.active.first_time_ms = None;
        self.end_position = position;
        self.forget_positions();
        gone
    }

    /// The active segment is the only one now.
    pub(super) fn drop_sealed(&mut self) {
        self.list = vec![SegmentView::new(self.active.base)];
    }

    /// How often something was cut off the end.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Something is about to be cut off the end.
    pub(super) fn count_cut(&mut self) {
        self.cuts += 1;
    }

    /// Whether these follow each other, `next` after them, and nothing was cut since `cuts` was asked.
    pub(super) fn are(&self, bases: &[Offset], next: Offset, cuts: u64) -> bool {
        let wanted = bases.iter().copied().chain([next]);
        let from = bases.first().map_or(0, |base| self.list.partition_point(|segment| segment.base < *base));
        let there = self.list[from..].iter().map(|segment| segment.base).take(bases.len() + 1);
        self.cuts == cuts && there.eq(wanted)
    }

    /// One takes the place of `count` that begin with its base. Its views are still to get their names.
    pub(super) fn swap(&mut self, count: usize, view: SegmentView) {
        let from = self.list.partition_point(|segment| segment.base < view.base);
        self.list.splice(from..from + count, [view]);
        self.swapping = Some(view.base);
    }

    /// Whether the views of this one bear `.swap` names.
    pub(super) fn is_swapping(&self, base: Offset) -> bool {
        self.swapping == Some(base)
    }

    pub(super) fn swapped(&mut self) {
        self.swapping = None;
    }

    fn forget_positions(&mut self) {
        self.recent = [(Offset::NONE, 0); RECENT];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bases: &[i64]) -> Segments {
        let list: Vec<_> = bases.iter().map(|base| SegmentView::new(Offset(*base))).collect();
        let active = ActiveIndex::new(list[list.len() - 1].base);
        Segments::new(list, active, 0)
    }

    fn bases(segments: &Segments) -> Vec<i64> {
        segments.bases().map(|base| base.0).collect()
    }

    #[test]
    fn an_offset_is_in_the_last_segment_that_begins_at_or_before_it() {
        let segments = of(&[10, 20, 30]);
        for (offset, index) in [(0, 0), (10, 0), (19, 0), (20, 1), (99, 2)] {
            assert_eq!(segments.index_of(Offset(offset)), index, "{offset}");
        }
        assert_eq!(segments.starting_with(Offset(25)).len(), 2);
    }

    #[test]
    fn an_empty_segment_is_begun_again_in_its_own_place() {
        let mut segments = of(&[0]);
        segments.begin(Offset(0), 0);
        assert_eq!(bases(&segments), [0]);
        segments.begin(Offset(7), 3);
        assert_eq!((bases(&segments), segments.active().base, segments.active().jitter_ms), (vec![0, 7], Offset(7), 3));
        assert_eq!(segments.all()[0].largest_time_ms, Some(None), "what is sealed does not change");
    }

    #[test]
    fn a_cut_makes_an_earlier_segment_the_active_one() {
        let mut segments = of(&[0, 10, 20]);
        let gone = segments.cut(0, ActiveIndex::new(Offset(0)), 64);
        assert_eq!(gone.iter().map(|segment| segment.base.0).collect::<Vec<_>>(), [10, 20]);
        assert_eq!((bases(&segments), segments.active().base, segments.end_position()), (vec![0], Offset(0), 64));
    }

    #[test]
    fn segments_are_swapped_only_if_they_are_the_ones_that_were_read() {
        let mut segments = of(&[0, 10, 20, 30]);
        let read = [Offset(10), Offset(20)];
        assert!(segments.are(&read, Offset(30), 0));
        assert!(!segments.are(&read, Offset(40), 0) && !segments.are(&[Offset(10)], Offset(30), 0));
        assert!(!segments.are(&read, Offset(30), 1), "another count of cuts");
        segments.swap(2, SegmentView::new(Offset(10)));
        assert!(segments.is_swapping(Offset(10)));
        assert_eq!(bases(&segments), [0, 10, 30]);
        segments.swapped();
        assert!(!segments.is_swapping(Offset(10)) && !segments.are(&read, Offset(30), 0));
    }
}
