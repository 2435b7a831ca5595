//! Operations on offsets: commits, fetches, expiry. The module `stored` keeps the offsets.

mod commit;
mod expiry;
mod expiry_base;
mod fetch;

pub(crate) use expiry_base::ExpiryBase;
