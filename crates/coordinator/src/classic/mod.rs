//! Classic consumer groups (protocol of JoinGroup, SyncGroup, Heartbeat, LeaveGroup), rule for rule as Kafka 4.4.
//!
//! `group` holds the state, `member` one member; `join`, `sync`, `leave` are the operations, `rebalance` what they
//! share, `take_back` what happens when their record cannot be appended. An operation sees its [`Context`]: settings,
//! timers, the moment, and the outcome it adds to.

mod context;
mod describe;
mod group;
mod join;
mod leave;
mod member;
mod rebalance;
mod state;
mod subscription;
mod sync;
mod take_back;
mod undo;

pub use state::GroupState;

pub(crate) use context::Context;
pub(crate) use group::ClassicGroup;
pub(crate) use undo::Undo;
