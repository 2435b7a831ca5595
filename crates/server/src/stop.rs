//! How a reactor and its connections learn that the server stops.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::counters::Counters;

/// The phases of a server, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// No new connections and requests; received requests are answered.
    Draining,
    /// Connections end now.
    Ended,
}

/// The parts that the connections of one reactor share.
#[derive(Debug)]
pub(crate) struct ReactorState {
    phase: AtomicU8,
    changed: Notify,
    pub counters: Counters,
}

impl ReactorState {
    pub fn new() -> Self {
        ReactorState {
            phase: AtomicU8::new(Phase::Serving as u8),
            changed: Notify::new(),
            counters: Counters::default(),
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Ended,
        }
    }

    /// Enters a later phase and wakes all watchers. Never goes back.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Completes with the next change of the phase after its first poll. Look at [`phase`](Self::phase) after that
    /// poll.
    pub fn watch(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Completes when the phase is `phase` or a later one.
    pub async fn reached(&self, phase: Phase) {
        loop {
            let mut changed = std::pin::pin!(self.watch());
            changed.as_mut().enable();
            if self.phase() >= phase {
                return;
            }
            changed.await;
        }
    }
}
