//! The parts that all steps of a pass over a log share.

use mainstem_record::BatchView;
use mainstem_types::{Offset, TimestampMs};

use super::{CleanerLimits, CleaningControl, CompactError};
use crate::formats::names;
use crate::partition_log::{PartitionLog, Sealed, SealedSegment};

/// The smallest buffer: what one read costs would be lost in smaller ones.
const BUFFER_BYTES_MIN: usize = 4096;

/// What all steps of a pass need.
pub(super) struct Pass<'a> {
    pub(super) log: &'a PartitionLog,
    pub(super) limits: &'a CleanerLimits,
    pub(super) first_dirty: Offset,
    pub(super) end: Offset,
    pub(super) now: TimestampMs,
    pub(super) sealed: Sealed,
}

impl Pass<'_> {
    pub(super) fn buffer_bytes(&self) -> usize {
        (self.limits.io_buffer_bytes / 2).max(BUFFER_BYTES_MIN)
    }

    pub(super) fn segments(&self, wanted: impl Fn(&SealedSegment) -> bool) -> Vec<SealedSegment> {
        self.sealed.segments.iter().filter(|segment| wanted(segment)).copied().collect()
    }
}

/// Lets the control slow the pass down or stop it.
pub(super) fn proceed(log: &PartitionLog, control: &mut dyn CleaningControl, bytes: u64) -> Result<(), CompactError> {
    match bytes == 0 || control.proceed(bytes) {
        true => Ok(()),
        false => Err(CompactError::Stopped { partition: log.partition().clone() }),
    }
}

/// A batch whose checksum is right and whose records are wrong all the same: a producer's fault that an older broker
/// let in.
pub(super) fn record_error(
    pass: &Pass<'_>,
    segment: &SealedSegment,
    batch: &BatchView<'_>,
    error: impl std::fmt::Display,
) -> CompactError {
    let path = pass.log.file(segment.base, names::LOG);
    let position = pass.log.position_of(segment.base, batch.header().base_offset).unwrap_or(0);
    let reason = format!("the batch at offset {}: {error}", batch.header().base_offset);
    CompactError::Damaged { path, position, reason }
}
