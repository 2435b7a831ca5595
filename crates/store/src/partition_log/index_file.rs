//! Index files on the disk: searched in place, written as a whole or at their end.
//!
//! Opened for each use: a look-up costs an open and a dozen 8-byte reads from the page cache, an idle log no descriptor.

use std::io;
use std::path::Path;

use crate::formats::offset_index::{self, OffsetIndexEntry};
use crate::formats::time_index::{self, TimeIndexEntry};
use mainstem_env::{File, Fs, OpenOptions};

/// An entry of fixed size.
pub(crate) trait IndexEntry: Copy {
    const SIZE: usize;

    fn decode(bytes: &[u8]) -> Option<Self>;

    fn encode_into(&self, bytes: &mut Vec<u8>);

    /// Every byte is zero: preallocated, not written.
    fn is_blank(&self) -> bool;
}

impl IndexEntry for OffsetIndexEntry {
    const SIZE: usize = offset_index::ENTRY_SIZE;

    fn decode(bytes: &[u8]) -> Option<Self> {
        OffsetIndexEntry::decode(bytes, 0)
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.encode());
    }

    fn is_blank(&self) -> bool {
        self.relative_offset == 0 && self.position == 0
    }
}

impl IndexEntry for TimeIndexEntry {
    const SIZE: usize = time_index::ENTRY_SIZE;

    fn decode(bytes: &[u8]) -> Option<Self> {
        TimeIndexEntry::decode(bytes, 0)
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.encode());
    }

    fn is_blank(&self) -> bool {
        self.relative_offset == 0 && self.timestamp_ms == 0
    }
}

/// Whole entries in the file, preallocated zeros at the end not counted, and the last of them. `None`: the file is absent.
pub(crate) fn tail<E: IndexEntry>(fs: &dyn Fs, path: &Path) -> io::Result<Option<(usize, Option<E>)>> {
    let Some(file) = open(fs, path)? else { return Ok(None) };
    let count = file.len()? as usize / E::SIZE;
    let blank = |index| read_entry::<E>(file.as_ref(), index).map(|entry| entry.is_none_or(|e| e.is_blank()));
    let count = if count > 0 && blank(count - 1)? { search(count, |index| Ok(!blank(index)?))? } else { count };
    let last = count.checked_sub(1).map(|index| read_entry(file.as_ref(), index)).transpose()?.flatten();
    Ok(Some((count, last)))
}

/// The last of the first `count` entries (`None`: of all) that fulfils a condition which holds for a front part of the file.
pub(crate) fn last_where<E: IndexEntry>(
    fs: &dyn Fs,
    path: &Path,
    count: Option<usize>,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Option<E>> {
    let Some(file) = open(fs, path)? else { return Ok(None) };
    let in_file = file.len()? as usize / E::SIZE;
    let count = count.map_or(in_file, |count| count.min(in_file));
    let fits = |index| read_entry::<E>(file.as_ref(), index).map(|entry| entry.is_some_and(|e| holds(&e)));
    let after = search(count, fits)?;
    Ok(after.checked_sub(1).map(|index| read_entry(file.as_ref(), index)).transpose()?.flatten())
}

/// Makes the file hold `kept` entries of what it has, and `entries` behind them. Not durable.
pub(crate) fn write<E: IndexEntry>(fs: &dyn Fs, path: &Path, kept: usize, entries: &[E]) -> io::Result<()> {
    let file = fs.open(path, &OpenOptions::create())?;
    let at = (kept * E::SIZE) as u64;
    let mut bytes = Vec::with_capacity(entries.len() * E::SIZE);
    entries.iter().for_each(|entry| entry.encode_into(&mut bytes));
    if !bytes.is_empty() {
        file.write_all_at(&bytes, at)?;
    }
    let end = at + bytes.len() as u64;
    if file.len()? == end { Ok(()) } else { file.set_len(end) }
}

/// Makes a file durable; an absent one is.
pub(crate) fn sync(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    match fs.open(path, &OpenOptions::read_write()) {
        Ok(file) => file.sync_data(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(fs: &dyn Fs, path: &Path) -> io::Result<Option<std::sync::Arc<dyn File>>> {
    match fs.open(path, &OpenOptions::read()) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_entry<E: IndexEntry>(file: &dyn File, index: usize) -> io::Result<Option<E>> {
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..E::SIZE];
    let count = file.read_full_at(bytes, (index * E::SIZE) as u64)?;
    Ok(if count == E::SIZE { E::decode(bytes) } else { None })
}

/// The number of indexes below `count` at whose front part `holds` is true.
fn search(count: usize, holds: impl Fn(usize) -> io::Result<bool>) -> io::Result<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
