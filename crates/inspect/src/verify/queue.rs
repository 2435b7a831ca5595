//! Consume queues against the batches of the commit log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions};
use mainstem_record::BatchHeader;
use mainstem_store::formats::partition_metadata;
use mainstem_store::formats::queue_entry::{self, ENTRY_SIZE, QueueEntry};
use mainstem_types::{Offset, TopicId, TopicPartition};

use super::group_state::{Key, Placed, Tracked};
use super::report::{About, Report};
use super::{Check, list, load};

/// Entries of a file.
const FILE_ENTRIES: i64 = 300_000;
const OPEN_FILES_MAX: usize = 256;
const ID: &str = "partition.metadata";

pub(super) struct Queues {
    root: PathBuf,
    /// `None`: there is no such file.
    open: HashMap<PathBuf, Option<Arc<dyn File>>>,
    /// Stretches of offsets whose entries are not right, by partition.
    wrong: BTreeMap<TopicPartition, Vec<Wrong>>,
}

struct Wrong {
    first: i64,
    last: i64,
    path: PathBuf,
    what: &'static str,
}

const MISSING: &str = "the consume queue has no entries for these offsets";
const DIFFERENT: &str = "entries of the consume queue are not where the commit log has the records";

impl Queues {
    pub(super) fn new(folder: &Path) -> Queues {
        Queues { root: folder.join("consumequeue"), open: HashMap::new(), wrong: BTreeMap::new() }
    }

    fn dir(&self, name: &TopicPartition) -> PathBuf {
        self.root.join(&*name.topic).join(name.partition.to_string())
    }

    /// Compares the entries of a batch's offsets from `start` on.
    pub(super) fn check(
        &mut self,
        fs: &dyn Fs,
        name: &TopicPartition,
        header: &BatchHeader,
        placed: Placed,
        tags: Option<&[i64]>,
        start: Offset,
    ) {
        let mut offset = header.base_offset.max(start).0;
        let last = header.last_offset().0;
        while offset <= last {
            let first = offset / FILE_ENTRIES * FILE_ENTRIES;
            let end = (first + FILE_ENTRIES).min(last + 1);
            let path = self.dir(name).join(format!("{:020}", first * ENTRY_SIZE as i64));
            let entries = self.read(fs, &path, offset - first, end - offset).unwrap_or_default();
            for at in offset..end {
                let tag = tags.and_then(|tags| tags.get((at - header.base_offset.0) as usize)).copied().unwrap_or(0);
                let due = QueueEntry { position: placed.position, size: placed.size, tag_hash: tag };
                match entries.get((at - offset) as usize) {
                    Some(entry) if *entry == due => {}
                    Some(entry) if entry.size > 0 => self.note(name, at, &path, DIFFERENT),
                    Some(_) | None => self.note(name, at, &path, MISSING),
                }
            }
            offset = end;
        }
    }

    fn read(&mut self, fs: &dyn Fs, path: &Path, from: i64, count: i64) -> io::Result<Vec<QueueEntry>> {
        if !self.open.contains_key(path) {
            if self.open.len() >= OPEN_FILES_MAX {
                self.open.clear();
            }
            let file = match fs.open(path, &OpenOptions::read()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                file => Some(file?),
            };
            self.open.insert(path.to_owned(), file);
        }
        let Some(Some(file)) = self.open.get(path) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; count as usize * ENTRY_SIZE];
        let read = file.read_full_at(&mut bytes, from as u64 * ENTRY_SIZE as u64)?;
        Ok(queue_entry::decode(&bytes[..read]).collect())
    }

    fn note(&mut self, name: &TopicPartition, offset: i64, path: &Path, what: &'static str) {
        let wrong = self.wrong.entry(name.clone()).or_default();
        match wrong.last_mut().filter(|last| last.last + 1 == offset && last.what == what && last.path == path) {
            Some(last) => last.last = offset,
            None => wrong.push(Wrong { first: offset, last: offset, path: path.to_owned(), what }),
        }
    }

    pub(super) fn tell(&mut self, report: &mut Report<'_, '_>) {
        for (name, wrong) in std::mem::take(&mut self.wrong) {
            for Wrong { first, last, path, what } in wrong {
                let problem = if what == MISSING { "queue-short" } else { "queue-wrong" };
                report.finding(problem, About::partition(&name).at(&path).offsets(first, last), what);
            }
        }
    }

    /// The folder of a queue: whose it is, and whether it goes on behind the log.
    pub(super) fn check_folder(
        &mut self,
        check: &mut Check<'_, '_, '_>,
        name: &TopicPartition,
        id: Option<TopicId>,
        end: Offset,
        clean: bool,
    ) {
        let dir = self.dir(name);
        if !matches!(check.fs.exists(&dir), Ok(true)) {
            return;
        }
        let path = dir.join(ID);
        let found = load(check.fs, &path, About::partition(name), check.report, partition_metadata::decode);
        if found.is_none() && matches!(check.fs.exists(&path), Ok(false)) {
            let detail = "without this file the next start rebuilds the queue";
            check.report.finding("file-missing", About::partition(name).at(&path), detail);
        }
        if found.is_some() && id.is_some() && found != id {
            let detail = "the queue belongs to another topic; the next start rebuilds it";
            check.report.finding("queue-wrong", About::partition(name).at(&path), detail);
        }
        if !clean {
            return;
        }
        let first = end.0 / FILE_ENTRIES * FILE_ENTRIES;
        let path = dir.join(format!("{:020}", first * ENTRY_SIZE as i64));
        let behind = self.read(check.fs, &path, end.0 - first, first + FILE_ENTRIES - end.0).unwrap_or_default();
        let due = (end.0 - first) as u64 * ENTRY_SIZE as u64;
        let len = self.open.get(&path).and_then(|file| file.as_ref()?.len().ok()).unwrap_or(0);
        if let Some(last) = behind.iter().rposition(|entry| entry.size > 0) {
            let about = About::partition(name).at(&path).offsets(end.0, end.0 + last as i64);
            check.report.finding("queue-wrong", about, "the consume queue has entries behind the end of the log");
        } else if len > due {
            let detail = format!("the file has {len} bytes, and the entries of the log take {due}");
            check.report.finding("queue-wrong", About::partition(name).at(&path), detail);
        }
    }

    /// Queues of partitions that the group does not have.
    pub(super) fn check_strangers(&self, check: &mut Check<'_, '_, '_>, tracked: &HashMap<Key, Tracked>) {
        if !matches!(check.fs.exists(&self.root), Ok(true)) {
            return;
        }
        let known: HashSet<PathBuf> =
            tracked.values().filter_map(|tracked| tracked.name.as_ref()).map(|name| self.dir(name)).collect();
        for topic in list(check.fs, &self.root, check.report) {
            let topic = self.root.join(topic.name);
            for partition in list(check.fs, &topic, check.report) {
                let dir = topic.join(partition.name);
                if !known.contains(&dir) {
                    let detail =
                        "a consume queue of a partition that the group does not have; the next start removes it";
                    check.report.note("leaving", About::file(&dir), detail);
                }
            }
        }
    }
}
