//! Where a journal is between a request for a sync and the sync.
//!
//! ```text
//!            request                   begin
//!   IDLE ───────────────▶ QUEUED ───────────────────▶ RUNNING ──▶ IDLE
//!                           ▲                           │ request
//!                           └────────── done ─── RUNNING_AGAIN
//! ```
//! A journal for whose sync no file descriptor was left goes from RUNNING back to QUEUED.

use crate::sync::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AGAIN: u8 = 3;

/// A journal is in the queue at most once, and one thread at a time syncs it.
#[derive(Debug, Default)]
pub(crate) struct FlushStatus(AtomicU8);

impl FlushStatus {
    /// `true`: the caller has to put the journal into the queue.
    pub(crate) fn request(&self) -> bool {
        let next = |now| match now {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_AGAIN),
            _ => None,
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// A thread took the journal from the queue, and is about to sync the entries that are appended by now.
    pub(crate) fn begin(&self) {
        self.0.store(RUNNING, Ordering::Release);
    }

    /// `true`: there was another request meanwhile; the caller has to put the journal into the queue again.
    pub(crate) fn done(&self) -> bool {
        let next = |now| Some(if now == RUNNING_AGAIN { QUEUED } else { IDLE });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(RUNNING_AGAIN)
    }

    /// Nothing was synced: the caller puts the journal into the queue again.
    pub(crate) fn put_back(&self) {
        self.0.store(QUEUED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_queued_once_and_again_if_somebody_asks_while_it_is_synced() {
        let status = FlushStatus::default();
        assert!(status.request(), "the first request queues it");
        assert!(!status.request(), "it is in the queue already");
        status.begin();
        assert!(!status.request() && !status.request());
        assert!(status.done(), "the sync may have missed what was asked for meanwhile");
        assert!(!status.request(), "it is in the queue");
        status.begin();
        assert!(!status.done());
        assert!(status.request(), "it is idle");
        status.begin();
        status.put_back();
        assert!(!status.request(), "it is in the queue");
    }
}
