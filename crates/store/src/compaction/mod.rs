//! Compaction (`cleanup.policy=compact`): of each key only the newest record stays, under the offset it has.
//!
//! What is guaranteed:
//!
//! - A reader from the log start sees, for each key, its last record, unless that is a tombstone whose time is over.
//!   Offsets are never given anew; where records went there are gaps.
//! - Only whole sealed segments below the last stable offset are touched, and only what a checkpoint on the disk calls
//!   durable. The active segment never is.
//! - Records of aborted transactions go. A marker stays until nothing of its transaction is left, and then for
//!   `delete.retention.ms`, as tombstones do (the delete horizon of KIP-534, in the batch). The last batch of an active
//!   producer stays, without records if need be: its sequence is known after a loss of every snapshot.
//! - A batch that loses nothing is copied byte for byte, one that loses records is rebuilt in its codec.
//! - Appends and reads never wait for it, save for the exchange of a segment in memory and four renames.
//! - A crash at any moment leaves the old segments or the new one (`partition_log/replace.rs`). An error of the disk,
//!   or a damaged batch, leaves the log as it was; only when the folder's state is unknown the log ends.
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
mod error;
mod group;
mod key_map;
mod offset_map;
mod pass;
mod plan;
mod segment_reader;
mod transactions;

#[cfg(test)]
mod tests;

pub use error::CompactError;
pub use pass::Compaction;
pub use plan::Cleanable;

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

/// Who may slow a compaction down, or stop it.
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
