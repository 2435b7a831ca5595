//! One partition of `__consumer_offsets`: its state machine, its log, and those who wait for an answer.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_coordinator::{
    AppendFailure, GroupConfig, GroupError, GroupShard, Now, OffsetsRecord, Outcome, Reply, ReplyToken,
};
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendError, Origin};
use mainstem_types::{Offset, TimestampMs};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::partition::Partition;

/// An answer, and the offset that must be committed before it leaves.
struct Delivery {
    reply: Reply,
    after: Option<(Arc<Partition>, Offset)>,
}

/// An operation whose answer is on its way.
pub struct Pending {
    receiver: oneshot::Receiver<Delivery>,
}

impl Pending {
    /// Waits for the answer, and for its records to be committed.
    async fn wait(self) -> Result<Reply, GroupError> {
        let delivery = self.receiver.await.map_err(|_| GroupError::NotCoordinator)?;
        if let Some((partition, end)) = delivery.after {
            partition.committed(end).wait().await.map_err(|_| GroupError::NotCoordinator)?;
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

    pub async fn wait(self) -> Result<T, GroupError> {
        let reply = self.pending?.wait().await?;
        // The state machine answers an operation with its own kind of reply.
        (self.pick)(reply).unwrap_or(Err(GroupError::NotCoordinator))
    }
}

pub(super) struct Shard {
    partition: Arc<Partition>,
    state: Mutex<State>,
}

struct State {
    machine: GroupShard,
    waiting: HashMap<ReplyToken, oneshot::Sender<Delivery>>,
}

impl Shard {
    pub fn new(config: GroupConfig, partition: Arc<Partition>) -> Shard {
        Shard { partition, state: Mutex::new(State { machine: GroupShard::new(config), waiting: HashMap::new() }) }
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub fn is_empty_log(&self) -> bool {
        self.partition.log().log_end() == self.partition.log().log_start()
    }

    /// Reads from the machine, or changes what no record holds.
    pub fn with<T>(&self, operation: impl FnOnce(&mut GroupShard) -> T) -> T {
        operation(&mut self.state.lock().machine)
    }

    /// Runs an operation that is answered with `token`. Also gives the next deadline of the shard.
    pub fn submit(
        &self,
        token: ReplyToken,
        now: Now,
        operation: impl FnOnce(&mut GroupShard, ReplyToken, Now) -> Outcome,
    ) -> (Pending, Option<u64>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        state.waiting.insert(token, sender);
        let outcome = operation(&mut state.machine, token, now);
        self.settle(&mut state, outcome, now);
        (Pending { receiver }, state.machine.next_deadline_ms())
    }

    /// Runs an operation in several parts, whose answer comes with the last. If a part cannot be appended, the rest has
    /// failed with it.
    pub fn submit_parts(
        &self,
        token: ReplyToken,
        now: Now,
        operation: impl FnOnce(&mut GroupShard, ReplyToken) -> Vec<Outcome>,
    ) -> (Pending, Option<u64>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        state.waiting.insert(token, sender);
        let mut failed = None;
        for part in operation(&mut state.machine, token) {
            let part = match failed {
                None => part,
                Some(failure) => state.machine.append_failed(part, failure, now),
            };
            failed = failed.or(self.settle(&mut state, part, now));
        }
        (Pending { receiver }, state.machine.next_deadline_ms())
    }

    /// Runs an operation that has several outcomes and is answered to nobody here.
    pub fn run(&self, now: Now, operation: impl FnOnce(&mut GroupShard, Now) -> Vec<Outcome>) {
        let mut state = self.state.lock();
        for outcome in operation(&mut state.machine, now) {
            self.settle(&mut state, outcome, now);
        }
    }

    pub fn loaded(&self, now: Now) {
        let mut state = self.state.lock();
        let outcome = state.machine.loaded(now);
        self.settle(&mut state, outcome, now);
    }

    /// Fires what is due; gives the next deadline.
    pub fn poll(&self, now: Now) -> Option<u64> {
        let mut state = self.state.lock();
        while let Some(outcome) = state.machine.poll_timer(now) {
            self.settle(&mut state, outcome, now);
        }
        state.machine.next_deadline_ms()
    }

    pub fn unload(&self, now: Now) {
        let mut state = self.state.lock();
        let replies = state.machine.unload(now);
        state.deliver(replies, None);
    }

    /// Appends what an outcome asks for, then hands out its answers. Gives the failure if that could not be done.
    fn settle(&self, state: &mut State, mut outcome: Outcome, now: Now) -> Option<AppendFailure> {
        let mut failed = None;
        loop {
            if outcome.records.is_empty() {
                state.deliver(outcome.replies, None);
                return failed;
            }
            match self.append(&outcome.records, now.wall) {
                Ok((base, end)) => {
                    state.machine.appended(&outcome.records, base);
                    state.deliver(outcome.replies, Some((&self.partition, end)));
                    return failed;
                }
                Err(failure) => {
                    failed = failed.or(Some(failure));
                    outcome = state.machine.append_failed(outcome, failure, now);
                }
            }
            if self.partition.log().failure().is_some() {
                // Nobody is to wait for what will never be written.
                state.deliver(std::mem::take(&mut outcome.replies), None);
                let parked = state.machine.unload(now);
                state.deliver(parked, None);
                return failed;
            }
        }
    }

    fn append(&self, records: &[OffsetsRecord], now: TimestampMs) -> Result<(Offset, Offset), AppendFailure> {
        let mut builder = BatchBuilder::new();
        for record in records {
            let key = record.encode_key().map_err(|_| AppendFailure::TooLarge)?;
            let value = record.encode_value().map_err(|_| AppendFailure::TooLarge)?;
            builder.append(now, Some(&key), value.as_deref(), &[]);
        }
        let batch = Bytes::from(builder.build().map_err(|_| AppendFailure::TooLarge)?);
        match self.partition.append(&batch, Origin::Coordinator, now, true) {
            Ok(appended) => Ok((appended.base_offset, appended.next_offset())),
            Err(AppendError::MessageTooLarge { .. } | AppendError::RecordListTooLarge { .. }) => {
                Err(AppendFailure::TooLarge)
            }
            Err(error) => {
                tracing::error!("the coordinator cannot write: {error}");
                Err(AppendFailure::NotWritable)
            }
        }
    }
}

impl State {
    fn deliver(&mut self, replies: Vec<(ReplyToken, Reply)>, after: Option<(&Arc<Partition>, Offset)>) {
        for (token, reply) in replies {
            if let Some(sender) = self.waiting.remove(&token) {
                let after = after.map(|(partition, end)| (Arc::clone(partition), end));
                // The client may have gone away while it waited.
                let _ = sender.send(Delivery { reply, after });
            }
        }
    }
}
