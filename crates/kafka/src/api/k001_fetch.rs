//! Fetch (1), versions 4-18: records of many partitions, at once or when there are enough.
//!
//! - v4: isolation level. v7: sessions (KIP-227). v9: leader epoch. v11: rack. v12: flexible, diverging epochs.
//!   v13: topics by id (KIP-516). v15-18: fields of followers and leader hints, without meaning on one node.
//! - Long poll: with fewer than `min_bytes` it waits up to `max_wait_ms`, woken by the append that satisfies it, then answers
//!   with what there is. An error is answered at once, and the end of the wait is none.
//! - The partitions are looked at on the reactor as far as memory has what is needed: positions, index entries, batch headers. A
//!   look that would wait for the disk is taken again on a thread of the broker's pool.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use mainstem_broker::{Broker, FetchWait, Isolation, Partition, Stopped};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FetchRequest;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};

use crate::door::{Connection, Door};
use crate::fetch::read::{Disk, Limits, Look, WouldBlock, look, resolve};
use crate::fetch::respond::{respond, session_error};
use crate::fetch::session::{
    FetchPlan, PartitionKey, SessionCache, SessionError, SessionRequest, TopicReference, Wanted,
};
use crate::registry::Api;
use crate::reply::{CloseReason, Handled, Reply};
use crate::request::Request;

pub const API: Api = Api::new(1, "Fetch", 4..=18, handle);

fn handle(door: &Door, _connection: &mut Connection, request: Request) -> Result<Handled, CloseReason> {
    let message: FetchRequest<'_> = request.decode()?;
    let max_bytes_limit = door.broker.config().fetch.max_bytes.max(0);
    let max_bytes = message.max_bytes.clamp(0, max_bytes_limit);
    let limits = Limits {
        max_bytes: max_bytes as u32,
        // More than may be answered is not waited for.
        min_bytes: message.min_bytes.clamp(0, max_bytes) as u32,
        isolation: if message.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted },
    };
    let max_wait_ms = message.max_wait_ms;
    let by_id = request.version >= 13;
    let plan = match door.fetch_sessions.begin(session_request(&message, by_id), door.broker.clock().monotonic()) {
        Ok(plan) => plan,
        Err(error) => return Ok(Handled::Ready(session_error(&request, session_error_code(error)))),
    };
    let partitions: Vec<_> = plan.partitions.iter().map(|(key, _)| resolve(&door.broker, key)).collect();
    let fetch = Arc::new(Fetch {
        broker: Arc::clone(&door.broker),
        sessions: Arc::clone(&door.fetch_sessions),
        request,
        plan,
        partitions,
        limits,
        max_wait: Duration::from_millis(u64::try_from(max_wait_ms).unwrap_or(0)),
    });
    match fetch.look_at_once() {
        Ok(first) if fetch.is_enough(&first) => Ok(Handled::Ready(fetch.finish(first))),
        Ok(_) => Ok(Handled::waiting(fetch.wait())),
        Err(WouldBlock) => Ok(Handled::waiting(async move {
            match fetch.look_on_pool().await {
                Ok(first) if fetch.is_enough(&first) => fetch.finish(first),
                Ok(_) => fetch.wait().await,
                Err(stopped) => Reply::Close(CloseReason::Stopping(stopped.to_string())),
            }
        })),
    }
}

fn session_error_code(error: SessionError) -> ErrorCode {
    match error {
        SessionError::NotFound => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionError::InvalidEpoch => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionError::TopicIdMix => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    }
}

fn session_request(message: &FetchRequest<'_>, by_id: bool) -> SessionRequest {
    let mut wanted_partitions = IndexMap::new();
    let mut request = SessionRequest {
        session_id: message.session_id,
        session_epoch: message.session_epoch,
        by_id,
        ..SessionRequest::default()
    };
    let reference = |name: &str, id| if by_id { TopicReference::Id(id) } else { TopicReference::Name(name.into()) };
    for topic in &message.topics {
        let reference = reference(&topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            let key = PartitionKey { topic: reference.clone(), partition: PartitionIndex(partition.partition) };
            let wanted = Wanted {
                fetch_offset: Offset(partition.fetch_offset),
                // Any negative epoch is none.
                current_leader_epoch: LeaderEpoch(partition.current_leader_epoch).max(LeaderEpoch::NONE),
                last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
                max_bytes: partition.partition_max_bytes,
            };
            // Of a partition that is named twice the last mention counts, at the place of the first.
            wanted_partitions.insert(key, wanted);
        }
    }
    request.partitions = wanted_partitions.into_iter().collect();
    for topic in &message.forgotten_topics_data {
        let reference = reference(&topic.topic, topic.topic_id);
        let key = |partition: &i32| PartitionKey { topic: reference.clone(), partition: PartitionIndex(*partition) };
        request.forgotten.extend(topic.partitions.iter().map(key));
    }
    request
}

/// One fetch while it is being answered.
struct Fetch {
    broker: Arc<Broker>,
    sessions: Arc<SessionCache>,
    request: Request,
    plan: FetchPlan,
    partitions: Vec<Result<Arc<Partition>, ErrorCode>>,
    limits: Limits,
    max_wait: Duration,
}

impl Fetch {
    /// Looks without waiting for the disk.
    fn look_at_once(&self) -> Result<Look, WouldBlock> {
        let look = look(&self.partitions, &self.plan.partitions, &self.limits, Disk::Never);
        if look.is_ok() {
            self.broker.reads().count_from_memory();
        }
        look
    }

    /// Looks on a thread that may wait.
    async fn look_on_pool(self: &Arc<Self>) -> Result<Look, Stopped> {
        self.broker.reads().count_waited();
        let fetch = Arc::clone(self);
        let look = move || look(&fetch.partitions, &fetch.plan.partitions, &fetch.limits, Disk::MayWait);
        // A look that may wait never would block.
        self.broker.blocking().run(look).await?.map_err(|WouldBlock| Stopped)
    }

    async fn look(self: &Arc<Self>) -> Result<Look, Stopped> {
        match self.look_at_once() {
            Ok(look) => Ok(look),
            Err(WouldBlock) => self.look_on_pool().await,
        }
    }

    /// Whether this is the answer, or the fetch waits for more.
    fn is_enough(&self, look: &Look) -> bool {
        self.max_wait.is_zero() || self.plan.partitions.is_empty() || look.satisfies(&self.limits)
    }

    async fn wait(self: Arc<Self>) -> Reply {
        match self.wait_for_enough().await {
            Ok(look) => self.finish(look),
            Err(stopped) => Reply::Close(CloseReason::Stopping(stopped.to_string())),
        }
    }

    async fn wait_for_enough(self: &Arc<Self>) -> Result<Look, Stopped> {
        let deadline = tokio::time::Instant::now() + self.max_wait;
        let waiting = self.partitions.iter().filter_map(|partition| partition.as_ref().ok().map(Arc::clone)).collect();
        let wait = FetchWait::register(waiting);
        loop {
            // In this order no append is missed: one that comes between the two is counted twice, which costs a look.
            wait.expect_bytes(i64::from(self.limits.min_bytes));
            let look = self.look().await?;
            if look.satisfies(&self.limits) || self.broker.is_stopping() {
                return Ok(look);
            }
            wait.credit(look.bytes as i64);
            if tokio::time::timeout_at(deadline, wait.wait()).await.is_err() {
                return self.look().await;
            }
        }
    }

    fn finish(&self, look: Look) -> Reply {
        let answered: Vec<_> = look.answers.iter().map(|answer| answer.answered()).collect();
        let finish = self.sessions.finish(&self.plan, &answered, self.broker.clock().monotonic());
        respond(&self.request, &self.plan.partitions, look.answers, &finish)
    }
}
