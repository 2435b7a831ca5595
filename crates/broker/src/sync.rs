//! Atomics and locks of the files that `mainstem-models` compiles with its own, to try many interleavings.

pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

pub(crate) use parking_lot::Mutex;
