//! At the start: the folder's partitions and the image's partitions are brought together.
//!
//! - A partition of the image with its folder is opened. Without one it had no record yet, and gets its folder with its
//!   first append. If the checkpoints know of records, the folder was lost, and the start says so.
//! - A folder whose topic the image does not know, or knows under another id, is parked and reported. Nothing is
//!   deleted.
//! - A log that cannot be opened is reported and not served; the others are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::image::{ClusterImage, TopicImage};
use mainstem_store::{
    FolderEntry, FolderReport, GroupPlacement, LogConfig, LogRecovery, NewLog, OpenError, StopKind, TopicLog,
};
use mainstem_types::{PartitionIndex, TopicId, TopicPartition};
use parking_lot::Mutex;

use crate::group_unit::follow_units;
use crate::in_memory;
use crate::node_state::NodeState;
use crate::open_report::OpenReport;
use crate::partition::Partition;
use crate::partition_groups::{grouped_partition, open_groups, placement};
use crate::settings::log_config;
use crate::topics::{Topic, TopicMap, own_partitions};

/// One partition of the image on its way to a log.
struct Wanted<'i> {
    topic: &'i TopicImage,
    index: i32,
    config: Arc<LogConfig>,
    place: Place,
}

/// Where its log lies.
enum Place {
    Folder(FolderEntry),
    Group(GroupPlacement),
}

/// Opens everything and publishes the topics.
pub(crate) fn open_logs(state: &NodeState, image: &ClusterImage, folder: &FolderReport) -> OpenReport {
    let mut report = OpenReport::default();
    let broker = state.config.load_full();
    let mut entries = take_entries(state, image, folder, &mut report);
    let (mut wanted, mut new) = (Vec::new(), Vec::new());
    for topic in image.topics() {
        let config = state.topic_config(image, &topic.name, &broker);
        let placement = placement(&config, &broker);
        let config = Arc::new(log_config(&config, &broker));
        for (index, _) in own_partitions(topic, state.node) {
            let place = match (entries.remove(&(topic.id, index)), placement) {
                // Where it lies is where it stays.
                (Some(entry), _) => Place::Folder(entry),
                (None, Some(placement)) => Place::Group(placement),
                (None, None) => {
                    let name = TopicPartition::new(Arc::clone(&topic.name), PartitionIndex(index));
                    new.push((name, topic.id, Arc::clone(&config)));
                    continue;
                }
            };
            wanted.push(Wanted { topic, index, config: Arc::clone(&config), place });
        }
    }
    open_groups(state, image, &broker, &mut report);
    let threads = threads(&broker, folder.stop, wanted.len());
    let logs = open_all(state, &wanted, threads, &mut report);
    let mut partitions: HashMap<TopicId, Vec<Arc<Partition>>> = HashMap::new();
    for (wanted, log) in wanted.iter().zip(logs) {
        if let Some(log) = log {
            let partition = state.partition(wanted.topic, wanted.index, log);
            partitions.entry(wanted.topic.id).or_default().extend(partition);
        }
    }
    for (topic, index, log) in take_new(state, image, folder, &new, &mut report) {
        let of_topic = partitions.entry(topic.id).or_default();
        of_topic.extend(state.partition(topic, index, log));
        of_topic.sort_by_key(|partition| partition.index);
    }
    let mut topics = TopicMap::default();
    let mut units = Vec::new();
    for topic in image.topics() {
        let config = state.topic_config(image, &topic.name, &broker);
        let partitions = partitions.remove(&topic.id).unwrap_or_default();
        units.extend(state.begin_roles(topic, &partitions, &config));
        topics.insert(Arc::new(Topic { name: Arc::clone(&topic.name), id: topic.id, partitions, config }));
    }
    follow_units(image, units);
    report.in_memory = in_memory::told(image, &topics);
    state.topics.store(Arc::new(topics));
    report
}

/// The logs of partitions that have no folder.
fn take_new<'i>(
    state: &NodeState,
    image: &'i ClusterImage,
    folder: &FolderReport,
    new: &[NewLog],
    report: &mut OpenReport,
) -> Vec<(&'i TopicImage, i32, TopicLog)> {
    let names: HashSet<_> = folder.partitions.iter().map(|entry| &entry.partition).collect();
    for (name, ..) in new {
        // Of a folder that was parked the checkpoints speak, too.
        if let Some(end) = state.folder.lost_end(name).filter(|_| !names.contains(name)) {
            report.failed.push(format!(
                "{name}: its folder is missing, and the checkpoints know of records up to offset {end}; the partition begins anew at offset 0. To have the records back, stop the broker before anything is written to the partition, and put the folder back"
            ));
        }
    }
    // Something else has the name, a link to a disk that is not there, for example: it is not absent, and not empty.
    let unknown: HashSet<_> = folder.unknown.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let is_unknown = |name: &TopicPartition| !unknown.is_empty() && unknown.contains(name.to_string().as_str());
    let is_taken = |name: &TopicPartition| names.contains(name) || is_unknown(name);
    let logs = state.new_logs(new, is_taken).unwrap_or_else(|error| {
        report.failed.push(format!("{} partitions without folders are not served: {error}", new.len()));
        Vec::new()
    });
    let mut taken = Vec::with_capacity(logs.len());
    for ((name, id, _), log) in new.iter().zip(logs) {
        match (log, image.topic_by_id(*id)) {
            (Ok(log), Some(topic)) => taken.push((&**topic, name.partition.0, log)),
            (Err(error), _) => report.failed.push(format!("{name} is not served: {error}")),
            (Ok(_), None) => {}
        }
    }
    taken
}

/// The folder's entries by topic id and index. What belongs to no topic of the image is parked.
fn take_entries(
    state: &NodeState,
    image: &ClusterImage,
    folder: &FolderReport,
    report: &mut OpenReport,
) -> HashMap<(TopicId, i32), FolderEntry> {
    let mut entries = HashMap::new();
    for entry in &folder.partitions {
        let index = entry.partition.partition.0;
        let known = image.topic(&entry.partition.topic).filter(|topic| topic.partitions.contains_key(&index));
        // A folder without an id was written before topics had ids; its name is all there is to go by.
        match known.filter(|topic| entry.topic_id.is_none_or(|id| id == topic.id || is_damaged(id, topic.id))) {
            Some(topic) => {
                let topic_id = entry.topic_id.filter(|id| *id == topic.id);
                if entry.topic_id.is_some() && topic_id.is_none() {
                    let file = entry.path.join("partition.metadata");
                    report.failed.push(format!("{}: one character of the topic id was wrong", file.display()));
                }
                entries.insert((topic.id, index), FolderEntry { topic_id, ..entry.clone() });
            }
            None => match state.folder.park_stray(entry) {
                Ok(path) => report.parked.push(format!(
                    "{} (its topic is not in the metadata) as {}",
                    entry.partition,
                    path.display()
                )),
                Err(error) => report.failed.push(format!("{}: its folder cannot be parked: {error}", entry.partition)),
            },
        }
    }
    entries
}

/// Whether an id is another one with one character of its text changed: ids of two topics differ in nearly all of them.
fn is_damaged(found: TopicId, wanted: TopicId) -> bool {
    (u128::from_be_bytes(found.0) ^ u128::from_be_bytes(wanted.0)).count_ones() <= BITS_OF_A_CHARACTER
}

/// Of base64.
const BITS_OF_A_CHARACTER: u32 = 6;

/// A log, and what its recovery did.
type Opened = Result<(TopicLog, LogRecovery), OpenError>;

/// How many logs are opened at a time: unless somebody has said it, more than there are processors. After an unclean
/// stop each waits for two syncs of its own, and a file system commits those together that come at the same time; after
/// an orderly one it waits for the disk, when the machine has just started and no folder is in memory.
fn threads(broker: &BrokerConfig, stop: StopKind, logs: usize) -> usize {
    const WAITING: usize = 16;
    let is_set = broker.is_set("num.recovery.threads.per.data.dir");
    let threads = if is_set { broker.threads.recovery.max(1) as usize } else { WAITING };
    // Few logs are opened sooner than threads are started.
    let logs_a_thread = if stop == StopKind::Unclean { 4 } else { 64 };
    threads.min(logs.div_ceil(logs_a_thread)).max(1)
}

/// Opens or creates each log, several at a time.
fn open_all(
    state: &NodeState,
    wanted: &[Wanted<'_>],
    threads: usize,
    report: &mut OpenReport,
) -> Vec<Option<TopicLog>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Opened>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, one)) = take_next(&next, wanted).filter(|_| !state.env.is_stopped()) {
                    *results[place].lock() = Some(open_one(state, one));
                }
            });
        }
    });
    let mut logs = Vec::with_capacity(wanted.len());
    for (one, result) in wanted.iter().zip(results) {
        logs.push(match result.into_inner() {
            Some(Ok((log, recovery))) => {
                report.recovery += recovery;
                Some(log)
            }
            Some(Err(error)) => {
                report.failed.push(format!("{}-{} is not served: {error}", one.topic.name, one.index));
                None
            }
            None => None,
        });
    }
    logs
}

fn take_next<'w, 'i>(
    next: &std::sync::atomic::AtomicUsize,
    wanted: &'w [Wanted<'i>],
) -> Option<(usize, &'w Wanted<'i>)> {
    let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    wanted.get(place).map(|one| (place, one))
}

fn open_one(state: &NodeState, wanted: &Wanted<'_>) -> Opened {
    match &wanted.place {
        Place::Folder(entry) => {
            if entry.topic_id.is_none() {
                state.folder.adopt(entry, wanted.topic.id)?;
            }
            let (log, recovery) = state.folder.open_log(entry, Arc::clone(&wanted.config))?;
            Ok((log.into(), recovery))
        }
        Place::Group(placement) => {
            let topic = wanted.topic;
            let one = grouped_partition(&topic.name, topic.id, wanted.index, &wanted.config, *placement);
            Ok((state.folder.group_partition(&one)?.into(), LogRecovery::default()))
        }
    }
}
