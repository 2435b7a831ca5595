//! A file system.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_types::TimestampMs;

use crate::File;

/// How a file is opened. The default opens nothing; begin with [`OpenOptions::read`] or [`OpenOptions::read_write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    pub read: bool,
    pub write: bool,
    /// Creates the file if it is absent.
    pub create: bool,
    /// Creates the file; `AlreadyExists` if it is there.
    pub create_new: bool,
    /// Cuts an existing file to nothing.
    pub truncate: bool,
}

impl OpenOptions {
    /// An existing file, to read.
    pub fn read() -> Self {
        OpenOptions { read: true, ..Default::default() }
    }

    /// An existing file, to read and write.
    pub fn read_write() -> Self {
        OpenOptions { read: true, write: true, ..Default::default() }
    }

    /// A file to read and write, created if absent.
    pub fn create() -> Self {
        OpenOptions { create: true, ..OpenOptions::read_write() }
    }

    /// A file to read and write, which must not exist yet.
    pub fn create_new() -> Self {
        OpenOptions { create_new: true, ..OpenOptions::read_write() }
    }

    /// An empty file to read and write, whether or not it existed.
    pub fn create_empty() -> Self {
        OpenOptions { create: true, truncate: true, ..OpenOptions::read_write() }
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    pub name: OsString,
    pub is_dir: bool,
}

/// What a file system knows about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    pub len: u64,
    pub is_dir: bool,
    pub modified_ms: TimestampMs,
}

/// An open directory.
pub trait OpenDir: Send + Sync + Debug {
    /// As [`Fs::sync_dir`]; needs no descriptor.
    fn sync(&self) -> io::Result<()>;
}

/// A file system. Names are durable only after [`Fs::sync_dir`] of the directory that holds them.
pub trait Fs: Send + Sync + Debug {
    /// Opens a file. `NotFound` if it is absent and not to be created.
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>>;

    /// Creates a directory and its missing parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in order.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Renames a file or a directory; an existing file `to` is replaced at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; open handles go on working.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in this directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a directory, for syncs that must not fail for want of a descriptor.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>>;

    /// `None`: there is nothing of that name. An error: it is not known whether there is.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;

    /// Bytes that an unprivileged writer can still write to the file system of `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;

    /// Bytes of the whole file system of `path`, used or not.
    fn total_space(&self, _path: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells the file systems of two paths apart: links may lead to another one.
    fn file_system_id(&self, _path: &Path) -> io::Result<u64> {
        Ok(0)
    }

    /// `Ok(false)` is "absent"; an error is "unknown".
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.metadata(path)?.is_some())
    }

    /// The whole content of a file.
    fn read_all(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, &OpenOptions::read())?;
        let mut bytes = vec![0; file.len()? as usize];
        let count = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// The whole content of a file; `None` if it is absent.
    fn read_if_present(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.read_all(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the content of a small file so that a crash leaves the old or the new content, whole and durable:
    /// `<name>.tmp`, fsync, rename, fsync of the directory.
    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = with_suffix(path, ".tmp");
        let file = self.open(&temporary, &OpenOptions::create_empty())?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        self.rename(&temporary, path)?;
        self.sync_dir(parent_of(path))
    }

    /// Creates a directory and its missing parents, durably.
    fn create_dir_all_synced(&self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut at = path;
        while !at.as_os_str().is_empty() && !self.exists(at)? {
            missing.push(at);
            at = parent_of(at);
        }
        self.create_dir_all(path)?;
        // From the top down, so that at no moment a durable directory hangs below one that is not.
        missing.iter().rev().try_for_each(|created| self.sync_dir(parent_of(created)))
    }
}

/// `path` with `suffix` appended to its last part.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new(suffix));
    PathBuf::from(name)
}

/// The directory that holds `path`; `.` for a bare name.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Whether an error says that there is no room, on the disk or within a quota: not final, a later write may find some.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The process, or the machine, has no file descriptor left; the same numbers on every Unix.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Whether a file was not opened because no file descriptor is left: not final, a later call may find some.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// Whether a later call may do what this one could not: there was no room, or no file descriptor.
pub fn may_pass(error: &io::Error) -> bool {
    is_disk_full(error) || is_out_of_descriptors(error)
}
