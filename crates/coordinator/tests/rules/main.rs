//! The rules of Kafka's group coordinator, each as a test whose name says it. The numbers in the module docs are the
//! rows of the behaviour table that the rules come from.

mod admin;
mod append_failures;
mod bed;
mod committed;
mod deadlines;
mod expiry;
mod heartbeat_and_sync;
mod joining;
mod kafka_records;
mod offsets;
mod simulation;
mod static_members;
