//! Rules of Kafka's behaviour, one test each. `row_NN` counts the list of rules in docs/kafka-rules.md.

mod fetch;
mod fetch_sessions;
mod framing;
mod group_members;
mod group_offsets;
mod idempotence;
mod metadata;
mod offsets;
mod produce;
mod versions;
