//! The cluster image as a state machine over Kafka's metadata records, without IO.

pub mod config;
