//! Replies that wait until a record is committed: below the high watermark of its partition.
//!
//! The thread that advances the high watermark wakes waiters in batches, in the order of their offsets. A partition
//! without waiters costs one relaxed load.

use std::collections::VecDeque;

use mainstem_types::Offset;
use tokio::sync::oneshot;

use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Why a record that a reply waits for is never committed, as far as this node can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommitFailed {
    #[error("the log accepts no more writes after a disk error")]
    Log,
    /// The record may be committed by the next leader.
    #[error("this node does not lead the partition any more")]
    NotLeader,
}

/// A committed record, or the wait for it.
#[derive(Debug)]
pub enum Commit {
    Done,
    Waiting(oneshot::Receiver<Result<(), CommitFailed>>),
}

impl Commit {
    /// Waits until the record is committed, or never will be.
    pub async fn wait(self) -> Result<(), CommitFailed> {
        match self {
            Commit::Done => Ok(()),
            // A dropped sender is a partition that went away: its records are not committed by us any more.
            Commit::Waiting(receiver) => receiver.await.unwrap_or(Err(CommitFailed::Log)),
        }
    }
}

struct Waiter {
    /// Released when the high watermark has reached this offset.
    end: Offset,
    sender: oneshot::Sender<Result<(), CommitFailed>>,
}

#[derive(Default)]
pub(crate) struct CommitWaiters {
    count: AtomicUsize,
    /// `end` ascends.
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    queue: VecDeque<Waiter>,
    /// Nobody waits any more, for this reason.
    failed: Option<CommitFailed>,
}

impl CommitWaiters {
    /// Waits for `end <= high watermark`. `high_watermark` is read under the lock, so that an advance cannot be missed;
    /// and after it, whether the node `still_leads` as it did at the append, so that a loss of the leadership cannot.
    pub fn wait(&self, end: Offset, high_watermark: impl Fn() -> Offset, still_leads: impl Fn() -> bool) -> Commit {
        let mut waiters = self.waiters.lock();
        // Counted before the high watermark is read: an advance after that read finds the waiter.
        self.count.fetch_add(1, Ordering::SeqCst);
        let is_committed = high_watermark() >= end;
        let still_leads = still_leads();
        if is_committed && still_leads {
            self.count.fetch_sub(1, Ordering::SeqCst);
            return Commit::Done;
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(failed) = waiters.failed.or((!still_leads).then_some(CommitFailed::NotLeader)) {
            self.count.fetch_sub(1, Ordering::SeqCst);
            // A receiver that is kept by nobody else: the send cannot fail in a way that matters.
            let _ = sender.send(Err(failed));
            return Commit::Waiting(receiver);
        }
        let place = waiters.queue.partition_point(|waiter| waiter.end <= end);
        waiters.queue.insert(place, Waiter { end, sender });
        Commit::Waiting(receiver)
    }

    /// Releases all waiters up to `high_watermark`.
    pub fn advance(&self, high_watermark: Offset) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut waiters = self.waiters.lock();
        let ready = waiters.queue.partition_point(|waiter| waiter.end <= high_watermark);
        let released: Vec<Waiter> = waiters.queue.drain(..ready).collect();
        self.count.fetch_sub(ready, Ordering::SeqCst);
        // A woken waiter may come back for the lock at once.
        drop(waiters);
        for waiter in released {
            // The client may have left; then there is no receiver.
            let _ = waiter.sender.send(Ok(()));
        }
    }

    /// Nobody who waits will be told of a commit. A failed log stays so; who leads again begins anew
    /// ([`CommitWaiters::reopen`]).
    pub fn fail(&self, reason: CommitFailed) {
        let mut waiters = self.waiters.lock();
        if waiters.failed != Some(CommitFailed::Log) {
            waiters.failed = Some(reason);
        }
        for waiter in waiters.queue.drain(..) {
            self.count.fetch_sub(1, Ordering::SeqCst);
            let _ = waiter.sender.send(Err(reason));
        }
    }

    /// This node leads, perhaps again.
    pub fn reopen(&self) {
        let mut waiters = self.waiters.lock();
        waiters.failed = waiters.failed.filter(|failed| *failed == CommitFailed::Log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(commit: Commit) -> Option<Result<(), CommitFailed>> {
        match commit {
            Commit::Done => Some(Ok(())),
            Commit::Waiting(mut receiver) => receiver.try_recv().ok(),
        }
    }

    #[test]
    fn a_committed_record_needs_no_wait() {
        let waiters = CommitWaiters::default();
        assert!(matches!(waiters.wait(Offset(5), || Offset(5), || true), Commit::Done));
        assert_eq!(waiters.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_advance_releases_those_below_it_and_no_others() {
        let waiters = CommitWaiters::default();
        let late = waiters.wait(Offset(9), || Offset(0), || true);
        let early = waiters.wait(Offset(4), || Offset(0), || true);
        waiters.advance(Offset(4));
        assert_eq!(outcome(early), Some(Ok(())));
        assert_eq!(waiters.count.load(Ordering::SeqCst), 1);
        waiters.advance(Offset(9));
        assert_eq!(outcome(late), Some(Ok(())));
    }

    #[test]
    fn a_failed_log_fails_those_who_wait_and_those_who_come_later() {
        let waiters = CommitWaiters::default();
        let waiting = waiters.wait(Offset(1), || Offset(0), || true);
        waiters.fail(CommitFailed::Log);
        assert_eq!(outcome(waiting), Some(Err(CommitFailed::Log)));
        assert_eq!(outcome(waiters.wait(Offset(2), || Offset(0), || true)), Some(Err(CommitFailed::Log)));
        assert_eq!(
            outcome(waiters.wait(Offset(1), || Offset(1), || true)),
            Some(Ok(())),
            "what was committed before stays so"
        );
        waiters.reopen();
        assert_eq!(
            outcome(waiters.wait(Offset(2), || Offset(0), || true)),
            Some(Err(CommitFailed::Log)),
            "it has failed for good"
        );
    }

    #[test]
    fn who_leads_again_is_waited_for_again() {
        let waiters = CommitWaiters::default();
        let waiting = waiters.wait(Offset(1), || Offset(0), || true);
        waiters.fail(CommitFailed::NotLeader);
        assert_eq!(outcome(waiting), Some(Err(CommitFailed::NotLeader)));
        assert_eq!(outcome(waiters.wait(Offset(1), || Offset(0), || true)), Some(Err(CommitFailed::NotLeader)));
        waiters.reopen();
        let waiting = waiters.wait(Offset(1), || Offset(0), || true);
        waiters.advance(Offset(1));
        assert_eq!(outcome(waiting), Some(Ok(())));
    }
}
