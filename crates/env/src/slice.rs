//! A part of a file, to be sent without copying it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::File;

/// `len` bytes of `file` from `position` on. Keeps the file alive: it can be sent in full even after the file was
/// deleted.
#[derive(Debug, Clone)]
pub struct FileSlice {
    pub file: Arc<dyn File>,
    pub position: u64,
    pub len: u64,
}

impl FileSlice {
    pub fn new(file: Arc<dyn File>, position: u64, len: u64) -> Self {
        FileSlice { file, position, len }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops the first `bytes` bytes, after they were sent.
    pub fn advance(&mut self, bytes: u64) {
        let bytes = bytes.min(self.len);
        self.position += bytes;
        self.len -= bytes;
    }

    /// The first `bytes` bytes of the slice.
    #[must_use]
    pub fn prefix(&self, bytes: u64) -> FileSlice {
        FileSlice { file: Arc::clone(&self.file), position: self.position, len: self.len.min(bytes) }
    }

    /// Sends a part of the slice, at most `bytes_max`, and drops what was sent. `Ok(0)` with a non-empty slice says
    /// that the file became shorter than the slice.
    pub fn send_to(&mut self, socket: BorrowedFd<'_>, bytes_max: usize) -> io::Result<usize> {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(bytes_max);
        let sent = self.file.send_to(socket, self.position, len)?;
        self.advance(sent as u64);
        Ok(sent)
    }

    /// Reads the whole slice. `UnexpectedEof` if the file became shorter.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len as usize];
        self.file.read_exact_at(&mut bytes, self.position)?;
        Ok(bytes)
    }
}
