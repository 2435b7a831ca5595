//! Incremental fetch sessions (KIP-227): what a client has asked for, remembered between its fetches.
//!
//! - There are at most `slots` sessions (`max.incremental.fetch.session.cache.slots`). If there is no room, the client
//!   is answered without a session, which every client accepts.
//! - A new session replaces one that was not used for [`EVICTION_MS`], or one that has been in the cache that long with
//!   fewer partitions than the new one.
//! - All sessions together take at most [`WEIGHT_MAX`], about 200 MB. Above it a client is answered without a session,
//!   and a client whose session would grow beyond it loses that session.
//! - The fetch skips a partition that had nothing to report and has not changed since. A fetch costs what the busy
//!   partitions of its session cost, and one comparison for each other partition.
//! - No IO and no clock: `now` is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use indexmap::IndexMap;
use mainstem_broker::{FetchWait, Isolation};
use parking_lot::{Mutex, RwLock};

use super::session_state::Session;
pub use super::session_state::{Answered, PartitionKey, PlannedWait, Seen, TopicReference, Wanted};

/// `min.incremental.fetch.session.eviction.ms` of Kafka.
pub const EVICTION_MS: u64 = 120_000;

/// So long after a search for a session that may give way another one is worth its time.
const SEARCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What all sessions may weigh: a partition weighs 1, and 1 more for each 64 bytes of its topic's name.
pub const WEIGHT_MAX: usize = 1_000_000;

/// No session.
pub const NO_SESSION: i32 = 0;
/// Epoch that asks for a new session with all partitions named.
pub const INITIAL_EPOCH: i32 = 0;
/// Epoch that ends a session and asks for an answer without one.
pub const FINAL_EPOCH: i32 = -1;

/// The session part of a fetch request.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    pub session_id: i32,
    pub session_epoch: i32,
    /// Whether the request names topics by id; a session does not change its mind about this.
    pub by_id: bool,
    pub isolation: Isolation,
    /// How much a fetch waits for, if it has to.
    pub min_bytes: u32,
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

/// How to answer a fetch.
#[derive(Debug)]
pub struct FetchPlan {
    /// What to look at first.
    pub partitions: Vec<(PartitionKey, Wanted)>,
    /// What an earlier fetch of the session left behind, if it still stands for all of its partitions. It counts what
    /// is appended since before the partitions were chosen: no fetch misses what comes to a partition that was not
    /// chosen.
    pub wait: Option<PlannedWait>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Sessionless,
    /// All partitions are named and answered; a session is made if there is room.
    Full {
        by_id: bool,
        isolation: Isolation,
    },
    Incremental(SharedSession),
}

/// What of the answer is sent, and under which session.
#[derive(Debug, PartialEq, Eq)]
pub struct Finish {
    pub session_id: i32,
    /// For each partition of the plan whether the answer contains it.
    pub included: Vec<bool>,
}

type SharedSession = Arc<Mutex<Session>>;

struct Held {
    session: SharedSession,
    created: Duration,
    last_used_ms: AtomicU64,
    size: usize,
    weight: usize,
}

impl Held {
    fn unused_ms(&self, now: Duration) -> u64 {
        millis(now).saturating_sub(self.last_used_ms.load(Ordering::Relaxed))
    }
}

/// All sessions, and what they weigh together.
#[derive(Default)]
struct Entries {
    by_id: HashMap<i32, Held>,
    weight: usize,
    /// Before this no session gives way to one of that size or a smaller one: a search that found none is not repeated
    /// for each client that comes in vain.
    in_vain: (u64, usize),
}

/// All sessions of a broker. A fetch of a session whose partitions stay the same reads the table; only what makes,
/// grows or ends a session excludes others.
pub struct SessionCache {
    slots: usize,
    weight_max: usize,
    next_id: AtomicI32,
    entries: RwLock<Entries>,
}

impl SessionCache {
    pub fn new(slots: usize) -> SessionCache {
        SessionCache { slots, weight_max: WEIGHT_MAX, next_id: AtomicI32::new(1), entries: RwLock::default() }
    }

    pub fn len(&self) -> usize {
        self.entries.read().by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds out what a fetch is about. Updates its session and moves it to the next epoch.
    pub fn begin(&self, request: SessionRequest, now: Duration) -> Result<FetchPlan, SessionError> {
        if request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH {
            if request.session_id != NO_SESSION {
                self.remove(request.session_id);
            }
            let kind = match request.session_epoch {
                INITIAL_EPOCH => Kind::Full { by_id: request.by_id, isolation: request.isolation },
                _ => Kind::Sessionless,
            };
            return Ok(FetchPlan { partitions: each_once(request.partitions), wait: None, kind });
        }
        let (session, known) = self.touch(request.session_id, now).ok_or(SessionError::NotFound)?;
        let mut held = session.lock();
        if held.epoch != request.session_epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if held.by_id != request.by_id {
            return Err(SessionError::TopicIdMix);
        }
        held.apply(request.partitions, &request.forgotten);
        held.epoch = next_epoch(held.epoch);
        held.set_isolation(request.isolation);
        let wait = held.take_wait();
        if let Some(wait) = &wait {
            wait.wait.expect_bytes(i64::from(request.min_bytes));
        }
        let partitions = held.worth_a_look();
        let (id, size, weight) = (held.id, held.partitions.len(), held.weight);
        drop(held);
        if size == 0 {
            self.remove(id);
            return Ok(FetchPlan { partitions, wait: None, kind: Kind::Sessionless });
        }
        if (size, weight) != known && !self.resize(id, (size, weight)) {
            return Err(SessionError::NotFound);
        }
        Ok(FetchPlan { partitions, wait, kind: Kind::Incremental(session) })
    }

    /// Decides what of the answer is sent, and remembers what the client knows after it. `looked_at` are the partitions
    /// of the last look.
    pub fn finish(
        &self,
        plan: &FetchPlan,
        looked_at: &[(PartitionKey, Wanted)],
        answers: &[Answered],
        now: Duration,
    ) -> Finish {
        debug_assert_eq!(looked_at.len(), answers.len(), "one answer a partition");
        match &plan.kind {
            Kind::Sessionless => Finish { session_id: NO_SESSION, included: vec![true; answers.len()] },
            Kind::Full { by_id, isolation } => {
                let session_id = self.create(looked_at, answers, (*by_id, *isolation), now).unwrap_or(NO_SESSION);
                Finish { session_id, included: vec![true; answers.len()] }
            }
            Kind::Incremental(session) => {
                let mut session = session.lock();
                let included = session.answer(looked_at, answers);
                Finish { session_id: session.id, included }
            }
        }
    }

    /// Ends a session. It is dropped without the lock: its registration with each of its partitions ends with it.
    fn remove(&self, id: i32) {
        let gone = self.entries.write().remove(id);
        drop(gone);
    }

    /// The session, with the size and the weight that the table knows.
    fn touch(&self, id: i32, now: Duration) -> Option<(SharedSession, (usize, usize))> {
        let entries = self.entries.read();
        let entry = entries.by_id.get(&id)?;
        entry.last_used_ms.store(millis(now), Ordering::Relaxed);
        Some((Arc::clone(&entry.session), (entry.size, entry.weight)))
    }

    /// Another size and weight for a session. False: there is no room for it, and it is gone.
    fn resize(&self, id: i32, (size, weight): (usize, usize)) -> bool {
        let mut entries = self.entries.write();
        let Some(entry) = entries.by_id.get_mut(&id) else { return true };
        let before = std::mem::replace(&mut entry.weight, weight);
        entry.size = size;
        entries.weight = entries.weight - before + weight;
        if weight <= before || entries.weight <= self.weight_max {
            return true;
        }
        let gone = entries.remove(id);
        drop(entries);
        drop(gone);
        false
    }

    fn create(
        &self,
        partitions: &[(PartitionKey, Wanted)],
        answers: &[Answered],
        named: (bool, Isolation),
        now: Duration,
    ) -> Option<i32> {
        let size = partitions.len();
        if self.slots == 0 {
            return None;
        }
        let weight: usize = partitions.iter().map(|(key, _)| key.weight()).sum();
        if weight > self.weight_max {
            return None;
        }
        // Both what comes and what goes is large: made before the lock is taken, dropped after it was given back.
        let mut session = Session::new(NO_SESSION, named, partitions, answers);
        let mut gone = Vec::new();
        let mut entries = self.entries.write();
        if !entries.make_room((self.slots, self.weight_max), (size, weight), now, &mut gone) {
            drop(entries);
            return None;
        }
        let mut id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        while id == NO_SESSION || entries.by_id.contains_key(&id) {
            id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        }
        session.id = id;
        let session = Arc::new(Mutex::new(session));
        let last_used_ms = AtomicU64::new(millis(now));
        entries.weight += weight;
        entries.by_id.insert(id, Held { session, created: now, last_used_ms, size, weight });
        drop(entries);
        Some(id)
    }
}

impl FetchPlan {
    /// Whether the fetch is about no partition at all, so that there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        // A session that became empty is none.
        self.partitions.is_empty() && !matches!(self.kind, Kind::Incremental(_))
    }

    /// What to look at again: what changed meanwhile. `None`: the same as before.
    pub fn changed(&self) -> Option<Vec<(PartitionKey, Wanted)>> {
        match &self.kind {
            Kind::Incremental(session) => Some(session.lock().worth_a_look()),
            _ => None,
        }
    }

    /// Remembers what a look saw that was not enough for an answer.
    pub fn saw(&self, looked_at: &[(PartitionKey, Wanted)], answers: &[Answered]) {
        if let Kind::Incremental(session) = &self.kind {
            session.lock().saw(looked_at, answers);
        }
    }

    /// A wait for all partitions: of the session, or those that were looked at.
    pub fn register(&self, answers: &[Answered]) -> PlannedWait {
        let (partitions, registrations) = match &self.kind {
            Kind::Incremental(session) => {
                let session = session.lock();
                (session.known_partitions(), session.registrations)
            }
            _ => (answers.iter().filter_map(|answer| Some(Arc::clone(&answer.seen.as_ref()?.partition))).collect(), 0),
        };
        PlannedWait { wait: FetchWait::register(partitions), registrations }
    }

    /// Whether the wait stands for all partitions that the session knows by now.
    pub fn is_complete(&self, wait: &PlannedWait) -> bool {
        match &self.kind {
            Kind::Incremental(session) => session.lock().registrations == wait.registrations,
            _ => true,
        }
    }

    /// Leaves a wait for the next fetch of the session.
    pub fn give_back(&self, wait: PlannedWait) {
        if let Kind::Incremental(session) = &self.kind {
            let mut session = session.lock();
            if session.registrations == wait.registrations {
                session.wait = Some(wait);
            }
        }
    }
}

impl Entries {
    fn remove(&mut self, id: i32) -> Option<Held> {
        let gone = self.by_id.remove(&id)?;
        self.weight -= gone.weight;
        Some(gone)
    }

    /// Makes room within the limits, in number and weight, for a session of so many partitions and such a weight, if
    /// that can be done. What had to go is put into `gone`.
    fn make_room(
        &mut self,
        (slots, weight_max): (usize, usize),
        (size, weight): (usize, usize),
        now: Duration,
        gone: &mut Vec<Held>,
    ) -> bool {
        while self.by_id.len() >= slots || self.weight + weight > weight_max {
            if millis(now) < self.in_vain.0 && size <= self.in_vain.1 {
                return false;
            }
            let Some(victim) = self.victim(size, now) else { return false };
            gone.extend(self.remove(victim));
        }
        true
    }

    /// The session that gives way to one of `size` partitions, if one of the present ones may go.
    fn victim(&mut self, size: usize, now: Duration) -> Option<i32> {
        let limit = Duration::from_millis(EVICTION_MS);
        let unused = self.by_id.iter().max_by_key(|(_, entry)| entry.unused_ms(now));
        let unused = unused.filter(|(_, entry)| entry.unused_ms(now) > EVICTION_MS);
        let old = |entry: &Held| now.saturating_sub(entry.created) > limit;
        let smaller = || {
            let smaller = self.by_id.iter().filter(|(_, entry)| entry.size < size && old(entry));
            smaller.min_by_key(|(_, entry)| entry.size)
        };
        let victim = unused.or_else(smaller).map(|(id, _)| *id);
        if victim.is_none() {
            self.in_vain = (millis(now + SEARCH_AGAIN_AFTER), size);
        }
        victim
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Of a partition that is named twice the last mention counts, at the place of the first.
fn each_once(partitions: Vec<(PartitionKey, Wanted)>) -> Vec<(PartitionKey, Wanted)> {
    if partitions.len() < 2 {
        return partitions;
    }
    let distinct: IndexMap<PartitionKey, Wanted> = partitions.into_iter().collect();
    distinct.into_iter().collect()
}

/// Epochs run from 1 to `i32::MAX` and begin again with 1.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
