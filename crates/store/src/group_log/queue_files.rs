//! The files of a consume queue.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions};
use mainstem_types::Offset;

use super::nowait::read_nowait;
use crate::formats::queue_entry::{self, ENTRY_SIZE, QueueEntry};
use crate::store_env::StoreEnv;
use crate::views::index_cache::OpenIndex;

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
    /// Makes the files durable, by content.
    pub(crate) fn sync(&self, fs: &dyn Fs) -> io::Result<()> {
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
        }
        Ok(())
    }

    /// The folders that are to be synced too, up to `root`, which is durable.
    pub(crate) fn unsynced_dirs<'s>(&'s self, root: &Path) -> impl Iterator<Item = &'s Path> {
        let below_root = self.dir.ancestors().take_while(move |dir| dir.starts_with(root));
        below_root.filter(|_| self.names)
    }
}

/// The files of a queue, for readers without a lock.
#[derive(Debug, Clone)]
pub(crate) struct QueueFiles {
    pub(super) dir: Arc<Path>,
    pub(super) file_entries: i64,
    /// Under which open files are kept; another one when files may be made again.
    pub(super) number: u64,
}

impl QueueFiles {
    pub(super) fn new(dir: PathBuf, file_entries: u32) -> QueueFiles {
        QueueFiles { dir: dir.into(), file_entries: i64::from(file_entries.max(1)), number: 0 }
    }

    /// The first offset that is not in the file of `offset`.
    pub(crate) fn end_of_file(&self, offset: i64) -> i64 {
        self.begin_of_file(offset) + self.file_entries
    }

    pub(super) fn begin_of_file(&self, offset: i64) -> i64 {
        offset.max(0) / self.file_entries * self.file_entries
    }

    /// Reads the entries of these offsets, of one file, into the buffer; fewer where it ends. Files stay open for the
    /// next reader. `wait`: the disk may be waited for; else [`io::ErrorKind::WouldBlock`] if something is not in
    /// memory, or not open.
    pub(crate) fn read(&self, env: &StoreEnv, range: Range<i64>, wait: bool, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        let first = self.begin_of_file(range.start);
        let Some(file) = self.open(env, first, wait)? else { return Ok(()) };
        let end = range.end.min(first + self.file_entries);
        buffer.resize((end - range.start).max(0) as usize * ENTRY_SIZE, 0);
        let position = ((range.start - first) as usize * ENTRY_SIZE) as u64;
        let count = match wait {
            true => file.read_full_at(buffer, position)?,
            false => read_nowait(file.as_ref(), buffer, position)?.ok_or(io::ErrorKind::WouldBlock)?,
        };
        buffer.truncate(count);
        Ok(())
    }

    fn open(&self, env: &StoreEnv, first: i64, wait: bool) -> io::Result<Option<Arc<dyn File>>> {
        let base = Offset(first);
        if let Some(open) = env.indexes.get(self.number, base) {
            return Ok(Some(Arc::clone(&open.file)));
        }
        if !wait {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(file) = open_file(env.fs.as_ref(), &file_path(&self.dir, first))? else { return Ok(None) };
        env.indexes.insert(self.number, base, Arc::new(OpenIndex::new(Arc::clone(&file))));
        Ok(Some(file))
    }

    /// As [`QueueFiles::read`], opening the file for this one read.
    pub(crate) fn read_once(&self, fs: &dyn Fs, range: Range<i64>) -> io::Result<Vec<QueueEntry>> {
        let first = self.begin_of_file(range.start);
        let Some(file) = open_file(fs, &file_path(&self.dir, first))? else { return Ok(Vec::new()) };
        let end = range.end.min(first + self.file_entries);
        let mut bytes = vec![0; (end - range.start).max(0) as usize * ENTRY_SIZE];
        let count = file.read_full_at(&mut bytes, ((range.start - first) as usize * ENTRY_SIZE) as u64)?;
        Ok(queue_entry::decode(&bytes[..count]).collect())
    }
}

fn open_file(fs: &dyn Fs, path: &Path) -> io::Result<Option<Arc<dyn File>>> {
    match fs.open(path, &OpenOptions::read()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// The file that begins with an offset.
pub(super) fn file_path(dir: &Path, first: i64) -> PathBuf {
    dir.join(format!("{:020}", first * ENTRY_SIZE as i64))
}
