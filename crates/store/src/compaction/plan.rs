//! How much of a log there is to compact, and whether it is worth it. The rules are Kafka's (`LogCleanerManager`).

use mainstem_types::{Offset, TimestampMs};

use super::CompactError;
use crate::config::LogConfig;
use crate::formats::names;
use crate::partition_log::{PartitionLog, Sealed, SealedSegment};

/// What can be compacted.
///
/// ```text
/// log start ≤ first dirty ≤ end ≤ base of the active segment, last stable offset
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cleanable {
    /// Everything below was compacted before.
    pub first_dirty: Offset,
    /// The base of the first segment that cannot be compacted now.
    pub end: Offset,
    /// Of segments that begin below `first_dirty`.
    pub clean_bytes: u64,
    /// Of segments from there on.
    pub dirty_bytes: u64,
    /// For how long the oldest dirty record has waited longer than `max.compaction.lag.ms`; 0: it has not.
    pub overdue_ms: i64,
    min_ratio: f64,
}

impl Cleanable {
    /// The dirty share of what would be gone through.
    pub fn ratio(&self) -> f64 {
        let total = self.clean_bytes + self.dirty_bytes;
        if total == 0 { 0.0 } else { self.dirty_bytes as f64 / total as f64 }
    }

    /// Whether the settings ask for a pass now: `min.cleanable.dirty.ratio` is passed, or a record is overdue.
    pub fn is_due(&self) -> bool {
        self.dirty_bytes > 0 && (self.overdue_ms > 0 || self.ratio() > self.min_ratio)
    }
}

impl PartitionLog {
    /// What compaction could do. `None`: nothing, or the log is not to be compacted, or is closed.
    pub fn cleanable(&self, now: TimestampMs, high_watermark: Offset) -> Result<Option<Cleanable>, CompactError> {
        let config = self.config();
        if !config.cleanup_compact {
            return Ok(None);
        }
        self.check_alive()?;
        let stable =
            self.first_unstable_offset(high_watermark).map_or(high_watermark, |first| first.min(high_watermark));
        let Some(sealed) = self.sealed()? else { return Ok(None) };
        let first_dirty = first_dirty(&sealed);
        let dirty_on = |segment: &&SealedSegment| segment.next > first_dirty;
        let too_young = match config.min_compaction_lag_ms > 0 {
            true => self.first_too_young(sealed.segments.iter().filter(dirty_on), now, &config)?,
            false => None,
        };
        let limit = stable.min(sealed.active).min(too_young.unwrap_or(sealed.active)).max(first_dirty);
        // Segments are compacted as a whole: the one that holds the limit is not.
        let holding = sealed.segments.iter().find(|segment| segment.next > limit);
        let end = holding.map_or(sealed.active, |segment| segment.base);
        let bytes = |wanted: &dyn Fn(&SealedSegment) -> bool| {
            sealed.segments.iter().filter(|segment| wanted(segment)).map(|segment| segment.bytes).sum()
        };
        let clean_bytes = bytes(&|segment| segment.base < first_dirty);
        let dirty_bytes = bytes(&|segment| segment.next > first_dirty && segment.base < end);
        let overdue_ms = match config.max_compaction_lag_ms {
            i64::MAX => 0,
            lag_ms => self.overdue_ms(sealed.segments.iter().filter(dirty_on), now.0.saturating_sub(lag_ms.max(0)))?,
        };
        let min_ratio = config.min_cleanable_dirty_ratio;
        Ok(Some(Cleanable { first_dirty, end, clean_bytes, dirty_bytes, overdue_ms, min_ratio }))
    }

    /// The first segment with a record that is younger than `min.compaction.lag.ms`.
    fn first_too_young<'s>(
        &self,
        mut segments: impl Iterator<Item = &'s SealedSegment>,
        now: TimestampMs,
        config: &LogConfig,
    ) -> Result<Option<Offset>, CompactError> {
        let before = now.0.saturating_sub(config.min_compaction_lag_ms);
        let young = |segment: &SealedSegment| -> Result<bool, CompactError> {
            let path = self.file(segment.base, names::LOG);
            let newest = self.newest_ms(segment.base).map_err(|error| CompactError::io("read", path, error))?;
            Ok(newest > before)
        };
        let found = segments.find_map(|segment| match young(segment) {
            Ok(false) => None,
            Ok(true) => Some(Ok(segment.base)),
            Err(error) => Some(Err(error)),
        });
        found.transpose()
    }

    /// By how much the first record of the oldest dirty segment is older than it may be.
    fn overdue_ms<'s>(
        &self,
        segments: impl Iterator<Item = &'s SealedSegment>,
        clean_until_ms: i64,
    ) -> Result<i64, CompactError> {
        let mut earliest = i64::MAX;
        for segment in segments {
            let first = self.first_batch_ms(segment.base).map_err(CompactError::of_read)?;
            earliest = first.filter(|first| *first > 0).map_or(earliest, |first| earliest.min(first));
        }
        Ok(if earliest < clean_until_ms { clean_until_ms - earliest } else { 0 })
    }
}

/// Where the part begins that was never compacted. What a checkpoint says outside the log is not believed: then all of
/// it is dirty.
fn first_dirty(sealed: &Sealed) -> Offset {
    let known = sealed.cleaned_to.filter(|to| (sealed.log_start..=sealed.log_end).contains(to));
    known.unwrap_or(sealed.log_start)
}
