//! Waiting without holding up a reactor.
//!
//! - [`BlockingPool`]: a fixed number of threads for work that may wait for the disk or needs much of a processor.
//! - [`WaitTimer`]: one timer, kept from one wait of a connection to the next. Waits of 160 ms and more end up to 16 ms
//!   late, in company ([`end_of_wait`]); no wait ends early.
//!
//! Knows neither the domain nor a protocol: the broker and the doors both wait with it.

mod blocking;
mod wait_timer;

pub use blocking::{BlockingPool, Stopped};
pub use wait_timer::{TimeOver, WaitTimer, end_of_wait};
