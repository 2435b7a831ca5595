//! Index files on the disk: searched in place, written as a whole or at their end.
//!
//! Opened for each use, except by readers, who share the files that [`super::index_cache`] keeps open; an idle log
//! costs no descriptor.

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

/// Whole entries in the file, preallocated zeros at the end not counted, and the last of them. `None`: the file is
/// absent.
pub(crate) fn tail<E: IndexEntry>(fs: &dyn Fs, path: &Path) -> io::Result<Option<(usize, Option<E>)>> {
    let Some(file) = open(fs, path)? else { return Ok(None) };
    let count = file.len()? as usize / E::SIZE;
    let blank = |index| read_entry::<E>(file.as_ref(), index).map(|entry| entry.is_none_or(|e| e.is_blank()));
    let count = if count > 0 && blank(count - 1)? { search(0, count, |index| Ok(!blank(index)?))? } else { count };
    let last = count.checked_sub(1).map(|index| read_entry(file.as_ref(), index)).transpose()?.flatten();
    Ok(Some((count, last)))
}

/// The last of the first `count` entries (`None`: of all) that fulfils a condition which holds for a front part of the
/// file.
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
    let after = search(0, count, fits)?;
    Ok(after.checked_sub(1).map(|index| read_entry(file.as_ref(), index)).transpose()?.flatten())
}

/// Entries that a search reads at once: 8 MiB of log at the default `index.interval.bytes`, for about the cost of two
/// small reads.
const WINDOW_ENTRIES: usize = 2048;

/// As [`last_where`] over the first `count` entries, with its place. Looks first from `near` on, where the answer to a
/// reader who goes on from its last look is: one read finds it there.
pub(crate) fn last_where_near<E: IndexEntry>(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    count: usize,
    near: usize,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Option<(usize, E)>> {
    let near = near.min(count);
    let mut window = vec![0; WINDOW_ENTRIES.min(count - near) * E::SIZE];
    let filled = read(&mut window, (near * E::SIZE) as u64)? / E::SIZE;
    let entry_in_window = |index: usize| E::decode(&window[(index - near) * E::SIZE..][..E::SIZE]);
    let fits_in_window = |index| entry_in_window(index).is_some_and(|entry| holds(&entry));
    let read_one = |index: usize| {
        let mut bytes = [0; 16];
        let bytes = &mut bytes[..E::SIZE];
        let whole = read(bytes, (index * E::SIZE) as u64)? == E::SIZE;
        io::Result::Ok(if whole { E::decode(bytes) } else { None })
    };
    let fits = |index| read_one(index).map(|entry| entry.is_some_and(|entry| holds(&entry)));
    let (first, past) = (near, near + filled);
    let after = if filled == 0 || !fits_in_window(first) {
        search(0, near, fits)?
    } else if past < count && fits_in_window(past - 1) {
        search(past, count, fits)?
    } else {
        search(first, past, |index| Ok(fits_in_window(index)))?
    };
    let Some(found) = after.checked_sub(1) else { return Ok(None) };
    let entry = if (first..past).contains(&found) { entry_in_window(found) } else { read_one(found)? };
    Ok(entry.map(|entry| (found, entry)))
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

/// Makes an open file hold `kept` entries of what it has. Not durable; needs no descriptor.
pub(crate) fn cut<E: IndexEntry>(file: &dyn File, kept: usize) -> io::Result<()> {
    let end = (kept * E::SIZE) as u64;
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

pub(crate) fn open(fs: &dyn Fs, path: &Path) -> io::Result<Option<std::sync::Arc<dyn File>>> {
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

/// The first index of `low..high` at which `holds` is not true, given that it is true for a front part; `high` if there
/// is none.
fn search(mut low: usize, mut high: usize, holds: impl Fn(usize) -> io::Result<bool>) -> io::Result<usize> {
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
