//! Answers on their way: the condition under which each may leave.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mainstem_coordinator::{GroupError, Reply};
use mainstem_types::{LeaderEpoch, Offset};
use tokio::sync::{oneshot, watch};

use crate::partition::Partition;

/// An answer, and what must be committed before it leaves.
pub(super) struct Delivery {
    pub reply: Reply,
    pub after: Option<Condition>,
}

/// Everything below `end` is committed, by the leader that wrote it.
pub(super) struct Condition {
    pub partition: Arc<Partition>,
    pub end: Offset,
    /// In which they were written, or a later one of the same leadership.
    pub epoch: LeaderEpoch,
    /// True: the shard has ended. Another leader may have written what is committed from then on.
    pub closed: watch::Receiver<bool>,
}

impl Condition {
    async fn met(mut self) -> Result<(), GroupError> {
        let committed = {
            let mut commit = pin!(self.partition.committed(self.end, self.epoch).wait());
            let mut closed = pin!(self.closed.wait_for(|closed| *closed));
            poll_fn(|cx| match commit.as_mut().poll(cx) {
                Poll::Ready(committed) => Poll::Ready(committed.is_ok()),
                Poll::Pending => closed.as_mut().poll(cx).map(|_| false),
            })
            .await
        };
        if committed && !*self.closed.borrow() { Ok(()) } else { Err(GroupError::NotCoordinator) }
    }
}

/// An operation whose answer is on its way.
pub struct Pending {
    pub(super) receiver: oneshot::Receiver<Delivery>,
}

impl Pending {
    async fn wait(self) -> Result<Reply, GroupError> {
        let delivery = self.receiver.await.map_err(|_| GroupError::NotCoordinator)?;
        if let Some(condition) = delivery.after {
            condition.met().await?;
        }
        Ok(delivery.reply)
    }
}

/// The answer to one operation, of the type that belongs to it.
pub struct Answer<T> {
    pending: Result<Pending, GroupError>,
    pick: fn(Reply) -> Option<Result<T, GroupError>>,
}

impl<T> Answer<T> {
    pub(super) fn new(pending: Result<Pending, GroupError>, pick: fn(Reply) -> Option<Result<T, GroupError>>) -> Self {
        Answer { pending, pick }
    }

    /// Waits for the answer, and for the records it stands on to be committed.
    pub async fn wait(self) -> Result<T, GroupError> {
        let reply = self.pending?.wait().await?;
        // The state machine answers an operation with its own kind of reply.
        (self.pick)(reply).unwrap_or(Err(GroupError::NotCoordinator))
    }
}
