//! Views that both layouts keep of their batches: pure functions of what lies in the log.

mod civil_time;
pub(crate) mod epochs;
pub(crate) mod index_cache;
pub(crate) mod index_file;
pub(crate) mod inspect;
pub(crate) mod key_index;
pub(crate) mod producers;
