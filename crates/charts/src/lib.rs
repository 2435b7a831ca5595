//! The page of charts that `mainstem bench matrix` writes: one HTML file that needs nothing but itself, and no script.
//!
//! The crate knows figures and texts. It measures nothing and touches no file. Texts of others are escaped.

mod chart;
mod numbers;
mod page;

pub use numbers::{count, grouped};
pub use page::{Measured, render};
