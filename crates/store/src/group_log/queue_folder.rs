//! Writing the files of a consume queue: one at a time does, and without a lock that an append takes.
//!
//! Files hold a fixed number of entries; the bytes of offsets that have no record are zero.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use mainstem_env::{Fs, OpenOptions};
use mainstem_types::{Offset, Position, TopicId};

use super::queue_files::{DIGITS, ID_FILE, QueueFiles, Unsynced, file_path};
use crate::formats::partition_metadata;
use crate::formats::queue_entry::{ENTRY_SIZE, QueueEntry};
use crate::small_file;

/// The folder of a queue, and what of it is to be synced.
#[derive(Debug)]
pub(crate) struct QueueFolder {
    files: QueueFiles,
    topic_id: TopicId,
    /// The folder is there, with the topic's id in it.
    exists: bool,
    /// The partition was deleted: another one may use the folder.
    gone: bool,
    /// Files with bytes that no sync covered, by their first offset.
    unsynced: Vec<i64>,
    /// The folder holds names that are not durable.
    names_unsynced: bool,
    /// What a sync that has not succeeded yet is to cover.
    syncing: Syncing,
    /// The next entries go into a file that is not there.
    needs_file: bool,
}

/// Whether a write may create what is not there. Creating can wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    LeaveOut,
}

#[derive(Debug, Default)]
struct Syncing {
    files: Vec<i64>,
    names: bool,
}

impl QueueFolder {
    /// Of which nothing is known yet; whatever is there is of another topic, unless it is adopted.
    pub(crate) fn new(files: QueueFiles, topic_id: TopicId) -> QueueFolder {
        QueueFolder {
            files,
            topic_id,
            exists: false,
            gone: false,
            unsynced: Vec::new(),
            names_unsynced: false,
            syncing: Syncing::default(),
            needs_file: false,
        }
    }

    /// Takes the files over as a queue of the offsets `start..end`, whose last entry is `last`; what is behind is cut.
    /// `false`: they do not say so, and are to be made again.
    pub(crate) fn adopt(&mut self, fs: &dyn Fs, start: Offset, end: Offset, last: QueueEntry) -> io::Result<bool> {
        self.exists = self.is_of_topic(fs)?;
        if last.size > 0 {
            let found = if self.exists { self.files.read_once(fs, end.0 - 1..end.0)? } else { Vec::new() };
            if found.first().is_none_or(|found| (found.position, found.size) != (last.position, last.size)) {
                return Ok(false);
            }
            if !self.is_whole(fs, start.0..end.0)? {
                return Ok(false);
            }
        }
        if self.exists {
            self.cut(fs, end)?;
        }
        Ok(true)
    }

    /// Whether all files are there, and none is shorter than these offsets need.
    fn is_whole(&self, fs: &dyn Fs, offsets: Range<i64>) -> io::Result<bool> {
        let mut first = self.files.begin_of_file(offsets.start);
        while first < offsets.end {
            let entries = self.files.file_entries.min(offsets.end - first) as u64;
            let metadata = fs.metadata(&file_path(&self.files.dir, first))?;
            if metadata.is_none_or(|metadata| metadata.len < entries * ENTRY_SIZE as u64) {
                return Ok(false);
            }
            first += self.files.file_entries;
        }
        Ok(true)
    }

    fn is_of_topic(&self, fs: &dyn Fs) -> io::Result<bool> {
        let loaded = small_file::load(fs, &self.files.dir.join(ID_FILE), partition_metadata::decode);
        let loaded = loaded.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(loaded.content() == Some(self.topic_id))
    }

    /// The offset after the last record that the files know of before `position_end`, for a queue whose end nothing
    /// else tells.
    pub(crate) fn end_by_files(&self, fs: &dyn Fs, position_end: Position) -> io::Result<Option<Offset>> {
        if !self.is_of_topic(fs)? {
            return Ok(None);
        }
        for first in self.first_offsets(fs)?.into_iter().rev() {
            let entries = self.files.read_once(fs, first..first + self.files.file_entries)?;
            let known = |entry: &QueueEntry| entry.size > 0 && entry.end() <= position_end;
            if let Some(last) = entries.iter().rposition(known) {
                return Ok(Some(Offset(first + last as i64 + 1)));
            }
        }
        Ok(None)
    }

    /// Removes all files; the queue is made again.
    pub(crate) fn reset(&mut self, fs: &dyn Fs) -> io::Result<()> {
        remove_all(fs, &self.files)?;
        *self = QueueFolder::new(self.files.clone(), self.topic_id);
        Ok(())
    }

    /// Removes all files for good.
    pub(crate) fn delete(&mut self, fs: &dyn Fs) -> io::Result<()> {
        self.gone = true;
        remove_all(fs, &self.files)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether the next entries wait for a write that may create a file.
    pub(crate) fn needs_file(&self) -> bool {
        self.needs_file
    }

    /// Writes entries that begin at offset `from` into as many files as they reach into; gives the offset after the
    /// last one that was written.
    pub(crate) fn write(&mut self, fs: &dyn Fs, mut from: i64, mut bytes: &[u8], missing: Missing) -> io::Result<i64> {
        if !self.exists && missing == Missing::LeaveOut {
            self.needs_file = true;
            return Ok(from);
        }
        self.create(fs)?;
        while !bytes.is_empty() {
            let first = self.files.begin_of_file(from);
            let room = (self.files.end_of_file(from) - from) as usize * ENTRY_SIZE;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let path = file_path(&self.files.dir, first);
            let file = match fs.open(&path, &OpenOptions::read_write()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::LeaveOut => {
                    self.needs_file = true;
                    return Ok(from);
                }
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
        self.needs_file = false;
        Ok(from)
    }

    fn create(&mut self, fs: &dyn Fs) -> io::Result<()> {
        if self.exists {
            return Ok(());
        }
        // What lies here is of another topic of the same name.
        remove_all(fs, &self.files)?;
        fs.create_dir_all(&self.files.dir)?;
        let id = fs.open(&self.files.dir.join(ID_FILE), &OpenOptions::create_empty())?;
        id.write_all_at(&partition_metadata::encode(self.topic_id), 0)?;
        self.exists = true;
        self.names_unsynced = true;
        Ok(())
    }

    /// What is to be synced so that everything written is durable; asked again until [`QueueFolder::synced`] says that
    /// it is.
    pub(crate) fn take_unsynced(&mut self) -> Option<Unsynced> {
        for first in std::mem::take(&mut self.unsynced) {
            note(&mut self.syncing.files, first);
        }
        self.syncing.names |= std::mem::take(&mut self.names_unsynced);
        if self.syncing.files.is_empty() && !self.syncing.names {
            return None;
        }
        let dir: PathBuf = self.files.dir.to_path_buf();
        let files = self.syncing.files.iter().map(|first| file_path(&dir, *first)).collect();
        Some(Unsynced { dir, files, names: self.syncing.names })
    }

    /// What was taken last is durable.
    pub(crate) fn synced(&mut self) {
        self.syncing = Syncing::default();
    }

    /// Removes entries at and above `end` from the files.
    pub(crate) fn cut(&mut self, fs: &dyn Fs, end: Offset) -> io::Result<()> {
        if !self.exists {
            return Ok(());
        }
        for first in self.first_offsets(fs)? {
            let path = file_path(&self.files.dir, first);
            if first >= end.0 {
                self.remove(fs, first)?;
            } else if first + self.files.file_entries > end.0 {
                let len = ((end.0 - first) as usize * ENTRY_SIZE) as u64;
                let file = fs.open(&path, &OpenOptions::read_write())?;
                if file.len()? > len {
                    file.set_len(len)?;
                    note(&mut self.unsynced, first);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, fs: &dyn Fs, first: i64) -> io::Result<()> {
        fs.remove_file(&file_path(&self.files.dir, first))?;
        self.unsynced.retain(|known| *known != first);
        self.names_unsynced = true;
        Ok(())
    }

    /// Removes the files that hold nothing at or above `start`, of those that are written to their end.
    pub(crate) fn remove_before(&mut self, fs: &dyn Fs, start: Offset, written: Offset) -> io::Result<()> {
        if !self.exists || self.gone {
            return Ok(());
        }
        for first in self.first_offsets(fs)? {
            if first + self.files.file_entries <= start.min(written).0 {
                self.remove(fs, first)?;
            }
        }
        Ok(())
    }

    /// The first offsets of the files, ascending.
    fn first_offsets(&self, fs: &dyn Fs) -> io::Result<Vec<i64>> {
        let entries = match fs.read_dir(&self.files.dir) {
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
        files.retain(|first| first % self.files.file_entries == 0);
        files.sort_unstable();
        Ok(files)
    }
}

fn remove_all(fs: &dyn Fs, files: &QueueFiles) -> io::Result<()> {
    match fs.remove_dir_all(&files.dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn note(unsynced: &mut Vec<i64>, first: i64) {
    if !unsynced.contains(&first) {
        unsynced.push(first);
    }
}
