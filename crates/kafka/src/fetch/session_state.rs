//! One fetch session: its partitions, what the client knows of each, and which of them may have something to tell.

use std::sync::Arc;

use indexmap::IndexMap;
use mainstem_broker::{FetchWait, FetchWaiters, Isolation};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

const NAME_BYTES_OF_WEIGHT: usize = 64;

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

/// The state of a partition that a look saw.
#[derive(Debug, Clone)]
pub struct Seen {
    pub partition: Arc<FetchWaiters>,
    /// [`FetchWaiters::changes`] before the look.
    pub changes: u64,
    /// The read reached the end: only a change can bring more.
    pub is_all: bool,
}

/// What the answer to one partition contains, as far as the session must know.
#[derive(Debug, Clone)]
pub struct Answered {
    pub is_error: bool,
    pub has_records: bool,
    /// A diverging epoch or a preferred read replica, which are always told.
    pub has_notice: bool,
    pub high_watermark: Offset,
    pub log_start: Offset,
    /// `None`: there is no such partition.
    pub seen: Option<Seen>,
}

#[derive(Debug)]
pub(super) struct Cached {
    wanted: Wanted,
    /// What the client was told last.
    high_watermark: Offset,
    log_start: Offset,
    /// The turn in which the partition was served last: a served partition goes behind the others.
    turn: u64,
    /// What waits for it, once it was looked at.
    partition: Option<Arc<FetchWaiters>>,
    /// At this number of changes it has nothing to tell.
    quiet_at: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub id: i32,
    /// The epoch that the next request must carry.
    pub epoch: i32,
    pub by_id: bool,
    isolation: Isolation,
    pub partitions: IndexMap<PartitionKey, Cached>,
    pub weight: usize,
    turn: u64,
    /// Registered with every partition, for the next fetch that has to wait. `None` while one waits.
    pub wait: Option<PlannedWait>,
    /// Counts how often the list of partitions to register with has changed.
    pub registrations: u64,
}

/// The wait of a fetch, and which partitions of its session it stands for.
#[derive(Debug)]
pub struct PlannedWait {
    pub wait: FetchWait,
    pub(super) registrations: u64,
}

impl Cached {
    fn new(wanted: Wanted, turn: u64) -> Cached {
        let (high_watermark, log_start) = (Offset::NONE, Offset::NONE);
        Cached { wanted, high_watermark, log_start, turn, partition: None, quiet_at: None }
    }

    fn told(&mut self, answer: &Answered) {
        // After an error the partition is answered again as soon as the error is gone, also if no watermark moved.
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

    /// Remembers what a look saw. `true`: it saw another partition than the look before, and the session has to
    /// register with it.
    fn saw(&mut self, answer: &Answered) -> bool {
        self.quiet_at = None;
        let Some(seen) = &answer.seen else { return false };
        if seen.is_all && !self.is_news(answer) {
            self.quiet_at = Some(seen.changes);
        }
        let is_another = !self.partition.as_ref().is_some_and(|known| Arc::ptr_eq(known, &seen.partition));
        if is_another {
            self.partition = Some(Arc::clone(&seen.partition));
        }
        is_another
    }

    fn is_quiet(&self) -> bool {
        match (&self.partition, self.quiet_at) {
            (Some(partition), Some(changes)) => partition.changes() == changes,
            _ => false,
        }
    }
}

impl PartitionKey {
    pub(super) fn weight(&self) -> usize {
        match &self.topic {
            TopicReference::Name(name) => 1 + name.len() / NAME_BYTES_OF_WEIGHT,
            TopicReference::Id(_) => 1,
        }
    }
}

impl Session {
    /// A session whose client was told `answers`.
    pub fn new(
        id: i32,
        (by_id, isolation): (bool, Isolation),
        partitions: &[(PartitionKey, Wanted)],
        answers: &[Answered],
    ) -> Session {
        let mut session = Session {
            id,
            epoch: 1,
            by_id,
            isolation,
            partitions: IndexMap::with_capacity(partitions.len()),
            weight: partitions.iter().map(|(key, _)| key.weight()).sum(),
            turn: 0,
            wait: None,
            registrations: 0,
        };
        for ((key, wanted), answer) in partitions.iter().zip(answers) {
            let mut cached = Cached::new(*wanted, session.turn);
            cached.told(answer);
            cached.saw(answer);
            session.partitions.insert(key.clone(), cached);
        }
        session
    }

    /// Positions that were seen with another isolation level do not count.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        if self.isolation != isolation {
            self.isolation = isolation;
            self.partitions.values_mut().for_each(|cached| cached.quiet_at = None);
        }
    }

    pub fn apply(&mut self, partitions: Vec<(PartitionKey, Wanted)>, forgotten: &[PartitionKey]) {
        let mut guess = 0;
        for (key, wanted) in partitions {
            match find(&mut self.partitions, &mut guess, &key) {
                Some(known) if known.wanted != wanted => {
                    known.wanted = wanted;
                    known.quiet_at = None;
                }
                Some(_) => {}
                None => {
                    self.weight += key.weight();
                    self.partitions.insert(key, Cached::new(wanted, self.turn));
                }
            }
        }
        if !forgotten.is_empty() {
            let gone: std::collections::HashSet<&PartitionKey> = forgotten.iter().collect();
            self.partitions.retain(|key, _| !gone.contains(key));
            self.weight = self.partitions.keys().map(PartitionKey::weight).sum();
            self.registrations += 1;
        }
    }

    /// The wait that an earlier fetch left behind, if it still stands for all partitions.
    pub fn take_wait(&mut self) -> Option<PlannedWait> {
        self.wait.take().filter(|wait| wait.registrations == self.registrations)
    }

    /// All partitions that were found, to be registered with.
    pub fn known_partitions(&self) -> Vec<Arc<FetchWaiters>> {
        self.partitions.values().filter_map(|cached| cached.partition.clone()).collect()
    }

    /// The partitions that may have something to tell: first those that were served longest ago.
    pub fn worth_a_look(&self) -> Vec<(PartitionKey, Wanted)> {
        let mut worth: Vec<_> = self.partitions.iter().filter(|(_, cached)| !cached.is_quiet()).collect();
        worth.sort_by_key(|(_, cached)| cached.turn);
        worth.into_iter().map(|(key, cached)| (key.clone(), cached.wanted)).collect()
    }

    /// Remembers what a look saw that is not answered.
    pub fn saw(&mut self, looked_at: &[(PartitionKey, Wanted)], answers: &[Answered]) {
        let mut guess = 0;
        for ((key, wanted), answer) in looked_at.iter().zip(answers) {
            let cached = find(&mut self.partitions, &mut guess, key);
            if let Some(cached) = cached.filter(|cached| cached.wanted == *wanted) {
                self.registrations += u64::from(cached.saw(answer));
            }
        }
    }

    pub fn answer(&mut self, looked_at: &[(PartitionKey, Wanted)], answers: &[Answered]) -> Vec<bool> {
        let served = self.turn + 1;
        let mut included = Vec::with_capacity(looked_at.len());
        let mut guess = 0;
        for ((key, wanted), answer) in looked_at.iter().zip(answers) {
            let Some(cached) = find(&mut self.partitions, &mut guess, key) else {
                included.push(true);
                continue;
            };
            let news = cached.is_news(answer);
            if news {
                cached.told(answer);
            }
            if answer.has_records {
                (cached.turn, self.turn) = (served, served);
            }
            included.push(news);
            if cached.wanted == *wanted {
                self.registrations += u64::from(cached.saw(answer));
            }
        }
        included
    }
}

/// The partition of a key. A client names its partitions in the order in which it named them before, and looks follow
/// it: `guess`, the place behind the one that was found last, nearly always saves the hash.
fn find<'p>(
    partitions: &'p mut IndexMap<PartitionKey, Cached>,
    guess: &mut usize,
    key: &PartitionKey,
) -> Option<&'p mut Cached> {
    let is_there = partitions.get_index(*guess).is_some_and(|(there, _)| there == key);
    let place = if is_there { *guess } else { partitions.get_index_of(key)? };
    *guess = place + 1;
    partitions.get_index_mut(place).map(|(_, cached)| cached)
}
