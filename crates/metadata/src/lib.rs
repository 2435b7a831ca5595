//! The cluster image as a state machine over Kafka's metadata records, without IO.
//!
//! Guarantees:
//! - State changes by [`image::ClusterImage::replay`] alone, live and at start.
//! - An operation of the [`controller::Controller`] returns records and a reply and changes nothing. The broker appends
//!   the records as one batch, replays them, and lets the reply leave when they are durable.
//! - A snapshot loses nothing of what a Kafka wrote: topics, settings, nodes, features, users, ACLs, quotas, tokens.
//!
//! Limits: 10,000 new partitions a request (as in Kafka); topic names of 1 to 249 characters; producer ids in blocks of
//! 1,000.

pub mod config;
pub mod controller;
pub mod image;
