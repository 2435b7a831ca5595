//! What only Linux has. Every function here has a twin in `portable.rs`.

use std::fs;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::{Advice, Residency};

pub(super) fn allocate_keep_size(file: BorrowedFd<'_>, position: u64, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, position, len) {
        // Not every file system can; preallocation is only a saving.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn advise(file: BorrowedFd<'_>, position: u64, len: u64, advice: Advice) -> io::Result<()> {
    let advice = match advice {
        Advice::Normal => rustix::fs::Advice::Normal,
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
    };
    Ok(rustix::fs::fadvise(file, position, std::num::NonZeroU64::new(len), advice)?)
}

pub(super) fn try_read_at_nowait(file: BorrowedFd<'_>, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn start_writeback(file: BorrowedFd<'_>, position: u64, len: u64) -> io::Result<()> {
    let (position, len) = (position as libc::off64_t, len as libc::off64_t);
    // SAFETY: the descriptor is valid as long as it is borrowed; the call touches no memory of ours.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), position, len, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Since this version every file system's own errors are told, too ("vfs: make sync_filesystem return errors from
/// ->sync_fs"); those of single files since 5.8.
const SYNCFS_TELLS_ERRORS_SINCE: (u32, u32) = (5, 17);

/// The `f_type` of file systems of which `syncfs` tells every error: ext2 to ext4, XFS, Btrfs, F2FS, and tmpfs, where
/// nothing is durable. Others may not: overlayfs leaves out errors of the file system below it, FUSE asks no server.
const SYNCFS_TELLS_ERRORS_OF: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];

pub(super) fn sync_file_system(file: BorrowedFd<'_>) -> io::Result<bool> {
    // The type is a number of 32 bits, in fields of other sizes.
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    if !SYNCFS_TELLS_ERRORS_OF.contains(&kind) {
        return Ok(false);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    if !release.is_ok_and(|release| is_since(&release, SYNCFS_TELLS_ERRORS_SINCE)) {
        return Ok(false);
    }
    rustix::fs::syncfs(file)?;
    Ok(true)
}

/// Whether a release such as `6.1.0-18-amd64` is of this version or later.
fn is_since(release: &str, (major, minor): (u32, u32)) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(found_major)), Some(Ok(found_minor))) => (found_major, found_minor) >= (major, minor),
        _ => false,
    }
}

/// `struct cachestat_range` of `linux/mman.h`.
#[repr(C)]
struct CachestatRange {
    position: u64,
    len: u64,
}

/// `struct cachestat` of `linux/mman.h`: all counts are pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The system call came with Linux 6.5 and has this number on every architecture that Rust's std supports on Linux.
const SYS_CACHESTAT: libc::c_long = 451;

pub(super) fn residency(file: BorrowedFd<'_>, position: u64, len: u64) -> io::Result<Residency> {
    if len == 0 {
        return Ok(Residency::Resident);
    }
    let range = CachestatRange { position, len };
    let mut stat = Cachestat::default();
    // SAFETY: both pointers are to live structs of the layout that the kernel declares; flags are 0 as it demands.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0u32) };
    if result != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM) => Ok(Residency::Unknown),
            _ => Err(error),
        };
    }
    // SAFETY: a question without arguments in memory.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    let pages = (position + len).div_ceil(page) - position / page;
    Ok(if stat.cached >= pages { Residency::Resident } else { Residency::Partial })
}

pub(super) fn send(file: &fs::File, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
    let mut position = position;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut position), len)?)
}

/// A record lock over the whole file, as Java's `FileChannel` takes it, but one that belongs to the handle instead of
/// the process: a plain one would be lost as soon as the process closes any other handle of the file. `false`: somebody
/// else has a record lock.
pub(super) fn try_record_lock(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is valid as long as it is borrowed; the pointer is to a live struct, which the call only
    // reads.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        // A file system without record locks has none that could be missed.
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOLCK) => Ok(true),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::is_since;

    #[test]
    fn releases_are_compared_as_numbers() {
        let since = |release| is_since(release, (5, 17));
        assert!(["5.17", "5.17.1", "5.100.0-rc1", "6.1.0-18-amd64", "10.0"].into_iter().all(since));
        assert!(!["5.16.99", "5.2", "4.19.0", "5", "", "x.y", "5.x"].into_iter().any(since));
    }
}
