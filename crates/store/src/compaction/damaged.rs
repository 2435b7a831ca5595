//! Segments that a pass leaves as they are, because something in them cannot be read.
//!
//! A pass neither rewrites nor removes such a segment: its damaged bytes may be repaired, and its intact records are
//! read from it. The records in it count for the map of keys if they can be read, whatever lies before them. Behind it
//! tombstones and markers stay: what they hide may be among the records that were not looked at.

use std::collections::BTreeSet;

use mainstem_types::Offset;

use super::CompactError;
use super::pass::Pass;
use crate::formats::names;
use crate::partition_log::SealedSegment;

/// By their bases.
#[derive(Debug, Default)]
pub(super) struct DamagedSegments(BTreeSet<Offset>);

impl DamagedSegments {
    pub(super) fn has(&self, base: Offset) -> bool {
        self.0.contains(&base)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Notes which of these segments an error is about. Every other error is given back.
    pub(super) fn note(
        &mut self,
        pass: &Pass<'_>,
        segments: &[SealedSegment],
        error: CompactError,
    ) -> Result<(), CompactError> {
        let CompactError::Damaged { path, .. } = &error else { return Err(error) };
        let found = segments.iter().find(|segment| *path == pass.log.file(segment.base, names::LOG));
        let Some(segment) = found else { return Err(error) };
        if self.0.insert(segment.base) {
            tracing::error!(partition = %pass.log.partition(), "{error}; the other segments are compacted");
        }
        Ok(())
    }
}
