//! What was sent, what was acknowledged, and what must therefore be there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mainstem_client::{FetchedRecord, TopicId};

use crate::random::Random;

/// The record header that says whose a record is.
pub const IDENTITY_HEADER: &str = "id";
/// Keys of compacted topics.
pub const KEYS: i64 = 12;

/// A record of a topic: the producer, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    pub producer: u32,
    pub number: u64,
}

/// A record as it was handed to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value_size: Option<usize>,
    /// Where it was acknowledged, or read.
    pub offset: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Live,
    /// A deletion or creation was asked for, and not answered.
    Unsure,
    Gone,
}

/// What is fixed when a topic is created.
#[derive(Debug, Clone)]
pub struct Character {
    pub compacted: bool,
    pub retention_ms: Option<i64>,
    pub retention_bytes: Option<i64>,
    pub append_time: bool,
    pub configs: Vec<(String, String)>,
}

/// One topic from its creation to its deletion. Another one of the same name is another one.
#[derive(Debug)]
pub struct Topic {
    pub name: String,
    /// Of all topics of the run.
    pub number: u64,
    pub id: TopicId,
    pub state: State,
    pub character: Character,
    pub partitions: Vec<Partition>,
    /// Partitions that were asked for, and not acknowledged.
    pub partitions_wanted: usize,
    /// By partition.
    pub committed: BTreeMap<i32, Committed>,
    /// What is wrong, as soon as somebody sees it.
    pub violations: Vec<String>,
}

/// Of one group.
#[derive(Debug, Default)]
pub struct Committed {
    pub acknowledged: Option<i64>,
    /// Later ones, without an answer.
    pub attempted: Vec<i64>,
}

#[derive(Debug, Default)]
pub struct Partition {
    pub sent: HashMap<RecordId, Sent>,
    /// What was acknowledged or read, from the log start on.
    pub at: BTreeMap<i64, RecordId>,
    /// What a compaction has removed.
    pub removed: BTreeSet<i64>,
    /// The least that the log start can be.
    pub log_start: i64,
    /// What DeleteRecords may have done, without an answer.
    pub log_start_wanted: i64,
    /// The least that the end can be.
    pub end: i64,
}

impl Topic {
    pub fn group(&self) -> String {
        format!("group-{}-{}", self.name, self.number)
    }

    pub fn is_live(&self) -> bool {
        self.state == State::Live
    }

    fn header(&self, partition: i32, id: RecordId) -> String {
        format!("{}:{partition}:{}:{}", self.number, id.producer, id.number)
    }

    pub fn new_record(&mut self, partition: i32, id: RecordId, random: &mut Random, now: i64) -> NewRecord {
        let header = self.header(partition, id);
        let character = &self.character;
        let size = match random.between(1, 100) {
            1..=4 => random.between(8_000, 40_000),
            5..=30 => random.between(300, 3_000),
            _ => random.between(0, 200),
        };
        let is_tombstone = character.compacted && random.chance(8);
        let key = match character.compacted {
            true => Some(format!("key-{}", random.between(1, KEYS)).into_bytes()),
            false => random.chance(40).then(|| format!("free-{}", random.between(1, 50)).into_bytes()),
        };
        let age = match character.retention_ms {
            Some(retention_ms) => random.between(0, retention_ms * 2),
            None => random.between(0, 5_000),
        };
        let value_size = (!is_tombstone).then_some(size as usize);
        let sent = Sent { timestamp: now - age, key, value_size, offset: None };
        let value = value_size.map(|size| filler(&header, size));
        self.partitions[partition as usize].sent.insert(id, sent.clone());
        NewRecord { timestamp: sent.timestamp, key: sent.key, value, header }
    }

    /// The broker says that it stored a record.
    pub fn acknowledged(&mut self, partition: i32, id: RecordId, offset: i64) {
        if let Err(problem) = self.partitions[partition as usize].place(id, offset) {
            self.violations.push(format!("{}-{partition}: acknowledged at {offset}: {problem}", self.name));
        }
    }

    /// A record was read: whether it is one that was sent, whole, once, and where it always was.
    pub fn read(&mut self, record: &FetchedRecord) -> Result<RecordId, String> {
        let (partition, offset) = (record.partition.0, record.offset.0);
        let place = format!("{}-{partition} (topic {}) offset {offset}", self.name, self.number);
        let header = record.headers.iter().find(|(name, _)| name == IDENTITY_HEADER);
        let header = header.and_then(|(_, value)| value.as_deref()).unwrap_or_default();
        let header = String::from_utf8_lossy(header).into_owned();
        let id = self.identity(partition, &header).map_err(|problem| format!("{place}: {problem}: {header:?}"))?;
        let append_time = self.character.append_time;
        let log = &mut self.partitions[partition as usize];
        let sent = log.sent.get(&id).ok_or_else(|| format!("{place}: it was never sent: {header}"))?;
        if record.key.as_deref() != sent.key.as_deref() {
            return Err(format!("{place}: the key of {header} is {:?}, and {:?} was sent", record.key, sent.key));
        }
        if record.value.as_deref() != sent.value_size.map(|size| filler(&header, size)).as_deref() {
            return Err(format!("{place}: the value of {header} is another one"));
        }
        if !append_time && record.timestamp.0 != sent.timestamp {
            return Err(format!("{place}: the time of {header} is {}, not {}", record.timestamp.0, sent.timestamp));
        }
        log.place(id, offset).map_err(|problem| format!("{place}: {problem}"))?;
        Ok(id)
    }

    fn identity(&self, partition: i32, header: &str) -> Result<RecordId, &'static str> {
        let parts: Vec<u64> = header.split(':').filter_map(|part| part.parse().ok()).collect();
        let [topic, index, producer, number] = parts[..] else { return Err("a record without identity") };
        if topic != self.number {
            return Err("a record of another topic");
        }
        if index != partition as u64 {
            return Err("a record of another partition");
        }
        Ok(RecordId { producer: producer as u32, number })
    }
}

impl Partition {
    fn place(&mut self, id: RecordId, offset: i64) -> Result<(), String> {
        let Some(sent) = self.sent.get_mut(&id) else { return Err(format!("{id:?} was never sent")) };
        match sent.offset {
            Some(known) if known != offset => {
                return Err(format!("{id:?} is at {known} already"));
            }
            _ => sent.offset = Some(offset),
        }
        let there = *self.at.entry(offset).or_insert(id);
        if there != id {
            return Err(format!("{id:?} has the place of {there:?}"));
        }
        self.end = self.end.max(offset + 1);
        Ok(())
    }

    /// Forgets what lies below the log start; a record that comes twice is still found out.
    pub fn starts_at(&mut self, log_start: i64) {
        self.log_start = log_start;
        self.log_start_wanted = log_start;
        self.at = self.at.split_off(&log_start);
        self.removed = self.removed.split_off(&log_start);
    }

    /// A view was deleted that alone knew the log start: what is below it may be seen again.
    pub fn forget_log_start(&mut self) {
        self.log_start_wanted = self.log_start_wanted.max(self.log_start);
        self.log_start = 0;
    }
}

/// A record to be sent.
pub struct NewRecord {
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub header: String,
}

/// The same bytes for the same record; some of them compress.
fn filler(header: &str, size: usize) -> Vec<u8> {
    let seed = header
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(size + 16);
    while bytes.len() < size {
        bytes.extend_from_slice(&random.next().to_le_bytes());
        bytes.extend_from_slice(b"mainstem");
    }
    bytes.truncate(size);
    bytes
}
