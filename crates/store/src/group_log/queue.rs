// long: one structure, whose writer and reader share the runs in memory; the two do not make sense apart.
//! The consume queue of a partition: where the batch of each offset is.
//!
//! The newest entries are in memory, one run for each batch, and are written to the files in batches; readers look in both. Files hold a
//! fixed number of entries; the bytes of offsets that have no record are zero.
//!
//! Numbers: a run is written at the latest when 64 of them or 256 entries wait; at most 128 runs stay in memory.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use mainstem_env::{Fs, OpenOptions};
use mainstem_types::{Offset, TopicId};

use super::queue_files::{DIGITS, ID_FILE, QueueFiles, Unsynced, file_path};
use crate::formats::partition_metadata;
use crate::formats::queue_entry::{ENTRY_SIZE, QueueEntry};
use crate::small_file;

const RUNS_WAITING_MAX: usize = 64;
const ENTRIES_WAITING_MAX: i64 = 256;
const RUNS_KEPT_MAX: usize = 128;

/// The entries of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: i64,
    pub(crate) count: u32,
    pub(crate) size: u32,
    pub(crate) position: u64,
    /// One for each record; `None`: no record has a tag.
    pub(crate) tags: Option<Box<[i64]>>,
}

impl Run {
    fn end(&self) -> i64 {
        self.first + i64::from(self.count)
    }

    fn entry(&self, offset: i64) -> QueueEntry {
        let tag_hash = self.tags.as_ref().and_then(|tags| tags.get((offset - self.first) as usize).copied());
        QueueEntry { position: self.position, size: self.size, tag_hash: tag_hash.unwrap_or(0) }
    }
}

/// Where a batch is, and the last of its offsets that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) position: u64,
    pub(crate) size: u32,
    pub(crate) last_offset: i64,
}

/// What a reader takes away under the lock.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Batches that memory has.
    pub(crate) spans: Vec<Span>,
    /// Entries that have to be read from the files first.
    pub(crate) in_files: Option<std::ops::Range<i64>>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    dir: PathBuf,
    topic_id: TopicId,
    file_entries: i64,
    /// Under which readers keep files open; another one when files may be made again.
    number: u64,
    /// Offsets below are in the files.
    written: i64,
    end: i64,
    tail: VecDeque<Run>,
    /// The last runs of `tail` that are not in the files, or not wholly.
    waiting: usize,
    /// The folder is there, with the topic's id in it.
    exists: bool,
    /// Files with bytes that no sync covered, by their first offset.
    unsynced: Vec<i64>,
    /// The folder holds names that are not durable.
    names_unsynced: bool,
    /// What a sync that has not succeeded yet is to cover.
    syncing: Syncing,
}

#[derive(Debug, Default)]
struct Syncing {
    files: Vec<i64>,
    names: bool,
}

impl Queue {
    /// A queue without files whose first entry will be that of `start`.
    pub(crate) fn new(dir: PathBuf, topic_id: TopicId, file_entries: u32, start: Offset) -> Queue {
        Queue {
            dir,
            topic_id,
            file_entries: i64::from(file_entries.max(1)),
            number: 0,
            written: start.0,
            end: start.0,
            tail: VecDeque::new(),
            waiting: 0,
            exists: false,
            unsynced: Vec::new(),
            names_unsynced: false,
            syncing: Syncing::default(),
        }
    }

    /// Readers keep files open under this number from now on.
    pub(crate) fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Takes the files over as a queue of the offsets `start..end`, whose last entry is `last`; what is behind is cut. `false`: they do
    /// not say so, and are to be made again.
    pub(crate) fn adopt(&mut self, fs: &dyn Fs, start: Offset, end: Offset, last: QueueEntry) -> io::Result<bool> {
        self.exists = self.is_of_topic(fs)?;
        if last.size > 0 {
            let found = if self.exists { self.read_files(fs, end.0 - 1..end.0)? } else { Vec::new() };
            if found.first().is_none_or(|found| (found.position, found.size) != (last.position, last.size)) {
                return Ok(false);
            }
            if !self.is_whole(fs, start.0..end.0)? {
                return Ok(false);
            }
        }
        (self.written, self.end) = (end.0, end.0);
        if self.exists {
            self.cut_files(fs)?;
        }
        Ok(true)
    }

    /// Whether all files are there, and none is shorter than these offsets need.
    fn is_whole(&self, fs: &dyn Fs, offsets: std::ops::Range<i64>) -> io::Result<bool> {
        let mut first = offsets.start / self.file_entries * self.file_entries;
        while first < offsets.end {
            let entries = self.file_entries.min(offsets.end - first) as u64;
            let metadata = fs.metadata(&file_path(&self.dir, first))?;
            if metadata.is_none_or(|metadata| metadata.len < entries * ENTRY_SIZE as u64) {
                return Ok(false);
            }
            first += self.file_entries;
        }
        Ok(true)
    }

    fn is_of_topic(&self, fs: &dyn Fs) -> io::Result<bool> {
        let loaded = small_file::load(fs, &self.dir.join(ID_FILE), partition_metadata::decode);
        let loaded = loaded.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(loaded.content() == Some(self.topic_id))
    }

    /// The offset after the last record that the files know of before `position_end`, for a queue whose end nothing else tells.
    pub(crate) fn end_by_files(&self, fs: &dyn Fs, position_end: u64) -> io::Result<Option<Offset>> {
        if !self.is_of_topic(fs)? {
            return Ok(None);
        }
        for first in self.files(fs)?.into_iter().rev() {
            let entries = self.read_files(fs, first..first + self.file_entries)?;
            let known = |entry: &QueueEntry| entry.size > 0 && entry.position + u64::from(entry.size) <= position_end;
            if let Some(last) = entries.iter().rposition(known) {
                return Ok(Some(Offset(first + last as i64 + 1)));
            }
        }
        Ok(None)
    }

    /// Removes all files; the queue begins again at `start`.
    pub(crate) fn reset(&mut self, fs: &dyn Fs, start: Offset) -> io::Result<()> {
        match fs.remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        *self = Queue::new(std::mem::take(&mut self.dir), self.topic_id, self.file_entries as u32, start);
        Ok(())
    }

    pub(crate) fn end(&self) -> Offset {
        Offset(self.end)
    }

    /// No offset up to `end` that has no entry has a record.
    pub(crate) fn skip_to(&mut self, end: Offset) {
        if self.written == self.end {
            self.written = self.written.max(end.0);
        }
        self.end = self.end.max(end.0);
    }

    /// Adds the entries of a batch. Those below the end are there already; offsets that are skipped have no record.
    pub(crate) fn push(&mut self, mut run: Run) {
        if run.end() <= self.end {
            return;
        }
        let known = self.end - run.first;
        if known > 0 {
            run.first = self.end;
            run.count -= known as u32;
            run.tags = run.tags.map(|tags| tags[known as usize..].into());
        }
        self.end = run.end();
        self.tail.push_back(run);
        self.waiting += 1;
    }

    /// Whether so much waits that it is to be written.
    pub(crate) fn is_write_due(&self) -> bool {
        self.end - self.written >= ENTRIES_WAITING_MAX || self.waiting >= RUNS_WAITING_MAX
    }

    /// Writes what waits.
    pub(crate) fn write(&mut self, fs: &dyn Fs) -> io::Result<()> {
        if self.written < self.end {
            self.create(fs)?;
            let mut buffer = Vec::with_capacity((self.end - self.written) as usize * ENTRY_SIZE);
            let first = self.tail.len() - self.waiting;
            let mut from = self.written;
            for run in self.tail.range(first..) {
                // No record has the offsets of a gap.
                let gap = run.first.saturating_sub(from).max(0) as usize;
                buffer.resize(buffer.len() + gap * ENTRY_SIZE, 0);
                from = from.max(run.first);
                for offset in from..run.end() {
                    buffer.extend_from_slice(&run.entry(offset).encode());
                }
                from = run.end();
            }
            self.write_entries(fs, self.written, &buffer)?;
            self.written = self.end;
            self.waiting = 0;
        }
        while self.tail.len() > RUNS_KEPT_MAX {
            self.tail.pop_front();
        }
        Ok(())
    }

    /// Writes entries that begin at offset `from` into as many files as they reach into.
    fn write_entries(&mut self, fs: &dyn Fs, mut from: i64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let first = from / self.file_entries * self.file_entries;
            let room = (first + self.file_entries - from) as usize * ENTRY_SIZE;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let path = file_path(&self.dir, first);
            let file = match fs.open(&path, &OpenOptions::read_write()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.names_unsynced = true;
                    fs.open(&path, &OpenOptions::create())?
                }
                file => file?,
            };
            file.write_all_at(now, ((from - first) as usize * ENTRY_SIZE) as u64)?;
            note(&mut self.unsynced, first);
            from += (now.len() / ENTRY_SIZE) as i64;
            bytes = later;
        }
        Ok(())
    }

    fn create(&mut self, fs: &dyn Fs) -> io::Result<()> {
        if self.exists {
            return Ok(());
        }
        // What lies here is of another topic of the same name.
        match fs.remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs.create_dir_all(&self.dir)?;
        let id = fs.open(&self.dir.join(ID_FILE), &OpenOptions::create_empty())?;
        id.write_all_at(&partition_metadata::encode(self.topic_id), 0)?;
        self.exists = true;
        self.names_unsynced = true;
        Ok(())
    }

    /// Lets go of what is in memory and written.
    pub(crate) fn release(&mut self) {
        self.tail.drain(..self.tail.len() - self.waiting);
        self.tail.shrink_to_fit();
    }

    /// What is to be synced so that everything written is durable; asked again until [`Queue::synced`] says that it is.
    pub(crate) fn take_unsynced(&mut self) -> Option<Unsynced> {
        for first in std::mem::take(&mut self.unsynced) {
            note(&mut self.syncing.files, first);
        }
        self.syncing.names |= std::mem::take(&mut self.names_unsynced);
        if self.syncing.files.is_empty() && !self.syncing.names {
            return None;
        }
        let files = self.syncing.files.iter().map(|first| file_path(&self.dir, *first)).collect();
        Some(Unsynced { dir: self.dir.clone(), files, names: self.syncing.names })
    }

    /// What was taken last is durable.
    pub(crate) fn synced(&mut self) {
        self.syncing = Syncing::default();
    }

    /// Looks for the batches of `from..upper`, and one entry more, which tells where the last one ends.
    pub(crate) fn look(&self, from: i64, upper: i64, bytes_max: u64) -> Look {
        let in_memory = self.tail.front().map_or(self.end, |run| run.first);
        let mut look = Look::default();
        if from < in_memory.min(self.written) {
            look.in_files = Some(from..in_memory.min(upper.saturating_add(1)).min(self.written));
            return look;
        }
        let first = self.tail.partition_point(|run| run.end() <= from);
        let mut bytes = 0;
        for run in self.tail.range(first..) {
            if run.first >= upper || bytes > bytes_max {
                break;
            }
            bytes += u64::from(run.size);
            push_span(&mut look.spans, run.position, run.size, run.end() - 1);
        }
        look
    }

    pub(crate) fn files_of(&self) -> QueueFiles {
        QueueFiles { dir: self.dir.clone(), file_entries: self.file_entries, number: self.number }
    }

    fn read_files(&self, fs: &dyn Fs, range: std::ops::Range<i64>) -> io::Result<Vec<QueueEntry>> {
        self.files_of().read_once(fs, range)
    }

    /// Cuts the queue: it ends at `end` from now on.
    pub(crate) fn truncate(&mut self, fs: &dyn Fs, end: Offset) -> io::Result<()> {
        if end.0 >= self.end {
            return Ok(());
        }
        while self.tail.back().is_some_and(|run| run.first >= end.0) {
            self.tail.pop_back();
        }
        if let Some(last) = self.tail.back_mut().filter(|run| run.end() > end.0) {
            last.count = (end.0 - last.first) as u32;
        }
        self.end = end.0;
        self.written = self.written.min(end.0);
        self.waiting = self.tail.len() - self.tail.partition_point(|run| run.end() <= self.written);
        if self.exists { self.cut_files(fs) } else { Ok(()) }
    }

    /// Removes entries at and above the written end from the files.
    fn cut_files(&mut self, fs: &dyn Fs) -> io::Result<()> {
        for first in self.files(fs)? {
            let path = file_path(&self.dir, first);
            if first >= self.written {
                fs.remove_file(&path)?;
                self.unsynced.retain(|known| *known != first);
                self.names_unsynced = true;
            } else if first + self.file_entries > self.written {
                let len = ((self.written - first) as usize * ENTRY_SIZE) as u64;
                let file = fs.open(&path, &OpenOptions::read_write())?;
                if file.len()? > len {
                    file.set_len(len)?;
                    note(&mut self.unsynced, first);
                }
            }
        }
        Ok(())
    }

    /// Removes the files that hold nothing at or above `start`.
    pub(crate) fn remove_before(&mut self, fs: &dyn Fs, start: Offset) -> io::Result<()> {
        if !self.exists {
            return Ok(());
        }
        for first in self.files(fs)? {
            if first + self.file_entries <= start.0 && first + self.file_entries <= self.written {
                fs.remove_file(&file_path(&self.dir, first))?;
                self.unsynced.retain(|known| *known != first);
                self.names_unsynced = true;
            }
        }
        Ok(())
    }

    /// The first offsets of the files, ascending.
    fn files(&self, fs: &dyn Fs) -> io::Result<Vec<i64>> {
        let entries = match fs.read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let first = |name: &str| {
            let digits = name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
            let bytes = name.parse::<i64>().ok().filter(|_| digits)?;
            Some(bytes / ENTRY_SIZE as i64)
        };
        let mut files: Vec<i64> = entries.iter().filter_map(|entry| entry.name.to_str()).filter_map(first).collect();
        // Files of another size than configured now are found by the names that they would have now, or not at all.
        files.retain(|first| first % self.file_entries == 0);
        files.sort_unstable();
        Ok(files)
    }
}

/// Adds a batch, or another of its offsets, to a list of batches.
pub(crate) fn push_span(spans: &mut Vec<Span>, position: u64, size: u32, last_offset: i64) {
    match spans.last_mut() {
        Some(last) if last.position == position => last.last_offset = last_offset,
        _ => spans.push(Span { position, size, last_offset }),
    }
}

fn note(unsynced: &mut Vec<i64>, first: i64) {
    if !unsynced.contains(&first) {
        unsynced.push(first);
    }
}
