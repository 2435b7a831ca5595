//! Putting what compaction made of some sealed segments in their place.
//!
//! ```text
//!   on the disk                                             in memory
//!   1  files `.cleaned`, synced, their names synced
//!   2  renamed to `.swap`, synced: from here on a recovery finishes what follows
//!   3                                                       readers are sent to the new segment
//!   4  files of the old segments, save the first: renamed to `.deleted`, synced
//!   5  `.swap` renamed to the final names, over the files of the first; synced
//! ```
//! A crash before 2 leaves the old segments, a crash after it the new one. What waits for the disk is done without the
//! locks that appends and reads take; these are held for 3 and for the renames of 5. Readers that hold slices of the
//! old files keep them.

use std::path::PathBuf;
use std::sync::Arc;

use super::segments::SegmentView;
use super::state::LogState;
use super::{PartitionLog, segment_base};
use crate::compaction::CompactError;
use crate::formats::names;
use mainstem_env::File;
use mainstem_types::{Offset, TimestampMs};

/// A segment that is to take the place of others. Its files are on the disk, durable, with names that end in
/// `.cleaned`.
pub(crate) struct Replacement {
    /// Ascending, one after the other in the log. The new segment has the first of them.
    pub(crate) bases: Vec<Offset>,
    /// The base of the segment after them.
    pub(crate) next: Offset,
    /// [`super::Sealed::cuts`] when the segments were read.
    pub(crate) cuts: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) len: u64,
    pub(crate) largest_time: Option<TimestampMs>,
    /// The suffixes of the files, `.log` first.
    pub(crate) suffixes: Vec<&'static str>,
}

impl PartitionLog {
    /// Where a view of a segment is at this moment.
    pub(super) fn view_file(&self, base: Offset, suffix: &str) -> PathBuf {
        if self.state.lock().segments.is_swapping(base) {
            return self.file(base, &format!("{suffix}{}", names::SWAP));
        }
        self.file(base, suffix)
    }

    /// Steps 2 to 5. An error that is not final leaves the log, and its folder, as they were.
    pub(crate) fn replace(&self, new: &Replacement) -> Result<(), CompactError> {
        let _files = self.replacing.lock();
        self.check_alive()?;
        if !self.replaceable(&self.state.lock(), new) {
            self.discard_cleaned(new);
            return Err(CompactError::Superseded { partition: self.partition.clone() });
        }
        self.name_swap(new)?;
        if let Err(error) = self.send_readers(new) {
            // Not before the names are gone durably: a recovery would put the segment in.
            self.take_back_swap(new)?;
            return Err(error);
        }
        let others = self.retire_others(new)?;
        self.name_final(new)?;
        self.journal.settle_replaced(segment_base(new.bases[0]));
        self.remove_later(others);
        Ok(())
    }

    fn replaceable(&self, state: &LogState, new: &Replacement) -> bool {
        !state.closed && state.segments.are(&new.bases, new.next, new.cuts)
    }

    /// Step 2.
    fn name_swap(&self, new: &Replacement) -> Result<(), CompactError> {
        for suffix in &new.suffixes {
            let (from, to) = (self.new_file(new, suffix, names::CLEANED), self.new_file(new, suffix, names::SWAP));
            if let Err(error) = self.fs().rename(&from, &to) {
                self.take_back_swap(new)?;
                return Err(CompactError::io("rename", from, error));
            }
        }
        self.sync_folder()
    }

    /// Removes what is to be no recovery's business. If that fails, nobody knows what the next recovery would do: the
    /// log ends.
    fn take_back_swap(&self, new: &Replacement) -> Result<(), CompactError> {
        for suffix in &new.suffixes {
            for stage in [names::SWAP, names::CLEANED] {
                let path = self.new_file(new, suffix, stage);
                super::listing::remove_if_present(self.fs(), &path)
                    .map_err(|error| self.fail("remove", &path, error))?;
            }
        }
        self.sync_folder()
    }

    /// Removes files that are not wanted any more; a recovery would too.
    pub(crate) fn discard_cleaned(&self, new: &Replacement) {
        for suffix in &new.suffixes {
            let _ = super::listing::remove_if_present(self.fs(), &self.new_file(new, suffix, names::CLEANED));
        }
    }

    /// Step 3.
    fn send_readers(&self, new: &Replacement) -> Result<(), CompactError> {
        let base = new.bases[0];
        let mut state = self.state.lock();
        self.renew_number();
        self.journal
            .replace_segments(segment_base(base), segment_base(new.next), Arc::clone(&new.file), new.len)
            .map_err(|_| CompactError::Superseded { partition: self.partition.clone() })?;
        let view = SegmentView {
            largest_time_ms: Some(new.largest_time.map(|time| time.0)),
            has_aborted: new.suffixes.contains(&names::TRANSACTION_INDEX),
            ..SegmentView::new(base)
        };
        state.segments.swap(new.bases.len(), view);
        state.unsynced.settled(|known| new.bases.contains(&known));
        self.check_order(&state)?;
        Ok(())
    }

    /// Step 4. Gives the files to remove.
    fn retire_others(&self, new: &Replacement) -> Result<Vec<PathBuf>, CompactError> {
        let newest_snapshot = self.state.lock().snapshots.newest;
        let mut retired = Vec::new();
        for base in &new.bases[1..] {
            for suffix in [names::LOG, names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX] {
                self.retire(*base, suffix, &mut retired)?;
            }
            if newest_snapshot == Some(*base) {
                self.state.lock().snapshots.left_alone(*base);
            } else {
                self.retire(*base, names::PRODUCER_SNAPSHOT, &mut retired)?;
            }
        }
        if !retired.is_empty() {
            self.sync_folder()?;
        }
        Ok(retired)
    }

    fn retire(&self, base: Offset, suffix: &str, retired: &mut Vec<PathBuf>) -> Result<(), CompactError> {
        let path = self.file(base, suffix);
        let deleted = self.file(base, &format!("{suffix}{}", names::DELETED));
        match self.fs().rename(&path, &deleted) {
            Ok(()) => retired.push(deleted),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.fail("rename", &path, error).into()),
        }
        Ok(())
    }

    /// Step 5.
    fn name_final(&self, new: &Replacement) -> Result<(), CompactError> {
        {
            let mut state = self.state.lock();
            // A reader with the old path finds nothing there.
            self.renew_number();
            for suffix in &new.suffixes {
                let path = self.new_file(new, suffix, names::SWAP);
                let renamed = self.fs().rename(&path, &self.file(new.bases[0], suffix));
                renamed.map_err(|error| self.fail("rename", &path, error))?;
            }
            state.segments.swapped();
        }
        self.sync_folder()
    }

    fn new_file(&self, new: &Replacement, suffix: &str, stage: &str) -> PathBuf {
        self.file(new.bases[0], &format!("{suffix}{stage}"))
    }

    /// A folder that cannot be synced may come back in any state: the log ends, and its next opening looks.
    fn sync_folder(&self) -> Result<(), CompactError> {
        Ok(self.fs().sync_dir(&self.folder).map_err(|error| self.fail("sync", &self.folder, error))?)
    }
}
