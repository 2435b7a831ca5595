//! Tests over every message and version of the schema.
//!
//! [`model`] and [`encode`] read the same schema files as `build.rs` and are a second, interpreting encoder: what the
//! generated code reads and writes is compared with it, and it knows where every length and count stands.

#[path = "../../build/parse.rs"]
mod parse;
#[path = "../../build/schema.rs"]
mod schema;

mod alloc;
mod attack;
mod damage;
mod encode;
mod entries;
mod exact;
mod golden;
mod model;
mod peer;
mod round_trip;
mod schema_errors;
mod versions;
