//! Committed offsets: the store, commits, fetches, expiry.
//!
//! Offsets of open transactions are pending: nobody sees them until the transaction's end marker commits them. Of a
//! transactional and a plain commit of one partition the later *record* counts, whenever the marker comes.

mod commit;
mod expiry;
mod fetch;
mod store;

pub(crate) use expiry::ExpiryBase;
pub use store::CommittedOffset;
pub(crate) use store::OffsetStore;
