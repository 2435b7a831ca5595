//! Compaction (`cleanup.policy=compact`): of each key only the newest record stays, under the offset it has.
//!
//! Guarantees:
//!
//! - A reader from the log start sees the last record of each key, unless that is an expired tombstone. Offsets are
//!   never reused; removed records leave gaps.
//! - Compaction changes only whole sealed segments below the last stable offset that a checkpoint on the disk calls
//!   durable. It never changes the active segment.
//! - Compaction removes records of aborted transactions. A marker stays until nothing of its transaction is left, and
//!   then for `delete.retention.ms`, like a tombstone (the delete horizon of KIP-534, in the batch). The last batch of
//!   an active producer stays, if necessary without records, so that its sequence is known even if every snapshot is
//!   lost.
//! - A batch that loses nothing is copied byte for byte. A batch that loses records is rebuilt with its codec.
//! - Appends and reads never wait for compaction, except for the exchange of a segment in memory and four renames.
//! - A crash at any moment leaves the old segments or the new one (`partition_log/replace.rs`). A disk error leaves the
//!   log as it was. The log ends only if the state of the folder is unknown.
//! - A segment with a damaged batch stays as it is, byte for byte; the others are compacted (`damaged.rs`).
//!
//! Numbers: 24 bytes of memory for each key of the part that was not compacted yet, at most
//! `log.cleaner.dedupe.buffer.size`; what does not fit is left to the next pass. Two buffers of a part of
//! `log.cleaner.io.buffer.size`, or of the largest batch. Small segments are put together up to `segment.bytes`,
//! `segment.index.bytes` and 2,147,483,647 offsets.
//!
//! ```text
//!                 clean │ dirty                │ too young, not stable
//!   ────────────────────┼──────────────────────┼────────────────────────┬──────────
//!   log start      cleaned to                 end               active segment   log end
//!   └─ rewritten ──────────────────────────────┘
//!                       └─ the map of keys ────┘
//! ```

mod batch_filter;
mod cleaned_segment;
mod damaged;
mod error;
mod group;
mod key_map;
mod offset_map;
mod pass;
mod plan;
mod rewrite;
mod segment_reader;
mod transactions;

#[cfg(test)]
mod tests;

pub use error::CompactError;
pub use plan::Cleanable;
pub use rewrite::Compaction;

/// What a compaction may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerLimits {
    /// Memory of the map of keys: `log.cleaner.dedupe.buffer.size`, a thread's part of it.
    pub dedupe_bytes: usize,
    /// How full the map may get: `log.cleaner.io.buffer.load.factor`.
    pub load_factor: f64,
    /// Bytes that are read, or written, at once: a thread's part of `log.cleaner.io.buffer.size`.
    pub io_buffer_bytes: usize,
}

/// May slow a compaction down, or stop it.
pub trait CleaningControl {
    /// Called after `bytes` were read or written; may sleep. `false`: stop, and leave the log as it is.
    fn proceed(&mut self, bytes: u64) -> bool;
}

/// Full speed, to the end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unthrottled;

impl CleaningControl for Unthrottled {
    fn proceed(&mut self, _: u64) -> bool {
        true
    }
}
