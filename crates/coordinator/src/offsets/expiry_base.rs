//! From when the retention of a group's offsets counts.

use mainstem_types::TimestampMs;

use crate::CommittedOffset;

/// From when the retention of a group's offsets counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryBase {
    /// From the commit of each.
    Commit,
    /// From this moment, for all.
    Since(TimestampMs),
}

impl ExpiryBase {
    pub(super) fn is_expired(self, offset: &CommittedOffset, now: TimestampMs, retention_ms: i64) -> bool {
        let base = match self {
            ExpiryBase::Commit => offset.commit_timestamp,
            ExpiryBase::Since(moment) => moment,
        };
        match offset.expire_timestamp {
            Some(expires) => now >= expires,
            None => now.0.saturating_sub(base.0) >= retention_ms,
        }
    }
}
