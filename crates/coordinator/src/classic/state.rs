//! The states of a classic group.

use std::fmt;

/// The states of a group, by Kafka's names.
///
/// ```text
/// Empty ──join──► PreparingRebalance ──all joined, or timeout──► CompletingRebalance ──leader syncs──► Stable
///   ▲                 │      ▲                                        │                                  │
///   └──nobody left────┘      └──────────── join, leave, expiry ───────┴──────────────────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupState {
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Empty,
    /// Only in descriptions: there is no such group.
    Dead,
}

impl GroupState {
    pub fn name(self) -> &'static str {
        match self {
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Empty => "Empty",
            GroupState::Dead => "Dead",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
