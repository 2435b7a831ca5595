//! Where a file of a commit log can be read again behind damage.
//!
//! An entry is believed if both of its checksums are right, and if entries lead from it to the end of its file: an
//! entry inside the value of a record does not. So with several damaged places in one file what lies between two of
//! them is not found this way; the consume queues lead to it.

use std::io;

use mainstem_journal::{Journal, Location, ReadError};

use crate::file_window::FileWindow;
use crate::formats::commit_log_entry::{self, EntryHeader, EntryKind, HEADER_SIZE, MAGIC, MAGIC_AT};
use mainstem_record::HEADER_SIZE as BATCH_HEADER_SIZE;

/// Headers that are followed for one damaged place: 2 GiB of entries of 128 bytes.
const STEPS_MAX: u32 = 1 << 24;

/// The first entry behind `damaged` in its file that is believed. `None`: there is none.
pub(super) fn next_entry(journal: &Journal, damaged: Location) -> Result<Option<Location>, ReadError> {
    let len = journal.segment_len(damaged.segment)?;
    let slice = journal.slice(Location::new(damaged.segment, 0), len)?;
    let mut window = FileWindow::new(slice.file.as_ref(), slice.len);
    let found = find(&mut window, damaged.position + 1).map_err(|source| {
        let path = journal.dir().join(damaged.segment.to_string());
        ReadError::Io { path, source }
    })?;
    Ok(found.map(|position| Location::new(damaged.segment, position)))
}

fn find(window: &mut FileWindow<'_>, mut from: u64) -> io::Result<Option<u64>> {
    let (mark, mut steps_left) = (MAGIC.to_be_bytes()[0], STEPS_MAX);
    while let Some(mark_at) = window.find(mark, from + MAGIC_AT as u64, window.len)? {
        let candidate = mark_at - MAGIC_AT as u64;
        if leads_to_end(window, candidate, &mut steps_left)? && is_whole(window, candidate)? {
            return Ok(Some(candidate));
        }
        from = candidate + 1;
    }
    Ok(None)
}

fn header_at(window: &mut FileWindow<'_>, position: u64) -> io::Result<Option<EntryHeader>> {
    let bytes = window.load(position, HEADER_SIZE + BATCH_HEADER_SIZE)?;
    Ok(EntryHeader::decode(bytes).ok())
}

/// Whether entries lie one behind the other from a position to the end of the file.
fn leads_to_end(window: &mut FileWindow<'_>, mut position: u64, steps_left: &mut u32) -> io::Result<bool> {
    while position < window.len && *steps_left > 0 {
        *steps_left -= 1;
        match header_at(window, position)? {
            Some(EntryHeader { kind: EntryKind::Blank, .. }) => return Ok(true),
            Some(header) => position += u64::from(header.length),
            None => return Ok(false),
        }
    }
    Ok(position == window.len)
}

fn is_whole(window: &mut FileWindow<'_>, position: u64) -> io::Result<bool> {
    let Some(header) = header_at(window, position)? else { return Ok(false) };
    let mut bytes = vec![0; header.stored_len()];
    let read = window.file.read_full_at(&mut bytes, position)?;
    Ok(commit_log_entry::decode(&bytes[..read]).is_ok())
}

/// Where reading goes on behind a damaged place: in the same file, or with the next one. `None`: there is nothing more.
pub(super) fn go_on_behind(journal: &Journal, damaged: Location) -> Result<Option<Location>, ReadError> {
    if let Some(next) = next_entry(journal, damaged)? {
        return Ok(Some(next));
    }
    Ok(journal.segment_after(damaged.segment).map(|base| Location::new(base, 0)))
}
