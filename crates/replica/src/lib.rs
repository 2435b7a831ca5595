//! The replica set of one unit of replication as this node sees it: leader, epoch, in-sync set, high watermark. No IO,
//! no clock.
//!
//! A *unit* is what has a leader. In layout `partition` it is the partition, and positions are offsets. In layouts
//! `topic` and `shared` it is the partition group, and positions are bytes of its commit log. Everything here is
//! written once, over [`UnitPosition`].
//!
//! Guarantees:
//! - `log start ≤ last stable ≤ high watermark ≤ log end`, checked in one place, [`Positions::check`], in release
//!   builds too. An event that would break the order is refused, and the state stays as it was.
//! - The high watermark is the lowest *acknowledged* log end of the in-sync set. While a larger in-sync set is
//!   proposed, the members of both sets count. It does not move while fewer replicas are in sync than
//!   `min.insync.replicas` asks for (KIP-966).
//! - The high watermark goes back in only one case: a follower cut its log below it, which only an unclean election can
//!   demand.
//! - The leader epoch never goes back; what a client names is checked by [`ReplicaSet::check_leader_epoch`].
//! - If a follower's log has another history than the leader's, the leader says where to cut it: [`diverging`],
//!   [`cut_at`].
//! - Everything is the same for one replica and for n.
//! - A partition of a group has no replica set of its own. [`GroupMember`] says how far it is committed.
//!
//! ```text
//!   log start         last stable        high watermark        log end
//!       │                  │                     │                  │
//!   ────┼──────────────────┼─────────────────────┼──────────────────┼────▶ positions
//!       │   read_committed │                     │                  │
//!       └──────────────────┘                     │                  │
//!       │   read_uncommitted                     │                  │
//!       └────────────────────────────────────────┘                  │
//!       │   in the log of the leader                                │
//!       └───────────────────────────────────────────────────────────┘
//! ```

mod divergence;
mod event;
mod group_member;
mod positions;
mod replica_set;

pub use divergence::{EpochEnd, cut_at, diverging};
pub use event::{EpochCheckError, Event, EventError, MinInSyncError, Replica, ReplicaOutcome, ReplicaSetState, Role};
pub use group_member::{GroupMember, InSync};
pub use positions::{Positions, PositionsError};
pub use replica_set::ReplicaSet;

use mainstem_types::{Offset, Position};

/// What a unit's log is measured in: offsets of a partition, or bytes of a commit log.
pub trait UnitPosition: Copy + Ord + std::fmt::Debug + std::fmt::Display + Send + Sync + 'static {
    /// Before everything.
    const ZERO: Self;
}

impl UnitPosition for Offset {
    const ZERO: Offset = Offset::ZERO;
}

impl UnitPosition for Position {
    const ZERO: Position = Position::ZERO;
}
