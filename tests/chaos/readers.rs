//! Consumers that read while others write, and the look at everything between two lives of the broker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainstem_client::{
    Client, CommittedOffset, FetchedRecord, FetcherConfig, Isolation, Offset, OffsetSpec, PartitionIndex, TimestampMs,
    TopicPartition,
};

use crate::model::{Character, Partition, RecordId, Sent};
use crate::producers::{SharedTopic, now_ms};
use crate::random::Random;

/// How long a partition of this size may take to be read.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// Reads a topic on from the committed offsets, and commits, until it is told to stop or the broker ends.
pub async fn consume(topic: SharedTopic, client: Client, mut random: Random, stop: Arc<AtomicBool>) {
    let isolation = random.pick(&[Isolation::ReadCommitted, Isolation::ReadUncommitted]);
    let config = FetcherConfig {
        max_wait: Duration::from_millis(50),
        isolation,
        reset_to: Some(OffsetSpec::Earliest),
        partition_max_bytes: random.pick(&[1_000, 50_000, 1 << 20]),
        ..Default::default()
    };
    let mut fetcher = client.fetcher(config);
    let (name, group) = {
        let topic = topic.lock().unwrap();
        for index in 0..topic.partitions.len() as i32 {
            let from = topic.committed.get(&index).and_then(|committed| committed.acknowledged).unwrap_or_default();
            fetcher.assign(TopicPartition::new(topic.name.as_str(), PartitionIndex(index)), Offset(from));
        }
        (topic.name.clone(), topic.group())
    };
    while !stop.load(Ordering::Relaxed) {
        let Ok(records) = fetcher.poll(Duration::from_millis(100)).await else {
            // The broker has ended, or the topic was deleted.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        {
            let mut topic = topic.lock().unwrap();
            if !topic.is_live() {
                return;
            }
            for record in &records {
                if let Err(violation) = topic.read(record) {
                    topic.violations.push(format!("a consumer: {violation}"));
                }
            }
        }
        if random.chance(30) {
            let positions: Vec<_> = fetcher.positions().map(|(one, state)| (one.clone(), state.position)).collect();
            commit(&topic, &client, &name, &group, positions).await;
        }
    }
}

async fn commit(
    topic: &SharedTopic,
    client: &Client,
    name: &str,
    group: &str,
    positions: Vec<(TopicPartition, Offset)>,
) {
    {
        let mut topic = topic.lock().unwrap();
        for (partition, position) in &positions {
            topic.committed.entry(partition.partition.0).or_default().attempted.push(position.0);
        }
    }
    let offsets: Vec<_> =
        positions.iter().map(|(one, position)| (one.clone(), CommittedOffset::at(*position))).collect();
    let Ok(results) = client.commit_group_offsets(group, &offsets).await else { return };
    let mut topic = topic.lock().unwrap();
    for ((partition, position), (_, result)) in positions.iter().zip(results) {
        match result {
            Ok(()) => {
                let committed = topic.committed.entry(partition.partition.0).or_default();
                committed.acknowledged = Some(position.0);
                committed.attempted.clear();
            }
            Err(_) if !topic.is_live() => {}
            Err(error) if error.is_retriable() => {}
            Err(error) => topic.violations.push(format!("{name}: a commit is refused: {error}")),
        }
    }
}

/// Reads all of a topic that nobody writes to, and compares it with what must be there.
pub async fn check_topic(topic: &SharedTopic, client: &Client, random: &mut Random) -> Result<u64, String> {
    let (name, count, character) = {
        let topic = topic.lock().unwrap();
        (topic.name.clone(), topic.partitions.len() as i32, topic.character.clone())
    };
    let mut read = 0;
    for index in 0..count {
        let partition = TopicPartition::new(name.as_str(), PartitionIndex(index));
        let mut whole = Whole::read(client, &partition).await?;
        let mut checked = check_partition(topic, index, &whole);
        if checked.is_err() && character.compacted {
            // A pass of the cleaner may have ended in the middle of it.
            tokio::time::sleep(Duration::from_millis(500)).await;
            whole = Whole::read(client, &partition).await?;
            checked = check_partition(topic, index, &whole);
        }
        checked?;
        read += whole.records.len() as u64;
        check_times(client, &partition, &whole, &character, random).await?;
        check_positions(client, &partition, &whole, random).await?;
    }
    check_commits(topic, client).await?;
    Ok(read)
}

/// A partition as it was read.
struct Whole {
    /// Before it was read, and afterwards: retention goes on.
    log_start_before: i64,
    log_start: i64,
    end: i64,
    records: Vec<FetchedRecord>,
}

impl Whole {
    async fn read(client: &Client, partition: &TopicPartition) -> Result<Whole, String> {
        let (log_start_before, end) = borders(client, partition).await?;
        let records = read_from(client, partition, None, end).await?;
        let (log_start, end_afterwards) = borders(client, partition).await?;
        if end_afterwards != end {
            return Err(format!("{partition}: the end moves from {end} to {end_afterwards}, and nobody writes"));
        }
        if log_start < log_start_before {
            return Err(format!("{partition}: the log start goes back from {log_start_before} to {log_start}"));
        }
        Ok(Whole { log_start_before, log_start, end, records })
    }
}

async fn list(client: &Client, partition: &TopicPartition, spec: OffsetSpec) -> Result<Option<(i64, i64)>, String> {
    let wanted = [(partition.clone(), spec)];
    let found = client.list_offsets(&wanted, Isolation::ReadUncommitted).await;
    let found = found.map_err(|error| format!("{partition}: ListOffsets of {spec:?}: {error}"))?;
    Ok(found[0].1.offset.map(|offset| (offset.0, found[0].1.timestamp.0)))
}

async fn borders(client: &Client, partition: &TopicPartition) -> Result<(i64, i64), String> {
    let start = list(client, partition, OffsetSpec::Earliest).await?;
    let end = list(client, partition, OffsetSpec::Latest).await?;
    match (start, end) {
        (Some((start, _)), Some((end, _))) if start <= end => Ok((start, end)),
        other => Err(format!("{partition}: log start and end are {other:?}")),
    }
}

/// Reads from an offset, or the log start, to the end.
async fn read_from(
    client: &Client,
    partition: &TopicPartition,
    from: Option<i64>,
    end: i64,
) -> Result<Vec<FetchedRecord>, String> {
    let config = FetcherConfig { reset_to: Some(OffsetSpec::Earliest), ..Default::default() };
    let mut fetcher = client.fetcher(config);
    match from {
        Some(offset) => fetcher.assign(partition.clone(), Offset(offset)),
        None => fetcher
            .assign_at(std::slice::from_ref(partition), OffsetSpec::Earliest)
            .await
            .map_err(|error| error.to_string())?,
    }
    let mut records: Vec<FetchedRecord> = Vec::new();
    let limit = Instant::now() + READ_LIMIT;
    loop {
        let position = fetcher.positions().next().unwrap().1.position.0;
        if position >= end {
            return Ok(records);
        }
        if Instant::now() > limit {
            return Err(format!("{partition}: nothing comes at {position}, and the end is {end}"));
        }
        let more = fetcher.poll(Duration::from_secs(1)).await;
        records.extend(more.map_err(|error| format!("{partition}: a read at {position}: {error}"))?);
    }
}

fn check_partition(topic: &SharedTopic, index: i32, whole: &Whole) -> Result<(), String> {
    let mut topic = topic.lock().unwrap();
    let place = format!("{}-{index} (topic {})", topic.name, topic.number);
    let mut found = Vec::with_capacity(whole.records.len());
    let mut last_of_producers: HashMap<u32, u64> = HashMap::new();
    let mut last = -1;
    for record in &whole.records {
        let offset = record.offset.0;
        if offset <= last {
            return Err(format!("{place}: offset {offset} comes after {last}"));
        }
        last = offset;
        let id = topic.read(record)?;
        if let Some(before) = last_of_producers.insert(id.producer, id.number).filter(|before| *before > id.number) {
            return Err(format!("{place}: {id:?} at {offset} comes after number {before}"));
        }
        found.push((offset, id));
    }
    let character = topic.character.clone();
    let log = &mut topic.partitions[index as usize];
    check_log_start(log, &character, whole).map_err(|problem| format!("{place}: {problem}"))?;
    if whole.end < log.end {
        return Err(format!("{place}: the end is {}, and was {}", whole.end, log.end));
    }
    log.starts_at(whole.log_start);
    log.end = whole.end;
    found.retain(|(offset, _)| *offset >= whole.log_start);
    match character.compacted {
        true => check_compacted(log, &found),
        false => check_all_there(log, &found, whole),
    }
    .map_err(|problem| format!("{place}: {problem}"))
}

fn check_log_start(log: &Partition, character: &Character, whole: &Whole) -> Result<(), String> {
    let start = whole.log_start;
    if whole.log_start_before < log.log_start {
        return Err(format!("the log start is {}, and was {}", whole.log_start_before, log.log_start));
    }
    if character.compacted || start <= log.log_start_wanted {
        return Ok(());
    }
    if let Some(keep) = character.retention_bytes {
        let rest: usize = whole.records.iter().filter(|record| record.offset.0 >= start).map(size_max).sum();
        // Without what is known to be less: compressed, the rest may be smaller than it seems, not larger.
        if (rest as i64) < keep && start > log.log_start {
            return Err(format!("size took records before {start}: {rest} bytes at most are left of {keep}"));
        }
        return Ok(());
    }
    let Some(retention_ms) = character.retention_ms else {
        let known = log.log_start.max(log.log_start_wanted);
        return if start > known {
            Err(format!("the log start is {start}, and nothing deleted more than {known}"))
        } else {
            Ok(())
        };
    };
    let border = now_ms() - retention_ms;
    let from = log.log_start.max(log.log_start_wanted);
    let too_young = log.at.range(from..start).find(|(_, id)| log.sent[*id].timestamp > border);
    match too_young {
        Some((offset, _)) => Err(format!("time took the record at {offset}, which is not {retention_ms} ms old")),
        None => Ok(()),
    }
}

fn size_max(record: &FetchedRecord) -> usize {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len());
    // A batch's header and a log entry's, too.
    length(&record.key) + length(&record.value) + 300
}

fn check_all_there(log: &Partition, found: &[(i64, RecordId)], whole: &Whole) -> Result<(), String> {
    let mut expected = whole.log_start;
    for (offset, _) in found {
        if *offset != expected {
            return Err(format!(
                "offsets {expected} to {} are missing; acknowledged of them: {:?}",
                offset - 1,
                log.at.get(&expected)
            ));
        }
        expected += 1;
    }
    if expected != whole.end {
        return Err(format!("offsets {expected} to {} are missing at the end", whole.end - 1));
    }
    Ok(())
}

/// Of each key the newest record is there; what went stays away; a deleted key has no older value.
fn check_compacted(log: &mut Partition, found: &[(i64, RecordId)]) -> Result<(), String> {
    let mut newest: HashMap<Vec<u8>, i64> = HashMap::new();
    for (offset, id) in &log.at {
        newest.insert(log.sent[id].key.clone().unwrap_or_default(), *offset);
    }
    let there: HashMap<i64, RecordId> = found.iter().copied().collect();
    let mut removed = Vec::new();
    for (offset, id) in &log.at {
        let (is_there, sent) = (there.contains_key(offset), &log.sent[id]);
        if is_there && log.removed.contains(offset) {
            return Err(format!("the record at {offset} was compacted away, and is there again"));
        }
        if is_there {
            let key = sent.key.clone().unwrap_or_default();
            let last = newest[&key];
            if last > *offset && log.sent[&log.at[&last]].value_size.is_none() && !there.contains_key(&last) {
                return Err(format!("{offset} is there again: the tombstone at {last} is gone, which deleted it"));
            }
            continue;
        }
        let is_newest = newest[sent.key.as_deref().unwrap_or_default()] == *offset;
        // A tombstone that nobody answered or read may have come after it, and gone with it.
        let is_hidden = |other: &Sent| other.offset.is_none() && other.value_size.is_none() && other.key == sent.key;
        if is_newest && sent.value_size.is_some() && !log.sent.values().any(is_hidden) {
            return Err(format!("the newest record of a key, {id:?} at {offset}, is missing"));
        }
        removed.push(*offset);
    }
    log.removed.extend(removed);
    Ok(())
}

/// The first record at or after a time is found, whatever the order of times.
async fn check_times(
    client: &Client,
    partition: &TopicPartition,
    whole: &Whole,
    character: &Character,
    random: &mut Random,
) -> Result<(), String> {
    if whole.records.is_empty() {
        return Ok(());
    }
    for _ in 0..3 {
        let time = random.pick(&whole.records).timestamp.0 + random.between(-1, 1);
        let found = list(client, partition, OffsetSpec::Timestamp(TimestampMs(time))).await?;
        let is_it = |record: &&FetchedRecord| record.offset.0 >= whole.log_start && record.timestamp.0 >= time;
        let expected = whole.records.iter().find(is_it).map(|record| (record.offset.0, record.timestamp.0));
        // Retention and compaction go on, and may have taken what was read.
        let is_moving = character.compacted || borders(client, partition).await?.0 != whole.log_start;
        if found == expected || is_moving {
            continue;
        }
        return Err(format!("{partition}: {found:?} is found for the time {time}, not {expected:?}"));
    }
    Ok(())
}

/// Reading from anywhere gives the same.
async fn check_positions(
    client: &Client,
    partition: &TopicPartition,
    whole: &Whole,
    random: &mut Random,
) -> Result<(), String> {
    if whole.end == whole.log_start {
        return Ok(());
    }
    let from = random.between(whole.log_start, whole.end - 1);
    let config = FetcherConfig { partition_max_bytes: 1, reset_to: Some(OffsetSpec::Earliest), ..Default::default() };
    let mut fetcher = client.fetcher(config);
    fetcher.assign(partition.clone(), Offset(from));
    let records = fetcher.poll(Duration::from_secs(10)).await;
    let records = records.map_err(|error| format!("{partition}: a read at {from}: {error}"))?;
    let Some(first) = records.first() else { return Ok(()) };
    let expected = whole.records.iter().find(|record| record.offset == first.offset);
    if expected != Some(first) || first.offset.0 < from {
        return Err(format!("{partition}: a read at {from} gives another record, at {}", first.offset));
    }
    Ok(())
}

/// What was committed last is what the group has, or what it tried since.
async fn check_commits(topic: &SharedTopic, client: &Client) -> Result<(), String> {
    let group = topic.lock().unwrap().group();
    let found = client.group_offsets(&group).await.map_err(|error| format!("{group}: {error}"))?;
    let found: HashMap<i32, i64> = found.iter().map(|(one, at)| (one.partition.0, at.offset.0)).collect();
    let mut topic = topic.lock().unwrap();
    for (partition, committed) in &mut topic.committed {
        let there = found.get(partition).copied();
        let is_right = there == committed.acknowledged || there.is_some_and(|at| committed.attempted.contains(&at));
        if !is_right {
            let known = (committed.acknowledged, &committed.attempted);
            return Err(format!("{group}: partition {partition} is committed at {there:?}, and not as in {known:?}"));
        }
        committed.acknowledged = there;
        committed.attempted.clear();
    }
    Ok(())
}
