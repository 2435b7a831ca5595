//! Fetch (1), versions 4-18: records of many partitions, at once or when there are enough.
//!
//! - v4: isolation level. v7: sessions (KIP-227). v9: leader epoch. v11: rack. v12: flexible, diverging epochs.
//!   v13: topics by id (KIP-516). v15-18: fields of followers and leader hints, without meaning on one node.
//! - Long poll: with fewer than `min_bytes` it waits up to `max_wait_ms`, woken by the append that satisfies it, then answers
//!   with what there is. An error is answered at once, and the end of the wait is none.

use std::sync::Arc;
use std::time::Duration;

use mainstem_broker::{Broker, FetchWait, Isolation, Partition};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FetchRequest;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};

use crate::door::{Connection, Door};
use crate::fetch::read::{Limits, Look, look, resolve};
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
    let limits = Limits {
        max_bytes: message.max_bytes.clamp(0, max_bytes_limit) as u32,
        min_bytes: message.min_bytes.clamp(0, message.max_bytes.max(0)) as u32,
        isolation: if message.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted },
    };
    let max_wait_ms = message.max_wait_ms;
    let by_id = request.version >= 13;
    let plan = match door.fetch_sessions.begin(session_request(&message, by_id), door.broker.clock().monotonic()) {
        Ok(plan) => plan,
        Err(error) => return Ok(Handled::Ready(session_error(&request, session_error_code(error)))),
    };
    let partitions: Vec<_> = plan.partitions.iter().map(|(key, _)| resolve(&door.broker, key)).collect();
    let fetch = Fetch {
        broker: Arc::clone(&door.broker),
        sessions: Arc::clone(&door.fetch_sessions),
        request,
        plan,
        partitions,
        limits,
    };
    let first = fetch.look();
    if max_wait_ms <= 0 || fetch.plan.partitions.is_empty() || first.satisfies(&fetch.limits) {
        return Ok(Handled::Ready(fetch.finish(first)));
    }
    Ok(Handled::waiting(fetch.wait(Duration::from_millis(max_wait_ms as u64))))
}

fn session_error_code(error: SessionError) -> ErrorCode {
    match error {
        SessionError::NotFound => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionError::InvalidEpoch => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionError::TopicIdMix => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    }
}

fn session_request(message: &FetchRequest<'_>, by_id: bool) -> SessionRequest {
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
                current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
                last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
                max_bytes: partition.partition_max_bytes,
            };
            request.partitions.push((key, wanted));
        }
    }
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
}

impl Fetch {
    fn look(&self) -> Look {
        look(&self.partitions, &self.plan.partitions, &self.limits)
    }

    async fn wait(self, max_wait: Duration) -> Reply {
        let deadline = tokio::time::Instant::now() + max_wait;
        let waiting = self.partitions.iter().filter_map(|partition| partition.as_ref().ok().map(Arc::clone)).collect();
        let wait = FetchWait::register(waiting);
        loop {
            // In this order no append is missed: one that comes between the two is counted twice, which costs a look.
            wait.expect_bytes(i64::from(self.limits.min_bytes));
            let look = self.look();
            if look.satisfies(&self.limits) || self.broker.is_stopping() {
                return self.finish(look);
            }
            wait.credit(look.bytes as i64);
            if tokio::time::timeout_at(deadline, wait.wait()).await.is_err() {
                let look = self.look();
                return self.finish(look);
            }
        }
    }

    fn finish(&self, look: Look) -> Reply {
        let answered: Vec<_> = look.answers.iter().map(|answer| answer.answered()).collect();
        let finish = self.sessions.finish(&self.plan, &answered, self.broker.clock().monotonic());
        respond(&self.request, &self.plan.partitions, look.answers, &finish)
    }
}
