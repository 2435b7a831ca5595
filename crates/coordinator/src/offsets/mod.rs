//! Operations on offsets: commits, fetches, expiry. What is stored of them is in `stored`.

mod commit;
mod expiry;
mod fetch;

pub(crate) use expiry::ExpiryBase;
