//! The door beside a real Kafka: the same requests, and the answers compared field by field.
//!
//! The answers of Kafka are recordings in `tests/oracle/recordings`; `tests/oracle/record.sh` makes them anew. What may
//! differ is in [`canonical`] (for all answers) and in the scripts (`except`, for one answer, with the reason).

mod canonical;
mod prose;
mod recording;
mod script;
mod scripts;
