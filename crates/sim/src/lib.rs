//! A cluster of Mainstem's state machines under one scheduler that is derived from a seed.
//!
//! What is simulated: one controller and three brokers, each with its own disk, clock and process; producers, readers
//! and members of a consumer group. What is real: metadata operations and image, replica sets, group shards, partition
//! logs on the in-memory file system, record batches. What is imagined: the network, the threads, the
//! follower's fetcher,
//! the controller's elections (by Kafka's rules).
//!
//! What is guaranteed:
//! - The same [`Scenario`] gives the same trace, byte for byte. Nothing reads a clock, a thread id, or the order of
//!   a hash map.
//! - Every fault and every client operation is an item of the scenario with a number. A run with fewer items is a
//!   run of the same seed: that is how [`shrink`] makes a failing run small.
//! - Each file in [`invariants`] holds one rule. Every fact that a node states is shown to every rule at once, so a
//!   violation is found at the step that caused it.
//!
//! Numbers: a run covers [`ACTIVE_MS`] = 6 s of faults and load and [`HEALED_MS`] = 8 s without faults; at most
//! [`EVENTS_MAX`] = 200,000 events; a message is delivered within [`LIFETIME_MS`] = 800 ms or never.

pub mod broker;
pub mod clients;
pub mod controller;
pub mod fact;
pub mod invariants;
pub mod message;
pub mod network;
pub mod random;
pub mod scenario;
pub mod shrink;
pub mod stored;
pub mod trace;
pub mod world;

pub use scenario::{Mutation, Scenario};
pub use shrink::{Shrunk, shrink};
pub use world::{Run, Violation, run, run_judged_by};

/// How long faults and client operations go on, in simulated milliseconds.
pub const ACTIVE_MS: u64 = 6_000;
/// How long the cluster has afterwards, without faults, to answer everything and to agree.
pub const HEALED_MS: u64 = 8_000;
/// A run with more events than this goes round in a circle.
pub const EVENTS_MAX: u64 = 200_000;
/// The longest time that a message is under way. Clients wait longer than this before they send something newer.
pub const LIFETIME_MS: u64 = 800;

/// The brokers.
pub const BROKERS: [i32; 3] = [1, 2, 3];
/// The topic that clients write to and read from, and how many partitions it has.
pub const TOPIC: &str = "orders";
pub const PARTITIONS: i32 = 2;
/// The topic of groups and committed offsets. It has one partition.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
