//! Every file of a data folder is damaged in every way: a byte changed, cut, emptied, removed, copied to another name
//! of its kind. The node starts all the same, serves what is right and nothing else, says what is not right, and keeps
//! what it cannot read.
//!
//! By default some bytes and lengths of each file are looked at; `MAINSTEM_SEED=<n>` chooses others, `MAINSTEM_FULL=1`
//! takes all. A failure says what reproduces it.

mod support;

#[path = "damage/folder.rs"]
mod folder;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use folder::{Folder, KEYED, Kind, Left, ROOT, files, kind};
use mainstem_broker::{Isolation, KeyLookup, Partition};
use mainstem_env::{Fs, MemFs, SeededRng};
use mainstem_record::{BatchView, Batches};
use mainstem_store::{ReadChunk, ReadError};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, Offset, TimestampMs};
use support::ledger::PartitionFacts;
use support::{Client, Node};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Damage {
    Flipped { at: usize, bits: u8 },
    Cut { to: usize },
    Emptied,
    Removed,
    CopiedTo(PathBuf),
}

impl Damage {
    fn apply(&self, fs: &MemFs, path: &Path, bytes: &[u8]) {
        let write = |path: &Path, bytes: &[u8]| fs.atomic_write(path, bytes).expect("a disk in memory");
        match self {
            Damage::Flipped { at, bits } => {
                let mut bytes = bytes.to_vec();
                bytes[*at] ^= bits;
                write(path, &bytes);
            }
            Damage::Cut { to } => write(path, &bytes[..*to]),
            Damage::Emptied => write(path, &[]),
            Damage::Removed => fs.remove_file(path).expect("a disk in memory"),
            Damage::CopiedTo(other) => write(other, bytes),
        }
    }
}

fn is_full() -> bool {
    std::env::var_os("MAINSTEM_FULL").is_some()
}

fn seed() -> u64 {
    std::env::var("MAINSTEM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Places below `len`: all of them, or a few, the first and the last among them.
fn places(len: usize, some: usize, rng: &SeededRng) -> Vec<usize> {
    if is_full() || len <= some {
        return (0..len).collect();
    }
    let mut places: Vec<usize> = (0..some).map(|_| rng.below(len as u64) as usize).collect();
    places.extend([0, len - 1]);
    places.sort_unstable();
    places.dedup();
    places
}

fn damages(path: &Path, bytes: &[u8], rng: &SeededRng) -> Vec<Damage> {
    let mut all = vec![Damage::Emptied, Damage::Removed];
    // Files that are mostly zeros are interesting at their beginning.
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    all.extend(places(len, 3, rng).into_iter().map(|at| Damage::Flipped { at, bits: 1 << rng.below(8) }));
    all.extend(places(len, 1, rng).into_iter().filter(|to| *to > 0).map(|to| Damage::Cut { to }));
    all.extend(other_name(path).map(Damage::CopiedTo));
    all
}

/// Another name that a file of this kind may have: numbers in it are one greater, partitions another one.
fn other_name(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 20 {
        let number: u64 = name[..digits].parse().ok()?;
        let step = if path.to_str()?.contains("/mainstem/") { 1 << 20 } else { 1 };
        return Some(path.with_file_name(format!("{:020}{}", number + step, &name[digits..])));
    }
    if name == "partition.metadata" || name == "leader-epoch-checkpoint" {
        // The folder of a partition that nobody created.
        let folder = path.parent()?.with_file_name("plain-9");
        return path.to_str()?.contains("/plain-0/").then(|| folder.join(name));
    }
    name.ends_with("-offset-checkpoint").then(|| path.with_file_name("cleaner-offset-checkpoint"))
}

/// One look at a damaged folder.
struct DamagedFolder<'f> {
    folder: &'f Folder,
    path: &'f Path,
    damage: Damage,
    /// The files before the start, the damaged one among them.
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl DamagedFolder<'_> {
    fn fail(&self, what: &str) -> ! {
        let DamagedFolder { folder, path, damage, .. } = self;
        panic!("{:?}, {} {damage:?}: {what} (MAINSTEM_SEED={})", folder.left, path.display(), seed());
    }

    fn take(folder: &Folder, path: &Path, bytes: &[u8], damage: Damage) {
        let fs = folder.copy();
        if let Damage::CopiedTo(other) = &damage {
            fs.create_dir_all_synced(other.parent().expect("a folder")).expect("a disk in memory");
            if fs.exists(other).expect("a disk in memory") {
                return;
            }
        }
        damage.apply(&fs, path, bytes);
        let look = DamagedFolder { folder, path, damage, before: files(&fs) };
        match Node::start(&fs, &folder.clock, &folder.settings, 11) {
            Err(error) => look.refused(&fs, &error.to_string()),
            Ok(node) => look.started(&node),
        }
    }

    /// What may cost records, if they are said to be missing.
    fn is_truth(&self) -> bool {
        kind(self.path) == Kind::Records && !matches!(self.damage, Damage::CopiedTo(_))
    }

    /// A start may be refused where going on would lose more: whose folder it is, or what its topics are, is not known.
    /// Then the reason says what to do, and everything is as it was.
    fn refused(&self, fs: &MemFs, error: &str) {
        if !matches!(kind(self.path), Kind::Identity | Kind::Metadata) {
            self.fail(&format!("the start is refused: {error}"));
        }
        if !["/data", "__cluster_metadata", "node "].iter().any(|named| error.contains(named)) {
            self.fail(&format!("the reason names nothing: {error}"));
        }
        let after = files(fs);
        for (path, bytes) in &self.before {
            let is_mark =
                [".lock", "abort"].iter().any(|mark| path.ends_with(mark)) || path.ends_with(".kafka_cleanshutdown");
            if !is_mark
                && kind(path) != Kind::View
                && after.get(path) != Some(bytes)
                && !self.is_kept(path, bytes, &after)
            {
                self.fail(&format!("refused, and {} changed", path.display()));
            }
        }
    }

    fn started(&self, node: &Node) {
        if support::broker_panics() > 0 {
            self.fail("a thread panicked");
        }
        let mut client = Client::new(node, self.folder.ledger.clone());
        client.next_value += 1_000_000;
        let mut lost = false;
        for ((id, index), facts) in &self.folder.ledger.partitions {
            let name = &self.folder.ledger.topics[id].name;
            if name == CONSUMER_OFFSETS_TOPIC {
                continue;
            }
            match node.partition(*id, *index) {
                Some(partition) => {
                    lost |= !self.records(&partition, facts);
                    if name == KEYED {
                        self.keys(node, facts);
                    }
                }
                None => {
                    let named = node.said.iter().any(|line| line.contains(&format!("{name}-{index}")));
                    let metadata = kind(self.path) == Kind::Metadata;
                    if !named || !(self.is_truth() || metadata) {
                        self.fail(&format!("{name}-{index} is not served; said: {:?}", node.said));
                    }
                    lost = true;
                }
            }
        }
        if lost && !self.is_truth() && kind(self.path) != Kind::Metadata {
            self.fail(&format!("records are missing; said: {:?}", node.said));
        }
        // Of a group the broker says it by the log alone, if the end is torn.
        let is_tail = matches!(self.damage, Damage::Cut { .. } | Damage::Emptied | Damage::Removed)
            || self.folder.left == Left::Killed;
        let says = ["set aside", "failed", "unreadable", "parked"];
        let said = node.said.iter().any(|line| says.iter().any(|word| line.contains(word)));
        if lost && !said && !self.is_told_to_readers(node) && !is_tail {
            self.fail(&format!("records are missing, and nobody said so: {:?}", node.said));
        }
        self.kept(&files(&node.fs));
        self.goes_on(&mut client);
    }

    /// Whether everything is there that was acknowledged. What is there must be right.
    fn records(&self, partition: &Partition, facts: &PartitionFacts) -> bool {
        let place = format!("{}-{}", partition.topic, partition.index);
        let known: HashMap<i64, &str> =
            facts.records.iter().filter_map(|record| Some((record.offset?, record.value.as_str()))).collect();
        let Seen { values: seen, refused } =
            read(partition).unwrap_or_else(|error| self.fail(&format!("{place}: {error}")));
        if !refused.is_empty() && !self.is_truth() {
            self.fail(&format!("{place}: {refused:?} cannot be read"));
        }
        self.one_batch_at_most(partition, facts, &seen, &refused);
        for (offset, value) in &seen {
            match known.get(&offset.0) {
                Some(known) if known == value => {}
                None if value == "aborted" || value.is_empty() => {}
                known => self.fail(&format!("{place}: {value} at {offset}, where {known:?} was")),
            }
        }
        let log_start = facts.log_start.0;
        let free = kind(self.path) == Kind::LogStarts;
        let expected = facts.records.iter().filter(|record| record.offset.is_some_and(|offset| offset >= log_start));
        let missing = expected.filter(|record| !seen.iter().any(|(_, value)| *value == record.value)).count();
        if seen.iter().any(|(offset, _)| offset.0 < log_start) && !free && !self.is_truth() {
            self.fail(&format!("{place}: deleted records are back"));
        }
        missing == 0 || free
    }

    /// One changed byte costs the batch that it is in. Its offsets are refused with CORRUPT_MESSAGE, or its checksum is
    /// wrong; everything else is read, unless the end of the log was cut with it.
    fn one_batch_at_most(
        &self,
        partition: &Partition,
        facts: &PartitionFacts,
        seen: &[(Offset, String)],
        refused: &[Range<i64>],
    ) {
        if !self.is_truth() || !matches!(self.damage, Damage::Flipped { .. }) {
            return;
        }
        let place = format!("{}-{}", partition.topic, partition.index);
        let (log_start, log_end) = (partition.log().log_start().0, partition.log().log_end().0);
        let is_there = |offset: i64| seen.iter().any(|(other, _)| other.0 == offset);
        let known = facts.records.iter().filter_map(|record| record.offset);
        for offset in known.filter(|offset| (log_start..log_end).contains(offset) && !is_there(*offset)) {
            if !refused.iter().any(|range| range.contains(&offset)) {
                self.fail(&format!("{place}: {offset} is passed over in silence, refused are {refused:?}"));
            }
        }
        let lost = refused.last().map_or(0, |last| last.end) - refused.first().map_or(0, |first| first.start);
        if lost > BATCH_RECORDS_MAX {
            self.fail(&format!("{place}: more than a batch cannot be read: {refused:?}"));
        }
    }

    /// Records are found by their keys; of damage to a file of the index, which has no checksum, at least no other
    /// record.
    fn keys(&self, node: &Node, facts: &PartitionFacts) {
        let topics = node.broker.topics();
        let topic = topics.by_name(KEYED).expect("served");
        let in_index = self.path.components().any(|part| part.as_os_str() == "key-index");
        let may_miss = self.is_truth() || (in_index && matches!(self.damage, Damage::Flipped { .. }));
        for record in &facts.records {
            let lookup = KeyLookup {
                key: &record.value,
                partition: None,
                from: TimestampMs(i64::MIN),
                to: TimestampMs(i64::MAX),
                max: 10,
                isolation: Isolation::ReadCommitted,
            };
            let found = match node.broker.find_by_key(topic, &lookup) {
                Ok(found) => found.records.iter().map(|found| found.offset.0).collect(),
                Err(_) if may_miss => Vec::new(),
                Err(error) => self.fail(&format!("{} cannot be looked up: {error}", record.value)),
            };
            let due: Vec<i64> = record.offset.into_iter().collect();
            if found != due && !(may_miss && found.is_empty()) {
                self.fail(&format!("{} is found at {found:?}, and is at {due:?}", record.value));
            }
        }
    }

    fn is_told_to_readers(&self, node: &Node) -> bool {
        let topics = node.broker.topics();
        let mut partitions = topics.iter().flat_map(|topic| topic.partitions.iter());
        partitions.any(|partition| read(partition).is_ok_and(|seen| !seen.refused.is_empty()))
    }

    /// Nothing that holds records or metadata went: it lies where it was, or beside it.
    fn kept(&self, after: &BTreeMap<PathBuf, Vec<u8>>) {
        for (path, bytes) in &self.before {
            let kind = kind(path);
            if matches!(kind, Kind::Records | Kind::Metadata) && !self.is_kept(path, bytes, after) {
                self.fail(&format!("{} is not there any more as it was", path.display()));
            }
        }
    }

    /// The bytes are where they were, or in a file whose name says that it was set aside, or in two parts in both.
    fn is_kept(&self, path: &Path, bytes: &[u8], after: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let has_name =
            |other: &Path| other.file_name().and_then(|other| other.to_str()).is_some_and(|o| o.starts_with(name));
        let beside: Vec<&[u8]> =
            after.iter().filter(|(other, _)| has_name(other)).map(|(_, bytes)| bytes.as_slice()).collect();
        let is_there = |bytes: &[u8]| bytes.iter().all(|b| *b == 0) || beside.iter().any(|o| o.starts_with(bytes));
        let common = |other: &[u8]| other.iter().zip(bytes).take_while(|(one, other)| one == other).count();
        if is_there(bytes) || beside.iter().any(|first| is_there(&bytes[common(first)..])) {
            return true;
        }
        // What a snapshot of the metadata covers may go, and what was cut by the damage itself.
        let is_cut = path == self.path && matches!(self.damage, Damage::Cut { .. });
        kind(path) == Kind::Metadata && (is_cut || beside.iter().any(|rest| !rest.is_empty() && bytes.ends_with(rest)))
    }

    /// What is served takes new records, and gives them back.
    fn goes_on(&self, client: &mut Client<'_>) {
        let topics: Vec<_> = client.node.broker.topics().iter().cloned().collect();
        for topic in topics.iter().filter(|topic| !topic.is_internal()) {
            if client.ledger.topic_named(&topic.name) != Some(topic.id) {
                continue;
            }
            for partition in &topic.partitions {
                let end = partition.log().log_end();
                let facts = client.ledger.partition(topic.id, partition.index.0);
                // Offsets that were lost are given again.
                facts.records.retain(|record| record.offset.is_none_or(|offset| offset < end.0));
                if !client.produce(&topic.name, partition.index.0, 1) {
                    self.fail(&format!("{}-{} takes no records", topic.name, partition.index));
                }
            }
        }
        if !client.create(&[("afterwards", 1, &[])]) {
            self.fail("no topic can be created");
        }
    }
}

/// The largest batch of this test's clients.
const BATCH_RECORDS_MAX: i64 = 4;

/// What consumers see that check checksums.
#[derive(Default)]
struct Seen {
    values: Vec<(Offset, String)>,
    /// Offsets that the broker answers with CORRUPT_MESSAGE, and those of batches whose checksum is wrong.
    refused: Vec<Range<i64>>,
}

impl Seen {
    fn refuse(&mut self, offsets: Range<i64>) {
        match self.refused.last_mut() {
            Some(last) if last.end == offsets.start => last.end = offsets.end,
            _ => self.refused.push(offsets),
        }
    }
}

/// Reads from the log start on, and behind each offset that is refused from the next one. `Err`: an answer that no
/// reader may get.
fn read(partition: &Partition) -> Result<Seen, String> {
    let positions = partition.positions();
    let mut seen = Seen::default();
    let mut next = positions.log_start;
    while next < positions.high_watermark {
        let read = match partition.read(next, 1 << 16, true, Isolation::ReadUncommitted) {
            Ok(read) => read,
            Err(ReadError::Corrupt { .. }) => {
                seen.refuse(next.0..next.0 + 1);
                next = next.plus(1);
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        let mut bytes = Vec::new();
        for chunk in &read.reading.chunks {
            match chunk {
                ReadChunk::Bytes(part) => bytes.extend_from_slice(part),
                ReadChunk::Slice(slice) => bytes.extend_from_slice(&slice.read().map_err(|e| e.to_string())?),
            }
        }
        let from = next;
        for batch in Batches::new(&bytes) {
            let batch = batch.map_err(|error| error.to_string())?;
            next = batch.header().next_offset();
            if batch.crc_is_valid() {
                values(&batch, positions.log_start, &mut seen.values)?;
            } else {
                seen.refuse(batch.header().base_offset.0..next.0);
            }
        }
        if next <= from {
            return Err(format!("nothing can be read at {from} below {positions:?}"));
        }
    }
    Ok(seen)
}

fn values(batch: &BatchView<'_>, from: Offset, seen: &mut Vec<(Offset, String)>) -> Result<(), String> {
    let mut scratch = Vec::new();
    for record in batch.records(&mut scratch, 1 << 20).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        if record.offset >= from {
            let value = if batch.header().attributes.is_control() { b"" } else { record.value.unwrap_or_default() };
            seen.push((record.offset, String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(())
}

fn every_file(left: Left, which: impl Fn(Kind, &str) -> bool) {
    every_file_of(Folder::make(left), which);
}

fn every_file_of(folder: Folder, which: impl Fn(Kind, &str) -> bool) {
    let left = folder.left;
    let all = files(&folder.fs);
    let rng = SeededRng::new(seed());
    let (mut count, mut failures) = (0, Vec::new());
    for (path, bytes) in &all {
        let text = path.strip_prefix(ROOT).expect("in the folder").to_str().expect("text");
        if !which(kind(path), text) {
            continue;
        }
        for damage in damages(path, bytes, &rng) {
            let look = || DamagedFolder::take(&folder, path, bytes, damage);
            if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)) {
                failures.push(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned()));
            }
            count += 1;
        }
    }
    println!("{left:?}: {count} damages");
    assert!(count > 0, "there is nothing to damage");
    assert!(failures.is_empty(), "{} of {count} went wrong:\n{}", failures.len(), failures.join("\n"));
}

fn is_grouped(text: &str) -> bool {
    text.starts_with("mainstem/")
}

macro_rules! files {
    ($($test:ident: $left:ident, $which:expr;)*) => {
        $(#[test] fn $test() { every_file(Left::$left, $which); })*
    };
}

files! {
    files_of_partitions_after_an_orderly_stop: Orderly, |kind, text| text.contains('/') && kind != Kind::Metadata && !is_grouped(text);
    files_of_partitions_after_a_kill: Killed, |kind, text| text.contains('/') && kind != Kind::Metadata && !is_grouped(text);
    files_of_groups_after_an_orderly_stop: Orderly, |_, text| is_grouped(text);
    files_of_groups_after_a_kill: Killed, |_, text| is_grouped(text);
    metadata_after_an_orderly_stop: Orderly, |kind, _| kind == Kind::Metadata;
    metadata_after_a_kill: Killed, |kind, _| kind == Kind::Metadata;
    small_files_after_an_orderly_stop: Orderly, |_, text| !text.contains('/');
    small_files_after_a_kill: Killed, |_, text| !text.contains('/');
}

#[test]
fn key_indexes_after_an_orderly_stop() {
    every_file_of(Folder::keyed(Left::Orderly), |_, text| text.starts_with(KEYED));
}

#[test]
fn key_indexes_after_a_kill() {
    every_file_of(Folder::keyed(Left::Killed), |_, text| text.starts_with(KEYED));
}
