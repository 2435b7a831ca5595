//! Classic consumer groups (protocol of JoinGroup, SyncGroup, Heartbeat, LeaveGroup), rule for rule as Kafka 4.4.
//!
//! `group` holds the state, `member` one member; `join`, `sync`, `leave` are the operations, `rebalance` what they
//! share, `undo` what happens when their record cannot be appended. An operation sees its [`Context`]: settings,
//! timers, the moment, and the outcome it adds to.

mod context;
mod describe;
mod group;
mod join;
mod leave;
mod member;
mod rebalance;
mod subscription;
mod sync;
mod undo;

pub use group::GroupState;

pub(crate) use context::Context;
pub(crate) use group::ClassicGroup;
pub(crate) use undo::Undo;
