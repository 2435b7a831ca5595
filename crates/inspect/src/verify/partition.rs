//! A partition with Kafka's own files: its segments in order, each with the files that it should have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mainstem_env::OpenOptions;
use mainstem_record::{BatchHeader, BatchView};
use mainstem_store::EpochEntry;
use mainstem_store::formats::{epoch_checkpoint, names, partition_metadata};
use mainstem_store::rebuild::ProducerStates;
use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use super::indexes::SegmentCheck;
use super::partition_keys;
use super::producers::Snapshots;
use super::report::{About, Report};
use super::{Check, list, load};
use crate::kind::{FileKind, KEY_INDEX};
use crate::scan::{Batches, Damage, Scan, ScanStep};

/// Names in a partition's folder.
const EPOCHS: &str = "leader-epoch-checkpoint";
const ID: &str = "partition.metadata";

/// The files of a folder.
#[derive(Default)]
struct Files {
    segments: BTreeMap<Offset, PathBuf>,
    snapshots: BTreeMap<Offset, PathBuf>,
}

/// The state of the walk over the segments.
struct Walk<'a> {
    folder: &'a Path,
    partition: &'a TopicPartition,
    /// Offsets may have gaps.
    compacted: bool,
    clean: bool,
    /// Everything below was durable and whole.
    recovery_point: Option<Offset>,
    /// The log begins here, as the checkpoint or the first segment says.
    start: Offset,
    /// The offset that is due.
    next: Offset,
    /// Damage since the last whole batch.
    damage: Option<(PathBuf, Damage)>,
    /// Batches are missing: views of all batches cannot be compared.
    incomplete: bool,
    producers: ProducerStates,
    snapshots: Snapshots,
    epochs: Option<Vec<EpochEntry>>,
    epoch_told: bool,
}

pub(super) fn check(check: &mut Check<'_, '_, '_>, folder: &Path, partition: &TopicPartition) {
    check.report.summary.partitions += 1;
    let files = list_files(check, folder, partition);
    check_id(check, folder, partition);
    let facts = check.facts;
    let first = files.segments.keys().next().copied().unwrap_or(Offset::ZERO);
    let epochs_path = folder.join(EPOCHS);
    let has_epochs = matches!(check.fs.exists(&epochs_path), Ok(true));
    let epochs = load(check.fs, &epochs_path, About::partition(partition), check.report, epoch_checkpoint::decode);
    let compacted = check.cluster.is_compacted(&partition.topic) || facts.was_compacted(partition);
    // That of the metadata log is in no checkpoint.
    let is_metadata = folder.ends_with(names::METADATA_FOLDER);
    let noted = if is_metadata { check.cluster.log_start() } else { facts.log_start(partition) };
    let durable_to = if facts.clean { Offset(i64::MAX) } else { facts.recovery_point(partition).unwrap_or(first) };
    let snapshots = Snapshots::read(check.fs, &files.snapshots, partition, durable_to, check.report);
    let mut walk = Walk {
        folder,
        partition,
        compacted,
        clean: facts.clean,
        recovery_point: facts.recovery_point(partition),
        start: noted.unwrap_or(first).max(first),
        next: first,
        damage: None,
        incomplete: false,
        producers: ProducerStates::default(),
        snapshots,
        epochs,
        epoch_told: false,
    };
    if files.segments.is_empty() {
        let detail = "the folder has no segment";
        check.report.finding("log-missing", About::partition(partition).at(folder), detail);
    }
    walk.check_beginning(first, check.report);
    let last = files.segments.keys().next_back().copied();
    for (base, path) in &files.segments {
        walk.segment(check, *base, path, Some(*base) == last);
    }
    if !has_epochs && facts.clean && walk.next > first {
        let about = About::partition(partition).at(&epochs_path);
        check.report.finding("file-missing", about, "the leader epochs of the records are not stored");
    }
    if facts.clean && walk.next > walk.start && !walk.incomplete && !files.snapshots.contains_key(&walk.next) {
        let about = About::partition(partition).at(folder);
        let detail = format!("there is no snapshot of the producers at the end of the log, offset {}", walk.next);
        check.report.finding("file-missing", about, detail);
    }
    let start = walk.start;
    walk.finish(check, files.snapshots.keys().next_back().copied());
    partition_keys::check(check, folder, partition, &files.segments, start);
}

fn list_files(check: &mut Check<'_, '_, '_>, folder: &Path, partition: &TopicPartition) -> Files {
    let mut files = Files::default();
    for entry in list(check.fs, folder, check.report) {
        let path = folder.join(&entry.name);
        let about = About::partition(partition).at(&path);
        let name = entry.name.to_string_lossy();
        let leaving = [names::DELETED, names::CLEANED, names::SWAP, names::PART, ".tmp"];
        if name.ends_with(".parked") {
            let detail =
                "the segment was parked because it did not continue the segment before it; its records are not served";
            check.report.finding("parked", about, detail);
        } else if leaving.iter().any(|suffix| name.ends_with(suffix)) {
            check.report.note("leaving", about, "the next start removes it, or puts it in its place");
        } else if let Some(base) = names::parse_segment_file(&name, names::LOG) {
            files.segments.insert(base, path);
        } else if let Some(offset) = names::parse_segment_file(&name, names::PRODUCER_SNAPSHOT) {
            files.snapshots.insert(offset, path);
        } else if FileKind::of(&path).is_none() && name != KEY_INDEX {
            check.report.note("unknown", about, "neither Kafka nor Mainstem gives such a name");
        }
    }
    for entry in list(check.fs, folder, check.report) {
        let name = entry.name.to_string_lossy().into_owned();
        let suffixes = [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX];
        let base = suffixes.iter().find_map(|suffix| names::parse_segment_file(&name, suffix));
        if base.is_some_and(|base| !files.segments.contains_key(&base)) {
            let path = folder.join(&entry.name);
            let detail = "an index without its segment";
            check.report.finding("log-missing", About::partition(partition).at(&path), detail);
        }
    }
    files
}

fn check_id(check: &mut Check<'_, '_, '_>, folder: &Path, partition: &TopicPartition) {
    let path = folder.join(ID);
    let is_metadata = partition.to_string() == names::METADATA_FOLDER;
    if matches!(check.fs.exists(&path), Ok(false)) {
        if !is_metadata {
            let detail = "without this file the topic of the records is unknown: the next start parks the partition";
            check.report.finding("file-missing", About::partition(partition).at(&path), detail);
        }
        return;
    }
    let id = load(check.fs, &path, About::partition(partition), check.report, partition_metadata::decode);
    let Some(id) = id.filter(|_| check.cluster.is_whole() && !is_metadata) else { return };
    match check.cluster.topic_id(&partition.topic) {
        Some(known) if known == id => {}
        known => {
            let says = known.map_or("no such topic".to_owned(), |known| format!("a topic {known} of that name"));
            let detail = format!(
                "the folder belongs to topic {id}, and the metadata has {says}: the next start parks the folder"
            );
            check.report.finding("topic-unknown", About::partition(partition).at(folder), detail);
        }
    }
}

impl Walk<'_> {
    /// Where the log begins is noted with the leader epochs, too.
    fn check_beginning(&mut self, first: Offset, report: &mut Report<'_, '_>) {
        let noted = self.epochs.as_ref().and_then(|epochs| epochs.first()).map(|entry| entry.start_offset);
        if let Some(noted) = noted.filter(|noted| *noted < first && self.clean) {
            let about = About::partition(self.partition).at(self.folder).offsets(noted.0, first.0 - 1);
            report.finding("offsets-missing", about, "the leader epochs begin before the first segment");
            self.incomplete = true;
        }
    }

    fn segment(&mut self, check: &mut Check<'_, '_, '_>, base: Offset, path: &Path, is_last: bool) {
        if base < self.next {
            let about = About::partition(self.partition).at(path).offsets(base.0, self.next.0 - 1);
            let detail = format!("the segment begins at {base}, and the one before ends at {}", self.next);
            check.report.finding("offsets-twice", about, detail);
            self.incomplete = true;
        } else if base > self.next {
            self.gap(base, path, check.report);
        }
        let open = || Scan::new(check.fs.open(path, &OpenOptions::read())?, Batches::from(base));
        let mut scan = match open() {
            Ok(scan) => scan,
            Err(error) => {
                let about = About::partition(self.partition).at(path);
                check.report.finding("file-unreadable", about, format!("cannot be read: {error}"));
                self.incomplete = true;
                return;
            }
        };
        check.report.summary.files += 1;
        check.report.summary.bytes += scan.len();
        // What an unclean stop leaves behind in memory is made again.
        let settled = self.clean || (!is_last && self.recovery_point.is_none_or(|point| base < point));
        let interval = check.cluster.index_interval(&self.partition.topic);
        let mut views = SegmentCheck::read(check, self.folder, self.partition, base, interval, settled);
        views.sealed = !is_last || self.partition.to_string() != names::METADATA_FOLDER;
        self.next = self.next.max(base);
        loop {
            match scan.next() {
                ScanStep::End => break,
                ScanStep::Damage(damage) => {
                    views.damaged = true;
                    self.damage = Some((path.to_owned(), damage));
                }
                ScanStep::Entry { position, head } => {
                    let Some(header) = head.batch else { continue };
                    self.gap(header.base_offset, path, check.report);
                    let view = scan.bytes().ok().and_then(|bytes| BatchView::parse(bytes).ok());
                    if let Some(view) = view {
                        self.batch(check.report, &view, &mut views, position);
                    }
                    self.next = header.next_offset();
                    check.report.batch(head.size);
                }
            }
        }
        views.finish(check.report, scan.len(), self.incomplete || self.damage.is_some());
    }

    fn batch(
        &mut self,
        report: &mut Report<'_, '_>,
        view: &BatchView<'_>,
        views: &mut SegmentCheck<'_>,
        position: u64,
    ) {
        let header = view.header();
        let known = !self.incomplete;
        self.snapshots.before(header.base_offset, known.then_some(&self.producers), self.start, self.compacted, report);
        self.check_epoch(header, report);
        let aborted = self.producers.observe(view);
        views.batch(report, header, position, aborted);
    }

    /// The offsets up to `to` are not there: damaged, if damage was passed on the way, or removed by compaction, or
    /// missing.
    fn gap(&mut self, to: Offset, path: &Path, report: &mut Report<'_, '_>) {
        let damage = self.damage.take();
        let about = About::partition(self.partition).offsets(self.next.0, to.0 - 1);
        match damage {
            Some((path, damage)) => {
                self.incomplete = true;
                let detail = format!("bytes {} to {} of the segment: {}", damage.from, damage.to, damage.reason);
                if to > self.next {
                    report.finding("offsets-damaged", about.at(&path), detail);
                } else {
                    let about = About::partition(self.partition).at(&path);
                    report.finding("bytes-damaged", about, format!("{detail}; no offset is lost"));
                }
            }
            None if to > self.next && !self.compacted => {
                self.incomplete = true;
                report.finding("offsets-missing", about.at(path), "no batch has these offsets");
            }
            None => {}
        }
    }

    fn check_epoch(&mut self, header: &BatchHeader, report: &mut Report<'_, '_>) {
        let Some(epochs) = self.epochs.as_ref().filter(|_| !self.epoch_told) else { return };
        let durable = self.clean || self.recovery_point.is_some_and(|point| header.base_offset < point);
        if header.leader_epoch == LeaderEpoch::NONE || !durable || header.base_offset < self.start {
            return;
        }
        let after = epochs.partition_point(|entry| entry.start_offset <= header.base_offset);
        let noted = after.checked_sub(1).map(|index| epochs[index].epoch);
        if noted.is_none() && !self.clean && !epochs.is_empty() {
            // The log start was raised, and the file that says so is written a moment later.
            return;
        }
        if noted != Some(header.leader_epoch) {
            self.epoch_told = true;
            let noted = noted.map_or("none".to_owned(), |epoch| epoch.to_string());
            let detail = format!("the batch has leader epoch {}, the file says {noted}", header.leader_epoch);
            let path = self.folder.join(EPOCHS);
            let about = About::partition(self.partition).at(&path);
            let about = about.offsets(header.base_offset.0, header.last_offset().0);
            report.finding("epochs-wrong", about, detail);
        }
    }

    /// What the end of the log should be, from whatever notes it.
    fn finish(mut self, check: &mut Check<'_, '_, '_>, last_snapshot: Option<Offset>) {
        let report = &mut *check.report;
        let durable = self.recovery_point;
        let noted = if self.clean {
            durable.max(check.facts.high_watermark(self.partition)).max(last_snapshot)
        } else {
            durable
        };
        let lost = noted.filter(|noted| *noted > self.next);
        let about = About::partition(self.partition);
        match (self.damage.take(), lost) {
            (Some((path, damage)), Some(noted)) => {
                let detail = format!("bytes {} to {} of the segment: {}", damage.from, damage.to, damage.reason);
                report.finding("offsets-damaged", about.at(&path).offsets(self.next.0, noted.0 - 1), detail);
                self.incomplete = true;
            }
            (Some((path, damage)), None) if !self.clean && damage.at_end => {
                let detail = format!(
                    "the log is whole up to offset {}; bytes {} to {} behind it are damaged ({}), and the next start cuts them",
                    self.next, damage.from, damage.to, damage.reason
                );
                report.note("tail", about.at(&path), detail);
            }
            (Some((path, damage)), None) => {
                let detail = format!(
                    "bytes {} to {} of the segment: {}; offsets from {} on may have been there",
                    damage.from, damage.to, damage.reason, self.next
                );
                report.finding("bytes-damaged", about.at(&path), detail);
                self.incomplete = true;
            }
            (None, Some(noted)) => {
                let about = about.at(self.folder).offsets(self.next.0, noted.0 - 1);
                report.finding(
                    "offsets-missing",
                    about,
                    format!("the log ended at offset {noted} at the last checkpoint"),
                );
                self.incomplete = true;
            }
            (None, None) => {
                let noted = check.facts.noted_end(self.partition);
                if let Some(noted) = noted.filter(|noted| *noted < self.next) {
                    let about = about.at(self.folder).offsets(noted.0, self.next.0 - 1);
                    let detail = format!("the log ended at offset {noted} at the last orderly stop");
                    report.finding("bytes-damaged", about, detail);
                    self.incomplete = true;
                }
            }
        }
        let known = !self.incomplete;
        self.snapshots.finish(
            self.next,
            known.then_some(&self.producers),
            self.start,
            self.compacted,
            self.clean,
            report,
        );
    }
}
