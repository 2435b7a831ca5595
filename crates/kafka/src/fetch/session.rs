//! Incremental fetch sessions (KIP-227): what a client has asked for, remembered between its fetches.
//!
//! - At most `slots` sessions (`max.incremental.fetch.session.cache.slots`); a client that finds no room is answered without
//!   a session, which every client accepts.
//! - A session that was not used for [`EVICTION_MS`] gives way to a new one; so does one in the cache that long with fewer
//!   partitions than the new one.
//! - All sessions together remember what takes at most [`WEIGHT_MAX`], about 150 MB: past it a client is answered without a session, and one
//!   whose session would grow beyond it loses that session.
//! - No IO and no clock: `now` is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use indexmap::IndexMap;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use parking_lot::Mutex;

/// `min.incremental.fetch.session.eviction.ms` of Kafka.
pub const EVICTION_MS: u64 = 120_000;

/// What all sessions may weigh: a partition weighs 1, and 1 more for each 64 bytes of its topic's name.
pub const WEIGHT_MAX: usize = 1_000_000;
const NAME_BYTES_OF_WEIGHT: usize = 64;

/// No session.
pub const NO_SESSION: i32 = 0;
/// Epoch that asks for a new session with all partitions named.
pub const INITIAL_EPOCH: i32 = 0;
/// Epoch that ends a session and asks for an answer without one.
pub const FINAL_EPOCH: i32 = -1;

/// A topic as a request names it: by name up to Fetch 12, by id from 13 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicReference {
    Name(Arc<str>),
    Id(TopicId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    pub topic: TopicReference,
    pub partition: PartitionIndex,
}

/// What a client wants of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub fetch_offset: Offset,
    pub current_leader_epoch: LeaderEpoch,
    pub last_fetched_epoch: LeaderEpoch,
    pub max_bytes: i32,
}

/// The session part of a fetch request.
#[derive(Debug, Clone, Default)]
pub struct SessionRequest {
    pub session_id: i32,
    pub session_epoch: i32,
    /// Whether the request names topics by id; a session does not change its mind about this.
    pub by_id: bool,
    pub partitions: Vec<(PartitionKey, Wanted)>,
    pub forgotten: Vec<PartitionKey>,
}

/// Errors of the whole answer, which then has no topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// FETCH_SESSION_ID_NOT_FOUND (70)
    #[error("there is no such fetch session")]
    NotFound,
    /// INVALID_FETCH_SESSION_EPOCH (71)
    #[error("the fetch session is at another epoch")]
    InvalidEpoch,
    /// FETCH_SESSION_TOPIC_ID_ERROR (106)
    #[error("a fetch session names its topics by id or by name, not both")]
    TopicIdMix,
}

/// What the answer to one partition contains, as far as the session must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    pub is_error: bool,
    pub has_records: bool,
    /// A diverging epoch or a preferred read replica, which are always told.
    pub has_notice: bool,
    pub high_watermark: Offset,
    pub log_start: Offset,
}

#[derive(Debug, Clone, Copy)]
struct Cached {
    wanted: Wanted,
    /// What the client was told last.
    high_watermark: Offset,
    log_start: Offset,
}

#[derive(Debug)]
struct Session {
    id: i32,
    /// The epoch that the next request must carry.
    epoch: i32,
    by_id: bool,
    partitions: IndexMap<PartitionKey, Cached>,
}

/// How a fetch is to be answered.
#[derive(Debug)]
pub struct FetchPlan {
    pub partitions: Vec<(PartitionKey, Wanted)>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Sessionless,
    /// All partitions are named and answered; a session is made if there is room.
    Full {
        by_id: bool,
    },
    Incremental(Arc<Mutex<Session>>),
}

/// What of the answer is sent, and under which session.
#[derive(Debug, PartialEq, Eq)]
pub struct Finish {
    pub session_id: i32,
    /// For each partition of the plan whether the answer contains it.
    pub included: Vec<bool>,
}

struct Entry {
    session: Arc<Mutex<Session>>,
    created: Duration,
    last_used: Duration,
    size: usize,
    weight: usize,
}

/// All sessions of a broker.
pub struct SessionCache {
    slots: usize,
    weight_max: usize,
    next_id: AtomicI32,
    entries: Mutex<HashMap<i32, Entry>>,
}

impl SessionCache {
    pub fn new(slots: usize) -> SessionCache {
        SessionCache { slots, weight_max: WEIGHT_MAX, next_id: AtomicI32::new(1), entries: Mutex::new(HashMap::new()) }
    }

    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds out what a fetch is about. Updates its session and moves it to the next epoch.
    pub fn begin(&self, request: SessionRequest, now: Duration) -> Result<FetchPlan, SessionError> {
        if request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH {
            if request.session_id != NO_SESSION {
                self.entries.lock().remove(&request.session_id);
            }
            let kind = match request.session_epoch {
                INITIAL_EPOCH => Kind::Full { by_id: request.by_id },
                _ => Kind::Sessionless,
            };
            return Ok(FetchPlan { partitions: request.partitions, kind });
        }
        let session = self.touch(request.session_id, now)?;
        let mut held = session.lock();
        if held.epoch != request.session_epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if held.by_id != request.by_id {
            return Err(SessionError::TopicIdMix);
        }
        held.apply(request.partitions, &request.forgotten);
        held.epoch = next_epoch(held.epoch);
        let partitions: Vec<_> = held.partitions.iter().map(|(key, cached)| (key.clone(), cached.wanted)).collect();
        let (id, size, weight) = (held.id, partitions.len(), held.weight());
        drop(held);
        if size == 0 {
            self.entries.lock().remove(&id);
            return Ok(FetchPlan { partitions, kind: Kind::Sessionless });
        }
        let mut entries = self.entries.lock();
        let grows = entries.get(&id).is_some_and(|entry| weight > entry.weight);
        if grows {
            let others: usize = entries.iter().filter(|(other, _)| **other != id).map(|(_, e)| e.weight).sum();
            if others + weight > self.weight_max {
                entries.remove(&id);
                return Err(SessionError::NotFound);
            }
        }
        if let Some(entry) = entries.get_mut(&id) {
            (entry.size, entry.weight) = (size, weight);
        }
        drop(entries);
        Ok(FetchPlan { partitions, kind: Kind::Incremental(session) })
    }

    /// Decides what of the answer is sent, and remembers what the client knows after it.
    pub fn finish(&self, plan: &FetchPlan, answers: &[Answered], now: Duration) -> Finish {
        debug_assert_eq!(plan.partitions.len(), answers.len(), "one answer a partition");
        match &plan.kind {
            Kind::Sessionless => Finish { session_id: NO_SESSION, included: vec![true; answers.len()] },
            Kind::Full { by_id } => {
                let session_id = self.create(plan, answers, *by_id, now).unwrap_or(NO_SESSION);
                Finish { session_id, included: vec![true; answers.len()] }
            }
            Kind::Incremental(session) => {
                let mut session = session.lock();
                let included = session.answer(&plan.partitions, answers);
                Finish { session_id: session.id, included }
            }
        }
    }

    fn touch(&self, id: i32, now: Duration) -> Result<Arc<Mutex<Session>>, SessionError> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).ok_or(SessionError::NotFound)?;
        entry.last_used = now;
        Ok(Arc::clone(&entry.session))
    }

    fn create(&self, plan: &FetchPlan, answers: &[Answered], by_id: bool, now: Duration) -> Option<i32> {
        let size = plan.partitions.len();
        if self.slots == 0 {
            return None;
        }
        let weight: usize = plan.partitions.iter().map(|(key, _)| key.weight()).sum();
        let mut entries = self.entries.lock();
        if entries.len() >= self.slots && !evict(&mut entries, size, now) {
            return None;
        }
        while entries.values().map(|entry| entry.weight).sum::<usize>() + weight > self.weight_max {
            if !evict(&mut entries, size, now) {
                return None;
            }
        }
        let mut id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        while id == NO_SESSION || entries.contains_key(&id) {
            id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        }
        let partitions = plan
            .partitions
            .iter()
            .zip(answers)
            .map(|((key, wanted), answer)| (key.clone(), Cached::new(*wanted, answer)));
        let session = Session { id, epoch: 1, by_id, partitions: partitions.collect() };
        entries
            .insert(id, Entry { session: Arc::new(Mutex::new(session)), created: now, last_used: now, size, weight });
        Some(id)
    }
}

/// Makes room for a session of `size` partitions, if one of the present ones may go.
fn evict(entries: &mut HashMap<i32, Entry>, size: usize, now: Duration) -> bool {
    let limit = Duration::from_millis(EVICTION_MS);
    let oldest =
        entries.iter().min_by_key(|(_, e)| e.last_used).filter(|(_, e)| now.saturating_sub(e.last_used) > limit);
    let smaller = || {
        entries
            .iter()
            .filter(|(_, e)| e.size < size && now.saturating_sub(e.created) > limit)
            .min_by_key(|(_, e)| e.size)
    };
    let victim = oldest.or_else(smaller).map(|(id, _)| *id);
    victim.is_some_and(|id| entries.remove(&id).is_some())
}

/// Epochs run from 1 to `i32::MAX` and begin again with 1.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

impl Cached {
    fn new(wanted: Wanted, answer: &Answered) -> Cached {
        let mut cached = Cached { wanted, high_watermark: Offset::NONE, log_start: Offset::NONE };
        cached.told(answer);
        cached
    }

    fn told(&mut self, answer: &Answered) {
        // After an error the partition is answered again as soon as the error is gone, whatever its watermark is then.
        self.high_watermark = if answer.is_error { Offset::NONE } else { answer.high_watermark };
        self.log_start = answer.log_start;
    }

    fn is_news(&self, answer: &Answered) -> bool {
        answer.is_error
            || answer.has_records
            || answer.has_notice
            || answer.high_watermark != self.high_watermark
            || answer.log_start != self.log_start
    }
}

impl PartitionKey {
    fn weight(&self) -> usize {
        match &self.topic {
            TopicReference::Name(name) => 1 + name.len() / NAME_BYTES_OF_WEIGHT,
            TopicReference::Id(_) => 1,
        }
    }
}

impl Session {
    fn weight(&self) -> usize {
        self.partitions.keys().map(PartitionKey::weight).sum()
    }

    fn apply(&mut self, partitions: Vec<(PartitionKey, Wanted)>, forgotten: &[PartitionKey]) {
        for (key, wanted) in partitions {
            let fresh = Cached { wanted, high_watermark: Offset::NONE, log_start: Offset::NONE };
            self.partitions.entry(key).and_modify(|cached| cached.wanted = wanted).or_insert(fresh);
        }
        if !forgotten.is_empty() {
            let gone: std::collections::HashSet<&PartitionKey> = forgotten.iter().collect();
            self.partitions.retain(|key, _| !gone.contains(key));
        }
    }

    fn answer(&mut self, keys: &[(PartitionKey, Wanted)], answers: &[Answered]) -> Vec<bool> {
        let mut served = std::collections::HashSet::new();
        let mut included = Vec::with_capacity(keys.len());
        for ((key, _), answer) in keys.iter().zip(answers) {
            let cached = self.partitions.get_mut(key);
            let news = cached.as_ref().is_none_or(|cached| cached.is_news(answer));
            if let Some(cached) = cached.filter(|_| news) {
                cached.told(answer);
            }
            if answer.has_records {
                served.insert(key);
            }
            included.push(news);
        }
        // Those that were served go to the end, so that the next fetch begins with those that were not.
        if !served.is_empty() && served.len() < self.partitions.len() {
            self.partitions.sort_by_cached_key(|key, _| served.contains(key));
        }
        included
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
