//! A broker in memory behind a door, connections to it (or to another broker), and requests in short.

pub mod batches;
pub mod link;
pub mod node;
pub mod requests;

pub use link::{Link, RequestOutcome};
pub use node::Node;
