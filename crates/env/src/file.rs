//! An open file.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// What will be done with a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    Normal,
    Sequential,
    Random,
    WillNeed,
    DontNeed,
}

/// Whether a part of a file is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// All of it: a read does not wait for the disk.
    Resident,
    /// Some of it is not: a read may wait for the disk.
    Partial,
    /// The system cannot say (not Linux, or older than 6.5).
    Unknown,
}

/// An open file. All IO is positional, so one handle serves any number of threads.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buffer.len()` bytes; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes a prefix of `bytes` and says how much.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.write_vectored_at(&[IoSlice::new(bytes)], position)
    }

    /// Writes a prefix of the concatenation of `parts` and says how much.
    fn write_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize>;

    /// Makes the bytes and the length durable (`fdatasync`; `F_FULLFSYNC` on macOS), but not the file's name.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`File::sync_data`], with all metadata.
    fn sync_all(&self) -> io::Result<()>;

    /// Makes everything durable that was written to the file system of this file, or named in it, by anybody. `false`:
    /// the system cannot, or would not tell of an error; then nothing is known. An error may be of any file, and of any
    /// time since this one was opened.
    fn sync_file_system(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Cuts or extends (with zeros). Cutting to the present length releases what [`File::allocate_keep_size`] reserved.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The present length.
    fn len(&self) -> io::Result<u64>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reserves blocks for `len` bytes from `position` on without changing the length. Does nothing where the file
    /// system cannot; `StorageFull` where it has no room.
    fn allocate_keep_size(&self, position: u64, len: u64) -> io::Result<()>;

    /// A hint; does nothing where the system takes none.
    fn advise(&self, position: u64, len: u64, advice: Advice) -> io::Result<()>;

    /// Reads bytes that the page cache holds. `None`: the read would wait for the disk, or the system cannot tell.
    /// `Some(0)` is the end of the file.
    fn try_read_at_nowait(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>>;

    /// Starts to write dirty pages to the disk, so that a later sync finds less to do. No promise of durability.
    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()>;

    /// Whether a read of these bytes would wait for the disk.
    fn residency(&self, position: u64, len: u64) -> io::Result<Residency>;

    /// Sends up to `len` bytes from `position` on to a socket and says how many: `sendfile`, or read and write.
    /// `WouldBlock` when a non-blocking socket takes nothing now; 0 at the end of the file.
    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize>;

    /// Takes the exclusive lock of the file, which lasts until this handle is dropped. `false`: another handle has it,
    /// or a program that locks with `fcntl`, as Java does. The file must be open for writing.
    fn try_lock(&self) -> io::Result<bool>;

    /// The descriptor, for memory maps; `None` for files in memory.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Fills the buffer. `UnexpectedEof` if the file ends first.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut position: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, position) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    buffer = &mut buffer[count..];
                    position += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends, and says how much that is.
    fn read_full_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Writes everything. After an error a prefix may have been written.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_vectored_at(&[IoSlice::new(bytes)], position)
    }

    /// Writes all parts, one after the other. After an error a prefix may have been written.
    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        // The common case: the system takes everything at once, and the list of parts is never copied.
        let mut written = write_some(self, parts, position)?;
        if written < total {
            let mut rest: Vec<IoSlice<'_>> = parts.to_vec();
            let mut rest = rest.as_mut_slice();
            IoSlice::advance_slices(&mut rest, written);
            while written < total {
                let count = write_some(self, rest, position + written as u64)?;
                IoSlice::advance_slices(&mut rest, count);
                written += count;
            }
        }
        Ok(())
    }
}

/// One write that is not empty, or an error. At most [`PARTS_MAX`] parts a call (`IOV_MAX` of Linux and macOS).
fn write_some<F: File + ?Sized>(file: &F, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
    let parts = &parts[..parts.len().min(PARTS_MAX)];
    if parts.iter().all(|part| part.is_empty()) {
        return Ok(parts.iter().map(|part| part.len()).sum());
    }
    loop {
        match file.write_vectored_at(parts, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

const PARTS_MAX: usize = 1024;
