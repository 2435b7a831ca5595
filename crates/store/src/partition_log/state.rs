//! What the mutex of a log protects.

use super::active_index::ActiveIndex;
use super::deleted_files::DeletedFiles;
use super::producer_snapshots::Snapshots;
use super::unsynced::Unsynced;
use crate::views::epochs::Epochs;
use crate::views::producers::Producers;
use mainstem_types::{LeaderEpoch, Offset};

/// Positions of batches that were appended last, for readers that follow the end.
const RECENT: usize = 8;

/// One segment as the log knows it; its bytes are the journal's.
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
pub(crate) struct State {
    /// Ascending by base, never empty; the last is the active one.
    pub(crate) segments: Vec<SegmentView>,
    pub(crate) active: ActiveIndex,
    /// Bytes of the active segment.
    pub(crate) end_position: u64,
    pub(crate) log_start: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) epochs: Epochs,
    pub(crate) producers: Producers,
    pub(crate) snapshots: Snapshots,
    pub(crate) unsynced: Unsynced,
    pub(crate) deleted: DeletedFiles,
    pub(crate) closed: bool,
    /// Leader epochs below have ended: nothing is stamped with them any more.
    pub(crate) fence: LeaderEpoch,
    /// The topic was deleted: the folder goes.
    pub(crate) leaving: bool,
    /// Where the lowest cut was since the key index last asked; `i64::MAX`: there was none.
    pub(crate) keys_cut: Offset,
    /// How often something was cut off the end.
    pub(crate) cuts: u64,
    /// The segment whose views bear `.swap` names still.
    pub(crate) swapping: Option<Offset>,
    /// Compacted up to here.
    pub(crate) cleaned_to: Option<Offset>,
    /// The log end when it was last asked whether the log is idle.
    pub(crate) idle_end: Offset,
    /// Base offset and position of batches in the active segment.
    recent: [(Offset, u64); RECENT],
    recent_next: u8,
}

impl State {
    pub(crate) fn new(segments: Vec<SegmentView>, active: ActiveIndex, end_position: u64, next_offset: Offset) -> Self {
        State {
            segments,
            active,
            end_position,
            log_start: Offset::ZERO,
            next_offset,
            epochs: Epochs::default(),
            producers: Producers::default(),
            snapshots: Snapshots::default(),
            unsynced: Unsynced::default(),
            deleted: DeletedFiles::default(),
            closed: false,
            fence: LeaderEpoch::NONE,
            leaving: false,
            keys_cut: Offset(i64::MAX),
            cuts: 0,
            swapping: None,
            cleaned_to: None,
            idle_end: Offset::NONE,
            recent: [(Offset::NONE, 0); RECENT],
            recent_next: 0,
        }
    }

    /// The segment that holds `offset`, by index; the first one for offsets before it.
    pub(crate) fn segment_index(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    pub(crate) fn note_position(&mut self, base_offset: Offset, position: u64) {
        self.recent[usize::from(self.recent_next)] = (base_offset, position);
        self.recent_next = (self.recent_next + 1) % RECENT as u8;
    }

    /// The position of the batch in the active segment that begins with exactly this offset, if it is a recent one.
    pub(crate) fn recent_position(&self, base_offset: Offset) -> Option<u64> {
        self.recent.iter().find(|(offset, _)| *offset == base_offset).map(|(_, position)| *position)
    }

    pub(crate) fn forget_positions(&mut self) {
        self.recent = [(Offset::NONE, 0); RECENT];
    }

    /// The order of positions, which all else takes for granted. `Err` says what is wrong.
    pub(crate) fn in_order(&self) -> Result<(), String> {
        let first = self.segments.first().map_or(Offset::ZERO, |segment| segment.base);
        let (start, active, end) = (self.log_start, self.active.base, self.next_offset);
        if first <= start && start <= end && first <= active && active <= end {
            return Ok(());
        }
        Err(format!(
            "its positions are out of order: first segment {first}, log start {start}, active segment {active}, \
             log end {end}"
        ))
    }
}
