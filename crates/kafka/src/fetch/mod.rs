//! What a fetch is made of: sessions (what the client wants), reading (what the partitions give), responding.

pub mod read;
pub mod respond;
pub mod session;
mod session_state;
