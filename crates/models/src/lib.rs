//! Models of the code that synchronizes threads by hand: the files themselves, compiled with the atomics and locks of
//! `shuttle` ([`sync`]), which runs their threads one at a time and tries many interleavings of their steps.
//!
//! | file | what is checked |
//! | --- | --- |
//! | `broker` `commit_wait.rs` | a commit releases whoever waits for it, however the wait and the advance interleave |
//! | `broker` `fetch_wait.rs` | a fetch that registers, looks and waits misses no append |
//! | `journal` `flush_status.rs` | every request is covered by a sync that began after it, and no two syncs run at once |
//! | `store` `log_number.rs` | a look beside a change of the segments never mixes old and new |
//!
//! Each model has a variant with a fault in how the file is used, which the model must find: a model that finds nothing
//! may be one that looks at nothing. Interleavings are sequentially consistent: reordering by the processor is not
//! tried, so the files use `SeqCst`, or acquire and release around a lock.

// As a test of its own this crate would run the unit tests of the files, which need no scheduler.
#[cfg(not(test))]
pub mod checks;
pub mod sync;

#[cfg(not(test))]
#[allow(dead_code, reason = "the models use a part of the file")]
#[path = "../../broker/src/commit_wait.rs"]
mod commit_wait;
#[cfg(not(test))]
#[allow(dead_code, reason = "the models use a part of the file")]
#[path = "../../broker/src/fetch_wait.rs"]
mod fetch_wait;
#[cfg(not(test))]
#[allow(dead_code, reason = "the models use a part of the file")]
#[path = "../../journal/src/flush_status.rs"]
mod flush_status;
#[cfg(not(test))]
#[allow(dead_code, reason = "the models use a part of the file")]
#[path = "../../store/src/log_number.rs"]
mod log_number;
