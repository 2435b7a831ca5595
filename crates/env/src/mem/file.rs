//! An open file in memory.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::contents::Contents;
use super::{MemFs, OpKind, is_stopped};
use crate::{Advice, File, OpenOptions, Residency};

/// Bytes of one [`File::send_to`].
const SEND_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct MemFile {
    fs: MemFs,
    /// The name under which it was opened: faults are planned by it.
    path: PathBuf,
    contents: Arc<Mutex<Contents>>,
    readable: bool,
    writable: bool,
    holds_lock: AtomicBool,
}

impl MemFile {
    pub(super) fn new(fs: MemFs, path: &Path, contents: Arc<Mutex<Contents>>, options: &OpenOptions) -> Self {
        MemFile {
            fs,
            path: path.to_path_buf(),
            contents,
            readable: options.read,
            writable: options.write,
            holds_lock: AtomicBool::new(false),
        }
    }

    fn gate(&self, kind: OpKind, mutates: bool) -> io::Result<Option<usize>> {
        self.fs.gate(kind, mutates, &self.path)
    }

    fn check(&self, allowed: bool) -> io::Result<()> {
        if allowed { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }

    fn sync(&self) -> io::Result<()> {
        let gate = self.gate(OpKind::Sync, true);
        let mut contents = self.contents.lock();
        match gate {
            Ok(_) => {
                contents.sync();
                Ok(())
            }
            Err(error) => {
                if !is_stopped(&error) {
                    contents.lose_pending();
                }
                Err(error)
            }
        }
    }
}

impl File for MemFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check(self.readable)?;
        let limit = self.gate(OpKind::Read, false)?;
        let contents = self.contents.lock();
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(contents.live.len());
        let count = (contents.live.len() - from).min(buffer.len()).min(limit.unwrap_or(usize::MAX));
        buffer[..count].copy_from_slice(&contents.live[from..from + count]);
        Ok(count)
    }

    fn write_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check(self.writable)?;
        let limit = self.gate(OpKind::Write, true)?;
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        bytes.truncate(limit.unwrap_or(usize::MAX));
        let count = bytes.len();
        if count > 0 {
            let position = usize::try_from(position).map_err(|_| io::ErrorKind::FileTooLarge)?;
            self.contents.lock().write(position, bytes, self.fs.shared.now());
        }
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        self.gate(OpKind::Sync, true)?;
        self.fs.sync_everything();
        Ok(true)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check(self.writable)?;
        self.gate(OpKind::SetLen, true)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.contents.lock().set_len(len, self.fs.shared.now());
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.gate(OpKind::Metadata, false)?;
        Ok(self.contents.lock().live.len() as u64)
    }

    fn allocate_keep_size(&self, _position: u64, _len: u64) -> io::Result<()> {
        self.check(self.writable)?;
        self.gate(OpKind::Allocate, false).map(|_| ())
    }

    fn advise(&self, _position: u64, _len: u64, _advice: Advice) -> io::Result<()> {
        Ok(())
    }

    fn try_read_at_nowait(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn start_writeback(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn residency(&self, _position: u64, _len: u64) -> io::Result<Residency> {
        Ok(Residency::Resident)
    }

    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
        let mut buffer = vec![0; len.min(SEND_BYTES_MAX)];
        let count = self.read_at(&mut buffer, position)?;
        if count == 0 {
            return Ok(0);
        }
        Ok(rustix::io::write(socket, &buffer[..count])?)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut contents = self.contents.lock();
        if contents.locked {
            return Ok(self.holds_lock.load(Ordering::Acquire));
        }
        contents.locked = true;
        self.holds_lock.store(true, Ordering::Release);
        Ok(true)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        if self.holds_lock.load(Ordering::Acquire) {
            self.contents.lock().locked = false;
        }
    }
}
