//! Clients that mean harm, or are broken, against the real binary. Whatever they do, the broker lives, its memory stays
//! within bounds, and a client that behaves goes on being served in reasonable time.
//!
//! What is measured is printed: `cargo test --test hostile -- --nocapture`.

mod bed;
#[path = "../support/mod.rs"]
mod support;
mod wire;

mod bombs;
mod connections;
mod floods;
mod garbage;
mod slow;
