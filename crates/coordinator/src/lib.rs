//! Consumer groups and committed offsets as a state machine, without IO.
//!
//! Guaranteed:
//! - Every [`ReplyToken`] that is given to the state machine comes back exactly once: from the operation itself, from a
//!   later operation or timer of the same group, from [`GroupShard::append_failed`], or from [`GroupShard::unload`].
//! - What survives a restart changes only by records: an operation returns them, the caller appends them, and
//!   [`GroupShard::appended`] (live) and [`GroupShard::replay`] (at start) apply them by the same code.
//! - The same calls with the same arguments give the same outcomes: no clock, no randomness, no order of a hash map.
//!
//! Limits: a record batch that expiry, deletion of topics or deletion of a group asks for has at most
//! [`MAX_TOMBSTONES_PER_OUTCOME`] = 1,000 records; sessions 6 s to 30 min; commit metadata 4,096 UTF-16 units; a group
//! is unbounded in members unless `group.max.size` says so (all three are settings, see [`GroupConfig`]).
//!
//! One [`GroupShard`] serves one partition of `__consumer_offsets`; [`partition_for_group`] says which. The caller
//! holds the shard's lock over the whole of this loop, and so no other operation comes between records and their fate:
//!
//! ```text
//! outcome = shard.join_group(token, &request, now)
//! loop {
//!     if outcome.records is empty        → send outcome.replies now; done
//!     match append(outcome.records, as one batch) {
//!         Ok(base) → shard.appended(&outcome.records, base); send outcome.replies once the batch is committed; done
//!         Err(why) → outcome = shard.append_failed(outcome, why, now)
//!     }
//! }
//! ```
//!
//! Timers: before each operation and each read, call [`GroupShard::poll_timer`] with the operation's own `now` until
//! it gives `None`, each outcome through the loop above. So every caller sees the effect of due timers. After each
//! call look at [`GroupShard::next_deadline`], and do the same when that moment has come.
//!
//! Reads ([`GroupShard::offset_fetch`], [`GroupShard::describe_group`], [`GroupShard::list_groups`]) answer at once
//! from applied state. A crash could still take that away: a caller that must not show such state waits until
//! [`GroupShard::applied`] is committed.
//!
//! A record that was appended but will never be committed (the log died) ends the shard: [`GroupShard::unload`].
//!
//! Classic groups follow the rules of Kafka 4.4's group coordinator. The shard keeps records of group kinds that are
//! not implemented (KIP-848 consumer groups, share groups, streams groups) by key. Such a group is listed with its
//! type, and its offsets are served. Classic members may take it over once it is empty.

mod admin;
mod classic;
mod config;
mod error;
mod foreign;
mod group_type;
mod now;
mod offsets;
mod outcome;
mod records;
mod replies;
mod requests;
mod shard;
mod stored;
mod timers;

pub use classic::GroupState;
pub use config::GroupConfig;
pub use error::{AppendFailure, GroupError, RecordError};
pub use group_type::GroupType;
pub use now::{Now, ReplyToken};
pub use outcome::CoordinatorOutcome;
pub use records::{GroupMetadata, OffsetsRecord, StoredMember};
pub use replies::{
    CommittedPartition, CommittedTopic, DeletedOffsets, DescribedGroup, DescribedMember, FetchedPartition,
    FetchedTopic, JoinedGroup, JoinedMember, LeftMember, ListedGroup, Reply, SyncedGroup,
};
pub use requests::{
    CommitPartition, CommitTopic, FetchTopic, HeartbeatRequest, JoinGroupRequest, JoinProtocol, LeaveGroupRequest,
    LeavingMember, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, SyncGroupRequest, TopicPartitions,
};
pub use shard::GroupShard;
pub use stored::CommittedOffset;

/// The most tombstones that one outcome of expiry or deletion carries.
pub const MAX_TOMBSTONES_PER_OUTCOME: usize = 1_000;

/// Opaque bytes of a client: protocol metadata and assignments. Shared, never sliced out of a request frame.
pub type Blob = std::sync::Arc<[u8]>;

/// The partition of `__consumer_offsets` that a group belongs to: `abs(hash(group)) % partitions`, with Java's hash and
/// Kafka's `abs` (`i32::MIN` gives 0).
pub fn partition_for_group(group_id: &str, partition_count: i32) -> mainstem_types::PartitionIndex {
    let hash = mainstem_types::java_string_hash(group_id).checked_abs().unwrap_or(0);
    mainstem_types::PartitionIndex(hash % partition_count.max(1))
}
