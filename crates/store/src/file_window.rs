//! A file that is read from front to back, with the last bytes that were read in memory.

use std::io;

use mainstem_env::File;

/// Bytes that are read in one go.
const WINDOW_BYTES: usize = 64 << 10;

/// The first `len` bytes of a file.
pub(crate) struct FileWindow<'f> {
    pub(crate) file: &'f dyn File,
    pub(crate) len: u64,
    /// Where `bytes` begin.
    at: u64,
    bytes: Vec<u8>,
}

impl<'f> FileWindow<'f> {
    pub(crate) fn new(file: &'f dyn File, len: u64) -> FileWindow<'f> {
        FileWindow { file, len, at: 0, bytes: Vec::new() }
    }

    /// The bytes from a position on: `wanted` of them, at most a window, or as many as the file has.
    pub(crate) fn load(&mut self, position: u64, wanted: usize) -> io::Result<&[u8]> {
        let wanted = (self.len.saturating_sub(position)).min(wanted as u64) as usize;
        let held = self.at..self.at + self.bytes.len() as u64;
        if !(held.contains(&position) && position + wanted as u64 <= held.end) {
            let count = self.len.saturating_sub(position).min(WINDOW_BYTES as u64) as usize;
            self.bytes.resize(count, 0);
            let read = self.file.read_full_at(&mut self.bytes, position)?;
            self.bytes.truncate(read);
            self.at = position;
        }
        let from = (position - self.at) as usize;
        Ok(self.bytes.get(from..(from + wanted).min(self.bytes.len())).unwrap_or_default())
    }

    /// The first position in `from..to` with this byte.
    pub(crate) fn find(&mut self, byte: u8, mut from: u64, to: u64) -> io::Result<Option<u64>> {
        while from < to {
            if self.load(from, 1)?.is_empty() {
                return Ok(None);
            }
            let rest = &self.bytes[(from - self.at) as usize..];
            match rest.iter().position(|other| *other == byte) {
                Some(found) => return Ok(Some(from + found as u64).filter(|found| *found < to)),
                None => from += rest.len() as u64,
            }
        }
        Ok(None)
    }
}
