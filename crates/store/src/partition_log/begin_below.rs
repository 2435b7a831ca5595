//! The first batch of a follower's log may begin below its log start: the leader deleted records inside of it.

use std::io;

use super::producer_snapshots::{Snapshots, file};
use super::state::LogState;
use super::{PartitionLog, listing, segment_base};
use crate::error::StorageError;
use crate::formats::names;
use mainstem_record::BatchHeader;
use mainstem_types::Offset;

impl LogState {
    /// Whether a batch may be the first one of this log although it begins below the log start: there is no other, and
    /// the log start lies in it.
    pub(super) fn may_begin_with(&self, header: &BatchHeader) -> bool {
        let is_empty = self.segments.all().len() == 1 && self.segments.end_position() == 0;
        let holds_start = header.base_offset < self.log_start && header.last_offset() >= self.log_start;
        is_empty && self.log_start == self.next_offset && header.base_offset >= Offset::ZERO && holds_start
    }
}

impl PartitionLog {
    /// Names the empty segment after a batch for which [`LogState::may_begin_with`] holds. The log start stays; as
    /// after [`PartitionLog::raise_log_start`], the checkpoint of the data folder makes it durable.
    ///
    /// A crash before the batch is durable leaves an empty log. An error before the segment is renamed changes nothing.
    pub(super) fn begin_below(&self, state: &mut LogState, base: Offset) -> Result<(), StorageError> {
        let old = state.segments.active().base;
        if old == base {
            return Ok(());
        }
        self.journal.rename_empty(segment_base(base)).map_err(|error| self.roll_failed(error))?;
        self.renew_number();
        state.segments.rename_empty(base);
        // Of a log without records nothing is known.
        state.snapshots = Snapshots::default();
        // Nothing at or above the log start is written yet, and nothing below it is served.
        self.durability.restart(state.next_offset);
        let path = file(&self.folder, old);
        listing::remove_if_present(self.fs(), &path).map_err(|error| self.fail("remove", &path, error))?;
        for suffix in [names::INDEX, names::TIME_INDEX] {
            let path = self.file(old, suffix);
            match self.fs().rename(&path, &self.file(base, suffix)) {
                // The first entry creates it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed.map_err(|error| self.fail("rename", &path, error))?,
            }
        }
        Ok(())
    }
}
