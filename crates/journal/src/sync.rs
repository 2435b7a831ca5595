//! Atomics and locks of the files that `mainstem-models` compiles with its own, to try many interleavings.

pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
