//! A partition group: its commit log in order, and the views of each partition beside it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::OpenOptions;
use mainstem_record::BatchView;
use mainstem_store::formats::commit_log_entry::{EntryHeader, EntryKind, HEADER_SIZE};
use mainstem_store::formats::group_checkpoint::{self, GroupCheckpoint, PartitionState};
use mainstem_store::formats::group_log_starts;
use mainstem_store::rebuild;
use mainstem_types::{Position, TopicPartition};

use super::group_epochs::GroupEpochs;
use super::group_state::{Key, Placed, Tracked};
use super::queue::Queues;
use super::report::About;
use super::{Check, list, load};
use crate::scan::{CommitLogEntries, Scan, ScanStep};

/// Of a name in `commitlog`.
const DIGITS: usize = 20;

/// What a commit log says of its partitions.
pub(super) struct Group<'a> {
    pub(super) folder: &'a Path,
    pub(super) files: BTreeMap<u64, PathBuf>,
    pub(super) known: Option<GroupCheckpoint>,
    pub(super) tracked: HashMap<Key, Tracked>,
    /// Bytes of the log were passed that are no entries, or files are missing.
    pub(super) damaged: bool,
    /// Entries of topics that the metadata does not know.
    strange: u64,
    epochs: Option<GroupEpochs>,
}

/// Checks the commit log and the consume queues. `None`: the group was only just created and has no commit log yet.
pub(super) fn check<'a>(check: &mut Check<'_, '_, '_>, folder: &'a Path) -> Option<Group<'a>> {
    let known = read_checkpoints(check, folder);
    let mut files = BTreeMap::new();
    let log = folder.join("commitlog");
    if known.is_none() && !check.facts.clean && matches!(check.fs.exists(&log), Ok(false)) {
        check.report.note("unclean", About::file(folder), "a new partition group: only its folder exists so far");
        return None;
    }
    for entry in list(check.fs, &log, check.report) {
        let path = log.join(&entry.name);
        let name = entry.name.to_string_lossy().into_owned();
        let plain = name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(position) = name.parse().ok().filter(|_| plain) {
            files.insert(position, path);
        } else if name.ends_with(".parked") {
            let detail =
                "the file was parked because it did not continue the file before it; its records are not served";
            check.report.finding("parked", About::file(&path), detail);
        } else if name.ends_with(".deleted") {
            check.report.note("leaving", About::file(&path), "a deleted file that waits to be removed");
        } else {
            check.report.note("unknown", About::file(&path), "Mainstem gives no such name");
        }
    }
    let first = Position(files.keys().next().copied().unwrap_or(0));
    let epochs = known.as_ref().map(|known| GroupEpochs::new(known, first));
    let mut group = Group { folder, files, known, tracked: HashMap::new(), damaged: false, strange: 0, epochs };
    group.adopt(check);
    let mut queues = Queues::new(folder);
    group.walk(check, &mut queues);
    group.finish(check, &mut queues);
    Some(group)
}

fn read_checkpoints(check: &mut Check<'_, '_, '_>, folder: &Path) -> Option<GroupCheckpoint> {
    load(check.fs, &folder.join(group_log_starts::FILE_NAME), About::default(), check.report, group_log_starts::decode);
    let mut newest = None;
    for name in [group_checkpoint::OLD_FILE_NAME, group_checkpoint::FILE_NAME] {
        let path = folder.join(name);
        let read = load(check.fs, &path, About::default(), check.report, group_checkpoint::decode);
        newest = read.or(newest);
        let missing = matches!(check.fs.exists(&path), Ok(false));
        if missing && name == group_checkpoint::FILE_NAME && check.facts.clean {
            let detail = "the next start reads the whole commit log again; log starts of DeleteRecords are lost";
            check.report.finding("file-missing", About::file(&path), detail);
        }
    }
    newest
}

impl Group<'_> {
    /// The partitions whose topics the metadata knows.
    pub(super) fn names(&self) -> impl Iterator<Item = TopicPartition> {
        self.tracked.values().filter_map(|tracked| tracked.name.clone())
    }

    /// The partitions that the checkpoint names.
    fn adopt(&mut self, check: &mut Check<'_, '_, '_>) {
        let states: Vec<PartitionState> = self.known.as_ref().map(|known| known.partitions.clone()).unwrap_or_default();
        for state in states {
            let key = (state.topic_id, state.partition);
            let name = name_of(check, key);
            self.tracked.insert(key, Tracked::new(name, Some(state)));
        }
    }

    fn walk(&mut self, check: &mut Check<'_, '_, '_>, queues: &mut Queues) {
        let files: Vec<(u64, PathBuf)> = self.files.iter().map(|(start, path)| (*start, path.clone())).collect();
        let mut due: Option<u64> = None;
        for (index, (start, path)) in files.iter().enumerate() {
            if let Some(due) = due.filter(|due| due != start) {
                self.damaged = true;
                let detail =
                    format!("the log continues at byte {start} after byte {due}: the bytes between them are missing");
                check.report.finding("file-missing", About::file(path), detail);
            }
            due = self.file(check, queues, *start, path, index + 1 == files.len());
        }
    }

    /// Goes through a file; gives where the next one begins.
    fn file(
        &mut self,
        check: &mut Check<'_, '_, '_>,
        queues: &mut Queues,
        start: u64,
        path: &Path,
        is_last: bool,
    ) -> Option<u64> {
        let opened = check.fs.open(path, &OpenOptions::read()).and_then(|file| Scan::new(file, CommitLogEntries));
        let mut scan = match opened {
            Ok(scan) => scan,
            Err(error) => {
                self.damaged = true;
                check.report.finding("file-unreadable", About::file(path), format!("cannot be read: {error}"));
                return None;
            }
        };
        check.report.summary.files += 1;
        check.report.summary.bytes += scan.len();
        let mut next = None;
        loop {
            match scan.next() {
                ScanStep::End => break,
                ScanStep::Damage(damage) => {
                    let behind = self.known.as_ref().map_or(Position::ZERO, GroupCheckpoint::covered_to);
                    let detail = format!("bytes {} to {}: {}", damage.from, damage.to, damage.reason);
                    let tail =
                        is_last && damage.at_end && !check.facts.clean && Position(start + damage.from) >= behind;
                    if tail {
                        let detail =
                            format!("{detail}; the log ends before this place, and the next start cuts it there");
                        check.report.note("tail", About::file(path), detail);
                    } else {
                        self.damaged = true;
                        let detail = format!("{detail}; the lost offsets are listed with their partitions");
                        check.report.finding("bytes-damaged", About::file(path), detail);
                    }
                }
                ScanStep::Entry { position, head } => {
                    let Ok(bytes) = scan.bytes() else { continue };
                    let Ok(entry) = EntryHeader::decode(bytes) else { continue };
                    let position = Position(start + position);
                    let EntryKind::Batch { topic_id, partition } = entry.kind else {
                        next = Some(position.0 + u64::from(entry.length));
                        continue;
                    };
                    if let Some(view) = bytes.get(head.batch_at..).and_then(|bytes| BatchView::parse(bytes).ok()) {
                        let placed = Placed { file: start, position, size: entry.length };
                        self.batch(check, queues, (topic_id, partition), &view, placed);
                    }
                }
            }
        }
        if next.is_none() && !is_last && !self.damaged {
            self.damaged = true;
            check.report.finding(
                "bytes-damaged",
                About::file(path),
                "the file ends without saying where the next one begins",
            );
        }
        next
    }

    fn batch(
        &mut self,
        check: &mut Check<'_, '_, '_>,
        queues: &mut Queues,
        key: Key,
        view: &BatchView<'_>,
        placed: Placed,
    ) {
        check.report.batch(placed.size as usize);
        if let Some(epochs) = &mut self.epochs {
            epochs.batch(view.header().leader_epoch, placed.position);
        }
        let tracked = self.tracked.entry(key).or_insert_with(|| Tracked::new(name_of(check, key), None));
        if tracked.name.is_none() {
            self.strange += 1;
            return;
        }
        let durable = self.known.as_ref().is_some_and(|known| placed.position < known.covered_to());
        let settled = check.facts.clean || durable;
        tracked.batch(check.report, view, placed, self.damaged, settled);
        let header = view.header();
        if settled && header.last_offset() >= tracked.log_start() {
            let Some(name) = tracked.name.clone() else { return };
            let tags = rebuild::keys_and_tags(view, &name.topic).tags;
            queues.check(check.fs, &name, header, placed, tags.as_deref(), tracked.log_start());
        }
    }

    fn finish(&mut self, check: &mut Check<'_, '_, '_>, queues: &mut Queues) {
        queues.tell(check.report);
        if let Some(detail) = self.epochs.as_ref().filter(|_| !self.damaged).and_then(GroupEpochs::difference) {
            let path = self.folder.join(group_checkpoint::FILE_NAME);
            check.report.finding("epochs-wrong", About::file(&path), detail);
        }
        let clean = check.facts.clean;
        let mut sorted: Vec<&mut Tracked> =
            self.tracked.values_mut().filter(|tracked| tracked.name.is_some()).collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        for tracked in sorted {
            check.report.summary.partitions += 1;
            tracked.finish(check.report, self.folder, self.damaged, clean);
            if let Some(name) = &tracked.name {
                queues.check_folder(check, name, tracked.topic_id(), tracked.end(), clean);
            }
        }
        queues.check_strangers(check, &self.tracked);
        if self.strange > 0 {
            let detail = format!(
                "{} batches belong to topics that the metadata does not know, most likely deleted ones",
                self.strange
            );
            check.report.note("topic-unknown", About::file(self.folder), detail);
        }
    }

    /// The bytes of the entry at a position, its header left out.
    pub(super) fn read_batch(&self, check: &Check<'_, '_, '_>, position: Position) -> Option<(Key, Arc<[u8]>)> {
        let (start, path) = self.files.range(..=position.0).next_back()?;
        let position = position.0 - start;
        let file = check.fs.open(path, &OpenOptions::read()).ok()?;
        let mut head = [0; HEADER_SIZE + mainstem_record::HEADER_SIZE];
        file.read_exact_at(&mut head, position).ok()?;
        let entry = EntryHeader::decode(&head).ok()?;
        let EntryKind::Batch { topic_id, partition } = entry.kind else { return None };
        let end = position.checked_add(u64::from(entry.length))?;
        if end > file.len().ok()? {
            return None;
        }
        let mut bytes = vec![0; entry.length as usize - HEADER_SIZE];
        file.read_exact_at(&mut bytes, position + HEADER_SIZE as u64).ok()?;
        Some(((topic_id, partition), bytes.into()))
    }
}

fn name_of(check: &Check<'_, '_, '_>, (id, partition): Key) -> Option<TopicPartition> {
    check.cluster.name_of(id).map(|topic| TopicPartition::new(topic, partition))
}
