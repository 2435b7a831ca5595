//! Fetch (1), versions 4-18: records of many partitions, at once or when there are enough.
//!
//! - v4: isolation level. v7: sessions (KIP-227). v9: leader epoch. v11: rack. v12: flexible, diverging epochs.
//!   v13: topics by id (KIP-516). v15-18: fields of followers and leader hints, without meaning on one node.
//! - Long poll: with fewer than `min_bytes` the fetch waits up to `max_wait_ms` (long waits up to 16 ms more). The
//!   append that brings enough bytes wakes it; at the end of the wait it answers with what there is. An error is
//!   answered at once. The end of the wait is not an error.
//! - The reactor reads the partitions as long as memory has positions, index entries and batch headers. If a read would
//!   wait for the disk, a thread of the broker's pool repeats it.

use std::sync::Arc;
use std::time::Duration;

use mainstem_broker::{Broker, Isolation, LongPoll, Partition, Patience, Stopped, long_poll};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FetchRequest;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};
use mainstem_waits::end_of_wait;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::fetch::read::{Disk, FetchRead, Limits, WouldBlock, look, resolve};
use crate::fetch::respond::{respond, session_error};
use crate::fetch::session::{
    Answered, FetchPlan, PartitionKey, PlannedWait, SessionCache, SessionError, SessionRequest, TopicReference, Wanted,
};
use crate::request::Request;

pub const API: Api = Api::new(1, "Fetch", 4..=18, handle);

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
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
    let wanted = session_request(&message, request.version >= 13, &limits);
    let mut plan = match door.fetch_sessions.begin(wanted, door.broker.clock().monotonic()) {
        Ok(plan) => plan,
        Err(error) => return Ok(Handled::Ready(session_error(&request, session_error_code(error)))),
    };
    let is_of_nothing = plan.is_empty();
    let targets = Targets::of(&door.broker, std::mem::take(&mut plan.partitions));
    let wait = plan.wait.take();
    let fetch = Fetch {
        broker: Arc::clone(&door.broker),
        sessions: Arc::clone(&door.fetch_sessions),
        request,
        plan,
        is_of_nothing,
        limits,
        max_wait: Duration::from_millis(u64::try_from(max_wait_ms).unwrap_or(0)),
        connection: Arc::clone(connection),
    };
    match fetch.look_at_once(&targets) {
        Ok(look) if fetch.is_enough(&look) => Ok(Handled::Ready(fetch.finish(FetchFound { targets, look }, wait))),
        Ok(look) => Ok(Handled::polling(fetch.wait(FetchFound { targets, look }, wait))),
        Err(WouldBlock) => Ok(Handled::working_towards(async move {
            match fetch.look_on_pool(&targets).await {
                Ok(look) if fetch.is_enough(&look) => Handled::Ready(fetch.finish(FetchFound { targets, look }, wait)),
                Ok(look) => Handled::polling(fetch.wait(FetchFound { targets, look }, wait)),
                Err(stopped) => Handled::close(stopped),
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

fn session_request(message: &FetchRequest<'_>, by_id: bool, limits: &Limits) -> SessionRequest {
    let mut request = SessionRequest {
        session_id: message.session_id,
        session_epoch: message.session_epoch,
        by_id,
        isolation: limits.isolation,
        min_bytes: limits.min_bytes,
        partitions: Vec::new(),
        forgotten: Vec::new(),
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

/// The partitions of one look.
struct Targets {
    wanted: Vec<(PartitionKey, Wanted)>,
    partitions: Vec<Result<Arc<Partition>, ErrorCode>>,
}

impl Targets {
    fn of(broker: &Broker, wanted: Vec<(PartitionKey, Wanted)>) -> Arc<Targets> {
        let partitions = resolve(broker, &wanted);
        Arc::new(Targets { wanted, partitions })
    }
}

/// What a look found, and where.
struct FetchFound {
    targets: Arc<Targets>,
    look: FetchRead,
}

impl FetchFound {
    fn answered(&self) -> Vec<Answered> {
        self.look.answers.iter().map(|answer| answer.answered()).collect()
    }
}

impl LongPoll for Fetch {
    type Found = FetchFound;

    async fn look_again(&self, before: &FetchFound) -> Result<FetchFound, Stopped> {
        let targets = match self.plan.changed() {
            Some(wanted) => Targets::of(&self.broker, wanted),
            None => Arc::clone(&before.targets),
        };
        let look = match self.look_at_once(&targets) {
            Ok(look) => look,
            Err(WouldBlock) => self.look_on_pool(&targets).await?,
        };
        Ok(FetchFound { targets, look })
    }

    fn bytes(&self, found: &FetchFound) -> usize {
        found.look.bytes
    }

    fn is_enough(&self, found: &FetchFound) -> bool {
        found.look.satisfies(&self.limits)
    }

    fn saw(&self, found: &FetchFound) {
        self.plan.saw(&found.targets.wanted, &found.answered());
    }
}

/// One fetch while it is being answered.
struct Fetch {
    broker: Arc<Broker>,
    sessions: Arc<SessionCache>,
    request: Request,
    plan: FetchPlan,
    /// There is nothing to wait for.
    is_of_nothing: bool,
    limits: Limits,
    max_wait: Duration,
    connection: Arc<Connection>,
}

impl Fetch {
    /// Looks without waiting for the disk.
    fn look_at_once(&self, targets: &Targets) -> Result<FetchRead, WouldBlock> {
        let look = look(&targets.partitions, &targets.wanted, &self.limits, Disk::Never);
        if look.is_ok() {
            self.broker.reads().count_from_memory();
        }
        look
    }

    /// Looks on a thread that may wait.
    async fn look_on_pool(&self, targets: &Arc<Targets>) -> Result<FetchRead, Stopped> {
        self.broker.reads().count_waited();
        let (targets, limits) = (Arc::clone(targets), self.limits);
        let look = move || look(&targets.partitions, &targets.wanted, &limits, Disk::MayWait);
        // A look that may wait never would block.
        self.broker.blocking().run(look).await?.map_err(|WouldBlock| Stopped)
    }

    /// Whether this is the answer, or the fetch waits for more.
    fn is_enough(&self, look: &FetchRead) -> bool {
        self.max_wait.is_zero() || self.is_of_nothing || look.satisfies(&self.limits)
    }

    async fn wait(self, first: FetchFound, wait: Option<PlannedWait>) -> Reply {
        match self.wait_for_enough(first, wait).await {
            Ok((found, wait)) => self.finish(found, Some(wait)),
            Err(stopped) => Reply::close(stopped),
        }
    }

    /// `first` is too little; `wait` was armed before the partitions were chosen, see [`FetchPlan::wait`].
    async fn wait_for_enough(
        &self,
        first: FetchFound,
        wait: Option<PlannedWait>,
    ) -> Result<(FetchFound, PlannedWait), Stopped> {
        let deadline = end_of_wait(self.max_wait);
        let answered = first.answered();
        self.plan.saw(&first.targets.wanted, &answered);
        let wait = wait.filter(|wait| self.plan.is_complete(wait));
        let is_armed = wait.is_some();
        let wait = wait.unwrap_or_else(|| self.plan.register(&answered));
        let patience =
            Patience { min_bytes: i64::from(self.limits.min_bytes), deadline, timer: &self.connection.wait_timer };
        let is_stopping = || self.broker.is_stopping();
        let found = long_poll(self, first, (&wait.wait, is_armed), patience, is_stopping).await?;
        Ok((found, wait))
    }

    fn finish(&self, found: FetchFound, wait: Option<PlannedWait>) -> Reply {
        let (wanted, answered) = (&found.targets.wanted, found.answered());
        let finish = self.sessions.finish(&self.plan, wanted, &answered, self.broker.clock().monotonic());
        if let Some(wait) = wait {
            self.plan.give_back(wait);
        }
        respond(&self.request, wanted, found.look.answers, &finish)
    }
}
