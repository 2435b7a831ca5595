//! One run: what a seed makes of a broker, its clients and its ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mainstem_client::{
    Client, ClientConfig, ConfigChange, ConfigResource, NewTopic, Offset, PartitionIndex, TopicId, TopicPartition,
};
use tokio::task::JoinHandle;

use crate::broker::{Broker, Diary, End};
use crate::model::{Character, Partition, State, Topic};
use crate::producers::{LibraryProducer, RawProducer, SharedTopic};
use crate::random::Random;
use crate::readers;

const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];
const TOPICS_MAX: usize = 5;
const PARTITIONS_MAX: usize = 5;

/// What a run did.
#[derive(Debug, Default)]
pub struct Tally {
    pub lives: u64,
    pub kills: u64,
    pub kills_of_starts: u64,
    pub orderly_stops: u64,
    pub topics: u64,
    pub records_read: u64,
    pub deletions_of_views: u64,
}

/// A topic, and those who work with it.
struct Entry {
    topic: SharedTopic,
    raw: Vec<RawProducer>,
    library: Vec<Arc<LibraryProducer>>,
    stop: Arc<AtomicBool>,
    producing: Vec<JoinHandle<RawProducer>>,
    others: Vec<JoinHandle<()>>,
}

pub struct Run {
    random: Random,
    broker: Broker,
    diary: Diary,
    /// Of administrators and consumers: gives up soon when the broker is down.
    hasty: Option<Client>,
    /// Waits as long as a start can take.
    patient: Option<Client>,
    entries: Vec<Entry>,
    /// Deleted, with records of the client's producers under way: the name is not free yet.
    leaving: Vec<Entry>,
    topics: u64,
    producers: u32,
    tally: Tally,
}

type Outcome<T> = Result<T, String>;

impl Run {
    pub fn new(seed: u64, work: &Path) -> Run {
        Run {
            random: Random::new(seed),
            broker: Broker::new(work),
            diary: Diary::new(&work.join("diary.txt")),
            hasty: None,
            patient: None,
            entries: Vec::new(),
            leaving: Vec::new(),
            topics: 0,
            producers: 0,
            tally: Tally::default(),
        }
    }

    /// Lives of the broker, one after the other, each ended in some way.
    pub async fn run(mut self, lives: u64, until: Option<Instant>) -> Outcome<Tally> {
        for life in 1..=lives {
            self.diary.note(format!("life {life}"));
            let lived = self.live().await;
            lived.map_err(|problem| {
                self.diary.note(format!("VIOLATED: {problem}"));
                format!("life {life}: {problem}")
            })?;
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
        }
        self.start().await?;
        self.look_at_everything().await?;
        self.broker.end_in(Duration::ZERO, End::Orderly).join().unwrap();
        self.broker.wait_for_end(End::Orderly)?;
        self.look_at_folder(100)?;
        Ok(self.tally)
    }

    async fn live(&mut self) -> Outcome<()> {
        self.start().await?;
        self.look_at_everything().await?;
        let how = if self.random.chance(80) { End::Kill } else { End::Orderly };
        let wait = Duration::from_millis(match self.random.between(1, 10) {
            1..=2 => self.random.between(0, 100),
            3..=8 => self.random.between(100, 900),
            _ => self.random.between(1000, 3000),
        } as u64);
        self.diary.note(format!("{how:?} in {wait:?}"));
        (0..self.entries.len()).for_each(|at| self.set_to_work(at));
        let ending = self.broker.end_in(wait, how);
        while self.broker.is_running() && !ending.is_finished() {
            self.administer().await;
            tokio::time::sleep(Duration::from_millis(self.random.between(0, 60) as u64)).await;
        }
        ending.join().unwrap();
        self.broker.wait_for_end(how)?;
        match how {
            End::Kill => self.tally.kills += 1,
            End::Orderly => self.tally.orderly_stops += 1,
        }
        self.diary.note("ended");
        for entry in self.entries.iter_mut().chain(&mut self.leaving) {
            entry.rest().await;
        }
        self.fail_if_violated()?;
        self.look_at_folder(25)?;
        if self.random.chance(12) {
            self.lose_views();
        }
        self.tally.lives += 1;
        Ok(())
    }

    fn fail_if_violated(&self) -> Outcome<()> {
        let violations: Vec<String> =
            self.entries.iter().flat_map(|entry| std::mem::take(&mut entry.topic.lock().unwrap().violations)).collect();
        if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) }
    }

    async fn start(&mut self) -> Outcome<()> {
        self.broker.settings = settings(&mut self.random);
        let in_vain = if self.random.chance(30) { self.random.between(1, 3) } else { 0 };
        for _ in 0..in_vain {
            self.broker.start_in_vain(&mut self.random);
        }
        self.tally.kills_of_starts += in_vain as u64;
        let said = self.broker.start()?;
        self.diary.note(format!("started after {in_vain} in vain: {}", said.join(" | ")));
        let bad = ["failed", "unreadable", "parked"];
        // A kill may come between the creation of a small file and what is written into it; a commit log has records of
        // deleted topics.
        let right = ["the file is empty", "their records stay as long as the brokers' log.retention.ms says"];
        let is_bad = |line: &&String| {
            bad.iter().any(|word| line.starts_with(word)) && !right.iter().any(|words| line.ends_with(words))
        };
        if let Some(line) = said.iter().find(is_bad) {
            return Err(format!("the start says: {line}"));
        }
        if self.hasty.is_none() {
            let mut config = ClientConfig::new(self.broker.address());
            self.patient = Some(Client::connect(config.clone()).await.map_err(|error| error.to_string())?);
            config.retry_timeout = Duration::from_millis(400);
            config.unknown_topic_wait = Duration::from_millis(100);
            self.hasty = Some(Client::connect(config).await.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn hasty(&self) -> Client {
        self.hasty.clone().unwrap()
    }

    fn patient(&self) -> Client {
        self.patient.clone().unwrap()
    }

    /// Everything that was promised is there, and nothing else.
    async fn look_at_everything(&mut self) -> Outcome<()> {
        self.compare_topics().await?;
        let address = self.broker.address().to_owned();
        for entry in &mut self.entries {
            for producer in &mut entry.raw {
                producer.settle(&address).await?;
            }
            for producer in &entry.library {
                producer.settle().await?;
            }
        }
        self.leaving.retain(|entry| !entry.is_settled());
        self.fail_if_violated()?;
        let client = self.patient();
        for entry in &self.entries {
            let read = readers::check_topic(&entry.topic, &client, &mut self.random).await?;
            self.tally.records_read += read;
        }
        self.fail_if_violated()
    }

    /// The topics that are there are those that were acknowledged; what was not answered is decided now.
    async fn compare_topics(&mut self) -> Outcome<()> {
        let listed = self.list_topics().await?;
        let mut unknown: HashMap<String, (TopicId, usize)> = listed;
        let mut kept = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            let stays = {
                let mut topic = entry.topic.lock().unwrap();
                let there = unknown.get(&topic.name).copied();
                let is_it = there.is_some_and(|(id, _)| id == topic.id || topic.id.is_zero());
                match there.filter(|_| is_it) {
                    Some((id, partitions)) => {
                        unknown.remove(&topic.name);
                        topic.id = id;
                        topic.state = State::Live;
                        topic.has_partitions(partitions)?;
                        true
                    }
                    None if topic.is_live() => {
                        return Err(format!("topic {} ({}) is gone: there is {there:?}", topic.name, topic.id));
                    }
                    None => {
                        topic.state = State::Gone;
                        false
                    }
                }
            };
            if stays { kept.push(entry) } else { self.leaving.push(entry) }
        }
        self.entries = kept;
        match unknown.into_iter().next() {
            Some((name, (id, _))) => Err(format!("topic {name} ({id}) is there, and was deleted or never created")),
            None => Ok(()),
        }
    }

    async fn list_topics(&self) -> Outcome<HashMap<String, (TopicId, usize)>> {
        let topics = self.patient().list_topics(false).await;
        let topics = topics.map_err(|error| format!("topics cannot be listed: {error}"))?;
        Ok(topics.iter().map(|one| (one.name.to_string(), (one.id, one.partitions.len()))).collect())
    }

    fn look_at_folder(&mut self, percent: i64) -> Outcome<()> {
        if self.random.chance(percent) {
            self.broker.complaint("verify").map_or(Ok(()), Err)?;
        }
        if self.random.chance(percent / 5) {
            self.broker.complaint("doctor").map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn lose_views(&mut self) {
        let lost = self.broker.delete_views(&mut self.random);
        self.diary.note(format!("views are deleted: {lost:?}"));
        self.tally.deletions_of_views += 1;
        for entry in &mut self.entries {
            if lost.producers {
                entry.raw.iter_mut().for_each(RawProducer::begin_anew);
            }
            if lost.log_starts {
                let mut topic = entry.topic.lock().unwrap();
                topic.partitions.iter_mut().for_each(Partition::forget_log_start);
            }
        }
    }

    fn set_to_work(&mut self, at: usize) {
        let client = self.hasty();
        let address = self.broker.address().to_owned();
        let entry = &mut self.entries[at];
        entry.stop = Arc::default();
        for producer in entry.raw.drain(..) {
            entry.producing.push(tokio::spawn(producer.run(address.clone(), Arc::clone(&entry.stop))));
        }
        for producer in &entry.library {
            entry.others.push(tokio::spawn(Arc::clone(producer).run(Arc::clone(&entry.stop))));
        }
        let (topic, random, stop) = (Arc::clone(&entry.topic), self.random.branch(), Arc::clone(&entry.stop));
        entry.others.push(tokio::spawn(readers::consume(topic, client, random, stop)));
    }

    /// One step of an administrator. Without an answer, what came of it is seen after the next start.
    async fn administer(&mut self) {
        let choice = self.random.between(1, 100);
        if self.entries.is_empty() || choice <= 12 && self.entries.len() < TOPICS_MAX {
            return self.create_topic().await;
        }
        let at = self.random.between(0, self.entries.len() as i64 - 1) as usize;
        if !self.entries[at].topic.lock().unwrap().is_live() {
            return;
        }
        match choice {
            13..=17 => self.delete_topic(at).await,
            18..=40 => self.delete_records(at).await,
            41..=48 => self.add_partitions(at).await,
            49..=70 => self.alter(at).await,
            _ => {}
        }
    }

    async fn create_topic(&mut self) {
        let used: Vec<String> = self.entries.iter().chain(&self.leaving).map(Entry::name).collect();
        let free: Vec<&str> = NAMES.into_iter().filter(|name| !used.iter().any(|used| used == name)).collect();
        if free.is_empty() {
            return;
        }
        let name = self.random.pick(&free);
        let character = character(&mut self.random);
        let partitions = self.random.between(1, 3) as usize;
        self.topics += 1;
        self.tally.topics += 1;
        self.diary.note(format!("create {name} as topic {}, {partitions} partitions: {character:?}", self.topics));
        let mut new = NewTopic::new(name).partitions(partitions as i32);
        new.configs.clone_from(&character.configs);
        let mut topic = Topic {
            name: name.to_owned(),
            number: self.topics,
            id: TopicId::default(),
            state: State::Unsure,
            character,
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            partitions_wanted: partitions,
            committed: Default::default(),
            violations: Vec::new(),
        };
        let created = self.hasty().create_topics(&[new], false).await;
        match created.map(|mut results| results.remove(0).1) {
            Ok(Ok(created)) => {
                topic.id = created.id;
                topic.state = State::Live;
                self.diary.note(format!("created {name} as topic {}: {}", self.topics, created.id));
            }
            // Tried again over a kill, the second attempt finds what the first one made.
            Ok(Err(error)) if error.code() != Some(mainstem_client::ErrorCode::TOPIC_ALREADY_EXISTS) => {
                topic.violations.push(format!("topic {name} is not created: {error}"));
            }
            other => self.diary.note(format!("topic {name} may be created: {other:?}")),
        }
        let entry = self.entry(topic);
        self.entries.push(entry);
        if self.entries.last().unwrap().topic.lock().unwrap().is_live() {
            self.set_to_work(self.entries.len() - 1);
        }
    }

    fn entry(&mut self, topic: Topic) -> Entry {
        let topic = Arc::new(Mutex::new(topic));
        let raw = (0..self.random.between(1, 2)).map(|_| {
            self.producers += 1;
            RawProducer::new(self.producers, Arc::clone(&topic), self.random.branch())
        });
        let raw = raw.collect();
        let mut library = Vec::new();
        if self.random.chance(50) {
            self.producers += 1;
            let (client, random) = (self.patient(), self.random.branch());
            library.push(Arc::new(LibraryProducer::new(self.producers, Arc::clone(&topic), &client, random)));
        }
        Entry { topic, raw, library, stop: Arc::default(), producing: Vec::new(), others: Vec::new() }
    }

    async fn delete_topic(&mut self, at: usize) {
        let mut entry = self.entries.remove(at);
        let name = entry.name();
        if self.random.chance(50) {
            // Nobody is at work: the name is free at once.
            entry.rest().await;
            if self.broker.is_running() {
                for producer in &entry.library {
                    let _ = tokio::time::timeout(Duration::from_secs(1), producer.settle()).await;
                }
            }
        }
        entry.topic.lock().unwrap().state = State::Unsure;
        let deleted = self.hasty().delete_topics(&[&name]).await;
        self.diary.note(format!("delete {name}, topic {}: {deleted:?}", entry.topic.lock().unwrap().number));
        let is_deleted = deleted.is_ok_and(|mut results| results.remove(0).1.is_ok());
        entry.rest().await;
        if !is_deleted {
            self.entries.push(entry);
            return;
        }
        entry.topic.lock().unwrap().state = State::Gone;
        if !entry.is_settled() {
            self.leaving.push(entry);
        }
    }

    async fn delete_records(&mut self, at: usize) {
        let topic = Arc::clone(&self.entries[at].topic);
        let (partition, before, index) = {
            let mut topic = topic.lock().unwrap();
            let index = self.random.between(0, topic.partitions.len() as i64 - 1) as usize;
            let name = topic.name.clone();
            // Kafka refuses it for topics that are compacted alone.
            if topic.character.compacted {
                return;
            }
            let log = &mut topic.partitions[index];
            let before = self.random.between(log.log_start, log.end);
            log.log_start_wanted = log.log_start_wanted.max(before);
            (TopicPartition::new(name.as_str(), PartitionIndex(index as i32)), before, index)
        };
        let deleted = self.hasty().delete_records(&[(partition.clone(), Offset(before))]).await;
        self.diary.note(format!("delete records of {partition} before {before}: {deleted:?}"));
        let mut topic = topic.lock().unwrap();
        if let Ok(Ok(left)) = deleted.map(|mut results| results.remove(0).1) {
            if left.0 < before {
                topic.violations.push(format!("{partition}: deleted before {before}, and {left} is said to be left"));
            }
            let log = &mut topic.partitions[index];
            log.log_start = log.log_start.max(before);
        }
    }

    async fn add_partitions(&mut self, at: usize) {
        let topic = Arc::clone(&self.entries[at].topic);
        let (name, wanted) = {
            let mut topic = topic.lock().unwrap();
            if topic.partitions.len() >= PARTITIONS_MAX {
                return;
            }
            topic.partitions_wanted = topic.partitions.len() + 1;
            (topic.name.clone(), topic.partitions_wanted)
        };
        let added = self.hasty().create_partitions(&name, wanted as i32, false).await;
        self.diary.note(format!("{name} shall have {wanted} partitions: {added:?}"));
        if added.is_ok() {
            topic.lock().unwrap().has_partitions(wanted).unwrap();
        }
    }

    async fn alter(&mut self, at: usize) {
        let topic = Arc::clone(&self.entries[at].topic);
        let (name, character) = {
            let topic = topic.lock().unwrap();
            (topic.name.clone(), topic.character.clone())
        };
        let (key, value) = changeable(&mut self.random, &character);
        let change = ConfigChange::set(key, &value);
        let altered = self.hasty().alter_configs(&ConfigResource::Topic(name.clone()), &[change], false).await;
        self.diary.note(format!("{name}: {key}={value}: {altered:?}"));
        if let Err(error) = altered.as_ref().map_err(Clone::clone)
            && error.code().is_some_and(|code| !code.is_retriable())
        {
            topic.lock().unwrap().violations.push(format!("{name}: {key}={value} is refused: {error}"));
        }
    }
}

impl Entry {
    fn name(&self) -> String {
        self.topic.lock().unwrap().name.clone()
    }

    fn is_settled(&self) -> bool {
        self.library.iter().all(|producer| producer.is_settled())
    }

    /// Waits until nobody works on it any more.
    async fn rest(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.producing.drain(..) {
            match task.await {
                Ok(producer) => self.raw.push(producer),
                Err(error) => self.topic.lock().unwrap().violations.push(format!("a producer: {error}")),
            }
        }
        for task in self.others.drain(..) {
            if let Err(error) = task.await {
                self.topic.lock().unwrap().violations.push(format!("a client: {error}"));
            }
        }
    }
}

impl Topic {
    fn has_partitions(&mut self, count: usize) -> Outcome<()> {
        let (least, most) = (self.partitions.len(), self.partitions_wanted.max(self.partitions.len()));
        if !(least..=most).contains(&count) {
            return Err(format!("topic {} has {count} partitions, not {least} to {most}", self.name));
        }
        self.partitions.resize_with(count, Partition::default);
        self.partitions_wanted = count;
        Ok(())
    }
}

/// Settings of one life of the broker: everything happens soon and often.
fn settings(random: &mut Random) -> Vec<String> {
    let mut settings = vec![
        "auto.create.topics.enable=false".to_owned(),
        "mainstem.disk.reserve=0".to_owned(),
        "log.initial.task.delay.ms=50".to_owned(),
        "offsets.topic.num.partitions=3".to_owned(),
        "offsets.topic.segment.bytes=1048576".to_owned(),
        "log.cleaner.backoff.ms=100".to_owned(),
        "log.cleaner.min.cleanable.ratio=0.01".to_owned(),
    ];
    let mut set = |key: &str, values: &[i64]| settings.push(format!("{key}={}", random.pick(values)));
    set("num.network.threads", &[1, 2]);
    set("log.cleaner.threads", &[1, 2]);
    set("log.retention.check.interval.ms", &[100, 500]);
    set("log.segment.delete.delay.ms", &[0, 200, 60_000]);
    set("log.flush.offset.checkpoint.interval.ms", &[50, 300, 60_000]);
    set("mainstem.commitlog.file.bytes", &[1 << 20, 2 << 20, 8 << 20]);
    set("mainstem.shared.groups", &[1, 2, 3]);
    set("metadata.log.max.record.bytes.between.snapshots", &[1000, 20_000_000]);
    set("num.recovery.threads.per.data.dir", &[1, 4]);
    settings
}

/// A topic of any kind.
fn character(random: &mut Random) -> Character {
    let layout = random.pick(&["partition", "topic", "shared"]);
    let compacted = layout == "partition" && random.chance(45);
    let mut configs = Vec::new();
    let mut set = |key: &str, value: String| configs.push((key.to_owned(), value));
    set("mainstem.layout", layout.to_owned());
    set("mainstem.durability", random.pick(&["os", "disk"]).to_owned());
    set("mainstem.key.index", random.pick(&["headers", "all", "none"]).to_owned());
    if layout == "topic" {
        set("mainstem.groups", random.between(1, 2).to_string());
    }
    let segment_ms = random.pick(&[200, 1000, 604_800_000]);
    set("segment.bytes", (1 << 20).to_string());
    set("segment.ms", segment_ms.to_string());
    // Fixed: `verify` measures an index by the setting as it is now.
    set("index.interval.bytes", random.pick(&[0, 500, 4096]).to_string());
    let (mut retention_ms, mut retention_bytes) = (None, None);
    if compacted {
        set("cleanup.policy", "compact".to_owned());
        set("delete.retention.ms", random.pick(&[0, 500, 86_400_000]).to_string());
        set("min.cleanable.dirty.ratio", random.pick(&["0.0", "0.01", "0.3"]).to_owned());
    } else if random.chance(25) {
        retention_ms = Some(random.between(1000, 8000));
        set("retention.ms", retention_ms.unwrap().to_string());
    } else if random.chance(25) {
        retention_bytes = Some(random.between(100_000, 2_000_000));
        set("retention.bytes", retention_bytes.unwrap().to_string());
    }
    let append_time = retention_ms.is_none() && random.chance(15);
    if append_time {
        set("message.timestamp.type", "LogAppendTime".to_owned());
    }
    Character { compacted, retention_ms, retention_bytes, append_time, configs }
}

/// A setting that changes nothing of what must be there.
fn changeable(random: &mut Random, character: &Character) -> (&'static str, String) {
    let mut choices = vec![
        ("mainstem.durability", random.pick(&["os", "disk"]).to_owned()),
        ("mainstem.key.index", random.pick(&["headers", "all", "none"]).to_owned()),
        ("segment.bytes", random.pick(&[1 << 20, 2 << 20, 1 << 30]).to_string()),
        ("segment.ms", random.pick(&[100, 1000, 604_800_000_i64]).to_string()),
        ("compression.type", random.pick(&["producer", "zstd", "lz4", "uncompressed"]).to_owned()),
        ("flush.messages", random.pick(&[1, 50, i64::MAX]).to_string()),
        ("flush.ms", random.pick(&[10, 1000, i64::MAX]).to_string()),
        ("file.delete.delay.ms", random.pick(&[0, 500, 60_000]).to_string()),
    ];
    if character.compacted {
        choices.push(("min.cleanable.dirty.ratio", random.pick(&["0.0", "0.01", "0.5"]).to_owned()));
        choices.push(("min.compaction.lag.ms", random.pick(&[0, 300]).to_string()));
        choices.push(("max.compaction.lag.ms", random.pick(&[100, i64::MAX]).to_string()));
    }
    random.pick(&choices)
}

/// The folder of a run.
pub fn work_folder(seed: u64) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mainstem-chaos-{}-{seed}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
