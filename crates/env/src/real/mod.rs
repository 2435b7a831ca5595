//! The real file system.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use mainstem_types::TimestampMs;

use crate::{Advice, DirEntry, File, Fs, Metadata, OpenDir, OpenOptions, Residency};

mod limits;

pub use limits::raise_open_files_limit;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "portable.rs"]
mod system;

// The fallback is compiled and tested here too, so that it cannot rot while everybody develops on Linux.
#[cfg(all(test, target_os = "linux"))]
mod portable;
#[cfg(test)]
mod tests;

/// The file system of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

#[derive(Debug)]
struct RealDir {
    dir: fs::File,
}

impl OpenDir for RealDir {
    fn sync(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

impl Fs for RealFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(options.read)
            .write(options.write)
            .create(options.create)
            .create_new(options.create_new)
            .truncate(options.truncate)
            .open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            // A link to a directory is a directory: administrators move partitions to other disks this way.
            let is_dir = kind.is_dir() || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()));
            entries.push(DirEntry { name: entry.file_name(), is_dir });
        }
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.open_dir(path)?.sync()
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        Ok(Box::new(RealDir { dir: fs::File::open(path)? }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let modified_ms = match metadata.modified()?.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        };
        Ok(Some(Metadata { len: metadata.len(), is_dir: metadata.is_dir(), modified_ms: TimestampMs(modified_ms) }))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    fn file_system_id(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.dev())
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(bytes, position)
    }

    fn write_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        match parts {
            [part] => self.file.write_at(part, position),
            parts => Ok(rustix::io::pwritev(&self.file, parts, position)?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        system::sync_file_system(self.file.as_fd())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate_keep_size(&self, position: u64, len: u64) -> io::Result<()> {
        system::allocate_keep_size(self.file.as_fd(), position, len)
    }

    fn advise(&self, position: u64, len: u64, advice: Advice) -> io::Result<()> {
        system::advise(self.file.as_fd(), position, len, advice)
    }

    fn try_read_at_nowait(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        system::try_read_at_nowait(self.file.as_fd(), buffer, position)
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        system::start_writeback(self.file.as_fd(), position, len)
    }

    fn residency(&self, position: u64, len: u64) -> io::Result<Residency> {
        system::residency(self.file.as_fd(), position, len)
    }

    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
        system::send(&self.file, socket, position, len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(false),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // Whole-file locks (`flock`) and record locks (`fcntl`, which Java takes) do not see each other: both are
        // taken.
        let locked = system::try_record_lock(self.file.as_fd());
        if !matches!(locked, Ok(true)) {
            self.file.unlock()?;
        }
        locked
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
