//! What recovery cuts off is kept under another name.
//!
//! Where the disk has room, the tail is copied before it is cut. Where it has none, the tail moves piece by piece, from
//! its end: a piece is durable in its new place before the segment is cut by it, and its room is then that of the next
//! piece. So the move needs room for one piece, whatever the size of the tail; a data folder has that in its reserve.
//! A crash in between leaves each byte in one of the two files at least, and the next recovery keeps the rest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions, is_disk_full};

use crate::deleted_names::with_suffix;

/// What follows the name of a segment that recovery set aside.
const PARKED_SUFFIX: &str = ".parked";
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Bytes that are moved at once: at first, and when not even these find room.
const MOVE_BYTES: usize = 64 << 10;
const MOVE_BYTES_MIN: usize = 4 << 10;

/// A name for something parked that nothing has yet: an earlier recovery may have parked the same segment.
pub(crate) fn free_name(fs: &dyn Fs, path: &Path) -> io::Result<PathBuf> {
    let mut candidate = with_suffix(path, PARKED_SUFFIX);
    let mut number = 1;
    while fs.exists(&candidate)? {
        candidate = with_suffix(path, &format!("{PARKED_SUFFIX}.{number}"));
        number += 1;
    }
    Ok(candidate)
}

/// The bytes `from..len` of a segment.
pub(crate) struct Tail<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) dir: &'a Path,
    pub(crate) path: &'a Path,
    pub(crate) from: u64,
    pub(crate) len: u64,
}

impl Tail<'_> {
    /// Keeps the tail, durably, and gives the name; `None` for zeros alone, which are where nothing was written yet. On
    /// a full disk the segment may be cut already when this returns, and what `is_torn` is not kept.
    pub(crate) fn keep(&self, is_torn: bool) -> io::Result<Option<PathBuf>> {
        match self.copy() {
            Err(error) if is_disk_full(&error) && is_torn => Ok(None),
            Err(error) if is_disk_full(&error) => self.move_away(),
            copied => copied,
        }
    }

    fn copy(&self) -> io::Result<Option<PathBuf>> {
        let file = self.fs.open(self.path, &OpenOptions::read())?;
        let mut copy = Kept::new(self);
        let mut buffer = vec![0; COPY_BYTES];
        let mut position = self.from;
        while position < self.len {
            let want = (self.len - position).min(COPY_BYTES as u64) as usize;
            let count = file.read_full_at(&mut buffer[..want], position)?;
            if count == 0 {
                break;
            }
            // Half a copy is of no use: the move begins another one, or the next start does.
            copy.write(&buffer[..count], position).inspect_err(|_| copy.remove())?;
            position += count as u64;
        }
        copy.sync().inspect_err(|_| copy.remove())?;
        Ok(copy.name())
    }

    fn move_away(&self) -> io::Result<Option<PathBuf>> {
        let file = self.fs.open(self.path, &OpenOptions::read_write())?;
        let mut kept = Kept::new(self);
        let mut buffer = vec![0; MOVE_BYTES];
        let mut end = self.len;
        while end > self.from {
            let piece = (end - self.from).min(buffer.len() as u64) as usize;
            let position = end - piece as u64;
            let count = file.read_full_at(&mut buffer[..piece], position)?;
            match kept.write(&buffer[..count], position).and_then(|()| kept.sync()) {
                Err(error) if is_disk_full(&error) && buffer.len() > MOVE_BYTES_MIN => {
                    buffer.truncate(buffer.len() / 2);
                    continue;
                }
                // The pieces that are cut already have no other place.
                Err(error) if end == self.len => {
                    kept.remove();
                    return Err(error);
                }
                written => written?,
            }
            file.set_len(position)?;
            file.sync_data()?;
            end = position;
        }
        Ok(kept.name())
    }
}

/// The file that a tail goes to. It is made with the first byte that is not zero.
struct Kept<'a> {
    tail: &'a Tail<'a>,
    file: Option<(Arc<dyn File>, PathBuf)>,
    is_named: bool,
}

impl<'a> Kept<'a> {
    fn new(tail: &'a Tail<'a>) -> Self {
        Kept { tail, file: None, is_named: false }
    }

    /// Puts bytes of the segment in their place in the tail.
    fn write(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let tail = self.tail;
        if self.file.is_none() {
            let to = free_name(tail.fs, &with_suffix(tail.path, &format!(".from-{}", tail.from)))?;
            self.file = Some((tail.fs.open(&to, &OpenOptions::create_new())?, to));
        }
        let Some((file, _)) = &self.file else { return Ok(()) };
        file.write_all_at(bytes, position - tail.from)
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some((file, _)) = &self.file else { return Ok(()) };
        file.sync_all()?;
        if !self.is_named {
            self.tail.fs.sync_dir(self.tail.dir)?;
            self.is_named = true;
        }
        Ok(())
    }

    /// Removes a useless file. If it stays, it only costs space.
    fn remove(&self) {
        if let Some((_, path)) = &self.file {
            let _ = self.tail.fs.remove_file(path);
        }
    }

    fn name(self) -> Option<PathBuf> {
        self.file.map(|(_, path)| path)
    }
}
