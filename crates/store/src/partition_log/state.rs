//! The state that the mutex of a log protects.

use super::deleted_files::DeletedFiles;
use super::producer_snapshots::Snapshots;
use super::segments::Segments;
use super::unsynced::Unsynced;
use crate::views::epochs::Epochs;
use crate::views::producers::Producers;
use mainstem_types::{LeaderEpoch, Offset};

#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) segments: Segments,
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
    /// Compacted up to here.
    pub(crate) cleaned_to: Option<Offset>,
    /// The log end when it was last asked whether the log is idle.
    pub(crate) idle_end: Offset,
}

impl LogState {
    pub(crate) fn new(segments: Segments, next_offset: Offset) -> Self {
        LogState {
            segments,
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
            cleaned_to: None,
            idle_end: Offset::NONE,
        }
    }

    /// Checks the order of positions, on which everything else relies. `Err` says what is wrong.
    pub(crate) fn in_order(&self) -> Result<(), String> {
        let first = self.segments.first_base();
        let (start, active, end) = (self.log_start, self.segments.active().base, self.next_offset);
        if first <= start && start <= end && first <= active && active <= end {
            return Ok(());
        }
        Err(format!(
            "its positions are out of order: first segment {first}, log start {start}, active segment {active}, \
             log end {end}"
        ))
    }
}
