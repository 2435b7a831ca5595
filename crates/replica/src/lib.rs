//! One partition's replica set as this node sees it: high watermark, in-sync set, leader epochs. No IO, no clock.
//!
//! What is guaranteed:
//! - `log start ≤ last stable offset ≤ high watermark ≤ log end`, asserted in one place, [`Positions::check`].
//! - The high watermark is the lowest *acknowledged* log end of the in-sync set, and it never goes back.
//! - The leader epoch never goes back; what a client names is checked by [`ReplicaSet::check_leader_epoch`].
//! - Everything is the same for one replica and for n.
//!
//! ```text
//!   log start      last stable offset     high watermark        log end
//!       │                  │                     │                  │
//!   ────┼──────────────────┼─────────────────────┼──────────────────┼────▶ offsets
//!       │   read_committed │                     │                  │
//!       └──────────────────┘                     │                  │
//!       │   read_uncommitted                     │                  │
//!       └────────────────────────────────────────┘                  │
//!       │   in the log of the leader                                │
//!       └───────────────────────────────────────────────────────────┘
//! ```

mod positions;
mod replica_set;

pub use positions::{Positions, PositionsError};
pub use replica_set::{
    EpochCheckError, Event, EventError, MinInSyncError, Outcome, Replica, ReplicaSet, ReplicaSetState,
};
