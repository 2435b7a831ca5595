//! The same functions as in `linux.rs` for every other Unix: hints do nothing, questions are answered "unknown", and
//! sending is a read and a write.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use crate::{Advice, Residency};

/// Bytes of one [`send`]: what one buffer costs against what a socket usually takes at once.
const SEND_BYTES_MAX: usize = 64 * 1024;

pub(super) fn allocate_keep_size(_file: BorrowedFd<'_>, _position: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

pub(super) fn advise(_file: BorrowedFd<'_>, _position: u64, _len: u64, _advice: Advice) -> io::Result<()> {
    Ok(())
}

pub(super) fn try_read_at_nowait(_: BorrowedFd<'_>, _: &mut [u8], _position: u64) -> io::Result<Option<usize>> {
    Ok(None)
}

pub(super) fn start_writeback(_file: BorrowedFd<'_>, _position: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

pub(super) fn sync_file_system(_file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn residency(_file: BorrowedFd<'_>, _position: u64, _len: u64) -> io::Result<Residency> {
    Ok(Residency::Unknown)
}

pub(super) fn send(file: &fs::File, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
    let mut buffer = vec![0; len.min(SEND_BYTES_MAX)];
    let count = file.read_at(&mut buffer, position)?;
    if count == 0 {
        return Ok(0);
    }
    Ok(rustix::io::write(socket, &buffer[..count])?)
}

/// A record lock over the whole file, as Java's `FileChannel` takes it. It belongs to the process, and ends as soon as
/// the process closes any handle of the file. `false`: another process has one.
pub(super) fn try_record_lock(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is valid as long as it is borrowed; the pointer is to a live struct, which the call only
    // reads.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}
