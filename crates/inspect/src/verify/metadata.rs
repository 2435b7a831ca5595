//! The cluster according to the metadata log: topics, their ids and settings.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstem_env::{Fs, OpenOptions};
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::image::{
    ClusterImage, DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, ImageDelta, PartitionImage,
};
use mainstem_record::{BatchView, ControlKind};
use mainstem_store::formats::{names, quorum_state};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition};

use super::report::{About, Report};
use super::{list, load};
use crate::scan::{Batches, Scan, ScanStep};

const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;
const INTERVAL_DEFAULT: u32 = 4096;

/// The known facts about the cluster. If the metadata cannot be read, they are few.
pub(super) struct Cluster {
    image: ClusterImage,
    /// Everything was read: a topic that is not here does not exist.
    whole: bool,
    /// Where the metadata log begins: at its oldest snapshot, if it has one.
    log_start: Option<Offset>,
}

impl Cluster {
    pub(super) fn topic_id(&self, topic: &str) -> Option<TopicId> {
        self.image.topic_id(topic)
    }

    pub(super) fn name_of(&self, id: TopicId) -> Option<Arc<str>> {
        self.image.topic_by_id(id).map(|topic| topic.name.clone())
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn log_start(&self) -> Option<Offset> {
        self.log_start
    }

    fn config(&self, topic: &str, key: &str) -> Option<&str> {
        self.image.topic_configs(topic).get(key).map(String::as_str)
    }

    pub(super) fn is_compacted(&self, topic: &str) -> bool {
        let policy = self.config(topic, "cleanup.policy");
        policy.is_some_and(|policy| policy.contains("compact"))
    }

    pub(super) fn index_interval(&self, topic: &str) -> u32 {
        self.config(topic, "index.interval.bytes").and_then(|text| text.parse().ok()).unwrap_or(INTERVAL_DEFAULT)
    }

    /// The partitions of a node, save those that are in another folder of its, each with whether it has files of its
    /// own for sure, and whether its first leader still leads.
    pub(super) fn partitions_of(&self, node: i32, folder: Option<TopicId>) -> Vec<(TopicPartition, bool, bool)> {
        let no_folder = [DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST];
        let is_here = |id: &TopicId| no_folder.contains(id) || folder.is_none_or(|folder| folder == *id);
        let is_ours = |partition: &PartitionImage| {
            let place = partition.replicas.iter().position(|replica| *replica == node);
            place.is_some_and(|place| partition.directories.get(place).is_none_or(is_here))
        };
        let mut all = Vec::new();
        for topic in self.image.topics() {
            let layout = self.config(&topic.name, "mainstem.layout");
            let in_files = layout.is_none_or(|layout| layout == "partition");
            let ours = topic.partitions.iter().filter(|(_, partition)| is_ours(partition));
            all.extend(ours.map(|(index, partition)| {
                let name = TopicPartition::new(topic.name.clone(), PartitionIndex(*index));
                (name, in_files, partition.leader_epoch == 0)
            }));
        }
        all
    }
}

/// Reads the newest whole snapshot and the log behind it, and checks all snapshots.
pub(super) fn read(fs: &dyn Fs, folder: &Path, report: &mut Report<'_, '_>) -> Cluster {
    let mut image = ClusterImage::default();
    if !matches!(fs.metadata(folder), Ok(Some(_))) {
        let detail = "there is no metadata log: topics, their ids and settings are not known";
        report.finding("metadata-missing", About::file(folder), detail);
        return Cluster { image, whole: false, log_start: None };
    }
    let entries = list(fs, folder, report);
    let files = entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| entry.name.to_str());
    let mut snapshots = BTreeMap::new();
    let mut segments = BTreeMap::new();
    for name in files {
        if let Some(id) = names::parse_snapshot_file(name) {
            snapshots.insert(id, folder.join(name));
        } else if let Some(base) = names::parse_segment_file(name, names::LOG) {
            segments.insert(base, folder.join(name));
        }
    }
    for ((end, epoch), path) in &snapshots {
        let Some(records) = read_snapshot(fs, path, report) else { continue };
        match ClusterImage::from_snapshot(records, Offset(end.0 - 1), *epoch) {
            Ok(newer) => image = newer,
            Err(error) => report.finding("metadata-damaged", About::file(path), error.to_string()),
        }
    }
    let mut whole = !segments.is_empty();
    for path in segments.values() {
        if let Err(detail) = replay(fs, path, &mut image) {
            report.finding("metadata-damaged", About::file(path), detail);
            whole = false;
            break;
        }
    }
    let quorum = folder.join("quorum-state");
    load(fs, &quorum, About::default(), report, quorum_state::decode);
    if !matches!(fs.exists(&quorum), Ok(true)) {
        let detail = "the file has the votes of the controllers and the leader of the metadata log";
        report.finding("file-missing", About::file(&quorum), detail);
    }
    Cluster { image, whole, log_start: snapshots.keys().next().map(|(end, _)| *end) }
}

/// All records of a snapshot that is whole; told if it is not.
fn read_snapshot(fs: &dyn Fs, path: &Path, report: &mut Report<'_, '_>) -> Option<Vec<MetadataRecord<'static>>> {
    let mut records = Vec::new();
    let mut marks = Vec::new();
    let read = each_batch(fs, path, |view| {
        if !view.header().attributes.is_control() {
            return each_record(view, |_, record| records.push(record.into_owned()));
        }
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, DECOMPRESSED_BYTES_MAX).map_err(|error| error.to_string())? {
            let key = record.map_err(|error| error.to_string())?.key.unwrap_or_default();
            marks.extend(ControlKind::of_key(key).ok().flatten());
        }
        Ok(())
    });
    report.summary.files += 1;
    let whole =
        marks.first() == Some(&ControlKind::SnapshotHeader) && marks.last() == Some(&ControlKind::SnapshotFooter);
    let read =
        read.and_then(|()| if whole { Ok(()) } else { Err("the snapshot has no beginning or no end".to_owned()) });
    if let Err(detail) = read {
        let detail = format!("{detail}; a start reads an older snapshot");
        report.finding("metadata-damaged", About::file(path), detail);
        return None;
    }
    Some(records)
}

fn replay(fs: &dyn Fs, path: &Path, image: &mut ClusterImage) -> Result<(), String> {
    each_batch(fs, path, |view| {
        if view.header().attributes.is_control() {
            return Ok(());
        }
        let epoch: LeaderEpoch = view.header().leader_epoch;
        let mut failed = Ok(());
        each_record(view, |offset, record| {
            if offset > image.offset && failed.is_ok() {
                let replayed = image.replay(&record, offset, epoch, &mut ImageDelta::default());
                failed = replayed.map_err(|error| error.to_string());
            }
        })?;
        failed
    })
}

/// Shows every batch up to the first damage, which the check of the log tells.
fn each_batch(
    fs: &dyn Fs,
    path: &Path,
    mut each: impl FnMut(&BatchView<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let open = || Scan::new(fs.open(path, &OpenOptions::read())?, Batches::from(Offset::ZERO));
    let mut scan = open().map_err(|error| format!("cannot be read: {error}"))?;
    loop {
        match scan.next() {
            ScanStep::End => return Ok(()),
            ScanStep::Damage(damage) => return Err(format!("byte {}: {}", damage.from, damage.reason)),
            ScanStep::Entry { .. } => {
                let bytes = scan.bytes().map_err(|error| error.to_string())?;
                each(&BatchView::parse(bytes).map_err(|error| error.to_string())?)?;
            }
        }
    }
}

fn each_record(view: &BatchView<'_>, mut each: impl FnMut(Offset, MetadataRecord<'_>)) -> Result<(), String> {
    let mut scratch = Vec::new();
    let records = view.records(&mut scratch, DECOMPRESSED_BYTES_MAX).map_err(|error| error.to_string())?;
    for record in records {
        let record = record.map_err(|error| error.to_string())?;
        let value = record.value.unwrap_or_default();
        let decoded = MetadataRecord::decode_framed(value);
        each(record.offset, decoded.map_err(|error| format!("record {}: {error}", record.offset))?);
    }
    Ok(())
}
