//! What must hold when a broker has started again.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use mainstem_broker::Partition;
use mainstem_coordinator::{GroupError, HeartbeatRequest, OffsetFetchRequest};
use mainstem_metadata::image::TopicImage;
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, TopicId};

use super::ledger::{Acked, Latest, Ledger, PartitionFacts, TopicFacts};
use super::{LIMIT, Node, Seen, read_all};

/// Compares a broker that has just started with what its clients know. What is found is known from here on: consumers
/// have seen it.
pub fn check(node: &Node, ledger: &mut Ledger) -> Result<(), String> {
    epochs(node, ledger)?;
    topics(node, ledger)?;
    let ids: Vec<(TopicId, i32)> = ledger.partitions.keys().copied().collect();
    for (id, index) in ids {
        let Some(partition) = node.partition(id, index) else { continue };
        let name = format!("{}-{index}", partition.topic);
        records(&partition, ledger.partition(id, index)).map_err(|error| format!("{name}: {error}"))?;
    }
    groups(node, ledger)?;
    let differences = node.wait(node.broker.verify_views()).map_err(|error| error.to_string())?;
    if differences.is_empty() { Ok(()) } else { Err(format!("replay and memory differ: {differences:?}")) }
}

/// What consumers see while the broker runs: every record that was acknowledged, at the offset that was answered, and
/// no other.
pub fn check_live(node: &Node, ledger: &Ledger) -> Result<(), String> {
    for ((id, index), facts) in &ledger.partitions {
        let Some(partition) = node.partition(*id, *index) else { continue };
        if &*partition.topic == CONSUMER_OFFSETS_TOPIC {
            continue;
        }
        let positions = partition.positions();
        let seen: Vec<(i64, String)> =
            read_all(&partition)?.into_iter().map(|seen| (seen.offset, seen.value)).collect();
        let known = facts.records.iter().filter_map(|record| Some((record.offset?, record.value.clone())));
        let mut known: Vec<_> = known.filter(|(offset, _)| *offset >= positions.log_start.0).collect();
        known.sort();
        ensure(known == seen, || format!("{}-{index} {positions:?}: sent {known:?}, seen {seen:?}", partition.topic))?;
    }
    Ok(())
}

/// Notes the epochs of a broker that was not stopped yet.
pub fn note(node: &Node, ledger: &mut Ledger) {
    epochs(node, ledger).and_then(|()| topics(node, ledger)).expect("a broker that was not stopped");
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn epochs(node: &Node, ledger: &mut Ledger) -> Result<(), String> {
    let image = node.broker.image();
    let epoch = image.broker(1).ok_or("the node is not registered")?.epoch();
    ensure(epoch > ledger.broker_epoch, || format!("broker epoch {epoch} after {}", ledger.broker_epoch))?;
    ledger.broker_epoch = epoch;
    ensure(image.epoch.0 > ledger.term, || format!("term {} after {}", image.epoch.0, ledger.term))?;
    ledger.term = image.epoch.0;
    Ok(())
}

fn topics(node: &Node, ledger: &mut Ledger) -> Result<(), String> {
    let image = node.broker.image();
    for topic in image.topics() {
        let known = ledger.topics.contains_key(&topic.id);
        if !known {
            // Asked for and not answered: it may be there, as a whole.
            let partitions = topic.partitions.len() as i32;
            let tried = ledger.tried.get(topic.name.as_ref()).is_some_and(|tried| tried.contains(&partitions));
            ensure(tried, || format!("topic {} with {partitions} partitions was never asked for", topic.name))?;
            let facts =
                TopicFacts { name: topic.name.to_string(), partitions: (partitions, partitions), ..Default::default() };
            ledger.topics.insert(topic.id, facts);
        }
    }
    ledger.tried.clear();
    let ids: Vec<TopicId> = ledger.topics.keys().copied().collect();
    for id in ids {
        let facts = ledger.topics.get_mut(&id).expect("listed");
        let name = facts.name.clone();
        let found = image.topic_by_id(id);
        match found {
            Some(topic) => {
                ensure(facts.deletion == Acked::No, || format!("topic {name} {id} was deleted, and is back"))?;
                // It was not, so it can be asked for again.
                facts.deletion_tried = false;
                one_topic(node, topic, facts).map_err(|error| format!("topic {name}: {error}"))?;
                leaders(node, topic, ledger)?;
            }
            None => {
                ensure(facts.deletion_tried, || format!("topic {name} {id} was acknowledged, and is gone"))?;
                facts.deletion = Acked::Disk;
                ensure(node.broker.topics().by_id(id).is_none(), || format!("deleted topic {name} is served"))?;
            }
        }
    }
    Ok(())
}

fn one_topic(node: &Node, topic: &TopicImage, facts: &mut TopicFacts) -> Result<(), String> {
    let (acked, tried) = facts.partitions;
    let found = topic.partitions.len() as i32;
    ensure(found >= acked && found <= tried, || {
        format!("{found} partitions, acknowledged {acked}, asked for {tried}")
    })?;
    facts.partitions = (found, found);
    for index in topic.partitions.keys() {
        let partition = node.partition(topic.id, *index).ok_or_else(|| format!("partition {index} is not served"))?;
        let id = partition.log().topic_id();
        ensure(id == Some(topic.id), || format!("partition {index} has the folder of {id:?}"))?;
    }
    let image = node.broker.image();
    let configs = image.topic_configs(&topic.name);
    for (key, values) in &mut facts.configs {
        let found = configs.get(key).cloned();
        ensure(values.contains(&found), || format!("setting {key} is {found:?}, not one of {values:?}"))?;
        *values = vec![found];
    }
    Ok(())
}

fn leaders(node: &Node, topic: &TopicImage, ledger: &mut Ledger) -> Result<(), String> {
    for index in topic.partitions.keys() {
        let Some(partition) = node.partition(topic.id, *index) else { continue };
        let (now, facts) = (partition.leader_epoch().0, ledger.partition(topic.id, *index));
        let before = facts.leader_epoch;
        ensure(now > before, || format!("{}-{index}: leader epoch {now} after {before}", topic.name))?;
        facts.leader_epoch = now;
    }
    Ok(())
}

fn records(partition: &Partition, facts: &mut PartitionFacts) -> Result<(), String> {
    let positions = partition.positions();
    ensure(positions.high_watermark == positions.log_end, || format!("{positions:?} after a start"))?;
    let start = positions.log_start.0;
    let (durable, tried) = facts.log_start;
    ensure(start >= durable && start <= tried.max(durable), || {
        format!("log start {start}, durable {durable}, asked {tried}")
    })?;
    facts.log_start = (start, start);
    let internal = &*partition.topic == CONSUMER_OFFSETS_TOPIC;
    let seen = read_all(partition)?;
    let mut found: HashMap<&str, i64> = HashMap::new();
    for (record, expected) in seen.iter().zip(start..) {
        ensure(record.offset == expected, || format!("offset {} where {expected} follows", record.offset))?;
        ensure(record.epoch <= partition.leader_epoch().0, || format!("{record:?} is of a later epoch"))?;
        if !internal {
            let twice = found.insert(&record.value, record.offset);
            ensure(twice.is_none(), || format!("{} is there twice, at {twice:?} and {}", record.value, record.offset))?;
        }
    }
    ensure(seen.windows(2).all(|two| two[0].epoch <= two[1].epoch), || "epochs descend".to_owned())?;
    if internal { Ok(()) } else { against_facts(facts, &seen, &found, start) }
}

fn against_facts(
    facts: &mut PartitionFacts,
    seen: &[Seen],
    found: &HashMap<&str, i64>,
    start: i64,
) -> Result<(), String> {
    let known: BTreeSet<&str> = facts.records.iter().map(|record| record.value.as_str()).collect();
    for record in seen {
        ensure(known.contains(record.value.as_str()), || {
            format!("{record:?} was never sent here, or was lost before")
        })?;
    }
    for record in &mut facts.records {
        match found.get(record.value.as_str()) {
            Some(offset) => {
                ensure(record.offset.is_none_or(|known| known == *offset), || {
                    format!("{record:?} is at {offset} now")
                })?;
                record.offset = Some(*offset);
                record.acked = Acked::Disk;
            }
            None => {
                let removed = record.offset.is_some_and(|offset| offset < start);
                ensure(record.acked == Acked::No || removed, || format!("{record:?} was acknowledged, and is gone"))?;
            }
        }
    }
    let (kept, lost) =
        std::mem::take(&mut facts.records).into_iter().partition(|r| found.contains_key(r.value.as_str()));
    facts.records = kept;
    facts.lost.extend(lost.into_iter().map(|record| record.value));
    Ok(())
}

fn groups(node: &Node, ledger: &mut Ledger) -> Result<(), String> {
    let groups = node.broker.consumer_groups();
    if !groups.is_available() {
        let promised = ledger.commits.values().any(|latest| !latest.allows(None));
        return ensure(!promised, || "offsets were committed, and groups are not served".to_owned());
    }
    let end = Instant::now() + LIMIT;
    while groups.list(&[], &[]) == Err(GroupError::CoordinatorLoadInProgress) {
        ensure(Instant::now() < end, || "groups are not loaded".to_owned())?;
        std::thread::sleep(Duration::from_micros(50));
    }
    for ((group, topic, index), latest) in &mut ledger.commits {
        let all = OffsetFetchRequest {
            group_id: group,
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: false,
        };
        let found = groups.fetch_offsets(&all).unwrap_or_default();
        let found = found.iter().filter(|found| &*found.name == topic).flat_map(|topic| &topic.partitions);
        let found = found.filter(|found| found.partition.0 == *index).map(|found| found.offset.0).next();
        ensure(latest.allows(found), || format!("group {group}, {topic}-{index}: {found:?}, known {latest:?}"))?;
        *latest = Latest { durable: found, ..Latest::default() };
    }
    for (group, (member, generation, _)) in &ledger.members {
        let heartbeat = HeartbeatRequest {
            group_id: group,
            generation: *generation,
            member_id: member,
            instance_id: Some("static-1"),
        };
        let alive = groups.heartbeat(&heartbeat);
        ensure(alive.is_ok(), || format!("group {group}: member {member} of generation {generation}: {alive:?}"))?;
    }
    Ok(())
}
