//! The files of a consume queue.

use std::io;
use std::path::{Path, PathBuf};

use mainstem_env::{Fs, OpenOptions};

use crate::formats::queue_entry::{ENTRY_SIZE, QueueEntry};

/// Tells whose queue it is.
pub(super) const ID_FILE: &str = "partition.metadata";
/// Of a file's name.
pub(super) const DIGITS: usize = 20;

/// Files to sync.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) dir: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    /// The names of files too, and the folder's own.
    pub(super) names: bool,
}

impl Unsynced {
    /// Makes it durable. Folders are synced up to `root`, which is durable.
    pub(crate) fn sync(&self, fs: &dyn Fs, root: &Path) -> io::Result<()> {
        for path in &self.files {
            match fs.open(path, &OpenOptions::read_write()) {
                Ok(file) => file.sync_data()?,
                // Retention removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if self.names {
            fs.open(&self.dir.join(ID_FILE), &OpenOptions::read_write())?.sync_data()?;
            let mut dir = self.dir.as_path();
            loop {
                fs.sync_dir(dir)?;
                match dir.parent().filter(|_| dir != root) {
                    Some(parent) => dir = parent,
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// The files of a queue, for readers without a lock.
#[derive(Debug, Clone)]
pub(crate) struct QueueFiles {
    pub(super) dir: PathBuf,
    pub(super) file_entries: i64,
}

impl QueueFiles {
    /// The first offset that is not in the file of `offset`.
    pub(crate) fn end_of_file(&self, offset: i64) -> i64 {
        (offset.max(0) / self.file_entries + 1) * self.file_entries
    }

    /// The entries of these offsets, of one file; fewer where it ends.
    pub(crate) fn read(&self, fs: &dyn Fs, range: std::ops::Range<i64>) -> io::Result<Vec<QueueEntry>> {
        let first = range.start.max(0) / self.file_entries * self.file_entries;
        let end = range.end.min(first + self.file_entries);
        if end <= range.start {
            return Ok(Vec::new());
        }
        let file = match fs.open(&file_path(&self.dir, first), &OpenOptions::read()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut bytes = vec![0; (end - range.start) as usize * ENTRY_SIZE];
        let count = file.read_full_at(&mut bytes, ((range.start - first) as usize * ENTRY_SIZE) as u64)?;
        Ok(crate::formats::queue_entry::decode(&bytes[..count]).collect())
    }
}

/// The file that begins with an offset.
pub(super) fn file_path(dir: &Path, first: i64) -> PathBuf {
    dir.join(format!("{:020}", first * ENTRY_SIZE as i64))
}
