//! The journal under crashes, faults and random use.

mod support;

mod basics;
mod crash;
mod faults;
mod flusher;
mod gate;
mod in_memory;
mod model;
mod recovery;
mod replace;
mod writeback;
