//! One partition of `__consumer_offsets`: its state machine, its log, and the requests that wait for an answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_coordinator::{
    AppendFailure, CoordinatorOutcome, GroupConfig, GroupError, GroupShard, Now, OffsetsRecord, Reply, ReplyToken,
};
use mainstem_record::BatchBuilder;
use mainstem_store::{AppendError, Origin};
use mainstem_types::{Offset, TimestampMs};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::answer::{Condition, Delivery, Pending};
use crate::partition::Partition;

pub(super) struct Shard {
    partition: Arc<Partition>,
    config: GroupConfig,
    state: Mutex<ShardState>,
    closed: watch::Sender<bool>,
}

/// How long a shard waits before it reads its log again, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Loading → Served → Closed, or Loading → Unreadable → Loading; from damage until the next election.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loading,
    Served,
    /// The log could not be read: clients are told that it loads, nothing is answered from half of the truth.
    Unreadable,
    /// The node does not lead any more: holders of the shard learn of it.
    Closed,
}

struct ShardState {
    phase: Phase,
    machine: GroupShard,
    waiting: HashMap<ReplyToken, oneshot::Sender<Delivery>>,
    /// Topics that were deleted while the log was read.
    deleted_while_loading: Vec<String>,
    /// When an unreadable log is read again; `None`: it is damaged.
    retry_at: Option<Duration>,
    /// How long the last such wait was.
    retry_wait: Duration,
}

impl Shard {
    pub fn new(config: GroupConfig, partition: Arc<Partition>) -> Shard {
        let state = ShardState {
            phase: Phase::Loading,
            machine: GroupShard::new(config.clone()),
            waiting: HashMap::new(),
            deleted_while_loading: Vec::new(),
            retry_at: None,
            retry_wait: Duration::ZERO,
        };
        Shard { partition, config, state: Mutex::new(state), closed: watch::Sender::new(false) }
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub fn is_empty_log(&self) -> bool {
        self.partition.log().log_end() == self.partition.log().log_start()
    }

    pub fn is_unreadable(&self) -> bool {
        self.state.lock().phase == Phase::Unreadable
    }

    /// Reads from the machine as it is after everything that is due, by the records that are committed now. Or changes
    /// what no record holds.
    pub fn look<T>(
        &self,
        now: Now,
        operation: impl FnOnce(&mut GroupShard) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        let mut state = self.open_state()?;
        self.fire_due(&mut state, now);
        state.machine.committed(self.partition.high_watermark());
        operation(&mut state.machine)
    }

    /// As [`Shard::look`], of what is committed. Until the high watermark has reached the start of the leader's epoch,
    /// clients may have been told of newer state than it shows: they are told that the coordinator loads.
    pub fn look_at_committed<T>(
        &self,
        now: Now,
        operation: impl FnOnce(&mut GroupShard) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        // First: the high watermark that `look` takes is not older.
        let is_complete = self.partition.has_committed_earlier_epochs();
        self.look(
            now,
            |machine| {
                if is_complete { operation(machine) } else { Err(GroupError::CoordinatorLoadInProgress) }
            },
        )
    }

    fn open_state(&self) -> Result<parking_lot::MutexGuard<'_, ShardState>, GroupError> {
        let state = self.state.lock();
        if state.phase == Phase::Closed { Err(GroupError::NotCoordinator) } else { Ok(state) }
    }

    /// The machine as it is; due timers do not fire. For a replay and for comparisons. `None`: the shard has ended.
    pub fn with<T>(&self, operation: impl FnOnce(&mut GroupShard) -> T) -> Option<T> {
        let mut state = self.open_state().ok()?;
        Some(operation(&mut state.machine))
    }

    /// Runs an operation, in several parts perhaps, that is answered with `token`; the answer comes with the last part.
    /// If a part cannot be appended, the rest has failed with it. Also gives the next deadline of the shard.
    pub fn submit(
        &self,
        token: ReplyToken,
        now: Now,
        operation: impl FnOnce(&mut GroupShard, ReplyToken, Now) -> Vec<CoordinatorOutcome>,
    ) -> Result<(Pending, Option<Duration>), GroupError> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.open_state()?;
        self.fire_due(&mut state, now);
        state.waiting.insert(token, sender);
        let mut failed = None;
        for part in operation(&mut state.machine, token, now) {
            let part = match failed {
                None => part,
                Some(failure) => state.machine.append_failed(part, failure, now),
            };
            failed = failed.or(self.settle(&mut state, part, now));
        }
        Ok((Pending { receiver }, state.machine.next_deadline()))
    }

    /// The offsets of these topics go; if the log is still being read, as soon as it is.
    pub fn topics_deleted(&self, topics: &[&str], now: Now) {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Closed => {}
            Phase::Unreadable if state.retry_at.is_none() => {}
            Phase::Loading | Phase::Unreadable => {
                state.deleted_while_loading.extend(topics.iter().map(|topic| (*topic).to_owned()))
            }
            Phase::Served => {
                self.fire_due(&mut state, now);
                self.settle_all(&mut state, now, |machine| machine.topics_deleted(topics));
            }
        }
    }

    fn settle_all(
        &self,
        state: &mut ShardState,
        now: Now,
        operation: impl FnOnce(&mut GroupShard) -> Vec<CoordinatorOutcome>,
    ) {
        for outcome in operation(&mut state.machine) {
            self.settle(state, outcome, now);
        }
    }

    /// The log has been read: requests are served from now on.
    pub fn loaded(&self, now: Now) {
        let Ok(mut state) = self.open_state() else { return };
        state.phase = Phase::Served;
        state.machine.committed(self.partition.high_watermark());
        let outcome = state.machine.loaded(now);
        self.settle(&mut state, outcome, now);
        let deleted = std::mem::take(&mut state.deleted_while_loading);
        let deleted: Vec<&str> = deleted.iter().map(String::as_str).collect();
        self.settle_all(&mut state, now, |machine| machine.topics_deleted(&deleted));
    }

    /// The log is damaged: the shard waits for the next election.
    pub fn unreadable(&self) {
        if let Ok(mut state) = self.open_state() {
            state.phase = Phase::Unreadable;
        }
    }

    /// The log could not be read this time. Gives the wait before the next time; `None`: the shard has ended.
    pub fn load_failed(&self, now: Now) -> Option<Duration> {
        let mut state = self.open_state().ok()?;
        let wait = (state.retry_wait * 2).clamp(RETRY_MIN, RETRY_MAX);
        state.phase = Phase::Unreadable;
        // The log is read from its beginning again.
        state.machine = GroupShard::new(self.config.clone());
        (state.retry_wait, state.retry_at) = (wait, Some(now.monotonic + wait));
        Some(wait)
    }

    /// Whether the caller has to read the log again now.
    pub fn begin_retry(&self, now: Now) -> bool {
        let Ok(mut state) = self.open_state() else { return false };
        let is_due = state.phase == Phase::Unreadable && state.retry_at.is_some_and(|at| at <= now.monotonic);
        if is_due {
            (state.phase, state.retry_at) = (Phase::Loading, None);
        }
        is_due
    }

    fn fire_due(&self, state: &mut ShardState, now: Now) {
        while let Some(outcome) = state.machine.poll_timer(now) {
            self.settle(state, outcome, now);
        }
    }

    /// Fires due timers. Gives the next deadline.
    pub fn poll(&self, now: Now) -> Option<Duration> {
        let mut state = self.state.lock();
        self.fire_due(&mut state, now);
        [state.machine.next_deadline(), state.retry_at].into_iter().flatten().min()
    }

    /// Ends the shard: all waiting requests get NOT_COORDINATOR, those that wait for a commit, too. Nothing is kept.
    pub fn close(&self, now: Now) {
        let mut state = self.state.lock();
        (state.phase, state.retry_at) = (Phase::Closed, None);
        let replies = state.machine.unload(now);
        state.send_now(replies);
        self.closed.send_replace(true);
    }

    /// Hands out answers, each with the condition under which it may leave.
    fn deliver(&self, state: &mut ShardState, replies: Vec<(ReplyToken, Reply)>) {
        if replies.is_empty() {
            return;
        }
        state.machine.committed(self.partition.high_watermark());
        let after = state.machine.answers_wait_for();
        state.send(replies, after.map(|end| move || self.condition(end)));
    }

    fn condition(&self, end: Offset) -> Condition {
        let epoch = self.partition.leader_epoch();
        Condition { partition: Arc::clone(&self.partition), end, epoch, closed: self.closed.subscribe() }
    }

    /// Appends what an outcome asks for, then hands out its answers. Gives the failure if that could not be done.
    fn settle(&self, state: &mut ShardState, mut outcome: CoordinatorOutcome, now: Now) -> Option<AppendFailure> {
        let mut failed = None;
        loop {
            if outcome.records.is_empty() {
                self.deliver(state, outcome.replies);
                return failed;
            }
            match self.append(&outcome.records, now.wall) {
                Ok(base) => {
                    // First, so that nothing is kept for records that are committed already.
                    state.machine.committed(self.partition.high_watermark());
                    state.machine.appended(outcome.records, base);
                    self.deliver(state, outcome.replies);
                    return failed;
                }
                Err(failure) => {
                    failed = failed.or(Some(failure));
                    outcome = state.machine.append_failed(outcome, failure, now);
                }
            }
            if self.partition.log().failure().is_some() {
                // Nobody is to wait for what will never be written.
                state.send_now(std::mem::take(&mut outcome.replies));
                let parked = state.machine.unload(now);
                state.send_now(parked);
                return failed;
            }
        }
    }

    /// Gives the offset of the first record.
    fn append(&self, records: &[OffsetsRecord], now: TimestampMs) -> Result<Offset, AppendFailure> {
        let mut builder = BatchBuilder::new();
        for record in records {
            let key = record.encode_key().map_err(|_| AppendFailure::TooLarge)?;
            let value = record.encode_value().map_err(|_| AppendFailure::TooLarge)?;
            builder.append(now, Some(&key), value.as_deref(), &[]);
        }
        let batch = Bytes::from(builder.build().map_err(|_| AppendFailure::TooLarge)?);
        match self.partition.append(&batch, Origin::Coordinator, now, true) {
            Ok(appended) => Ok(appended.base_offset),
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

impl ShardState {
    fn send_now(&mut self, replies: Vec<(ReplyToken, Reply)>) {
        self.send(replies, None::<fn() -> Condition>);
    }

    fn send(&mut self, replies: Vec<(ReplyToken, Reply)>, after: Option<impl Fn() -> Condition>) {
        for (token, reply) in replies {
            if let Some(sender) = self.waiting.remove(&token) {
                let after = after.as_ref().map(|condition| condition());
                // The client may have gone away while it waited.
                let _ = sender.send(Delivery { reply, after });
            }
        }
    }
}
