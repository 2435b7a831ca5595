//! Waiting until all that a request appended is committed.

use mainstem_waits::WaitTimer;
use tokio::time::Instant;

use crate::commit_wait::{Commit, CommitFailed};

/// Why a record was not committed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCommitted {
    /// It never will be: the log failed, or the partition is gone.
    Failed,
    /// This node does not lead the partition any more; the next leader may commit it.
    NotLeader,
    /// The wait was over first.
    TimeOver,
}

/// The waits of one request. `P` says where in its answer each belongs.
#[derive(Debug)]
pub struct CommitWaits<P>(Vec<(P, Commit)>);

impl<P> Default for CommitWaits<P> {
    fn default() -> Self {
        CommitWaits(Vec::new())
    }
}

impl<P> CommitWaits<P> {
    /// Batches that are committed already cost nothing.
    pub fn add(&mut self, place: P, commit: Commit) {
        if let Commit::Waiting(_) = commit {
            self.0.push((place, commit));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for all of them, and tells which were not committed before `deadline`.
    pub async fn wait(self, deadline: Instant, timer: &WaitTimer, mut missed: impl FnMut(P, NotCommitted)) {
        for (place, commit) in self.0 {
            match timer.until(deadline, commit.wait()).await {
                Ok(Ok(())) => {}
                Ok(Err(CommitFailed::Log)) => missed(place, NotCommitted::Failed),
                Ok(Err(CommitFailed::NotLeader)) => missed(place, NotCommitted::NotLeader),
                Err(_) => missed(place, NotCommitted::TimeOver),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_wait::CommitWaiters;
    use mainstem_types::Offset;
    use std::time::Duration;

    #[test]
    fn what_is_not_committed_in_time_is_told_with_its_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (good, bad) = (CommitWaiters::default(), CommitWaiters::default());
        let mut waits = CommitWaits::default();
        waits.add(0, Commit::Done);
        assert!(waits.is_empty());
        waits.add(1, good.wait(Offset(1), || Offset(0), || true));
        waits.add(2, good.wait(Offset(2), || Offset(0), || true));
        waits.add(3, bad.wait(Offset(1), || Offset(0), || true));
        good.advance(Offset(1));
        bad.fail(CommitFailed::Log);
        let mut told = Vec::new();
        let deadline = || Instant::now() + Duration::from_millis(20);
        runtime.block_on(async {
            waits.wait(deadline(), &WaitTimer::default(), |place, why| told.push((place, why))).await;
        });
        assert_eq!(told, [(2, NotCommitted::TimeOver), (3, NotCommitted::Failed)]);
    }
}
